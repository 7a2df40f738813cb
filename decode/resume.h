/* Tracing on and off within a strand: syscalls, interrupts, signals, filters, losses.
 *
 * While tracing is off the stack stands still and the place to go on is remembered. Going on
 * exactly there continues; elsewhere is a signal handler, an rseq abort, an emulated return,
 * an exec ... in this order of questions; only when nothing fits is it a loss. */
#ifndef DECODE_RESUME_H
#define DECODE_RESUME_H

#include "decode/strand.h"

void strand_on_sync(struct strand *s, node_id to);
void strand_on_begin(struct strand *s, node_id to);
void strand_on_end(struct strand *s, node_id from, unsigned cause /* enum flow_end */);
void strand_on_gap(struct strand *s, node_id from, unsigned cause /* enum loss */);
void strand_on_resume(struct strand *s, node_id to);
/* Execution was expected to go on at `expected` but does at `to`. */
void strand_resume_elsewhere(struct strand *s, node_id expected, node_id to);
/* The trace is over: close everything. */
void strand_finish(struct strand *s);

/* In segment.c, for both sides. */
void strand_jump(struct strand *s, node_id from, node_id to);
/* Stack index of the topmost frame that waits for `to`; SIZE_MAX = none. */
size_t strand_waiting_for(const struct strand *s, node_id to);
/* Is the code at this node `mov $15,%eax; syscall`, to which signal handlers return? */
bool strand_is_restorer(struct strand *s, node_id node);

#endif
