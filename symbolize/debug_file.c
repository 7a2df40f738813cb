/* See debug_file.h. */
#include "symbolize/debug_file.h"

#include <dwarf.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include "symbolize/die.h"

#define DEBUG_MAX_UNITS   (1u << 24)
#define DEBUG_MAX_SECTION ((uint64_t)16 << 30)
#define DEBUG_MAX_RATIO   1100 /* deflate cannot pack tighter than 1032:1 */
#define DEBUG_MAX_ABBREVS (1u << 20)
#define DEBUG_MAX_SPECS   (1u << 22)

static const char *const section_names[DEBUG_SECTION_COUNT] = {
	[DEBUG_INFO] = "info",         [DEBUG_ABBREV] = "abbrev",           [DEBUG_STR] = "str",
	[DEBUG_LINE_STR] = "line_str", [DEBUG_STR_OFFSETS] = "str_offsets", [DEBUG_ADDR] = "addr",
	[DEBUG_RANGES] = "ranges",     [DEBUG_RNGLISTS] = "rnglists",       [DEBUG_LINE] = "line",
};

void debug_file_init(struct debug_file *f, const struct object *o, bool split)
{
	*f = (struct debug_file){.object = o, .split = split};
}

void debug_file_done(struct debug_file *f)
{
	for (int i = 0; i < DEBUG_SECTION_COUNT; i++)
		free(f->heap[i]);
	for (size_t i = 0; i < f->tables.count; i++) {
		vec_done(&f->tables.items[i]->abbrevs);
		vec_done(&f->tables.items[i]->specs);
		free(f->tables.items[i]);
	}
	vec_done(&f->tables);
	vec_done(&f->units);
	map64_done(&f->table_at);
}

bool debug_file_has_units(const struct object *o)
{
	return object_find_section(o, ".debug_info") || object_find_section(o, ".zdebug_info");
}

static bool unpack_deflate(struct bytes packed, uint8_t *heap, size_t bytes)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	bool ok = d && libdeflate_zlib_decompress(d, packed.p, bytes_left(&packed), heap, bytes,
						  NULL) == LIBDEFLATE_SUCCESS;

	libdeflate_free_decompressor(d);
	return ok;
}

static bool unpack_zstd(struct bytes packed, uint8_t *heap, size_t bytes)
{
	return ZSTD_decompress(heap, bytes, packed.p, bytes_left(&packed)) == bytes;
}

/* Some are large, and written once from start to end: huge pages save most of the faults. */
static uint8_t *section_alloc(uint64_t bytes)
{
	const size_t huge = (size_t)2 << 20;

	if (bytes < huge)
		return malloc(bytes);
	uint8_t *p = aligned_alloc(huge, (bytes + huge - 1) / huge * huge);
	if (p)
		(void)madvise(p, bytes, MADV_HUGEPAGE); /* only a wish */
	return p;
}

/* Keeps the unpacked bytes in the file; empty when that fails. */
static struct bytes debug_file_unpack(struct debug_file *f, enum debug_section which,
				      struct bytes packed, uint64_t bytes, bool zstd)
{
	if (bytes == 0 || bytes > DEBUG_MAX_SECTION ||
	    bytes / DEBUG_MAX_RATIO > bytes_left(&packed))
		return (struct bytes){0};
	uint8_t *heap = section_alloc(bytes);
	if (!heap || !(zstd ? unpack_zstd : unpack_deflate)(packed, heap, bytes)) {
		free(heap);
		return (struct bytes){0};
	}
	f->heap[which] = heap;
	return bytes_of(heap, bytes);
}

static struct bytes debug_file_load(struct debug_file *f, enum debug_section which)
{
	char name[32];
	const char *suffix = f->split ? ".dwo" : "";

	snprintf(name, sizeof name, ".debug_%s%s", section_names[which], suffix);
	const struct object_section *section = object_find_section(f->object, name);
	if (section) {
		struct bytes b = object_section_bytes(f->object, section);
		Elf64_Chdr header;

		if (!(section->flags & SHF_COMPRESSED))
			return b;
		const uint8_t *p = bytes_take(&b, sizeof header);
		if (!p)
			return (struct bytes){0};
		memcpy(&header, p, sizeof header);
		bool zstd = header.ch_type == 2; /* ELFCOMPRESS_ZSTD, newer than our elf.h */
		if (header.ch_type != ELFCOMPRESS_ZLIB && !zstd)
			return (struct bytes){0};
		return debug_file_unpack(f, which, b, header.ch_size, zstd);
	}
	/* Before SHF_COMPRESSED: "ZLIB", the size in big-endian. */
	snprintf(name, sizeof name, ".zdebug_%s%s", section_names[which], suffix);
	section = object_find_section(f->object, name);
	struct bytes b = section ? object_section_bytes(f->object, section) : (struct bytes){0};
	const uint8_t *magic = bytes_take(&b, 4);
	uint64_t bytes = __builtin_bswap64(bytes_u64(&b));
	if (b.failed || memcmp(magic, "ZLIB", 4) != 0)
		return (struct bytes){0};
	return debug_file_unpack(f, which, b, bytes, false);
}

