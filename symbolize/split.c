/* See split.h. (DWARF 5, 3.1.3 and 7.3.5; version 2 of the index is GNU's of DWARF 4.) */
#include "symbolize/split.h"

#include <stdlib.h>
#include <string.h>

#include "symbolize/search.h"

#define SPLIT_MAX_COLUMNS 16

/* Section numbers of the index that matter: the same in both versions, but for ranges. */
enum { SECT_INFO = 1, SECT_ABBREV = 3, SECT_LINE = 4, SECT_STR_OFFSETS = 6, SECT_RNGLISTS5 = 8 };

static void split_file_free(struct split_file *f)
{
	if (!f)
		return;
	debug_file_done(&f->file);
	object_free(f->object);
	free(f);
}

void splits_done(struct splits *s)
{
	for (size_t i = 0; i < s->files.count; i++)
		split_file_free(s->files.items[i]);
	for (size_t i = 0; i < s->units.count; i++)
		free(s->units.items[i]);
	vec_done(&s->files);
	vec_done(&s->units);
}

/* Takes the object over. */
static struct split_file *splits_add(struct splits *s, struct object *o)
{
	struct split_file *f = calloc(1, sizeof *f);

	if (!f || !vec_push(&s->files, f)) {
		free(f);
		object_free(o);
		return NULL;
	}
	f->object = o;
	debug_file_init(&f->file, o, true);
	return f;
}

/* The offsets of one unit's parts in a package's sections. */
struct package_part {
	uint64_t info, abbrev, line, str_offsets, rnglists;
};

/* .debug_cu_index: header, a hash table of ids, their rows, a table of offsets. */
static bool package_find(const struct object *o, uint64_t id, struct package_part *part)
{
	const struct object_section *section = object_find_section(o, ".debug_cu_index");
	struct bytes b = section ? object_section_bytes(o, section) : (struct bytes){0};
	uint32_t version = bytes_u32(&b), columns = bytes_u32(&b), rows = bytes_u32(&b);
	uint32_t slots = bytes_u32(&b), row = 0;
	const uint8_t *ids = bytes_take(&b, (size_t)slots * 8);
	const uint8_t *indexes = bytes_take(&b, (size_t)slots * 4);
	const uint8_t *kinds = bytes_take(&b, (size_t)columns * 4);
	const uint8_t *offsets = bytes_take(&b, (size_t)columns * rows * 4);

	version &= 0xffff;
	if (b.failed || (version != 2 && version != 5) || columns > SPLIT_MAX_COLUMNS)
		return false;
	for (uint32_t i = 0; i < slots && !row; i++) /* few units: no need to hash */
		if (load_le(ids + (size_t)i * 8, 8) == id)
			row = (uint32_t)load_le(indexes + (size_t)i * 4, 4);
	if (row == 0 || row > rows)
		return false;
	*part = (struct package_part){0};
	for (uint32_t c = 0; c < columns; c++) {
		uint64_t off = load_le(offsets + ((size_t)(row - 1) * columns + c) * 4, 4);

		switch (load_le(kinds + (size_t)c * 4, 4)) {
		case SECT_INFO: part->info = off; break;
		case SECT_ABBREV: part->abbrev = off; break;
		case SECT_LINE: part->line = off; break;
		case SECT_STR_OFFSETS: part->str_offsets = off; break;
		case SECT_RNGLISTS5: part->rnglists = version == 5 ? off : 0; break;
		default: break;
		}
	}
	return true;
}

/* Gives the split unit what only its skeleton knows. */
static struct debug_unit *split_join(struct splits *s, const struct debug_unit *split,
				     const struct debug_unit *skeleton)
{
	struct debug_unit *u = malloc(sizeof *u);

	if (!u || !vec_push(&s->units, u)) {
		free(u);
		return NULL;
	}
	*u = *split;
	u->split = true;
	u->shared = skeleton->file;
	u->addr_base = skeleton->addr_base;
	u->low_pc = skeleton->low_pc;
	u->ranges_base = skeleton->ranges_base;
	u->comp_dir = skeleton->comp_dir;
	if (u->line_off == UINT64_MAX)
		u->line_off = 0; /* a .dwo has one line table, for file names only */
	return u;
}

static struct debug_unit *split_in_package(struct splits *s, struct debug_unit *skeleton,
					   const char *debug_path, const struct search *search)
{
	struct package_part part;
	struct debug_unit u;

	if (!s->package_searched) {
		struct object *o = search_package(search, debug_path);

		s->package_searched = true;
		s->package = o ? splits_add(s, o) : NULL;
	}
	if (!s->package || !package_find(s->package->object, skeleton->dwo_id, &part) ||
	    !debug_unit_read(&s->package->file, part.info, &u))
		return NULL;
	u.abbrev_off += part.abbrev;
	u.str_offsets_off = part.str_offsets;
	u.rnglists_base += part.rnglists;
	u.line_off = part.line;
	return split_join(s, &u, skeleton);
}

static struct debug_unit *split_in_file(struct splits *s, struct debug_unit *skeleton,
					const char *debug_path, const struct search *search)
{
	struct object *o = search_split(search, debug_path, skeleton->comp_dir, skeleton->dwo_name);
	struct split_file *f = o ? splits_add(s, o) : NULL;

	if (!f || !debug_file_read_units(&f->file))
		return NULL;
	for (size_t i = 0; i < f->file.units.count; i++)
		if (f->file.units.items[i].dwo_id == skeleton->dwo_id)
			return split_join(s, &f->file.units.items[i], skeleton);
	return NULL;
}

struct debug_unit *split_unit(struct splits *s, struct debug_unit *skeleton, const char *debug_path,
			      const struct search *search)
{
	struct debug_unit *u = split_in_package(s, skeleton, debug_path, search);

	return u ? u : split_in_file(s, skeleton, debug_path, search);
}
