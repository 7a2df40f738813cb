/* See trace.h. */
#include "decode/trace.h"

#include "decode/call_store.h"

const char *join_evidence_name(enum join_evidence evidence)
{
	switch (evidence) {
	case JOIN_RETURNS: return "return addresses";
	case JOIN_RESUME_POINT: return "resume point";
	case JOIN_PATH: return "path";
	case JOIN_FUNCTION: return "function";
	case JOIN_PRECEDENT: return "precedent";
	case JOIN_CONTEXT: return "context";
	case JOIN_BARRIER: return "barrier";
	case JOIN_NONE: return "none";
	case JOIN_EVIDENCE_COUNT: break;
	}
	return "unknown";
}

uint32_t thread_drawn(const struct thread *t, uint32_t row)
{
	while (row != CALL_NONE && t->calls.items[row].flags & CALL_HIDDEN) {
		const struct call *c = &t->calls.items[row];

		row = c->expected && c->site == CALL_NONE ? c->parent : c->site;
	}
	return row;
}

void thread_done(struct thread *t)
{
	calls_done(t);
	vec_done(&t->segments);
	vec_done(&t->roots);
	vec_done(&t->bases);
	vec_done(&t->joins);
	vec_done(&t->arrows);
}

static bool is_drawn(const struct thread *t, uint32_t row)
{
	return !(t->calls.items[row].flags & CALL_HIDDEN);
}

static uint32_t first_drawn(const struct thread *t)
{
	for (size_t s = 0; s < t->segments.count; s++) {
		const struct segment *seg = &t->segments.items[s];

		for (uint32_t i = seg->first_root; i < seg->end_root; i++)
			if (is_drawn(t, t->roots.items[i]))
				return t->roots.items[i];
		for (uint32_t row = seg->first_call; row < seg->end_call; row++)
			if (is_drawn(t, row) && !(t->calls.items[row].flags & CALL_ROOT))
				return row;
	}
	return CALL_NONE;
}

/* The outermost row around the last one: all others have ended before. */
static uint32_t last_outermost(const struct thread *t)
{
	uint32_t row = (uint32_t)t->calls.count, outermost = CALL_NONE;

	while (row > 0 && !is_drawn(t, row - 1))
		row--;
	for (row = row ? row - 1 : CALL_NONE; row != CALL_NONE;
	     row = thread_drawn(t, t->calls.items[row].parent))
		outermost = row;
	return outermost;
}

void trace_measure(struct trace *t)
{
	t->start_ns = TIME_NONE;
	t->end_ns = 0;
	for (size_t i = 0; i < t->threads.count; i++) {
		const struct thread *thread = &t->threads.items[i];
		const struct call *calls = thread->calls.items;
		uint32_t first = first_drawn(thread), last = last_outermost(thread);

		if (first != CALL_NONE && calls[first].start_ns < t->start_ns)
			t->start_ns = calls[first].start_ns;
		if (last != CALL_NONE && calls[last].end_ns > t->end_ns)
			t->end_ns = calls[last].end_ns;
	}
	if (t->start_ns == TIME_NONE)
		t->start_ns = 0;
}

void trace_done(struct trace *t)
{
	for (size_t i = 0; i < t->threads.count; i++)
		thread_done(&t->threads.items[i]);
	vec_done(&t->threads);
	vec_done(&t->brackets);
	vec_done(&t->frequencies);
	vec_done(&t->marks);
}
