/* Trees of closed calls: the part of building call stacks that needs no knowledge of the stack.
 *
 * A call whose return is in the same piece, with nothing unusual between, is the same rows of
 * thread.calls wherever it happens. The thread that decodes a piece makes them; the strand
 * (strand.h) puts whole trees beneath the frame that runs:
 *
 *     events   jmp  step  call call ret call ret ret  call ret  call ...   ret  ret
 *     trees               [------------ tree --------------)
 *     rows                r0   r1       r2            r3
 *
 * Neighbours are one tree. A tree says nothing that its events do not say: the strand may
 * always take the events instead, and gets the same rows in the same order. */
#ifndef DECODE_TREE_H
#define DECODE_TREE_H

#include "decode/flow.h"
#include "decode/trace.h"

enum { TREE_DEPTH_MAX = 4096 }; /* frames, with inlined ones; deeper calls are no trees */

#define TREE_ANY_CHAIN UINT32_MAX /* fits under whatever inlined frames are open */

struct tree {
	uint32_t first_event, end_event; /* in the piece: from a call to the return from the last */
	uint32_t first_row, end_row;     /* in trees.rows */
	uint32_t inlined; /* innermost inlined frame of the caller between the calls (0 = none),
			     which a stack must have to take it; or TREE_ANY_CHAIN */
};

/* Of one piece. A row's parent is an index in `rows`; one outside its tree means the caller.
 * A row with CALL_TAIL has in its place the row of the frame that it replaced. */
struct trees {
	VEC(struct tree) items; /* by events; they do not overlap */
	VEC(struct call) rows;
};

/* Events as they are handed over: those of one stay on a CPU. */
struct stay {
	const struct flow_event *events;
	size_t count;
	const uint64_t *payloads; /* of the piece (flow_payloads) */
	const struct tree *trees; /* those of its events, if trees were asked for */
	size_t tree_count;
	size_t first_event; /* number of events[0] in the piece, as trees count */
	const struct call *rows;
};

struct tree_builder; /* one per thread */

MUST_CHECK enum err tree_builder_new(struct graph *graph, struct tree_builder **result);
void tree_builder_free(struct tree_builder *b);
/* Replaces what is in `trees` by those of the events of a piece. */
MUST_CHECK enum err trees_build(struct tree_builder *b, const struct flow_event *events,
				size_t count, struct trees *trees);
void trees_done(struct trees *trees);

#endif
