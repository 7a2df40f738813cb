/* See anchor.h.
 *
 * Questions (which frames are open at this time in this thread?) are sorted and answered in
 * one walk over the thread's rows in drawing order: the last row that began before, and its
 * parents that have not ended. */
#include "decode/anchor.h"

#include <stdlib.h>

#include "decode/call_store.h"
#include "decode/join.h"

#define CALLCHAIN_MARK ((uint64_t)-4095) /* from here on: PERF_CONTEXT_KERNEL, _USER ... */
#define CALLCHAIN_USER ((uint64_t)-512)

enum {
	OUTER_MAX = 256,     /* frames that one anchor may add */
	AGREEING_ENOUGH = 2, /* return addresses, if the innermost frames differ */
};

/* What shall be known at time_ns of a thread's stack. */
struct question {
	uint64_t time_ns;
	task_id task;
	uint32_t sample; /* index in sideband.instants; UINT32_MAX = fork */
	task_id child;
};

struct added_root {
	uint32_t home, order, row;
};

struct anchorer {
	struct trace *trace;
	struct graph *graph;
	struct graph_tables g;
	const struct sideband *sideband;
	VEC(struct question) questions;
	VEC(uint32_t) stack;          /* rows of physical user frames, innermost first */
	VEC(node_id) waits;           /* stack[i]'s pending return; 0 = unknown */
	VEC(struct added_root) added; /* to the thread at hand */
};

static struct thread *anchor_thread(const struct anchorer *a, task_id task)
{
	size_t low = 0, high = a->trace->threads.count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (a->trace->threads.items[mid].task.v < task.v)
			low = mid + 1;
		else
			high = mid;
	}
	return low < a->trace->threads.count && a->trace->threads.items[low].task.v == task.v
		       ? &a->trace->threads.items[low]
		       : NULL;
}

static bool row_is_user(const struct anchorer *a, const struct call *c)
{
	return c->kind == CALL_FRAME && !(a->g.hot[c->what].flags & NODE_KERNEL);
}

/* The frames of `row` and its parents that are open at time_ns. */
static bool anchor_stack(struct anchorer *a, const struct thread *t, uint32_t row, uint64_t time_ns)
{
	a->stack.count = a->waits.count = 0;
	for (; row != CALL_NONE; row = t->calls.items[row].parent) {
		const struct call *c = &t->calls.items[row];

		if (c->end_ns <= time_ns || !row_is_user(a, c))
			continue;
		if (!vec_push(&a->stack, row) ||
		    !vec_push(&a->waits, join_waits_at(a->graph, a->g, c)))
			return false;
	}
	return true;
}

/* Draws `count` frames (nodes, innermost first) beneath the outermost row of a->stack, which
 * lies in segment `home`. */
static bool anchor_add(struct anchorer *a, struct thread *t, uint32_t home, const node_id *nodes,
		       size_t count)
{
	uint32_t base = *vec_last(&a->stack), child = base;
	const struct call *b = &t->calls.items[base];

	/* A row must not begin before its segment; one that began later was called by others. */
	if (b->parent != CALL_NONE || b->start_ns != t->segments.items[home].start_ns)
		return true;
	struct call row = {.start_ns = b->start_ns,
			   .end_ns = b->end_ns,
			   .parent = CALL_NONE,
			   .flags = CALL_ROOT | CALL_START_INFERRED | CALL_END_INFERRED,
			   .kind = CALL_FRAME};
	for (size_t i = 0; i < count; i++) {
		struct added_root root = {home, (uint32_t)a->added.count, (uint32_t)t->calls.count};

		row.what = nodes[i];
		if (!calls_add(a->trace, t, row) || !vec_push(&a->added, root))
			return false;
		t->calls.items[child].parent = root.row;
		child = root.row;
	}
	return true;
}

/* ---- samples ---- */

/* The user part of a call chain. */
static const uint64_t *sample_chain(const struct instant *sample, size_t *count)
{
	size_t first = 0, end;

	for (size_t i = 0; i < sample->callchain_count; i++)
		if (sample->callchain[i] == CALLCHAIN_USER)
			first = i + 1;
	for (end = first; end < sample->callchain_count; end++)
		if (sample->callchain[end] == 0 || sample->callchain[end] >= CALLCHAIN_MARK ||
		    ip_is_kernel(sample->callchain[end]))
			break;
	*count = end - first;
	return sample->callchain + first;
}

/* How many of the stack's pending returns, outermost first, agree if its outermost frame is
 * chain[at]. */
static size_t chain_agreement(const struct anchorer *a, const uint64_t *chain, size_t at)
{
	size_t n = a->stack.count - 1, agree = 0;

	while (agree < n && agree < at && a->waits.items[n - 1 - agree] &&
	       a->g.cold[a->waits.items[n - 1 - agree]].ip == chain[at - agree])
		agree++;
	return agree;
}

