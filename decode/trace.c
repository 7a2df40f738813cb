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

void trace_measure(struct trace *t)
{
	t->start_ns = TIME_NONE;
	t->end_ns = t->call_count = 0;
	for (size_t i = 0; i < t->threads.count; i++) {
		const struct thread *thread = &t->threads.items[i];

		for (size_t k = 0; k < thread->calls.count; k++) {
			const struct call *c = &thread->calls.items[k];

			if (c->flags & CALL_HIDDEN)
				continue;
			t->call_count += c->kind == CALL_FRAME;
			if (c->start_ns < t->start_ns)
				t->start_ns = c->start_ns;
			if (c->end_ns > t->end_ns)
				t->end_ns = c->end_ns;
		}
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