struct bytes debug_file_section(struct debug_file *f, enum debug_section which)
{
	if (!f->loaded[which]) {
		f->sections[which] = debug_file_load(f, which);
		f->loaded[which] = true;
	}
	return f->sections[which];
}

/* The bytes of attributes whose size does not depend on their value, for units with 4-byte
 * offsets and 8-byte addresses; -1 = depends. */
static int form_fixed_bytes(uint16_t form)
{
	switch (form) {
	case DW_FORM_implicit_const:
	case DW_FORM_flag_present: return 0;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1: return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2: return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3: return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_addr:
	case DW_FORM_sec_offset:
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt: return 4;
	case DW_FORM_addr:
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8: return 8;
	case DW_FORM_data16: return 16;
	default: return -1;
	}
}

/* One declaration at b; code 0 = the end of the table. false = broken or no memory. */
static bool abbrev_read(struct abbrev_table *t, struct bytes *b, struct abbrev *a)
{
	*a = (struct abbrev){.code = die_uleb(b), .first_spec = (uint32_t)t->specs.count};
	if (a->code == 0)
		return !b->failed;
	a->tag = (uint16_t)die_uleb(b);
	a->has_children = bytes_u8(b) != 0;
	while (!b->failed && t->specs.count < DEBUG_MAX_SPECS) {
		struct abbrev_spec spec = {.name = (uint16_t)die_uleb(b)};

		spec.form = (uint16_t)die_uleb(b);
		if (spec.form == DW_FORM_implicit_const)
			spec.implicit = die_sleb(b);
		if (spec.name == 0 && spec.form == 0)
			return !b->failed;
		if (!vec_push(&t->specs, spec))
			return false;
		a->spec_count++;
		int fixed = form_fixed_bytes(spec.form);
		a->fixed_bytes = fixed < 0 || a->fixed_bytes < 0 ? -1 : a->fixed_bytes + fixed;
	}
	return false;
}

static int abbrev_compare(const void *left, const void *right)
{
	const struct abbrev *a = left, *b = right;

	return a->code < b->code ? -1 : a->code > b->code;
}

static bool abbrev_table_read(struct debug_file *f, uint64_t off, struct abbrev_table *t)
{
	struct bytes b = debug_file_section(f, DEBUG_ABBREV);
	bool sorted = true;

	if (!bytes_take(&b, off))
		return false;
	while (t->abbrevs.count < DEBUG_MAX_ABBREVS) {
		struct abbrev a;

		if (!abbrev_read(t, &b, &a))
			return false;
		if (a.code == 0)
			break;
		sorted = sorted && (!t->abbrevs.count || vec_last(&t->abbrevs)->code < a.code);
		if (!vec_push(&t->abbrevs, a))
			return false;
	}
	if (!sorted)
		qsort(t->abbrevs.items, t->abbrevs.count, sizeof *t->abbrevs.items, abbrev_compare);
	return true;
}

const struct abbrev_table *debug_unit_abbrevs(struct debug_unit *u)
{
	struct debug_file *f = u->file;

	if (u->abbrevs)
		return u->abbrevs;
	uint32_t known = map64_get(&f->table_at, u->abbrev_off);
	if (known != MAP64_NONE)
		return u->abbrevs = f->tables.items[known];
	struct abbrev_table *t = calloc(1, sizeof *t);
	if (t && vec_push(&f->tables, t)) {
		/* A broken table is kept as far as it goes: it would break again. */
		if (!abbrev_table_read(f, u->abbrev_off, t))
			t->abbrevs.count = 0;
		if (map64_set(&f->table_at, u->abbrev_off, (uint32_t)f->tables.count - 1))
			return u->abbrevs = t;
		return NULL;
	}
	free(t);
	return NULL;
}

static void unit_take_attribute(struct debug_unit *u, uint16_t name, const struct die_value *v,
				struct die_value strings[2])
{
	switch (name) {
	case DW_AT_low_pc: u->code.low = *v; break;
	case DW_AT_high_pc: u->code.high = *v; break;
	case DW_AT_ranges: u->code.ranges = *v; break;
	case DW_AT_stmt_list: u->line_off = v->number; break;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base: u->addr_base = v->number; break;
	case DW_AT_str_offsets_base: u->str_offsets_base = v->number; break;
	case DW_AT_rnglists_base: u->rnglists_base = v->number; break;
	case DW_AT_GNU_ranges_base: u->ranges_base = v->number; break;
	case DW_AT_GNU_dwo_id: u->dwo_id = v->number; break;
	case DW_AT_comp_dir: strings[0] = *v; break;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name: strings[1] = *v; break;
	default: break;
	}
}

