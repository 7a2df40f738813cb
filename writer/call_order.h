/* The calls of a thread in the order in which they are drawn (trace.h): per segment its
 * roots, then its calls; what is hidden is left out. */
#ifndef WRITER_CALL_ORDER_H
#define WRITER_CALL_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "decode/trace.h"

struct call_order {
	const struct thread *thread;
	size_t segment;
	uint32_t root;      /* next in the segment's roots */
	uint32_t call, end; /* of the run being walked; empty while there are roots */
};

struct call_order call_order_of(const struct thread *thread);
/* What follows the end of a run: a root, or the next run's first call. */
uint32_t call_order_next_run(struct call_order *o);

/* A call index; CALL_NONE at the end. */
static inline uint32_t call_order_next(struct call_order *o)
{
	const struct call *calls = o->thread->calls.items;

	while (o->call < o->end) {
		uint32_t call = o->call++;

		if (!(calls[call].flags & (CALL_HIDDEN | CALL_ROOT)))
			return call;
	}
	return call_order_next_run(o);
}

/* Takes back the call that was just returned: it comes next again. */
static inline void call_order_undo(struct call_order *o, uint32_t call)
{
	if (o->thread->calls.items[call].flags & CALL_ROOT)
		o->root--;
	else
		o->call--;
}

/* The call that draws this one: itself, or the one it was merged into; CALL_NONE = neither.
 * The earlier call has the smaller index, so chains end. */
static inline uint32_t call_drawn(const struct thread *t, uint32_t call)
{
	while (call < t->calls.count && t->calls.items[call].flags & CALL_HIDDEN) {
		uint32_t merged = t->calls.items[call].site;

		if (merged >= call)
			return CALL_NONE;
		call = merged;
	}
	return call < t->calls.count ? call : CALL_NONE;
}

#endif
