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
	uint32_t root, call; /* next in the segment */
};

struct call_order call_order_of(const struct thread *thread);
/* A call index; CALL_NONE at the end. */
uint32_t call_order_next(struct call_order *o);

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
