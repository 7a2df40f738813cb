/* See call_order.h. */
#include "writer/call_order.h"

static void call_order_enter(struct call_order *o, size_t segment)
{
	o->segment = segment;
	if (segment < o->thread->segments.count) {
		o->root = o->thread->segments.items[segment].first_root;
		o->call = o->thread->segments.items[segment].first_call;
	}
}

struct call_order call_order_of(const struct thread *thread)
{
	struct call_order o = {.thread = thread};

	call_order_enter(&o, 0);
	return o;
}

uint32_t call_order_next(struct call_order *o)
{
	const struct thread *t = o->thread;

	for (; o->segment < t->segments.count; call_order_enter(o, o->segment + 1)) {
		const struct segment *segment = &t->segments.items[o->segment];

		while (o->root < segment->end_root && o->root < t->roots.count) {
			uint32_t call = t->roots.items[o->root++];

			if (call < t->calls.count && !(t->calls.items[call].flags & CALL_HIDDEN))
				return call;
		}
		while (o->call < segment->end_call && o->call < t->calls.count) {
			uint32_t call = o->call++;

			if (!(t->calls.items[call].flags & (CALL_HIDDEN | CALL_ROOT)))
				return call;
		}
	}
	return CALL_NONE;
}