/* Moves to the (name, form) pairs of one code's declaration. */
static bool abbrev_seek(struct bytes *b, uint64_t code)
{
	uint64_t at;

	while ((at = die_uleb(b)) != 0) {
		die_uleb(b); /* tag */
		bytes_u8(b); /* children */
		if (at == code)
			return !b->failed;
		for (uint64_t name = 1, form = 1; (name || form) && !b->failed;) {
			name = die_uleb(b);
			form = die_uleb(b);
			if (form == DW_FORM_implicit_const)
				die_sleb(b);
		}
	}
	return false;
}

/* The attributes of the unit's own DIE. There are thousands of units and most are never
 * touched: the declaration and the DIE are read side by side, without a table. Strings and
 * addresses come last: their bases are attributes of the same DIE. */
static bool unit_read_root(struct debug_unit *u)
{
	struct bytes b = debug_file_section(u->file, DEBUG_INFO);
	struct bytes specs = debug_file_section(u->file, DEBUG_ABBREV);
	struct die_value strings[2] = {0};

	b.end = b.p + u->end;
	b.p += u->first_die;
	if (!bytes_take(&specs, u->abbrev_off) || !abbrev_seek(&specs, die_uleb(&b)))
		return false;
	while (!b.failed && !specs.failed) {
		uint16_t name = (uint16_t)die_uleb(&specs), form = (uint16_t)die_uleb(&specs);
		int64_t implicit = form == DW_FORM_implicit_const ? die_sleb(&specs) : 0;

		if (name == 0 && form == 0)
			break;
		struct die_value v = die_read_form(u, &b, form, implicit);
		if (!b.failed)
			unit_take_attribute(u, name, &v, strings);
	}
	u->comp_dir = die_string(u, &strings[0]);
	u->dwo_name = die_string(u, &strings[1]);
	die_address(u, &u->code.low, &u->low_pc);
	return true;
}

bool debug_unit_read(struct debug_file *f, uint64_t off, struct debug_unit *u)
{
	struct bytes b = debug_file_section(f, DEBUG_INFO);
	const uint8_t *base = b.p;

	*u = (struct debug_unit){.file = f,
				 .shared = f,
				 .off = off,
				 .offset_bytes = 4,
				 .type = DW_UT_compile,
				 .line_off = UINT64_MAX,
				 .split = f->split};
	if (!bytes_take(&b, off))
		return false;
	uint64_t length = bytes_u32(&b);
	if (length == 0xffffffff) {
		length = bytes_u64(&b);
		u->offset_bytes = 8;
	}
	if (b.failed || length > bytes_left(&b))
		return false;
	b.end = b.p + length;
	u->end = (uint64_t)(b.end - base);
	uint16_t version = bytes_u16(&b);
	if (version >= 5)
		u->type = bytes_u8(&b);
	uint8_t address_bytes = version >= 5 ? bytes_u8(&b) : 0;
	u->abbrev_off = bytes_le(&b, u->offset_bytes);
	if (version < 5)
		address_bytes = bytes_u8(&b);
	u->version = (uint8_t)version;
	if (u->type == DW_UT_skeleton || u->type == DW_UT_split_compile)
		u->dwo_id = bytes_u64(&b);
	if (u->type == DW_UT_type || u->type == DW_UT_split_type)
		bytes_take(&b, 8 + (size_t)u->offset_bytes);
	u->first_die = (uint64_t)(b.p - base);
	/* A split unit's strings and ranges start behind the header of its part (DWARF 5). */
	if (f->split && u->version >= 5) {
		u->str_offsets_base = u->offset_bytes == 8 ? 16 : 8;
		u->rnglists_base = u->offset_bytes == 8 ? 20 : 12;
	}
	return !b.failed && version >= 2 && version <= 5 && address_bytes == 8;
}

bool debug_file_read_units(struct debug_file *f)
{
	struct bytes info = debug_file_section(f, DEBUG_INFO);
	uint64_t bytes = bytes_left(&info);

	for (uint64_t off = 0; off < bytes && f->units.count < DEBUG_MAX_UNITS;) {
		struct debug_unit u;
		bool good = debug_unit_read(f, off, &u);

		if (u.end <= off)
			break; /* not even its length is right */
		off = u.end;
		if (!good || u.type == DW_UT_type || u.type == DW_UT_split_type ||
		    !unit_read_root(&u))
			continue;
		if (!vec_push(&f->units, u))
			return false;
	}
	return true;
}

struct debug_unit *debug_file_unit_at(struct debug_file *f, uint64_t off)
{
	size_t low = 0, high = f->units.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (f->units.items[middle].off <= off)
			low = middle + 1;
		else
			high = middle;
	}
	return low && off < f->units.items[low - 1].end ? &f->units.items[low - 1] : NULL;
}
