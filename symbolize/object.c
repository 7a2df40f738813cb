/* See object.h.
 *
 * Read by hand over the mapping, not through libelf: opening must cost microseconds, and
 * every offset is checked once, here, so that the users of sections need not. */
#include "symbolize/object.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES      4096u
#define OBJECT_MAX_LOAD 65536u /* segments; a kcore has a few dozen */

static bool object_has(const struct object *o, uint64_t off, uint64_t bytes)
{
	return off <= o->bytes && bytes <= o->bytes - off;
}

static bool object_add_segments(struct object *o, const Elf64_Ehdr *header, uint64_t count)
{
	if (header->e_phentsize != sizeof(Elf64_Phdr) || count > OBJECT_MAX_LOAD ||
	    !object_has(o, header->e_phoff, count * sizeof(Elf64_Phdr)))
		return true;
	o->segments = calloc(count ? count : 1, sizeof *o->segments);
	if (!o->segments)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		Elf64_Phdr p;

		memcpy(&p, o->data + header->e_phoff + i * sizeof p, sizeof p);
		if (p.p_type != PT_LOAD || p.p_vaddr + p.p_memsz < p.p_vaddr)
			continue;
		struct object_segment s = {.vaddr = p.p_vaddr,
					   .file_off = p.p_offset,
					   .file_bytes = p.p_filesz,
					   .memory_bytes = p.p_memsz,
					   .executable = p.p_flags & PF_X};
		if (s.file_off > o->bytes)
			s.file_bytes = 0;
		else if (s.file_bytes > o->bytes - s.file_off)
			s.file_bytes = o->bytes - s.file_off;
		if (s.file_bytes > s.memory_bytes)
			s.file_bytes = s.memory_bytes;
		o->segments[o->segment_count++] = s;
	}
	return true;
}

static bool object_add_sections(struct object *o, const Elf64_Ehdr *header, uint64_t count)
{
	if (count == 0)
		return true;
	o->sections = calloc(count, sizeof *o->sections);
	if (!o->sections)
		return false;
	o->section_count = count;
	for (uint64_t i = 0; i < count; i++) {
		Elf64_Shdr h;

		memcpy(&h, o->data + header->e_shoff + i * sizeof h, sizeof h);
		o->sections[i] = (struct object_section){.name = "",
							 .type = h.sh_type,
							 .link = h.sh_link,
							 .flags = h.sh_flags,
							 .vaddr = h.sh_addr,
							 .file_off = h.sh_offset,
							 .bytes = h.sh_size,
							 .entry_bytes = h.sh_entsize};
		if (h.sh_addr + h.sh_size < h.sh_addr)
			o->sections[i].type = SHT_NULL;
	}
	return true;
}

/* perf inject --jit of kernels before 6.0 writes no program headers: sections stand in. */
static bool object_segments_of_sections(struct object *o)
{
	free(o->segments);
	o->segments = calloc(o->section_count, sizeof *o->segments);
	if (!o->segments)
		return false;
	for (size_t i = 1; i < o->section_count && o->segment_count < OBJECT_MAX_LOAD; i++) {
		const struct object_section *s = &o->sections[i];

		if (!(s->flags & SHF_ALLOC) || s->type != SHT_PROGBITS ||
		    !object_has(o, s->file_off, s->bytes))
			continue;
		o->segments[o->segment_count++] =
			(struct object_segment){.vaddr = s->vaddr,
						.file_off = s->file_off,
						.file_bytes = s->bytes,
						.memory_bytes = s->bytes,
						.executable = s->flags & SHF_EXECINSTR};
	}
	return true;
}

