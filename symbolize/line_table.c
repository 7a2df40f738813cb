/* See line_table.h. (DWARF 5, 6.2; earlier versions differ in the header only.) */
#include "symbolize/line_table.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/die.h"

#define LINE_MAX_ROWS    (1u << 28)
#define LINE_MAX_FILES   (1u << 20)
#define LINE_MAX_FORMATS 16

struct line_header {
	uint8_t offset_bytes, opcode_base, line_range;
	bool statement; /* what is_stmt begins with */
	int8_t line_base;
	uint8_t operands[256]; /* of the standard opcodes */
};

struct line_state {
	uint64_t vaddr, file, line;
	bool statement;
};

static bool line_read_names4(struct line_table *t, struct bytes *b)
{
	t->first_file = t->first_directory = 1;
	for (const char *name; (name = bytes_string(b)) && *name;)
		if (t->directories.count >= LINE_MAX_FILES || !vec_push(&t->directories, name))
			return false;
	for (const char *name; (name = bytes_string(b)) && *name;) {
		struct line_file file = {.name = name, .directory = die_uleb(b)};

		die_uleb(b); /* time */
		die_uleb(b); /* size */
		if (t->files.count >= LINE_MAX_FILES || !vec_push(&t->files, file))
			return false;
	}
	return true;
}

/* DWARF 5: a list of (kind, form), then that many entries made of these. */
static bool line_read_entries5(struct line_table *t, struct bytes *b, bool files)
{
	struct {
		uint64_t kind;
		uint16_t form;
	} formats[LINE_MAX_FORMATS];
	uint8_t format_count = bytes_u8(b);

	for (uint8_t i = 0; i < format_count; i++) {
		uint64_t kind = die_uleb(b);
		uint16_t form = (uint16_t)die_uleb(b);

		if (i >= LINE_MAX_FORMATS)
			b->failed = true;
		else
			formats[i].kind = kind, formats[i].form = form;
	}
	uint64_t count = die_uleb(b);
	if (!format_count || count > LINE_MAX_FILES)
		return true;
	for (; count && !b->failed; count--) {
		struct line_file file = {0};

		for (uint8_t i = 0; i < format_count && !b->failed; i++) {
			struct die_value v = die_read_form(t->unit, b, formats[i].form, 0);

			if (formats[i].kind == DW_LNCT_path)
				file.name = die_string(t->unit, &v);
			else if (formats[i].kind == DW_LNCT_directory_index)
				file.directory = v.number;
		}
		if (!(files ? vec_push(&t->files, file) : vec_push(&t->directories, file.name)))
			return false;
	}
	return true;
}

static bool line_push(struct line_table *t, const struct line_state *s, bool end)
{
	struct line_row row = {.vaddr = s->vaddr,
			       .file = s->file < UINT32_MAX ? (uint32_t)s->file : 0,
			       .line = s->line < UINT32_MAX ? (uint32_t)s->line : 0,
			       .order = (uint32_t)t->rows.count,
			       .end = end,
			       .statement = s->statement};

	return t->rows.count >= LINE_MAX_ROWS || vec_push(&t->rows, row);
}

static bool line_extended(struct line_table *t, const struct line_header *h, struct bytes *b,
			  struct line_state *s)
{
	uint64_t bytes = die_uleb(b);
	const uint8_t *p = bytes_take(b, bytes);
	struct bytes op = p ? bytes_of(p, bytes) : (struct bytes){0};

	switch (bytes_u8(&op)) {
	case DW_LNE_end_sequence: {
		bool ok = line_push(t, s, true);

		*s = (struct line_state){.file = 1, .line = 1, .statement = h->statement};
		return ok;
	}
	case DW_LNE_set_address: s->vaddr = bytes_u64(&op); return true;
	default: return true;
	}
}

static bool line_standard(struct line_table *t, const struct line_header *h, uint8_t opcode,
			  struct bytes *b, struct line_state *s)
{
	switch (opcode) {
	case DW_LNS_copy: return line_push(t, s, false);
	case DW_LNS_advance_pc: s->vaddr += die_uleb(b); break;
	case DW_LNS_advance_line: s->line += (uint64_t)die_sleb(b); break;
	case DW_LNS_set_file: s->file = die_uleb(b); break;
	case DW_LNS_negate_stmt: s->statement = !s->statement; break;
	case DW_LNS_const_add_pc: s->vaddr += (255u - h->opcode_base) / h->line_range; break;
	case DW_LNS_fixed_advance_pc: s->vaddr += bytes_u16(b); break;
	default:
		for (uint8_t i = 0; i < h->operands[opcode]; i++)
			die_uleb(b);
		break;
	}
	return true;
}

