/* See join.h.
 *
 * Joins are carried out from right to left, so that a segment already has the frames that
 * later ones found beneath it when it is joined to the one before: a level that goes on is
 * hidden into the earlier row, a level beneath all that the earlier segment knows becomes a
 * root of that one. Those that found nothing there look further back, from left to right, when
 * the stacks of all segments before are whole. The stack at a loss is the chain of parents of
 * the innermost open row; rows keep their place, so nothing is copied. */
#include "decode/join.h"

#include <stdlib.h>
#include <string.h>

#include "decode/align.h"
#include "decode/callers.h"
#include "decode/lifetime.h"
#include "decode/precedent.h"

enum {
	INLINE_DEPTH_MAX = 64,
	CHAIN_MAX = 1 << 16, /* frames of a stack looked at, from the innermost out */
	LOOK_BACK = 8,       /* segments that a join may reach over */
	PRECEDENTS_MIN = 4,  /* fewer prove nothing */
	PRECEDENTS_ODDS = 3, /* to draw two frames as one misleads more than the reverse */
};

struct joiner {
	struct thread *thread;
	struct callers callers;
	struct lifetimes lifetimes;
	struct precedents precedents;
	struct aligner known; /* A's stack; B's levels: own roots, then those of later segments */
	uint32_t top;         /* A's innermost open row, maybe inlined */
	uint32_t kept;        /* innermost row that goes on across the last join */
	VEC(uint32_t) home;   /* segment of each thread->roots item */
	struct row_list {
		VEC(uint32_t) rows;
	} * beneath; /* per segment: roots that later segments found, outermost last */
};

/* A frame that an exception has passed, known by nothing but that. */
static bool call_is_unknown(const struct call *c)
{
	return c->expected && c->what == 0;
}

static uint32_t joiner_row(const struct joiner *j, uint32_t row)
{
	const struct call *calls = j->thread->calls.items;

	while (row != CALL_NONE && calls[row].flags & CALL_HIDDEN)
		row = call_is_unknown(&calls[row]) && calls[row].site == CALL_NONE
			      ? calls[row].parent
			      : calls[row].site;
	return row;
}

static uint32_t joiner_func(const struct joiner *j, uint32_t row)
{
	const struct call *c = &j->thread->calls.items[row];

	return c->kind == CALL_FRAME ? j->known.g.hot[c->what].func : 0;
}

node_id join_waits_at(struct graph *graph, struct graph_tables g, const struct call *c)
{
	if (c->site == 0)
		return 0;
	if (c->flags & CALL_SIGNAL)
		return c->site;
	switch (g.hot[c->site].kind) {
	case NODE_CALL:
	case NODE_CALL_INDIRECT:
	case NODE_SYSCALL: return graph_successor(graph, c->site, 0);
	default: return c->site; /* interrupted there */
	}
}

/* Physical open rows from `top` outward. */
static bool joiner_chain(struct joiner *j, uint32_t top)
{
	j->known.chain.count = 0;
	j->top = joiner_row(j, top);
	for (uint32_t row = joiner_row(j, top);
	     row != CALL_NONE && j->known.chain.count < CHAIN_MAX;
	     row = joiner_row(j, j->thread->calls.items[row].parent)) {
		if (j->thread->calls.items[row].kind == CALL_INLINED)
			continue;
		struct chain_frame frame = {.row = row,
					    .func = joiner_func(j, row),
					    .wait = join_waits_at(j->known.graph, j->known.g,
								  &j->thread->calls.items[row])};
		if (!vec_push(&j->known.chain, frame))
			return false;
	}
	return true;
}

/* `inner` = the row one level further in. */
static bool joiner_add_level(struct joiner *j, uint32_t row, uint32_t inner)
{
	const struct call *calls = j->thread->calls.items;
	struct level level = {.row = row, .func = joiner_func(j, row)};
	bool unwound = inner != CALL_NONE && calls[inner].flags & CALL_UNWOUND;

	if (calls[row].kind == CALL_FRAME && unwound && !calls[row].expected)
		level.pad = calls[row].what;
	else if (calls[row].kind == CALL_FRAME && !calls[row].expected)
		level.landed = calls[row].what;
	return vec_push(&j->known.levels, level);
}

