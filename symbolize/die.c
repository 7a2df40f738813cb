/* See die.h. */
#include "symbolize/die.h"

#include <dwarf.h>
#include <string.h>

#define DIE_MAX_HOPS 16 /* from an inlined call to its declaration are three */

uint64_t die_uleb_long(struct bytes *b)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = bytes_u8(b);

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

int64_t die_sleb(struct bytes *b)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = bytes_u8(b);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (byte & 0x40 && shift < 64)
		value |= UINT64_MAX << shift;
	return (int64_t)value;
}

struct die_value die_read_form(const struct debug_unit *u, struct bytes *b, uint16_t form,
			       int64_t implicit)
{
	struct die_value v = {.form = form};

	for (int hops = 0; v.form == DW_FORM_indirect && hops < 2; hops++)
		v.form = (uint16_t)die_uleb(b);
	switch (v.form) {
	case DW_FORM_implicit_const: v.number = (uint64_t)implicit; break;
	case DW_FORM_flag_present: v.number = 1; break;
	case DW_FORM_flag:
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1: v.number = bytes_u8(b); break;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2: v.number = bytes_u16(b); break;
	case DW_FORM_strx3:
	case DW_FORM_addrx3: v.number = bytes_le(b, 3); break;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4: v.number = bytes_u32(b); break;
	case DW_FORM_addr:
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8: v.number = bytes_u64(b); break;
	case DW_FORM_data16: bytes_take(b, 16); break;
	case DW_FORM_sdata: v.number = (uint64_t)die_sleb(b); break;
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index: v.number = die_uleb(b); break;
	case DW_FORM_ref_addr: /* the size of an address in DWARF 2 */
		v.number = bytes_le(b, u->version == 2 ? 8 : u->offset_bytes);
		break;
	case DW_FORM_sec_offset:
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt: v.number = bytes_le(b, u->offset_bytes); break;
	case DW_FORM_string:
		v.text = b->p;
		if (!bytes_string(b))
			v.text = NULL;
		break;
	case DW_FORM_block1: bytes_take(b, bytes_u8(b)); break;
	case DW_FORM_block2: bytes_take(b, bytes_u16(b)); break;
	case DW_FORM_block4: bytes_take(b, bytes_u32(b)); break;
	case DW_FORM_block:
	case DW_FORM_exprloc: bytes_take(b, die_uleb(b)); break;
	default: /* of a newer DWARF: what follows cannot be found */
		b->failed = true;
		b->p = b->end;
		break;
	}
	return v;
}

void die_skip(const struct debug_unit *u, const struct abbrev_table *table, const struct abbrev *a,
	      struct bytes *b)
{
	if (a->fixed_bytes >= 0 && u->offset_bytes == 4 && u->version > 2) {
		bytes_take(b, (size_t)a->fixed_bytes);
		return;
	}
	for (uint32_t i = 0; i < a->spec_count && !b->failed; i++)
		die_read_form(u, b, table->specs.items[a->first_spec + i].form, 0);
}

const struct abbrev *abbrev_find(const struct abbrev_table *table, uint64_t code)
{
	size_t low = 0, high = table->abbrevs.count;

	/* Compilers number them from 1. */
	if (code && code <= high && table->abbrevs.items[code - 1].code == code)
		return &table->abbrevs.items[code - 1];
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->abbrevs.items[middle].code < code)
			low = middle + 1;
		else
			high = middle;
	}
	return low < table->abbrevs.count && table->abbrevs.items[low].code == code
		       ? &table->abbrevs.items[low]
		       : NULL;
}

/* The index'th number of `bytes` each from `base` on in a section. */
static bool section_number(struct bytes b, uint64_t base, uint64_t index, uint8_t bytes,
			   uint64_t *number)
{
	if (base > bytes_left(&b) || index > (bytes_left(&b) - base) / bytes)
		return false;
	bytes_take(&b, base + index * bytes);
	*number = bytes_le(&b, bytes);
	return !b.failed;
}

bool die_address(const struct debug_unit *u, const struct die_value *v, uint64_t *address)
{
	switch (v->form) {
	case DW_FORM_addr: *address = v->number; return true;
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		return section_number(debug_file_section(u->shared, DEBUG_ADDR), u->addr_base,
				      v->number, 8, address);
	default: return false;
	}
}

static const char *section_string(struct bytes b, uint64_t off)
{
	return bytes_take(&b, off) ? bytes_string(&b) : NULL;
}

const char *die_string(const struct debug_unit *u, const struct die_value *v)
{
	uint64_t off;

	switch (v->form) {
	case DW_FORM_string: return (const char *)v->text;
	case DW_FORM_strp: return section_string(debug_file_section(u->file, DEBUG_STR), v->number);
	case DW_FORM_line_strp:
		return section_string(debug_file_section(u->file, DEBUG_LINE_STR), v->number);
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		return section_number(debug_file_section(u->file, DEBUG_STR_OFFSETS),
				      u->str_offsets_off + u->str_offsets_base, v->number,
				      u->offset_bytes, &off)
			       ? section_string(debug_file_section(u->file, DEBUG_STR), off)
			       : NULL;
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		return u->file->supplement
			       ? section_string(debug_file_section(u->file->supplement, DEBUG_STR),
						v->number)
			       : NULL;
	default: return NULL;
	}
}

