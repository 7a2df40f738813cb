/* See inline_table.h.
 *
 *   ranges   unit 1 [0x1000,0x1800)  unit 2 [0x1800,0x2000)        read at once: CU DIEs only
 *   unit 1   f { inlined a [0x1010,0x1040) { inlined b [0x1020,0x1030) } }    on first touch
 *   pieces   a [0x1010,0x1020)  b [0x1020,0x1030)  a [0x1030,0x1040)
 *
 * One walk over a unit's DIEs is ten thousand times cheaper per address than asking libdw
 * for the scopes of each, and finds functions inside namespaces, which libdw's own search
 * by address does not. */
#include "symbolize/inline_table.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/vec.h"

#define INLINE_MAX_NESTING 256 /* of DIEs; deeper ones are left out */
#define INLINE_MAX_UNITS   (1u << 24)
#define INLINE_MAX_NODES   (1u << 30)

struct unit_range {
	uint64_t start, end;
	uint64_t max_end; /* the largest end up to here: how far back an overlap can begin */
	uint32_t unit;
};

struct inline_span {
	uint64_t start, end;
	uint32_t depth, node;
};

struct inline_piece {
	uint64_t start;
	uint32_t bytes, node;
};
_Static_assert(sizeof(struct inline_piece) == 16, "one per change of the inlined chain");

struct inline_unit {
	uint64_t die_off;
	bool loaded;
	VEC(struct inline_piece) pieces; /* sorted, disjoint */
};

struct inline_table {
	const struct object *code;
	int fd;
	Dwarf *dwarf;
	VEC(struct inline_unit) units;
	VEC(struct unit_range) ranges;
	VEC(uint32_t) rangeless; /* units that do not say which code is theirs */
	VEC(struct inline_node) nodes;
	VEC(struct inline_span) spans; /* scratch of the unit being read */
};

static bool table_add_range(struct inline_table *t, uint32_t unit, uint64_t start, uint64_t end)
{
	struct unit_range r = {.start = start, .end = end, .unit = unit};
	struct bytes code = object_code(t->code, start);

	/* Functions the linker dropped stay in DWARF at address 0 or -1. */
	if (!bytes_left(&code) || end <= start)
		return true;
	return vec_push(&t->ranges, r);
}

static bool table_add_unit(struct inline_table *t, Dwarf_Die *die)
{
	struct inline_unit unit = {.die_off = dwarf_dieoffset(die)};
	uint32_t index = (uint32_t)t->units.count;
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	bool any = false;

	if (!vec_push(&t->units, unit))
		return false;
	while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
		any = true;
		if (!table_add_range(t, index, start, end))
			return false;
	}
	return any || vec_push(&t->rangeless, index);
}

static int range_compare(const void *left, const void *right)
{
	const struct unit_range *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->unit < b->unit ? -1 : a->unit > b->unit;
}

static void table_sort_ranges(struct inline_table *t)
{
	uint64_t max_end = 0;

	if (t->ranges.count)
		qsort(t->ranges.items, t->ranges.count, sizeof *t->ranges.items, range_compare);
	for (size_t i = 0; i < t->ranges.count; i++) {
		if (max_end < t->ranges.items[i].end)
			max_end = t->ranges.items[i].end;
		t->ranges.items[i].max_end = max_end;
	}
}

static bool table_read_units(struct inline_table *t)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Half version;
	uint8_t type;
	Dwarf_Die die;

	while (t->units.count < INLINE_MAX_UNITS &&
	       dwarf_get_units(t->dwarf, cu, &cu, &version, &type, &die, NULL) == 0)
		if ((type == DW_UT_compile || type == DW_UT_skeleton) && !table_add_unit(t, &die))
			return false;
	table_sort_ranges(t);
	return true;
}

enum err inline_table_new(const char *path, const struct object *code, struct inline_table **result)
{
	struct inline_table *t = calloc(1, sizeof *t);
	struct inline_node none = {0};
	enum err err = ERR_NOMEM;

	if (!t)
		return ERR_NOMEM;
	t->code = code;
	t->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (t->fd < 0) {
		err = ERR_IO;
		goto done;
	}
	t->dwarf = dwarf_begin(t->fd, DWARF_C_READ);
	if (!t->dwarf) {
		err = dwarf_errno() ? ERR_FORMAT : ERR_NOT_FOUND;
		goto done;
	}
	if (vec_push(&t->nodes, none) && table_read_units(t))
		err = ERR_NONE;
done:
	if (err == ERR_NONE)
		*result = t;
	else
		inline_table_free(t);
	return err;
}

