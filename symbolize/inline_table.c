/* See inline_table.h.
 *
 *   ranges   unit 1 [0x1000,0x1800)  unit 2 [0x1800,0x2000)        read at once: CU DIEs only
 *   unit 1   f { inlined a [0x1010,0x1040) { inlined b [0x1020,0x1030) } }    on first touch
 *   pieces   a [0x1010,0x1020)  b [0x1020,0x1030)  a [0x1030,0x1040)
 *
 * A unit is one walk over its DIEs, in which trees that cannot hold code are jumped over;
 * names are looked up only for the nodes that somebody asks for. */
#include "symbolize/inline_table.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "common/vec.h"
#include "symbolize/die.h"
#include "symbolize/line_table.h"
#include "symbolize/search.h"
#include "symbolize/split.h"

#define INLINE_MAX_NESTING 512 /* of DIEs; deeper ones are left out */
#define INLINE_MAX_NODES   (1u << 30)
#define INLINE_MAX_RANGES  (1u << 28) /* read in all: many DIEs may share one long list */

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
	struct debug_unit *unit, *dies;       /* dies: where it is split, else the same */
	struct line_table *lines, *die_lines; /* NULL = not read */
	bool loaded;
	VEC(struct inline_piece) pieces; /* sorted, disjoint */
};

struct inline_table {
	const struct object *code;
	const char *path;
	const struct search *search;
	struct debug_file file, supplement;
	struct object *supplement_object;
	struct splits splits;
	VEC(struct inline_unit) units;
	VEC(struct unit_range) ranges;
	VEC(uint32_t) rangeless; /* units that do not say which code is theirs */
	VEC(struct inline_node) nodes;
	VEC(struct inline_span) spans; /* scratch of the unit being read */
	uint32_t ranges_read;
};

/* Cuts a range to the code that is there; false if none is: functions the linker dropped stay
 * in DWARF at address 0 or -1. */
static bool table_clip(const struct inline_table *t, uint64_t start, uint64_t *end)
{
	struct bytes code = object_code(t->code, start);

	if (!bytes_left(&code) || *end <= start)
		return false;
	if (*end - start > bytes_left(&code))
		*end = start + bytes_left(&code);
	return true;
}

static bool table_add_range(struct inline_table *t, uint32_t unit, uint64_t start, uint64_t end)
{
	struct unit_range r = {.start = start, .unit = unit};

	if (!table_clip(t, start, &end))
		return true;
	r.end = end;
	return vec_push(&t->ranges, r);
}

/* A DIE of which only code and call site matter. */
struct die_call {
	struct die_code code;
	uint32_t file, line;
	uint64_t sibling; /* offset in the unit; 0 = none */
};

static void die_read_call(const struct debug_unit *u, const struct abbrev_table *table,
			  const struct abbrev *a, struct bytes *b, struct die_call *call)
{
	*call = (struct die_call){0};
	for (uint32_t i = 0; i < a->spec_count && !b->failed; i++) {
		const struct abbrev_spec *spec = &table->specs.items[a->first_spec + i];
		struct die_value v = die_read_form(u, b, spec->form, spec->implicit);

		switch (spec->name) {
		case DW_AT_low_pc: call->code.low = v; break;
		case DW_AT_high_pc: call->code.high = v; break;
		case DW_AT_ranges: call->code.ranges = v; break;
		case DW_AT_call_file: call->file = (uint32_t)v.number; break;
		case DW_AT_call_line: call->line = (uint32_t)v.number; break;
		case DW_AT_sibling: call->sibling = v.number; break;
		default: break;
		}
	}
}