/* L0: the frame in which the segment starts. */
static uint32_t segment_first_row(const struct thread *t, const struct segment *seg)
{
	if (seg->first_call >= seg->end_call)
		return CALL_NONE;
	const struct call *c = &t->calls.items[seg->first_call];
	return c->kind == CALL_INLINED || c->flags & CALL_ROOT ? CALL_NONE : seg->first_call;
}

static void joiner_name(struct call *passed, node_id node, bool sure)
{
	passed->what = node;
	passed->site = 0;
	passed->flags &= (uint16_t)~CALL_HIDDEN;
	passed->flags |= sure ? 0 : CALL_AMBIGUOUS;
}

/* Frames that an exception has passed, in turn from `inner` out to one that is known: they are
 * those that call each other so elsewhere, for `sure` if no others do. */
static void joiner_name_passed(struct joiner *j, const struct segment *seg, bool sure)
{
	struct call *calls = j->thread->calls.items;
	const uint32_t *roots = j->thread->roots.items;
	uint32_t inner = segment_first_row(j->thread, seg);

	for (uint32_t i = seg->first_root; i < seg->end_root; inner = roots[i++]) {
		struct call *c = &calls[roots[i]];
		bool last = i + 1 < seg->end_root && !call_is_unknown(&calls[roots[i + 1]]);
		bool only;

		if (inner == CALL_NONE || !call_is_unknown(c) || c->site != CALL_NONE)
			continue;
		node_id node = callers_expected(&j->callers, joiner_func(j, inner),
						last ? joiner_func(j, roots[i + 1]) : 0, &only);
		if (node && (only || !sure))
			joiner_name(c, node, only);
	}
}

/* L0, then L1 .. Lm of a segment: its own roots, and what later segments found beneath them. */
static bool joiner_levels(struct joiner *j, size_t s)
{
	const struct segment *seg = &j->thread->segments.items[s];
	uint32_t first = segment_first_row(j->thread, seg), inner = first;
	bool ok = true;

	j->known.has_first = first != CALL_NONE;
	j->known.first_func = first != CALL_NONE ? joiner_func(j, first) : 0;
	j->known.levels.count = 0;
	for (uint32_t i = seg->first_root; ok && i < seg->end_root; i++) {
		ok = joiner_add_level(j, j->thread->roots.items[i], inner);
		inner = j->thread->roots.items[i];
	}
	for (size_t i = 0; ok && i < j->beneath[s].rows.count; i++) {
		ok = joiner_add_level(j, j->beneath[s].rows.items[i], inner);
		inner = j->beneath[s].rows.items[i];
	}
	return ok;
}

/* ---- deciding and carrying out ---- */

