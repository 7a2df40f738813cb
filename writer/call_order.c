/* See call_order.h. `segment` is the one whose roots come next; its calls follow as a run
 * while `segment` already names the one after. */
#include "writer/call_order.h"

struct call_order call_order_of(const struct thread *thread)
{
	struct call_order o = {.thread = thread};

	if (thread->segments.count)
		o.root = thread->segments.items[0].first_root;
	return o;
}

uint32_t call_order_next_run(struct call_order *o)
{
	const struct thread *t = o->thread;

	while (o->segment < t->segments.count) {
		const struct segment *segment = &t->segments.items[o->segment];

		while (o->root < segment->end_root && o->root < t->roots.count) {
			uint32_t call = t->roots.items[o->root++];

			if (call < t->calls.count && !(t->calls.items[call].flags & CALL_HIDDEN))
				return call;
		}
		o->call = segment->first_call;
		o->end = segment->end_call < t->calls.count ? segment->end_call
							    : (uint32_t)t->calls.count;
		if (++o->segment < t->segments.count)
			o->root = t->segments.items[o->segment].first_root;
		while (o->call < o->end) {
			uint32_t call = o->call++;

			if (!(t->calls.items[call].flags & (CALL_HIDDEN | CALL_ROOT)))
				return call;
		}
	}
	return CALL_NONE;
}