static bool line_run(struct line_table *t, const struct line_header *h, struct bytes *b)
{
	struct line_state s = {.file = 1, .line = 1, .statement = h->statement};

	while (bytes_left(b)) {
		uint8_t opcode = bytes_u8(b);
		bool ok;

		if (opcode >= h->opcode_base) {
			unsigned special = opcode - h->opcode_base;

			s.vaddr += special / h->line_range;
			s.line += (uint64_t)(h->line_base + (int)(special % h->line_range));
			ok = line_push(t, &s, false);
		} else if (opcode == 0) {
			ok = line_extended(t, h, b, &s);
		} else {
			ok = line_standard(t, h, opcode, b, &s);
		}
		if (!ok)
			return false;
	}
	return true;
}

static int row_compare(const void *left, const void *right)
{
	const struct line_row *a = left, *b = right;

	if (a->vaddr != b->vaddr)
		return a->vaddr < b->vaddr ? -1 : 1;
	if (a->end != b->end) /* where one stretch ends the next may begin */
		return a->end ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

bool line_table_read(struct line_table *t, const struct debug_unit *u)
{
	struct bytes b = debug_file_section(u->file, DEBUG_LINE);
	struct line_header h = {.offset_bytes = 4};

	*t = (struct line_table){.unit = u};
	if (u->line_off == UINT64_MAX || !bytes_take(&b, u->line_off))
		return true;
	uint64_t length = bytes_u32(&b);
	if (length == 0xffffffff) {
		h.offset_bytes = 8;
		length = bytes_u64(&b);
	}
	if (length > bytes_left(&b))
		return true;
	b.end = b.p + length;
	uint16_t version = bytes_u16(&b);
	if (version >= 5)
		bytes_take(&b, 2); /* sizes of address and segment selector */
	uint64_t header_bytes = bytes_le(&b, h.offset_bytes);
	if (b.failed || version < 2 || version > 5 || header_bytes > bytes_left(&b))
		return true;
	struct bytes program = bytes_of(b.p + header_bytes, bytes_left(&b) - header_bytes);
	b.end = program.p;
	bytes_u8(&b); /* least instruction length: 1 */
	if (version >= 4)
		bytes_u8(&b); /* operations per instruction: 1 */
	h.statement = bytes_u8(&b) != 0;
	h.line_base = (int8_t)bytes_u8(&b);
	h.line_range = bytes_u8(&b);
	h.opcode_base = bytes_u8(&b);
	for (unsigned i = 1; i < h.opcode_base; i++)
		h.operands[i] = bytes_u8(&b);
	bool ok = version >= 5 ? line_read_entries5(t, &b, false) && line_read_entries5(t, &b, true)
			       : line_read_names4(t, &b);
	if (ok && h.line_range && h.opcode_base)
		ok = line_run(t, &h, &program);
	if (t->rows.count)
		qsort(t->rows.items, t->rows.count, sizeof *t->rows.items, row_compare);
	return ok;
}

void line_table_done(struct line_table *t)
{
	vec_done(&t->directories);
	vec_done(&t->files);
	vec_done(&t->rows);
}

const struct line_row *line_table_find(const struct line_table *t, uint64_t vaddr)
{
	size_t low = 0, high = t->rows.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->rows.items[middle].vaddr <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low && !t->rows.items[low - 1].end ? &t->rows.items[low - 1] : NULL;
}

bool line_table_path(const struct line_table *t, uint64_t file, char path[PATH_MAX])
{
	const char *compiled_in = t->unit->comp_dir ? t->unit->comp_dir : "";
	const char *directory = "", *name;

	if (file < t->first_file || file - t->first_file >= t->files.count)
		return false;
	const struct line_file *f = &t->files.items[file - t->first_file];
	name = f->name;
	if (!name)
		return false;
	if (f->directory >= t->first_directory &&
	    f->directory - t->first_directory < t->directories.count)
		directory = t->directories.items[f->directory - t->first_directory];
	if (!directory || name[0] == '/')
		directory = "";
	if (name[0] == '/' || directory[0] == '/')
		compiled_in = "";
	return snprintf(path, PATH_MAX, "%s%s%s%s%s", compiled_in, *compiled_in ? "/" : "",
			directory, *directory ? "/" : "", name) < PATH_MAX;
}
