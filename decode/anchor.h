/* Anchors: outer frames that never return in the trace, known from elsewhere.
 *
 *     a sample with a call chain     the whole stack at an instant
 *     fork                           the child's stack is a copy of its parent's
 *
 * What a thread's outermost known frame B was called by is drawn beneath it, as roots that
 * last as long as B does. Only where the known part of the stack agrees with the anchor. */
#ifndef DECODE_ANCHOR_H
#define DECODE_ANCHOR_H

#include "common/error.h"
#include "decode/trace.h"

/* To be called on joined threads. */
MUST_CHECK enum err anchor_trace(struct trace *trace, struct graph *graph,
				 const struct sideband *sideband);

#endif