void inline_table_free(struct inline_table *t)
{
	if (!t)
		return;
	if (t->dwarf)
		dwarf_end(t->dwarf);
	if (t->fd >= 0)
		close(t->fd);
	for (size_t i = 0; i < t->units.count; i++)
		vec_done(&t->units.items[i].pieces);
	vec_done(&t->units);
	vec_done(&t->ranges);
	vec_done(&t->rangeless);
	vec_done(&t->nodes);
	vec_done(&t->spans);
	free(t);
}

static uint32_t die_number(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0)
		return 0;
	return value < UINT32_MAX ? (uint32_t)value : 0;
}

/* A new node for an inlined instance, with its spans; 0 when memory is short. */
static uint32_t table_add_node(struct inline_table *t, Dwarf_Die *die, uint32_t unit,
			       uint32_t parent)
{
	struct inline_node node = {.die_off = dwarf_dieoffset(die),
				   .parent = parent,
				   .unit = unit,
				   .call_file = die_number(die, DW_AT_call_file),
				   .call_line = die_number(die, DW_AT_call_line),
				   .depth = t->nodes.items[parent].depth + 1};
	uint32_t index = (uint32_t)t->nodes.count;
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	if (index >= INLINE_MAX_NODES || !vec_push(&t->nodes, node))
		return 0;
	while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) {
		struct inline_span span = {
			.start = start, .end = end, .depth = node.depth, .node = index};

		if (end > start && !vec_push(&t->spans, span))
			return 0;
	}
	return index;
}

static bool tag_holds_code(int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_subprogram:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
	case DW_TAG_structure_type: /* member functions of local classes, Rust's methods */
	case DW_TAG_class_type:
	case DW_TAG_union_type: return true;
	default: return false;
	}
}

/* Collects the spans of all inlined instances of a unit. false when memory is short. */
static bool table_walk(struct inline_table *t, uint32_t unit, Dwarf_Die *root)
{
	struct {
		Dwarf_Die die;
		uint32_t node; /* the instance around */
	} level[INLINE_MAX_NESTING];
	int n = 0;

	if (dwarf_child(root, &level[0].die) != 0)
		return true;
	level[0].node = 0;
	while (n >= 0) {
		Dwarf_Die *die = &level[n].die;
		uint32_t node = level[n].node;
		int tag = dwarf_tag(die);

		if (tag == DW_TAG_subprogram)
			node = 0;
		if (tag == DW_TAG_inlined_subroutine) {
			node = table_add_node(t, die, unit, node);
			if (!node)
				return false;
		}
		if (n + 1 < INLINE_MAX_NESTING && tag_holds_code(tag) &&
		    dwarf_child(die, &level[n + 1].die) == 0) {
			level[++n].node = node;
			continue;
		}
		while (n >= 0 && dwarf_siblingof(&level[n].die, &level[n].die) != 0)
			n--;
	}
	return true;
}

static int span_compare(const void *left, const void *right)
{
	const struct inline_span *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->depth != b->depth)
		return a->depth < b->depth ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

static bool unit_add_piece(struct inline_unit *u, uint64_t start, uint64_t end, uint32_t node)
{
	while (start < end) {
		struct inline_piece *last = u->pieces.count ? vec_last(&u->pieces) : NULL;
		uint64_t bytes = end - start < UINT32_MAX ? end - start : UINT32_MAX;

		if (last && last->node == node && last->start + last->bytes == start &&
		    last->bytes + bytes <= UINT32_MAX) {
			last->bytes += (uint32_t)bytes;
		} else {
			struct inline_piece piece = {
				.start = start, .bytes = (uint32_t)bytes, .node = node};

			if (!vec_push(&u->pieces, piece))
				return false;
		}
		start += bytes;
	}
	return true;
}

/* Cuts the sorted spans into disjoint pieces of the innermost one. */
static bool table_cut(struct inline_table *t, struct inline_unit *u)
{
	VEC(uint32_t) open = {0};
	uint64_t at = 0;
	bool ok = true;

	if (t->spans.count)
		qsort(t->spans.items, t->spans.count, sizeof *t->spans.items, span_compare);
	for (size_t i = 0; ok && i <= t->spans.count; i++) {
		uint64_t until = i < t->spans.count ? t->spans.items[i].start : UINT64_MAX;

		while (ok && open.count && at < until) {
			const struct inline_span *span = &t->spans.items[*vec_last(&open)];
			uint64_t end = span->end < until ? span->end : until;

			if (end > at) {
				ok = unit_add_piece(u, at, end, span->node);
				at = end;
			}
			if (span->end <= at)
				open.count--;
		}
		at = until;
		if (i < t->spans.count)
			ok = ok && vec_push(&open, (uint32_t)i);
	}
	vec_done(&open);
	return ok;
}