/* Index in thread->roots, which is in the order of rows. */
static size_t joiner_root_index(const struct joiner *j, uint32_t row)
{
	size_t low = 0, high = j->thread->roots.count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (j->thread->roots.items[mid] < row)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The segment that an outermost row belongs to. */
static uint32_t joiner_home(const struct joiner *j, uint32_t row)
{
	const struct thread *t = j->thread;
	size_t low = 0, high = t->segments.count;

	if (t->calls.items[row].flags & CALL_ROOT)
		return j->home.items[joiner_root_index(j, row)];
	while (high - low > 1) {
		size_t mid = (low + high) / 2;

		if (t->segments.items[mid].first_call <= row)
			low = mid;
		else
			high = mid;
	}
	return (uint32_t)low;
}

/* Does level i continue A's frame chain[at]? */
static bool joiner_continues(const struct joiner *j, long i, uint32_t l, long at,
			     const struct join *join)
{
	uint32_t x = j->known.chain.items[at].row;
	const struct call *lc = &j->thread->calls.items[l], *xc = &j->thread->calls.items[x];

	if (lc->kind != xc->kind)
		return false;
	if (lc->kind == CALL_BRACKET)
		return true; /* missing code on both sides */
	uint32_t func = joiner_func(j, x);
	if (func != joiner_func(j, l) && !call_is_unknown(lc))
		return false;
	uint64_t age = join->lost_ns > xc->start_ns ? join->lost_ns - xc->start_ns : 0;
	uint64_t gap = join->resumed_ns - join->lost_ns;
	uint64_t rest = lc->end_ns > join->resumed_ns ? lc->end_ns - join->resumed_ns : 0;
	/* Both made calls: is it known what such calls, so far apart, mean? */
	if (i > 0 && at > 0) {
		struct precedent_case here = {
			.before = j->known.chain.items[at - 1].wait,
			.after = j->known.levels.items[i - 1].landed,
			.age_ns = age,
			.gap_ns = gap,
			.rest_ns = rest,
			.older = xc->flags & (CALL_ROOT | CALL_START_INFERRED),
			.longer = lc->flags & CALL_END_INFERRED || lc->end_ns == TIME_NONE};
		struct precedent seen = precedents_count(&j->precedents, &here);

		if (seen.count >= PRECEDENTS_MIN)
			return seen.one_ns >= PRECEDENTS_ODDS * seen.two_ns;
	}
	return lifetimes_continues(&j->lifetimes, func, age, gap, rest);
}

static void joiner_merge(struct joiner *j, uint32_t l, uint32_t x)
{
	struct call *lc = &j->thread->calls.items[l], *xc = &j->thread->calls.items[x];

	xc->end_ns = lc->end_ns;
	xc->flags &= (uint16_t)~CALL_END_INFERRED;
	xc->flags |= CALL_STITCHED | (lc->flags & (CALL_END_INFERRED | CALL_UNWOUND));
	lc->flags |= CALL_HIDDEN;
	lc->site = x;
}

/* The inlined frames in which A's frame chain[at] made its call (or stood, the innermost) go
 * on in those that B opened when it landed in `l`. Returns the innermost row that goes on. */
static uint32_t joiner_merge_inlined(struct joiner *j, uint32_t l, long at)
{
	const struct call *calls = j->thread->calls.items;
	uint32_t x = j->known.chain.items[at].row, open[INLINE_DEPTH_MAX], landed = l + 1;
	uint32_t row =
		at > 0 ? joiner_row(j, calls[j->known.chain.items[at - 1].row].parent) : j->top;
	uint32_t kept = x;
	size_t depth = 0;

	for (; row != CALL_NONE && row != x && depth < INLINE_DEPTH_MAX;
	     row = joiner_row(j, calls[row].parent))
		open[depth++] = row;
	for (uint32_t outer = l; depth > 0 && landed < j->thread->calls.count; landed++) {
		const struct call *c = &calls[landed], *a = &calls[open[--depth]];

		if (c->kind != CALL_INLINED || c->parent != outer || c->what != a->what)
			break;
		outer = landed;
		kept = open[depth];
		joiner_merge(j, landed, kept);
	}
	return kept;
}

/* What level row `l` of segment s had called when it was found stands in the inlined frame
 * `inlined`. That may have been in a later segment. */
static void joiner_move_into_inlined(struct joiner *j, size_t s, uint32_t l, uint32_t inlined)
{
	struct thread *t = j->thread;
	struct call *calls = t->calls.items;
	uint32_t row = l;

	for (; s < t->segments.count && t->segments.items[s].first_call < l; s++) {
		const struct segment *seg = &t->segments.items[s];

		for (uint32_t i = seg->first_base; i < seg->end_base; i++)
			if (calls[t->bases.items[i]].parent == l)
				calls[t->bases.items[i]].parent = inlined;
		if (seg->bracket != CALL_NONE && calls[seg->bracket].parent == l)
			calls[seg->bracket].parent = inlined;
		row = seg->first_call;
	}
	for (; row < l; row++)
		if (calls[row].parent == l)
			calls[row].parent = inlined;
}

/* Level row `l` is older than all of A: a root of the segment where A's outermost frame is. */
static bool joiner_hoist(struct joiner *j, uint32_t l, uint32_t home)
{
	struct thread *t = j->thread;

	t->calls.items[l].start_ns = t->segments.items[home].start_ns;
	j->home.items[joiner_root_index(j, l)] = home;
	return vec_push(&j->beneath[home].rows, l);
}

/* Gives all outermost rows of segment s a parent; returns when the last of them ends. */
static uint64_t joiner_base(struct joiner *j, size_t s, uint32_t parent)
{
	const struct segment *seg = &j->thread->segments.items[s];
	const struct row_list *beneath = &j->beneath[s];
	size_t bases = seg->end_base - seg->first_base;
	uint64_t end_ns = seg->end_ns;

	for (size_t i = 0; i < bases + beneath->rows.count; i++) {
		uint32_t row = i < bases ? j->thread->bases.items[seg->first_base + i]
					 : beneath->rows.items[i - bases];
		struct call *c = &j->thread->calls.items[row];

		if (c->parent != CALL_NONE || row == parent || c->flags & CALL_HIDDEN)
			continue;
		c->parent = parent;
		if (c->end_ns > end_ns)
			end_ns = c->end_ns;
	}
	return end_ns;
}

/* The outermost row that is known around a row. */
static uint32_t joiner_outermost(const struct joiner *j, uint32_t row)
{
	for (uint32_t parent = row; parent != CALL_NONE;
	     parent = joiner_row(j, j->thread->calls.items[row].parent))
		row = parent;
	return row;
}

/* The earliest segment that an outermost row of segment s, or what goes on in it, belongs to: a
 * frame that is found beneath them all has been there since then. */
static uint32_t joiner_oldest_home(const struct joiner *j, uint32_t s)
{
	for (uint32_t home = s;; s = home) {
		const struct segment *seg = &j->thread->segments.items[s];
		uint32_t parent = CALL_NONE;

		for (uint32_t i = seg->first_base; i < seg->end_base; i++) {
			uint32_t row = joiner_row(j, j->thread->bases.items[i]);

			if (row == CALL_NONE || (parent != CALL_NONE &&
						 j->thread->calls.items[row].parent == parent))
				continue; /* beneath it is what is beneath the one before */
			parent = j->thread->calls.items[row].parent;
			uint32_t of_row = joiner_home(j, joiner_outermost(j, row));
			if (of_row < home)
				home = of_row;
		}
		if (home == s)
			return home;
	}
}

/* Level i, that an exception has passed, runs the function that A's frame there did, if that calls
 * the next one further in. */
static void joiner_name_like(struct joiner *j, long i, long at)
{
	uint32_t row = j->known.levels.items[i - 1].row;
	uint32_t inner = i > 1 ? j->known.levels.items[i - 2].func : j->known.first_func;
	const struct chain_frame *x = &j->known.chain.items[at];

	if (x->func && callers_has(&j->callers, inner, x->func))
		joiner_name(&j->thread->calls.items[row], j->thread->calls.items[x->row].what,
			    false);
}

/* Carries out the join of segment s as `a` says on the chain in j->known.chain. */
static bool joiner_apply(struct joiner *j, size_t s, const struct alignment *a)
{
	struct thread *t = j->thread;
	struct segment *seg = &t->segments.items[s];
	struct join *join = &t->joins.items[seg->join];
	long top = (long)j->known.chain.count - 1, outermost = (long)j->known.levels.count;
	uint32_t home = joiner_home(j, j->known.chain.items[top].row);
	uint32_t kept = CALL_NONE, outer = CALL_NONE;
	unsigned marks = CALL_STITCHED | (a->candidates > 1 ? CALL_AMBIGUOUS : 0);
	bool going_on = true, inlined = false, ok = true;

	/* Frames further out than any level of B: nothing contradicts them, they stay open. */
	long open = a->depth - outermost < top + 1 ? a->depth - outermost : top + 1;
	if (open > 0)
		kept = j->known.chain.items[top - (open - 1)].row;
	uint64_t open_until_ns = joiner_base(j, s, kept);
	for (long k = 0; k < open; k++) {
		struct call *x = &t->calls.items[j->known.chain.items[top - k].row];

		x->end_ns = open_until_ns;
		x->flags |= (uint16_t)(marks | CALL_END_INFERRED);
		join->kept++;
	}
	if (a->depth < outermost) { /* L(K+1) and those beyond lie beneath A */
		uint32_t last = home;

		kept = j->known.levels.items[a->depth].row;
		home = joiner_oldest_home(j, home);
		for (uint32_t i = home; i <= last; i++)
			joiner_base(j, i, kept);
		for (long i = a->depth; ok && i < outermost; i++)
			ok = joiner_hoist(j, j->known.levels.items[i].row, home);
	}
	for (long i = a->depth < outermost ? a->depth : outermost; i >= 0; i--) {
		uint32_t l = i ? j->known.levels.items[i - 1].row : segment_first_row(t, seg);
		long k = a->depth - i;

		if (l == CALL_NONE)
			continue;
		going_on = going_on && k <= top && i >= a->innermost &&
			   joiner_continues(j, i, l, top - k, join);
		if (!going_on) {
			if (inlined)
				joiner_move_into_inlined(j, s, outer, kept);
			inlined = false;
			if (call_is_unknown(&t->calls.items[l]) && k <= top)
				joiner_name_like(j, i, top - k);
			join->inferred += i > 0 && !call_is_unknown(&t->calls.items[l]);
			continue;
		}
		uint32_t x = j->known.chain.items[top - k].row;

		joiner_merge(j, l, x);
		t->calls.items[x].flags |= (uint16_t)marks;
		kept = call_is_unknown(&t->calls.items[l]) ? x
							   : joiner_merge_inlined(j, l, top - k);
		outer = l;
		inlined = kept != x;
		join->kept++;
	}
	if (seg->bracket != CALL_NONE)
		t->calls.items[seg->bracket].parent = kept;
	j->kept = kept;
	join->evidence = (uint8_t)a->evidence;
	join->agreeing = a->agreeing;
	join->candidates = a->candidates;
	join->ambiguous = a->candidates > 1;
	return ok;
}

static bool joiner_is_open(const struct joiner *j, size_t s)
{
	const struct segment *seg = &j->thread->segments.items[s];

	return seg->join != CALL_NONE && !seg->barrier &&
	       j->thread->joins.items[seg->join].evidence == JOIN_NONE;
}

/* Leaves out the innermost frames of the chain. */
static void joiner_skip(struct joiner *j, size_t count)
{
	if (count == 0 || j->known.chain.count == 0)
		return;
	if (count > j->known.chain.count)
		count = j->known.chain.count;
	j->top = joiner_row(j, j->thread->calls.items[j->known.chain.items[count - 1].row].parent);
	j->known.chain.count -= count;
	memmove(j->known.chain.items, j->known.chain.items + count,
		j->known.chain.count * sizeof *j->known.chain.items);
}

/* Joins segment s to segment `from` if something ties them, for `certain` only by return
 * addresses that allow one depth; *joined = whether it did. */
static bool joiner_try(struct joiner *j, size_t s, size_t from, bool certain, bool *joined)
{
	const struct segment *segments = j->thread->segments.items;
	const struct join *join = &j->thread->joins.items[segments[s].join];
	struct alignment a;

	*joined = false;
	if (!joiner_chain(j, segments[from].top_call) || !joiner_levels(j, s))
		return false;
	if (from + 1 == s)
		joiner_skip(j, join->unwound);
	if (!aligner_find(&j->known, join, &a))
		return false;
	*joined =
		certain ? a.evidence == JOIN_RETURNS && a.candidates == 1 : a.evidence != JOIN_NONE;
	return !*joined || joiner_apply(j, s, &a);
}

/* Segments between `from` and s that are tied to nothing sat on top of what both sides share. */
static void joiner_settle_between(struct joiner *j, size_t from, size_t s)
{
	struct thread *t = j->thread;
	uint32_t kept = j->kept;

	for (size_t i = from + 1; i < s; i++) {
		struct segment *between = &t->segments.items[i];

		if (!joiner_is_open(j, i))
			continue;
		joiner_base(j, i, kept);
		if (between->bracket != CALL_NONE)
			t->calls.items[between->bracket].parent = kept;
		t->joins.items[between->join].evidence = JOIN_CONTEXT;
		t->joins.items[between->join].ambiguous = 1;
	}
}

/* The segment in which the stack in j->known.chain begins. */
static size_t joiner_chain_home(const struct joiner *j, size_t from)
{
	return j->known.chain.count
		       ? joiner_home(j, j->known.chain.items[j->known.chain.count - 1].row)
		       : from;
}

static bool joiner_look_back(struct joiner *j, size_t s)
{
	bool joined = false;
	size_t from = s - 1;

	for (unsigned tries = 0; tries < LOOK_BACK; tries++) {
		if (!joiner_try(j, s, from, false, &joined))
			return false;
		size_t home = joiner_chain_home(j, from);
		if (joined) {
			joiner_settle_between(j, from, s);
			/* What was found beneath that stack may tie its first segment further back.
			 */
			return home == 0 || !joiner_is_open(j, home) || joiner_look_back(j, home);
		}
		/* Further back only past stacks that are tied to nothing themselves. */
		if (home == 0 || home > from || !joiner_is_open(j, home))
			return true;
		from = home - 1;
	}
	return true;
}

/* ---- the final order ---- */

struct home_root {
	uint32_t home, order, row;
};

static int home_root_order(const void *a, const void *b)
{
	const struct home_root *x = a, *y = b;

	if (x->home != y->home)
		return x->home < y->home ? -1 : 1;
	return x->order > y->order ? -1 : x->order < y->order; /* found last = outermost */
}

static bool joiner_final_roots(struct joiner *j)
{
	struct thread *t = j->thread;
	size_t count = t->roots.count;
	struct home_root *sorted = malloc((count ? count : 1) * sizeof *sorted);

	if (!sorted)
		return false;
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct home_root){j->home.items[i], (uint32_t)i, t->roots.items[i]};
	qsort(sorted, count, sizeof *sorted, home_root_order);
	size_t at = 0;
	for (size_t s = 0; s < t->segments.count; s++) {
		t->segments.items[s].first_root = (uint32_t)at;
		for (; at < count && sorted[at].home == s; at++)
			t->roots.items[at] = sorted[at].row;
		t->segments.items[s].end_root = (uint32_t)at;
	}
	free(sorted);
	for (size_t i = 0; i < t->calls.count; i++)
		t->calls.items[i].parent = joiner_row(j, t->calls.items[i].parent);
	return true;
}