static bool table_add_unit(struct inline_table *t, struct debug_unit *u)
{
	struct inline_unit unit = {.unit = u, .dies = u};
	uint32_t index = (uint32_t)t->units.count;
	struct die_ranges ranges;
	uint64_t start, end;
	bool any = false;

	if (!vec_push(&t->units, unit))
		return false;
	die_ranges_begin(&ranges, u, &u->code);
	while (die_ranges_next(&ranges, &start, &end)) {
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
	if (!debug_file_read_units(&t->file))
		return false;
	for (size_t i = 0; i < t->file.units.count; i++) {
		struct debug_unit *u = &t->file.units.items[i];

		if ((u->type == DW_UT_compile || u->type == DW_UT_skeleton) &&
		    !table_add_unit(t, u))
			return false;
	}
	table_sort_ranges(t);
	return true;
}

/* dwz's common file. Its units are only referred to. */
static bool table_open_supplement(struct inline_table *t, const struct object *debug)
{
	t->supplement_object = search_supplement(t->search, debug, t->path);
	if (!t->supplement_object)
		return true;
	debug_file_init(&t->supplement, t->supplement_object, false);
	t->file.supplement = &t->supplement;
	return debug_file_read_units(&t->supplement);
}

enum err inline_table_new(const struct object *debug, const char *debug_path,
			  const struct object *code, const struct search *search,
			  struct inline_table **result)
{
	struct inline_node none = {0};

	if (!debug_file_has_units(debug))
		return ERR_NOT_FOUND;
	struct inline_table *t = calloc(1, sizeof *t);
	if (!t)
		return ERR_NOMEM;
	t->code = code;
	t->path = debug_path;
	t->search = search;
	debug_file_init(&t->file, debug, false);
	if (!vec_push(&t->nodes, none) || !table_open_supplement(t, debug) ||
	    !table_read_units(t)) {
		inline_table_free(t);
		return ERR_NOMEM;
	}
	*result = t;
	return ERR_NONE;
}

static void lines_free(struct line_table *lines)
{
	if (lines)
		line_table_done(lines);
	free(lines);
}

void inline_table_free(struct inline_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->units.count; i++) {
		struct inline_unit *u = &t->units.items[i];

		lines_free(u->die_lines);
		lines_free(u->lines);
		vec_done(&u->pieces);
	}
	splits_done(&t->splits);
	debug_file_done(&t->file);
	debug_file_done(&t->supplement);
	object_free(t->supplement_object);
	vec_done(&t->units);
	vec_done(&t->ranges);
	vec_done(&t->rangeless);
	vec_done(&t->nodes);
	vec_done(&t->spans);
	free(t);
}

/* A new node for an inlined instance, with its spans; 0 when memory is short. */
static uint32_t table_add_node(struct inline_table *t, uint32_t unit, uint64_t die_off,
			       const struct die_call *call, uint32_t parent)
{
	struct inline_node node = {.die_off = die_off,
				   .parent = parent,
				   .unit = unit,
				   .call_file = call->file,
				   .call_line = call->line,
				   .depth = t->nodes.items[parent].depth + 1};
	uint32_t index = (uint32_t)t->nodes.count;
	struct die_ranges ranges;
	uint64_t start, end;

	if (index >= INLINE_MAX_NODES || !vec_push(&t->nodes, node))
		return 0;
	die_ranges_begin(&ranges, t->units.items[unit].dies, &call->code);
	while (t->ranges_read < INLINE_MAX_RANGES && die_ranges_next(&ranges, &start, &end)) {
		t->ranges_read++;
		if (!table_clip(t, start, &end))
			continue;
		struct inline_span span = {
			.start = start, .end = end, .depth = node.depth, .node = index};
		if (!vec_push(&t->spans, span))
			return 0;
	}
	return index;
}