void die_ranges_begin(struct die_ranges *r, const struct debug_unit *u, const struct die_code *code)
{
	uint64_t off = code->ranges.number;

	*r = (struct die_ranges){.unit = u, .base = u->low_pc};
	if (!code->ranges.form) {
		r->single = die_address(u, &code->low, &r->start) && code->high.form;
		if (r->single && !die_address(u, &code->high, &r->end))
			r->end = r->start + code->high.number; /* a constant is a size */
		return;
	}
	if (u->version >= 5) {
		r->list = debug_file_section(u->file, DEBUG_RNGLISTS);
		if (code->ranges.form == DW_FORM_rnglistx) {
			uint64_t in_table;

			if (!section_number(r->list, u->rnglists_base, off, u->offset_bytes,
					    &in_table))
				r->list = (struct bytes){0};
			else
				off = u->rnglists_base + in_table;
		}
	} else {
		r->list = debug_file_section(u->shared, DEBUG_RANGES);
		if (u->split)
			off += u->ranges_base;
	}
	if (!bytes_take(&r->list, off))
		r->list = (struct bytes){0};
}

static uint64_t ranges_indexed(struct die_ranges *r)
{
	const struct die_value v = {.form = DW_FORM_addrx, .number = die_uleb(&r->list)};
	uint64_t address = 0;

	if (!die_address(r->unit, &v, &address))
		r->list.failed = true;
	return address;
}

/* One entry of DWARF 4's list. false = the end. */
static bool ranges_next4(struct die_ranges *r, uint64_t *start, uint64_t *end)
{
	while (bytes_left(&r->list)) {
		*start = bytes_u64(&r->list);
		*end = bytes_u64(&r->list);
		if (r->list.failed || (*start == 0 && *end == 0))
			return false;
		if (*start != UINT64_MAX) {
			*start += r->base;
			*end += r->base;
			return true;
		}
		r->base = *end;
	}
	return false;
}

static bool ranges_next5(struct die_ranges *r, uint64_t *start, uint64_t *end)
{
	struct bytes *b = &r->list;

	while (bytes_left(b)) {
		switch (bytes_u8(b)) {
		case DW_RLE_base_addressx: r->base = ranges_indexed(r); continue;
		case DW_RLE_base_address: r->base = bytes_u64(b); continue;
		case DW_RLE_startx_endx:
			*start = ranges_indexed(r);
			*end = ranges_indexed(r);
			break;
		case DW_RLE_startx_length:
			*start = ranges_indexed(r);
			*end = *start + die_uleb(b);
			break;
		case DW_RLE_offset_pair:
			*start = r->base + die_uleb(b);
			*end = r->base + die_uleb(b);
			break;
		case DW_RLE_start_end:
			*start = bytes_u64(b);
			*end = bytes_u64(b);
			break;
		case DW_RLE_start_length:
			*start = bytes_u64(b);
			*end = *start + die_uleb(b);
			break;
		default: return false; /* the end, or of a newer DWARF */
		}
		return !b->failed;
	}
	return false;
}

bool die_ranges_next(struct die_ranges *r, uint64_t *start, uint64_t *end)
{
	if (r->single) {
		r->single = false;
		*start = r->start;
		*end = r->end;
		return true;
	}
	return r->unit->version >= 5 ? ranges_next5(r, start, end) : ranges_next4(r, start, end);
}

/* Where a reference leads: the unit, and the offset in its file. */
static struct debug_unit *die_target(struct debug_unit *u, const struct die_value *v, uint64_t *off)
{
	*off = v->number;
	switch (v->form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		*off += u->off;
		return *off >= u->first_die && *off < u->end ? u : NULL;
	case DW_FORM_ref_addr: return debug_file_unit_at(u->file, *off);
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt:
		return u->file->supplement ? debug_file_unit_at(u->file->supplement, *off) : NULL;
	default: return NULL;
	}
}

const char *die_name(struct debug_unit *u, uint64_t off)
{
	const char *plain = NULL;

	for (int hops = 0; u && hops < DIE_MAX_HOPS; hops++) {
		const struct abbrev_table *table = debug_unit_abbrevs(u);
		struct bytes b = debug_file_section(u->file, DEBUG_INFO);
		struct die_value next = {0};

		b.end = b.p + u->end;
		if (!table || off >= u->end)
			break;
		b.p += off;
		const struct abbrev *a = abbrev_find(table, die_uleb(&b));
		for (uint32_t i = 0; a && i < a->spec_count; i++) {
			const struct abbrev_spec *spec = &table->specs.items[a->first_spec + i];
			struct die_value v = die_read_form(u, &b, spec->form, spec->implicit);
			const char *text = NULL;

			if (b.failed)
				break;
			switch (spec->name) {
			case DW_AT_linkage_name:
			case DW_AT_MIPS_linkage_name:
				text = die_string(u, &v);
				if (text && *text)
					return text;
				break;
			case DW_AT_name:
				text = die_string(u, &v);
				if (!plain && text && *text)
					plain = text;
				break;
			case DW_AT_abstract_origin:
			case DW_AT_specification: next = v; break;
			default: break;
			}
		}
		u = die_target(u, &next, &off);
	}
	return plain;
}
