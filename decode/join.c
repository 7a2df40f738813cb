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

#include "decode/joiner.h"

enum {
	CHAIN_MAX = 1 << 16,      /* frames of a stack looked at, from the innermost out */
	CHAIN_NEAR = 1 << 8,      /* and when ALL_FRAMES_MAX further out were */
	ALL_FRAMES_MAX = 1 << 22, /* in all of a trace */
	LOOK_BACK = 8,            /* segments that a join may reach over */
};

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

/* `count` frames or levels are looked at. */
static void joiner_charge(struct joiner *j, size_t count)
{
	uint64_t far = count > j->limits.near ? count - j->limits.near : 0;

	j->limits.frames -= far < j->limits.frames ? far : j->limits.frames;
}

/* Physical open rows from `top` outward: all levels and `more` must have their counterparts. */
static bool joiner_chain(struct joiner *j, uint32_t top, size_t more)
{
	size_t limit =
		(j->limits.frames ? CHAIN_MAX : j->limits.near) + 1 + more + j->known.levels.count;

	j->known.chain.count = 0;
	j->known.cut = false;
	j->top = joiner_row(j, top);
	for (uint32_t row = joiner_row(j, top); row != CALL_NONE;
	     row = joiner_row(j, j->thread->calls.items[row].parent)) {
		if (j->thread->calls.items[row].kind == CALL_INLINED)
			continue;
		if (j->known.chain.count == limit) {
			vec_last(&j->known.chain)->wait = 0; /* in a frame that is not seen */
			j->known.cut = true;
			break;
		}
		struct chain_frame frame = {.row = row,
					    .func = joiner_func(j, row),
					    .wait = join_waits_at(j->known.graph, j->known.g,
								  &j->thread->calls.items[row])};
		if (!vec_push(&j->known.chain, frame))
			return false;
	}
	joiner_charge(j, j->known.chain.count);
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
static bool joiner_try(struct joiner *j, size_t s, size_t from, enum effort effort, bool *joined)
{
	const struct segment *segments = j->thread->segments.items;
	const struct join *join = &j->thread->joins.items[segments[s].join];
	struct alignment a;

	*joined = false;
	if (memory_limit_is_passed(j->trace->memory))
		return false;
	/* Levels cannot be cut: those further in would lie beneath what is not looked at. */
	size_t beneath = j->beneath[s].rows.count;
	bool too_far = beneath > j->limits.near && j->limits.frames == 0;
	joiner_charge(j, beneath);
	j->known.levels.count = 0;
	if ((!too_far && !joiner_levels(j, s)) ||
	    !joiner_chain(j, segments[from].top_call, from + 1 == s ? join->unwound : 0))
		return false;
	if (too_far)
		return true;
	if (from + 1 == s)
		joiner_skip(j, join->unwound);
	j->known.lost_at = from + 1 == s && !join->unwound ? join->lost_at : 0;
	j->known.resumed_at = join->resumed_at;
	if (!aligner_find(&j->known, join, &a))
		return false;
	j->recalled.count = 0;
	if (from + 1 == s && !joiner_recall(j, s, effort, &a))
		return false;
	if (from + 1 == s && effort == EFFORT_LIKELY && a.evidence == JOIN_NONE &&
	    !joiner_search(j, s, &a))
		return false;
	*joined = effort == EFFORT_CERTAIN ? a.evidence == JOIN_RETURNS && a.candidates == 1
					   : a.evidence != JOIN_NONE;
	if (*joined && from + 1 == s && !joiner_expect_same(j, s, &a))
		return false;
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

static bool joiner_look_back(struct joiner *j, size_t s, enum effort effort)
{
	bool joined = false;
	size_t from = s - 1;

	for (unsigned tries = 0; tries < LOOK_BACK; tries++) {
		if (!joiner_try(j, s, from, effort, &joined))
			return false;
		size_t home = joiner_chain_home(j, from);
		if (joined) {
			joiner_settle_between(j, from, s);
			/* What was found beneath that stack may tie its first segment further back.
			 */
			return home == 0 || !joiner_is_open(j, home) ||
			       joiner_look_back(j, home, effort);
		}
		/* Further back only past stacks that are tied to nothing themselves. */
		if (home == 0 || home > from || !joiner_is_open(j, home))
			return true;
		from = home - 1;
	}
	return true;
}

/* The first frame of a thread ends with it: it goes on where nothing else is known to. Joins
 * segment s to it if the stack before is known down to there. */
static bool joiner_keep_bottom(struct joiner *j, size_t s)
{
	const struct thread *t = j->thread;
	size_t from = s;

	while (from > 0 && !t->segments.items[from].bottom && !t->segments.items[from].barrier)
		from--;
	if (from == s || !t->segments.items[from].bottom)
		return true;
	if (!joiner_levels(j, s) || !joiner_chain(j, t->segments.items[s - 1].top_call, 0))
		return false;
	j->known.lost_at = j->known.resumed_at = 0;
	if (j->known.chain.count == 0)
		return true;
	uint32_t row = joiner_outermost(j, vec_last(&j->known.chain)->row);
	if (j->known.cut) { /* only that one matters */
		j->known.chain.items[0] =
			(struct chain_frame){.row = row, .func = joiner_func(j, row)};
		j->known.chain.count = 1;
		j->known.cut = false;
	}
	if (t->calls.items[row].flags & (CALL_ROOT | CALL_SWITCHED) || joiner_home(j, row) != from)
		return true;
	long outermost = (long)j->known.levels.count;
	struct alignment a = {.depth = outermost + 1,
			      .innermost = outermost + 1,
			      .candidates = 1,
			      .evidence = JOIN_CONTEXT};
	return joiner_apply(j, s, &a);
}

/* ---- the final order ---- */

struct home_root {
	struct root_home home;
	uint32_t row;
};

static int home_root_order(const void *a, const void *b)
{
	const struct home_root *x = a, *y = b;

	if (x->home.segment != y->home.segment)
		return x->home.segment < y->home.segment ? -1 : 1;
	return x->home.order > y->home.order ? -1 : x->home.order < y->home.order;
}

static bool joiner_final_roots(struct joiner *j)
{
	struct thread *t = j->thread;
	size_t count = t->roots.count;
	struct home_root *sorted = malloc((count ? count : 1) * sizeof *sorted);

	if (!sorted)
		return false;
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct home_root){j->home.items[i], t->roots.items[i]};
	qsort(sorted, count, sizeof *sorted, home_root_order);
	size_t at = 0;
	for (size_t s = 0; s < t->segments.count; s++) {
		t->segments.items[s].first_root = (uint32_t)at;
		for (; at < count && sorted[at].home.segment == s; at++)
			t->roots.items[at] = sorted[at].row;
		t->segments.items[s].end_root = (uint32_t)at;
	}
	free(sorted);
	for (size_t i = 0; t->has_hidden && i < t->calls.count; i++)
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
	j->home.count = j->found = j->still_open.count = 0;
	j->beneath = calloc(t->segments.count, sizeof *j->beneath);
	ok = j->beneath != NULL &&
	     (t->joins.count == 0 ||
	      (precedents_init(&j->precedents, j->trace, t, j->known.graph) &&
	       recall_init(&j->recall, j->trace, &j->precedents, j->known.graph)));
	for (size_t s = 0; ok && s < t->segments.count; s++)
		for (uint32_t i = t->segments.items[s].first_root;
		     ok && i < t->segments.items[s].end_root; i++)
			ok = vec_push(&j->home, ((struct root_home){(uint32_t)s, j->found++}));
	for (size_t s = 0; ok && s < t->segments.count; s++)
		joiner_name_passed(j, &t->segments.items[s], true);
	for (size_t s = t->segments.count; ok && s-- > 1;)
		if (joiner_is_open(j, s))
			ok = joiner_try(j, s, s - 1, EFFORT_CERTAIN, &joined);
	for (size_t s = 1; ok && s < t->segments.count; s++)
		if (joiner_is_open(j, s))
			ok = joiner_look_back(j, s, EFFORT_LIKELY);
	for (size_t s = 1; ok && s < t->segments.count; s++)
		if (joiner_is_open(j, s))
			ok = joiner_look_back(j, s, EFFORT_ANY);
	for (size_t s = 1; ok && s < t->segments.count; s++)
		if (joiner_is_open(j, s))
			ok = joiner_keep_bottom(j, s);
	for (size_t s = 0; ok && s < t->segments.count; s++)
		joiner_name_passed(j, &t->segments.items[s], false);
	joiner_extend_open(j);
	ok = ok && joiner_final_roots(j);
	if (ok && t->joins.count)
		joiner_extend_inlined(t);
	for (size_t s = 0; j->beneath && s < t->segments.count; s++)
		vec_done(&j->beneath[s].rows);
	free(j->beneath);
	j->beneath = NULL;
	recall_done(&j->recall);
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
	return join_trace_within(trace, graph, (struct join_limits){ALL_FRAMES_MAX, CHAIN_NEAR});
}

enum err join_trace_within(struct trace *trace, struct graph *graph, struct join_limits limits)
{
	struct joiner j = {.trace = trace,
			   .limits = limits,
			   .known = {.graph = graph, .g = graph_tables(graph)}};
	enum err err = ERR_NONE;
	bool losses = false;

	reach_init(&j.reach, graph);
	paths_init(&j.paths, graph, &j.callers);
	j.known.reach = &j.reach;
	for (size_t i = 0; i < trace->threads.count; i++)
		losses = losses || trace->threads.items[i].joins.count > 0 ||
			 thread_has_unknown(&trace->threads.items[i]);
	if (losses && (!lifetimes_of_trace(&j.lifetimes, trace, j.known.g) ||
		       !callers_of_trace(&j.callers, trace, j.known.g)))
		err = ERR_NOMEM;
	for (size_t i = 0; i < trace->threads.count && err == ERR_NONE; i++)
		err = join_thread(&j, &trace->threads.items[i]);
	aligner_done(&j.known);
	reach_done(&j.reach);
	paths_done(&j.paths);
	vec_done(&j.home);
	vec_done(&j.still_open);
	callers_done(&j.callers);
	lifetimes_done(&j.lifetimes);
	return err;
}
