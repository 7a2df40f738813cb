/* See trace_promises.h. */
#include "decode/tests/trace_promises.h"

#include <stdlib.h>

struct walk {
	const struct thread *thread;
	uint64_t last_start;
	bool *drawn;
	uint64_t *last_end; /* of each call's last child; the last one is of those without parent */
};

static const char *check_call(struct walk *w, uint32_t row)
{
	const struct call *c = &w->thread->calls.items[row];

	if (c->flags & CALL_HIDDEN)
		return NULL;
	if (c->end_ns == TIME_NONE)
		return "a call has no end";
	if (c->start_ns > c->end_ns)
		return "a call's end is before its start";
	if (c->start_ns < w->last_start)
		return "starts go back";
	w->last_start = c->start_ns;
	if (w->drawn[row])
		return "a call comes twice";
	w->drawn[row] = true;
	uint64_t *last_end =
		&w->last_end[c->parent == CALL_NONE ? w->thread->calls.count : c->parent];
	if (c->start_ns < *last_end)
		return "two calls of one parent overlap";
	*last_end = c->end_ns;
	if (c->parent == CALL_NONE)
		return NULL;
	const struct call *p = &w->thread->calls.items[c->parent];
	if (!w->drawn[c->parent])
		return "a child comes before its parent";
	if (c->start_ns < p->start_ns || c->end_ns > p->end_ns)
		return "a child is not inside its parent";
	return NULL;
}

static const char *check_thread(struct walk *w)
{
	const struct thread *t = w->thread;
	const char *broken = NULL;

	for (size_t i = 0; !broken && i < t->segments.count; i++) {
		const struct segment *seg = &t->segments.items[i];

		for (uint32_t r = seg->first_root; !broken && r < seg->end_root; r++)
			broken = check_call(w, t->roots.items[r]);
		for (uint32_t c = seg->first_call; !broken && c < seg->end_call; c++)
			if (!(t->calls.items[c].flags & CALL_ROOT))
				broken = check_call(w, c);
	}
	return broken;
}

const char *trace_broken_promise(const struct trace *trace)
{
	const char *broken = NULL;

	for (size_t i = 0; !broken && i < trace->threads.count; i++) {
		struct walk w = {.thread = &trace->threads.items[i]};

		w.drawn = calloc(w.thread->calls.count + 1, sizeof *w.drawn);
		w.last_end = calloc(w.thread->calls.count + 1, sizeof *w.last_end);
		broken = w.drawn && w.last_end ? check_thread(&w) : "no memory";
		free(w.drawn);
		free(w.last_end);
	}
	return broken;
}