/* A frame that goes on was called in inlined frames that go on, too. */
static void joiner_extend_inlined(struct thread *t)
{
	struct call *calls = t->calls.items;

	for (size_t i = t->calls.count; i-- > 0;) { /* children come after their parents */
		uint32_t parent = calls[i].parent;

		if (calls[i].flags & CALL_HIDDEN || parent == CALL_NONE ||
		    calls[parent].kind != CALL_INLINED || calls[parent].end_ns >= calls[i].end_ns)
			continue;
		calls[parent].end_ns = calls[i].end_ns;
		calls[parent].flags |= CALL_STITCHED;
	}
}

static enum err join_thread(struct joiner *j, struct thread *t)
{
	bool ok = true, joined;

	j->thread = t;
	j->home.count = 0;
	j->beneath = calloc(t->segments.count, sizeof *j->beneath);
	ok = j->beneath != NULL &&
	     (t->joins.count == 0 || precedents_init(&j->precedents, t, j->known.graph));
	for (size_t s = 0; ok && s < t->segments.count; s++)
		for (uint32_t i = t->segments.items[s].first_root;
		     ok && i < t->segments.items[s].end_root; i++)
			ok = vec_push(&j->home, (uint32_t)s);
	for (size_t s = 0; ok && s < t->segments.count; s++)
		joiner_name_passed(j, &t->segments.items[s], true);
	for (size_t s = t->segments.count; ok && s-- > 1;)
		if (joiner_is_open(j, s))
			ok = joiner_try(j, s, s - 1, true, &joined);
	for (size_t s = 1; ok && s < t->segments.count; s++)
		if (joiner_is_open(j, s))
			ok = joiner_look_back(j, s);
	for (size_t s = 0; ok && s < t->segments.count; s++)
		joiner_name_passed(j, &t->segments.items[s], false);
	ok = ok && joiner_final_roots(j);
	if (ok && t->joins.count)
		joiner_extend_inlined(t);
	for (size_t s = 0; j->beneath && s < t->segments.count; s++)
		vec_done(&j->beneath[s].rows);
	free(j->beneath);
	j->beneath = NULL;
	precedents_done(&j->precedents);
	return ok ? ERR_NONE : ERR_NOMEM;
}

static bool thread_has_unknown(const struct thread *t)
{
	for (size_t i = 0; i < t->roots.count; i++)
		if (call_is_unknown(&t->calls.items[t->roots.items[i]]))
			return true;
	return false;
}

enum err join_trace(struct trace *trace, struct graph *graph)
{
	struct joiner j = {.known = {.graph = graph, .g = graph_tables(graph)}};
	enum err err = ERR_NONE;
	bool losses = false;

	for (size_t i = 0; i < trace->threads.count; i++)
		losses = losses || trace->threads.items[i].joins.count > 0 ||
			 thread_has_unknown(&trace->threads.items[i]);
	if (losses && (!lifetimes_of_trace(&j.lifetimes, trace, j.known.g) ||
		       !callers_of_trace(&j.callers, trace, j.known.g)))
		err = ERR_NOMEM;
	for (size_t i = 0; i < trace->threads.count && err == ERR_NONE; i++)
		err = join_thread(&j, &trace->threads.items[i]);
	aligner_done(&j.known);
	vec_done(&j.home);
	callers_done(&j.callers);
	lifetimes_done(&j.lifetimes);
	return err;
}
