/* Tracing on and off within a strand: syscalls, interrupts, signals, filters, losses.
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
void strand_on_end(struct strand *s, node_id from, unsigned cause /* enum flow_end */);
void strand_on_gap(struct strand *s, node_id from, unsigned cause /* enum loss */);
void strand_on_resume(struct strand *s, node_id to, unsigned how /* enum flow_resume */);
/* If the thread, that entered the kernel at left_at, has execed in it: starts a segment at `to`
 * that is joined to nothing. */
bool strand_exec_barrier(struct strand *s, node_id left_at, uint64_t left_ns, node_id to);
/* The stack is deeper than any real one: the edge from -> to starts afresh. */
void strand_give_up(struct strand *s, node_id from, node_id to);
/* Ends the open segment at the loss and starts the next one at `to`. */
void strand_break(struct strand *s, uint64_t lost_ns, node_id lost_at, unsigned cause, node_id to,
		  bool barrier);
/* Execution was expected to go on at `expected` (0: no idea) but does at `to`. */
void strand_resume_elsewhere(struct strand *s, node_id expected, node_id to);
/* Re-entry into a filter, or into known code out of missing code. */
void strand_reenter(struct strand *s, node_id to);
/* If the top frame, which missing code seemed to have called, returns to `to` in a frame beneath
 * that: the missing code had returned before, unseen, and the frame there has made the call. */
bool strand_return_past_missing(struct strand *s, node_id to);
/* The trace is over: close everything. */
void strand_finish(struct strand *s);
/* Does a return to this node mean that the real return follows (uretprobe, rethook)? */
bool strand_is_trampoline(struct strand *s, node_id node);

/* Is the code at this node `mov $15,%eax; syscall`, to which signal handlers return? */
bool strand_is_restorer(struct strand *s, node_id node);

#endif
