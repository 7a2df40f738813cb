/* Joining segments: which frames of a thread's stack go on across a loss.
 *
 *     A's open frames at the loss:   X0 (outermost) .. Xn, each but X0 waits at a known node
 *     B's levels at the resume:      L0 (innermost, where B starts), L1 .. Lm (frames that B's
 *                                    returns past its bottom landed in)
 *
 * A join is a depth K at which L0 stands, so that L(i) is at the level of X(K-i). The depth is
 * taken at which the most return addresses of the overlap agree, from the root inward (inner
 * frames may all have changed in the gap), without any the most functions; what later segments
 * found beneath B counts too. A level goes on as the same activation when precedents, or the
 * durations seen of its function, make that likelier than a return and a new call in the gap.
 * docs/segments.md has the rules with examples. */
#ifndef DECODE_JOIN_H
#define DECODE_JOIN_H

#include "common/error.h"
#include "decode/trace.h"

/* Joins the segments of all threads and makes the trace's order final (trace.h). */
MUST_CHECK enum err join_trace(struct trace *trace, struct graph *graph);

/* Thousands of losses in deep stacks must not take forever: of each stack only the innermost
 * frames are looked at once so many further out were, in all of a trace. The rest stays open. */
struct join_limits {
	uint64_t frames; /* further out than `near`, in all of a trace */
	uint32_t near;   /* frames that are looked at for each join in any case */
};

/* join_trace with other limits than its own. */
MUST_CHECK enum err join_trace_within(struct trace *trace, struct graph *graph,
				      struct join_limits limits);
/* The node where a call goes on after its return; 0 = unknown. */
node_id join_waits_at(struct graph *graph, struct graph_tables g, const struct call *call);

#endif
