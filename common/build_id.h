/* The GNU build id of an ELF64 file or of a memory image of one (the vdso).
 *
 * Only program headers of type PT_NOTE are read (ELF gABI; note type NT_GNU_BUILD_ID of
 * owner "GNU"), as the kernel does when it puts build ids into map records. All of it is
 * bounds-checked; ids are cut at 20 bytes, the size perf records. */
#ifndef COMMON_BUILD_ID_H
#define COMMON_BUILD_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUILD_ID_MAX = 20 };

struct build_id {
	uint8_t bytes[BUILD_ID_MAX];
	uint8_t length; /* 0 = none */
};

/* false: not an ELF64 little-endian file, or no build id in it. */
bool build_id_find(const uint8_t *image, size_t bytes, struct build_id *id);
bool build_id_equal(const struct build_id *a, const struct build_id *b);
/* Lower-case hex, NUL-terminated; text holds 2 * BUILD_ID_MAX + 1. */
void build_id_format(const struct build_id *id, char *text);
bool build_id_parse(const char *text, struct build_id *id);

#endif