/* Counts beyond 16 bits are kept in the fields of section 0 (gABI, "Extended numbering"). */
static bool object_read_headers(struct object *o, const Elf64_Ehdr *header)
{
	Elf64_Shdr first = {0};
	uint64_t sections = header->e_shnum, names = header->e_shstrndx;
	uint64_t segments = header->e_phnum;
	bool have_sections = header->e_shoff && header->e_shentsize == sizeof first &&
			     object_has(o, header->e_shoff, sizeof first);

	if (have_sections) {
		memcpy(&first, o->data + header->e_shoff, sizeof first);
		if (sections == 0)
			sections = first.sh_size;
		if (names == SHN_XINDEX)
			names = first.sh_link;
		if (segments == PN_XNUM)
			segments = first.sh_info;
		if (sections > (o->bytes - header->e_shoff) / sizeof first)
			sections = 0; /* cut file: segments may still be good */
	} else {
		sections = 0;
	}
	if (!object_add_segments(o, header, segments) || !object_add_sections(o, header, sections))
		return false;
	if (header->e_phnum == 0 && o->type == ET_DYN && o->section_count &&
	    !object_segments_of_sections(o))
		return false;
	for (uint64_t i = 0; i < o->section_count && names < o->section_count; i++) {
		uint32_t offset;

		memcpy(&offset, o->data + header->e_shoff + i * sizeof first, sizeof offset);
		o->sections[i].name = object_string(o, (uint32_t)names, offset);
	}
	return true;
}

bool object_read_notes(struct object *o, struct bytes notes)
{
	while (bytes_left(&notes) >= sizeof(Elf64_Nhdr)) {
		uint32_t name_bytes = bytes_u32(&notes), id_bytes = bytes_u32(&notes);
		uint32_t type = bytes_u32(&notes);
		const uint8_t *name = bytes_take(&notes, ((size_t)name_bytes + 3) & ~(size_t)3);
		const uint8_t *id = bytes_take(&notes, ((size_t)id_bytes + 3) & ~(size_t)3);

		if (!name || !id)
			return false;
		if (type != NT_GNU_BUILD_ID || name_bytes != 4 || memcmp(name, "GNU", 4) != 0 ||
		    id_bytes == 0)
			continue;
		o->build_id_bytes =
			(uint8_t)(id_bytes < OBJECT_BUILD_ID_MAX ? id_bytes : OBJECT_BUILD_ID_MAX);
		memcpy(o->build_id, id, o->build_id_bytes);
		return true;
	}
	return false;
}

/* Sections first: the program headers of a separate debug file describe the stripped one. */
static void object_find_build_id(struct object *o, const Elf64_Ehdr *header)
{
	for (size_t i = 0; i < o->section_count; i++)
		if (o->sections[i].type == SHT_NOTE &&
		    object_read_notes(o, object_section_bytes(o, &o->sections[i])))
			return;
	if (header->e_phentsize != sizeof(Elf64_Phdr) ||
	    !object_has(o, header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr)))
		return;
	for (size_t i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, o->data + header->e_phoff + i * sizeof p, sizeof p);
		if (p.p_type == PT_NOTE && object_has(o, p.p_offset, p.p_filesz) &&
		    object_read_notes(o, bytes_of(o->data + p.p_offset, p.p_filesz)))
			return;
	}
}

/* Takes over map and heap, one of which is empty. */
static enum err object_read(const char *name, struct file_map map, uint8_t *heap, size_t bytes,
			    struct object **result, struct error *error)
{
	struct object *o = calloc(1, sizeof *o);
	Elf64_Ehdr header;

	if (!o) {
		file_map_done(&map);
		free(heap);
		return error_set(error, ERR_NOMEM, "%s: out of memory", name);
	}
	o->map = map;
	o->heap = heap;
	o->data = heap ? heap : map.data;
	o->bytes = heap ? bytes : map.bytes;

	enum err err = ERR_NONE;
	if (o->bytes < sizeof header || memcmp(o->data, ELFMAG, SELFMAG) != 0) {
		err = error_set(error, ERR_FORMAT, "%s: not an ELF file", name);
	} else {
		memcpy(&header, o->data, sizeof header);
		o->type = header.e_type;
		if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
			err = error_set(error, ERR_UNSUPPORTED, "%s: not an x86-64 ELF file", name);
		else if (!object_read_headers(o, &header))
			err = error_set(error, ERR_NOMEM, "%s: out of memory", name);
		else
			object_find_build_id(o, &header);
	}
	if (err == ERR_NONE)
		*result = o;
	else
		object_free(o);
	return err;
}