/* Index in the chain of the stack's outermost frame; SIZE_MAX = they do not agree. */
static size_t chain_align(const struct anchorer *a, const uint64_t *chain, size_t count,
			  uint32_t leaf_func, uint32_t chain_func)
{
	size_t n = a->stack.count - 1, best = SIZE_MAX, best_agreement = AGREEING_ENOUGH - 1;
	bool alone = false;

	if (n < count && chain_agreement(a, chain, n) == n && leaf_func == chain_func)
		return n;
	for (size_t at = 1; at < count; at++) {
		size_t agreement = chain_agreement(a, chain, at);

		if (agreement > best_agreement) {
			best = at;
			best_agreement = agreement;
			alone = true;
		} else if (agreement == best_agreement) {
			alone = false;
		}
	}
	return alone ? best : SIZE_MAX;
}

static bool anchor_sample(struct anchorer *a, struct thread *t, uint32_t home,
			  const struct instant *sample)
{
	size_t count, outer = 0;
	const uint64_t *chain = sample_chain(sample, &count);
	int32_t pid = a->sideband->tasks.items[t->task.v].pid;
	space_id space = sideband_space_at(a->sideband, pid, sample->time_ns);
	node_id nodes[OUTER_MAX];

	if (count < 2)
		return true;
	node_id leaf = graph_node(a->graph, space, chain[0]);
	uint32_t leaf_func = a->g.hot[t->calls.items[a->stack.items[0]].what].func;
	size_t at = chain_align(a, chain, count, leaf_func, leaf ? a->g.hot[leaf].func : 0);
	if (at == SIZE_MAX)
		return true;
	for (size_t i = at + 1; i < count && outer < OUTER_MAX; i++) {
		node_id node = graph_node(a->graph, space, chain[i]);

		if (!node || a->g.hot[node].func == 0 ||
		    !(a->g.hot[node].flags & NODE_CALL_PRECEDED))
			break; /* the unwinder went astray */
		nodes[outer++] = node;
	}
	return anchor_add(a, t, home, nodes, outer);
}

/* ---- fork ---- */

/* The child's own frames in its first segment, innermost first. */
static bool fork_child_stack(struct anchorer *a, const struct thread *t)
{
	const struct segment *seg = &t->segments.items[0];
	uint32_t row = seg->first_call;

	while (row < seg->end_call && (t->calls.items[row].flags & (CALL_ROOT | CALL_HIDDEN) ||
				       t->calls.items[row].kind == CALL_INLINED))
		row++;
	return row == seg->end_call || anchor_stack(a, t, row, seg->start_ns);
}

static bool anchor_fork(struct anchorer *a, const struct thread *parent, struct thread *child)
{
	node_id nodes[OUTER_MAX];
	uint32_t funcs[OUTER_MAX];
	size_t count = a->stack.count < OUTER_MAX ? a->stack.count : OUTER_MAX;

	for (size_t i = 0; i < count; i++) {
		uint32_t what = parent->calls.items[a->stack.items[i]].what;

		nodes[i] = i && a->waits.items[i - 1] ? a->waits.items[i - 1] : what;
		funcs[i] = a->g.hot[what].func;
	}
	if (!fork_child_stack(a, child))
		return false;
	size_t own = a->stack.count;
	if (own == 0 || own >= count ||
	    a->g.hot[child->segments.items[0].first_node].flags & NODE_INTO_FUNCTION)
		return true;
	for (size_t i = 0; i < own; i++)
		if (funcs[i] == 0 ||
		    funcs[i] != a->g.hot[child->calls.items[a->stack.items[i]].what].func)
			return true;
	return anchor_add(a, child, 0, nodes + own, count - own);
}

/* ---- the walk ---- */

static int question_order(const void *a, const void *b)
{
	const struct question *x = a, *y = b;

	if (x->task.v != y->task.v)
		return x->task.v < y->task.v ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->child.v < y->child.v ? -1 : x->child.v > y->child.v;
}

static bool anchor_questions(struct anchorer *a, bool forks)
{
	const struct sideband *sb = a->sideband;
	bool ok = true;

	a->questions.count = 0;
	for (size_t i = 0; ok && !forks && i < sb->instants.count; i++) {
		const struct instant *in = &sb->instants.items[i];
		struct question q = {in->time_ns, in->task, (uint32_t)i, {0}};

		if (in->callchain_count)
			ok = vec_push(&a->questions, q);
	}
	for (size_t i = 0; ok && forks && i < sb->tasks.count; i++) {
		const struct task *task = &sb->tasks.items[i];
		struct question q = {task->start_ns, task->forked_from, UINT32_MAX, {(uint32_t)i}};

		if (task->is_new_process && task->forked_from.v)
			ok = vec_push(&a->questions, q);
	}
	if (ok && a->questions.count)
		qsort(a->questions.items, a->questions.count, sizeof *a->questions.items,
		      question_order);
	return ok;
}