static bool tag_holds_code(int tag)
{
	switch (tag) {
	case DW_TAG_compile_unit:
	case DW_TAG_skeleton_unit:
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

/* Past the children of a DIE that hold no code, if it says where its sibling is. */
static bool walk_jump(const struct debug_unit *u, struct bytes *b, const uint8_t *info,
		      uint64_t sibling)
{
	const uint8_t *target = info + u->off + sibling;

	if (!sibling || sibling > u->end - u->off || target < b->p)
		return false;
	b->p = target;
	return true;
}

/* Collects the spans of all inlined instances of a unit. false when memory is short. */
static bool table_walk(struct inline_table *t, uint32_t unit)
{
	struct debug_unit *u = t->units.items[unit].dies;
	const struct abbrev_table *table = debug_unit_abbrevs(u);
	struct bytes b = debug_file_section(u->file, DEBUG_INFO);
	const uint8_t *info = b.p;
	uint32_t around[INLINE_MAX_NESTING] = {0}; /* the instance around each level's DIEs */
	size_t level = 0, skipped = 0;             /* skipped: levels inside a tree without code */

	b.end = b.p + u->end;
	b.p += u->first_die;
	while (table && bytes_left(&b)) {
		uint64_t off = (uint64_t)(b.p - info);
		uint64_t code = die_uleb(&b);
		struct die_call call;

		if (code == 0) {
			if (skipped)
				skipped--;
			else if (level == 0 || --level == 0)
				break;
			continue;
		}
		const struct abbrev *a = abbrev_find(table, code);
		if (!a)
			break;
		bool holds_code = tag_holds_code(a->tag) && level + 1 < INLINE_MAX_NESTING;
		if (skipped ||
		    (a->tag != DW_TAG_inlined_subroutine && (holds_code || !a->has_children)))
			die_skip(u, table, a, &b);
		else
			die_read_call(u, table, a, &b, &call);
		if (b.failed || (level == 0 && !a->has_children))
			break;
		if (skipped) {
			skipped += a->has_children;
			continue;
		}
		uint32_t node = a->tag == DW_TAG_subprogram ? 0 : around[level];
		if (a->tag == DW_TAG_inlined_subroutine) {
			node = table_add_node(t, unit, off, &call, node);
			if (!node)
				return false;
		}
		if (!a->has_children)
			continue;
		if (holds_code)
			around[++level] = node;
		else if (!walk_jump(u, &b, info, call.sibling))
			skipped = 1;
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

	if (u->loaded)
		return;
	u->loaded = true; /* also when it fails: it would fail again */
	if (u->unit->dwo_name) {
		u->dies = split_unit(&t->splits, u->unit, t->path, t->search);
		if (!u->dies) {
			u->dies = u->unit;
			return;
		}
	}
	t->spans.count = 0;
	if (!table_walk(t, index) || !table_cut(t, u))
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
	const struct inline_node *n = inline_table_node(t, node);

	return node ? die_name(t->units.items[n->unit].dies, n->die_off) : NULL;
}

/* Read on first use; NULL when memory is short. */
static struct line_table *unit_lines(struct line_table **kept, const struct debug_unit *u)
{
	if (!*kept) {
		struct line_table *lines = calloc(1, sizeof *lines);

		if (lines && !line_table_read(lines, u)) {
			lines_free(lines);
			lines = NULL;
		}
		*kept = lines;
	}
	return *kept;
}

bool inline_table_call_file(struct inline_table *t, uint32_t node, char path[PATH_MAX])
{
	const struct inline_node *n = inline_table_node(t, node);

	if (!node)
		return false;
	struct inline_unit *u = &t->units.items[n->unit];
	struct line_table *lines =
		unit_lines(u->dies == u->unit ? &u->lines : &u->die_lines, u->dies);
	return lines && line_table_path(lines, n->call_file, path);
}

bool inline_table_line(struct inline_table *t, uint64_t vaddr, char path[PATH_MAX], uint32_t *line)
{
	uint64_t until;
	const struct unit_range *range = table_range(t, vaddr, &until);

	if (!range)
		return false;
	struct inline_unit *u = &t->units.items[range->unit];
	struct line_table *lines = unit_lines(&u->lines, u->unit);
	const struct line_row *row = lines ? line_table_find(lines, vaddr) : NULL;
	if (!row || !row->line || !line_table_path(lines, row->file, path))
		return false;
	*line = row->line;
	return true;
}
