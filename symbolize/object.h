/* One ELF file (64-bit, little-endian), as far as code and symbols need it.
 *
 * Nothing in the file is trusted: headers that point outside it are dropped, strings
 * that do not end inside their table read as "". An object is immutable once open. */
#ifndef SYMBOLIZE_OBJECT_H
#define SYMBOLIZE_OBJECT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/error.h"
#include "common/file_map.h"

#define OBJECT_BUILD_ID_MAX 20 /* what a perf record can carry; longer ids are cut */

/* A PT_LOAD: bytes [file_off, file_off + file_bytes) of the file at vaddr. */
struct object_segment {
	uint64_t vaddr, file_off, file_bytes, memory_bytes;
	bool executable;
};

struct object_section {
	const char *name;
	uint32_t type, link; /* SHT_*, index of the section it refers to */
	uint64_t flags, vaddr, file_off, bytes, entry_bytes;
};

struct object {
	const uint8_t *data;
	size_t bytes;
	struct file_map map;
	uint8_t *heap; /* the file, where it was unpacked in memory */
	struct object_segment *segments;
	size_t segment_count;
	struct object_section *sections; /* [0] is the null section */
	size_t section_count;
	uint8_t build_id[OBJECT_BUILD_ID_MAX];
	uint8_t build_id_bytes; /* 0 = none */
	uint16_t type;          /* ET_* */
};

/* ERR_FORMAT: not an ELF file; ERR_UNSUPPORTED: not x86-64; else as file_map_open(). */
MUST_CHECK enum err object_open(const char *path, struct object **result, struct error *error);
/* From malloc()ed memory, which the object then owns (also on failure). `name` is for messages. */
MUST_CHECK enum err object_from_heap(const char *name, uint8_t *heap, size_t bytes,
				     struct object **result, struct error *error);
void object_free(struct object *o);

const struct object_section *object_find_section(const struct object *o, const char *name);
/* Its bytes in the file; empty for SHT_NOBITS and for what lies outside the file. */
struct bytes object_section_bytes(const struct object *o, const struct object_section *section);
/* The string table's string at offset; "" if there is none. */
const char *object_string(const struct object *o, uint32_t section, uint64_t offset);
/* The executable section that holds vaddr, or NULL. */
const struct object_section *object_code_section(const struct object *o, uint64_t vaddr);

/* Bytes of a segment from vaddr to its end in the file; empty if vaddr is in none. */
struct bytes object_memory(const struct object *o, uint64_t vaddr);
/* The same, of executable segments only. */
struct bytes object_code(const struct object *o, uint64_t vaddr);
/* The vaddr of a byte that was mapped executable from file_off. Mappings are whole pages,
 * so bytes up to a page around a segment belong to it; executable segments win. */
bool object_vaddr(const struct object *o, uint64_t file_off, uint64_t *vaddr);

/* Sets the build id from note records; false if there is none among them. */
bool object_read_notes(struct object *o, struct bytes notes);
/* Recorded ids may be padded with zeros to 20 bytes. */
bool object_build_id_equal(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes);

#endif