enum err object_open(const char *path, struct object **result, struct error *error)
{
	struct file_map map;
	enum err err = file_map_open(path, &map, error);

	return err == ERR_NONE ? object_read(path, map, NULL, 0, result, error) : err;
}

enum err object_from_heap(const char *name, uint8_t *heap, size_t bytes, struct object **result,
			  struct error *error)
{
	return object_read(name, (struct file_map){0}, heap, bytes, result, error);
}

void object_free(struct object *o)
{
	if (!o)
		return;
	file_map_done(&o->map);
	free(o->heap);
	free(o->segments);
	free(o->sections);
	free(o);
}

const struct object_section *object_find_section(const struct object *o, const char *name)
{
	for (size_t i = 1; i < o->section_count; i++)
		if (strcmp(o->sections[i].name, name) == 0)
			return &o->sections[i];
	return NULL;
}

struct bytes object_section_bytes(const struct object *o, const struct object_section *section)
{
	if (section->type == SHT_NOBITS || section->type == SHT_NULL ||
	    !object_has(o, section->file_off, section->bytes))
		return (struct bytes){0};
	return bytes_of(o->data + section->file_off, section->bytes);
}

const char *object_string(const struct object *o, uint32_t section, uint64_t offset)
{
	if (section >= o->section_count)
		return "";
	struct bytes table = object_section_bytes(o, &o->sections[section]);

	if (offset >= bytes_left(&table))
		return "";
	table.p += offset;
	const char *text = bytes_string(&table);
	return text ? text : "";
}

const struct object_section *object_code_section(const struct object *o, uint64_t vaddr)
{
	for (size_t i = 1; i < o->section_count; i++) {
		const struct object_section *s = &o->sections[i];

		if (s->flags & SHF_ALLOC && s->flags & SHF_EXECINSTR && vaddr >= s->vaddr &&
		    vaddr - s->vaddr < s->bytes)
			return s;
	}
	return NULL;
}

static struct bytes object_segment_bytes(const struct object *o, uint64_t vaddr, bool any)
{
	for (size_t i = 0; i < o->segment_count; i++) {
		const struct object_segment *s = &o->segments[i];

		if ((any || s->executable) && vaddr >= s->vaddr && vaddr - s->vaddr < s->file_bytes)
			return bytes_of(o->data + s->file_off + (vaddr - s->vaddr),
					s->file_bytes - (vaddr - s->vaddr));
	}
	return (struct bytes){0};
}

struct bytes object_memory(const struct object *o, uint64_t vaddr)
{
	return object_segment_bytes(o, vaddr, true);
}

struct bytes object_code(const struct object *o, uint64_t vaddr)
{
	return object_segment_bytes(o, vaddr, false);
}

bool object_vaddr(const struct object *o, uint64_t file_off, uint64_t *vaddr)
{
	for (int pass = 0; pass < 4; pass++) {
		bool executable = pass < 2;
		uint64_t slack = pass % 2 ? PAGE_BYTES - 1 : 0;

		for (size_t i = 0; i < o->segment_count; i++) {
			const struct object_segment *s = &o->segments[i];
			uint64_t start = s->file_off & ~slack;
			uint64_t end = (s->file_off + s->file_bytes + slack) & ~slack;

			if (s->executable != executable || file_off < start || file_off >= end)
				continue;
			*vaddr = file_off - s->file_off + s->vaddr;
			return true;
		}
	}
	return false;
}

bool object_build_id_equal(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
	size_t both = a_bytes < b_bytes ? a_bytes : b_bytes;

	if (memcmp(a, b, both) != 0)
		return false;
	for (size_t i = both; i < a_bytes; i++)
		if (a[i])
			return false;
	for (size_t i = both; i < b_bytes; i++)
		if (b[i])
			return false;
	return true;
}