static int added_order(const void *a, const void *b)
{
	const struct added_root *x = a, *y = b;

	if (x->home != y->home)
		return x->home < y->home ? -1 : 1;
	return x->order > y->order ? -1 : x->order < y->order; /* the outermost was added last */
}

/* Puts what was added in front of the roots of its segment. */
static bool anchor_roots(struct anchorer *a, struct thread *t)
{
	VEC(uint32_t) roots = {0};
	size_t next = 0;

	if (a->added.count == 0)
		return true;
	if (!vec_reserve(&roots, t->roots.count + a->added.count))
		return false;
	qsort(a->added.items, a->added.count, sizeof *a->added.items, added_order);
	for (uint32_t s = 0; s < t->segments.count; s++) {
		struct segment *seg = &t->segments.items[s];
		uint32_t first = (uint32_t)roots.count;

		for (; next < a->added.count && a->added.items[next].home == s; next++)
			roots.items[roots.count++] = a->added.items[next].row;
		for (uint32_t i = seg->first_root; i < seg->end_root; i++)
			roots.items[roots.count++] = t->roots.items[i];
		seg->first_root = first;
		seg->end_root = (uint32_t)roots.count;
	}
	vec_done(&t->roots);
	t->roots.items = roots.items;
	t->roots.count = roots.count;
	t->roots.capacity = roots.capacity;
	a->added.count = 0;
	return true;
}

/* The last row of a thread that began at or before a time, as the walk goes on. */
struct walk {
	struct thread *thread;
	uint32_t segment, next; /* next: index among the segment's roots, then calls */
	uint32_t row, base, base_home;
};

/* The row at walk->next; false = the thread is at its end. Skips what is not drawn. */
static bool walk_peek(struct walk *w, uint32_t *row)
{
	const struct thread *t = w->thread;

	for (; w->segment < t->segments.count; w->segment++, w->next = 0) {
		const struct segment *seg = &t->segments.items[w->segment];
		uint32_t roots = seg->end_root - seg->first_root;

		for (; w->next < roots + (seg->end_call - seg->first_call); w->next++) {
			bool in_roots = w->next < roots;

			*row = in_roots ? t->roots.items[seg->first_root + w->next]
					: seg->first_call + w->next - roots;
			unsigned flags = t->calls.items[*row].flags;
			if (!(flags & CALL_HIDDEN) && (in_roots || !(flags & CALL_ROOT)))
				return true;
		}
	}
	return false;
}

static void walk_to_time(struct walk *w, uint64_t time_ns)
{
	uint32_t row;

	while (walk_peek(w, &row) && w->thread->calls.items[row].start_ns <= time_ns) {
		if (w->thread->calls.items[row].parent == CALL_NONE) {
			w->base = row;
			w->base_home = w->segment;
		}
		w->row = row;
		w->next++;
	}
}

static bool anchor_answer(struct anchorer *a, bool forks)
{
	struct walk w = {0};

	if (!anchor_questions(a, forks))
		return false;
	for (size_t i = 0; i < a->questions.count; i++) {
		const struct question *q = &a->questions.items[i];

		if (i == 0 || a->questions.items[i - 1].task.v != q->task.v) {
			if (w.thread && !anchor_roots(a, w.thread))
				return false;
			w = (struct walk){anchor_thread(a, q->task), 0, 0, CALL_NONE, CALL_NONE, 0};
		}
		if (!w.thread)
			continue;
		walk_to_time(&w, q->time_ns);
		if (!anchor_stack(a, w.thread, w.row, q->time_ns))
			return false;
		if (a->stack.count == 0)
			continue;
		if (q->sample == UINT32_MAX) {
			struct thread *child = anchor_thread(a, q->child);

			if (child && (!anchor_fork(a, w.thread, child) || !anchor_roots(a, child)))
				return false;
		} else if (*vec_last(&a->stack) == w.base &&
			   !anchor_sample(a, w.thread, w.base_home,
					  &a->sideband->instants.items[q->sample])) {
			return false;
		}
	}
	return !w.thread || anchor_roots(a, w.thread);
}

enum err anchor_trace(struct trace *trace, struct graph *graph, const struct sideband *sideband)
{
	struct anchorer a = {
		.trace = trace, .graph = graph, .g = graph_tables(graph), .sideband = sideband};
	bool ok = anchor_answer(&a, false) && anchor_answer(&a, true);

	vec_done(&a.questions);
	vec_done(&a.stack);
	vec_done(&a.waits);
	vec_done(&a.added);
	return ok ? ERR_NONE : ERR_NOMEM;
}