static void table_load_unit(struct inline_table *t, uint32_t index)
{
	struct inline_unit *u = &t->units.items[index];
	Dwarf_Die die;

	if (u->loaded)
		return;
	u->loaded = true; /* also when it fails: it would fail again */
	t->spans.count = 0;
	if (!dwarf_offdie(t->dwarf, u->die_off, &die) || !table_walk(t, index, &die) ||
	    !table_cut(t, u))
		vec_done(&u->pieces);
}

/* The code of a unit that does not say: from its functions. */
static void table_load_rangeless(struct inline_table *t)
{
	for (size_t i = 0; i < t->rangeless.count; i++) {
		uint32_t index = t->rangeless.items[i];
		struct inline_unit *u = &t->units.items[index];

		table_load_unit(t, index);
		for (size_t p = 0; p < u->pieces.count; p++)
			if (!table_add_range(t, index, u->pieces.items[p].start,
					     u->pieces.items[p].start + u->pieces.items[p].bytes))
				return;
	}
	if (t->rangeless.count)
		table_sort_ranges(t);
	t->rangeless.count = 0;
}

/* The first range that starts behind vaddr, as an index. */
static size_t table_ranges_behind(const struct inline_table *t, uint64_t vaddr)
{
	size_t low = 0, high = t->ranges.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->ranges.items[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The unit's range that holds vaddr; until = where that ends, or where the next begins. */
static const struct unit_range *table_range(struct inline_table *t, uint64_t vaddr, uint64_t *until)
{
	table_load_rangeless(t);
	size_t behind = table_ranges_behind(t, vaddr);

	*until = behind < t->ranges.count ? t->ranges.items[behind].start : UINT64_MAX;
	for (size_t i = behind; i > 0 && t->ranges.items[i - 1].max_end > vaddr; i--) {
		const struct unit_range *r = &t->ranges.items[i - 1];

		if (r->end > vaddr) {
			if (*until > r->end)
				*until = r->end;
			return r;
		}
	}
	return NULL;
}

uint32_t inline_table_find(struct inline_table *t, uint64_t vaddr, uint64_t *until)
{
	const struct unit_range *range = table_range(t, vaddr, until);

	if (!range)
		return 0;
	uint32_t unit = range->unit;
	table_load_unit(t, unit);
	const struct inline_unit *u = &t->units.items[unit];
	size_t low = 0, high = u->pieces.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (u->pieces.items[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low && vaddr - u->pieces.items[low - 1].start < u->pieces.items[low - 1].bytes) {
		const struct inline_piece *piece = &u->pieces.items[low - 1];

		if (*until > piece->start + piece->bytes)
			*until = piece->start + piece->bytes;
		return piece->node;
	}
	if (low<u->pieces.count && * until> u->pieces.items[low].start)
		*until = u->pieces.items[low].start;
	return 0;
}

const struct inline_node *inline_table_node(const struct inline_table *t, uint32_t node)
{
	return &t->nodes.items[node < t->nodes.count ? node : 0];
}

const char *inline_table_name(struct inline_table *t, uint32_t node)
{
	static const unsigned names[] = {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name};
	Dwarf_Attribute attribute;
	Dwarf_Die die;

	if (!dwarf_offdie(t->dwarf, inline_table_node(t, node)->die_off, &die))
		return NULL;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (!dwarf_attr_integrate(&die, names[i], &attribute))
			continue;
		const char *name = dwarf_formstring(&attribute);
		if (name && *name)
			return name;
	}
	return NULL;
}

const char *inline_table_call_file(struct inline_table *t, uint32_t node)
{
	const struct inline_node *n = inline_table_node(t, node);
	Dwarf_Files *files;
	size_t count;
	Dwarf_Die die;

	if (!dwarf_offdie(t->dwarf, t->units.items[n->unit].die_off, &die) ||
	    dwarf_getsrcfiles(&die, &files, &count) != 0 || n->call_file >= count)
		return NULL;
	return dwarf_filesrc(files, n->call_file, NULL, NULL);
}

bool inline_table_line(struct inline_table *t, uint64_t vaddr, const char **file, uint32_t *line)
{
	uint64_t until;
	const struct unit_range *range = table_range(t, vaddr, &until);
	Dwarf_Die die;
	int number;

	if (!range || !dwarf_offdie(t->dwarf, t->units.items[range->unit].die_off, &die))
		return false;
	Dwarf_Line *at = dwarf_getsrc_die(&die, vaddr);
	const char *name = at ? dwarf_linesrc(at, NULL, NULL) : NULL;
	if (!name || dwarf_lineno(at, &number) != 0 || number < 0)
		return false;
	*file = name;
	*line = (uint32_t)number;
	return true;
}
