/* Tracing on and off within a strand: syscalls, interrupts, signals; what is lost meanwhile is for
 * break.h, code that is not shown for unseen.h.
 *
 * While tracing is off the stack stands still and the place to go on is remembered. Going on
 * exactly there continues; elsewhere is a signal handler, an rseq abort, an emulated return,
 * an exec ... in this order of questions; only when nothing fits is it a loss. */
#ifndef DECODE_RESUME_H
#define DECODE_RESUME_H

#include "decode/strand.h"

void strand_on_sync(struct strand *s, node_id to);
/* at_begin: tracing began right there (TIP.PGE), rather than being on already (PSB). */
void strand_on_begin(struct strand *s, node_id to, bool at_begin);
/* data: as of FLOW_END. */
void strand_on_end(struct strand *s, node_id from, unsigned cause /* enum flow_end */,
		   uint32_t data);
void strand_on_gap(struct strand *s, node_id from, unsigned cause /* enum loss */);
void strand_on_resume(struct strand *s, node_id to, unsigned how /* enum flow_resume */);
/* Execution was expected to go on at `expected` (0: no idea) but does at `to`. */
void strand_resume_elsewhere(struct strand *s, node_id expected, node_id to);
/* Unwinds to the topmost waiting frame of to's function. False: there is none. */
bool strand_unwind_to_function(struct strand *s, node_id to);
/* The trace is over: close everything. */
void strand_finish(struct strand *s);
/* Is this the page in which the kernel steps over instructions, or catches returns? */
bool strand_is_uprobes(const struct strand *s, node_id node);
/* Does a return to this node mean that the real return follows (uretprobe, rethook)? */
bool strand_is_trampoline(struct strand *s, node_id node);

/* Is the code at this node `mov $15,%eax; syscall`, to which signal handlers return? */
bool strand_is_restorer(struct strand *s, node_id node);

#endif
