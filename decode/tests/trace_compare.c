/* See trace_compare.h. Items are compared field by field where they have padding. */
#include "decode/tests/trace_compare.h"

#include <string.h>

#define SAME_BYTES(x, y) \
	((x).count == (y).count && \
	 ((x).count == 0 || memcmp((x).items, (y).items, (x).count * sizeof *(x).items) == 0))

_Static_assert(sizeof(struct join) == 64, "no padding");

static bool same_segments(const struct thread *a, const struct thread *b)
{
	if (a->segments.count != b->segments.count)
		return false;
	for (size_t i = 0; i < a->segments.count; i++) {
		const struct segment *x = &a->segments.items[i], *y = &b->segments.items[i];

		if (x->start_ns != y->start_ns || x->end_ns != y->end_ns ||
		    x->first_call != y->first_call || x->end_call != y->end_call ||
		    x->first_root != y->first_root || x->end_root != y->end_root ||
		    x->first_base != y->first_base || x->end_base != y->end_base ||
		    x->top_call != y->top_call || x->bracket != y->bracket ||
		    x->first_node != y->first_node || x->join != y->join ||
		    x->barrier != y->barrier || x->edges != y->edges)
			return false;
	}
	return true;
}

static bool same_arrows(const struct thread *a, const struct thread *b)
{
	if (a->arrows.count != b->arrows.count)
		return false;
	for (size_t i = 0; i < a->arrows.count; i++) {
		const struct arrow *x = &a->arrows.items[i], *y = &b->arrows.items[i];

		if (x->from != y->from || x->to != y->to || x->kind != y->kind)
			return false;
	}
	return true;
}

static const char *thread_difference(const struct thread *a, const struct thread *b)
{
	if (a->task.v != b->task.v)
		return "tasks";
	if (!SAME_BYTES(a->calls, b->calls))
		return "calls";
	if (!same_segments(a, b))
		return "segments";
	if (!SAME_BYTES(a->roots, b->roots) || !SAME_BYTES(a->bases, b->bases))
		return "roots or bases";
	if (!SAME_BYTES(a->joins, b->joins))
		return "joins";
	if (!same_arrows(a, b))
		return "arrows";
	if (a->traced_ns != b->traced_ns || a->lost_ns != b->lost_ns ||
	    a->clamped_times != b->clamped_times ||
	    memcmp(a->losses, b->losses, sizeof a->losses) != 0)
		return "sums";
	return NULL;
}

static bool same_brackets(const struct trace *a, const struct trace *b)
{
	if (a->brackets.count != b->brackets.count)
		return false;
	for (size_t i = 0; i < a->brackets.count; i++) {
		const struct bracket *x = &a->brackets.items[i], *y = &b->brackets.items[i];

		if (x->kind != y->kind || x->cause != y->cause || x->number != y->number ||
		    x->module.v != y->module.v || x->node != y->node ||
		    x->lost_bytes != y->lost_bytes)
			return false;
	}
	return true;
}

const char *trace_difference(const struct trace *a, const struct trace *b)
{
	if (a->threads.count != b->threads.count)
		return "count of threads";
	for (size_t i = 0; i < a->threads.count; i++) {
		const char *what = thread_difference(&a->threads.items[i], &b->threads.items[i]);

		if (what)
			return what;
	}
	if (!same_brackets(a, b))
		return "brackets";
	if (a->marks.count != b->marks.count || a->frequencies.count != b->frequencies.count)
		return "marks";
	return NULL;
}
