/* What the code allows within one frame: from where it stands, to which places and which calls
 * can it come without returning?
 *
 *     f:   call g         <- it waits behind this one
 *          je  ─────┐
 *          call h   │        can come to the call of h, and return; never to that of g again
 *          ret   <──┘
 *
 * Found by walking the code graph from that place, over calls, into landing pads, never out of
 * the function; remembered. Where the code cannot be followed to its end (an indirect jump, code
 * that is missing, or was made or changed at run time, or too much of it), and in a function that
 * is seen to call setjmp, anything is possible: so "no" is a proof. */
#ifndef DECODE_REACH_H
#define DECODE_REACH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/map64.h"
#include "common/vec.h"
#include "decode/graph.h"

struct region {
	uint32_t first, count; /* in nodes */
	bool open;             /* anything is possible */
};

struct reach {
	struct graph *graph;
	struct graph_tables g;
	struct map64 by_place; /* node -> index of its region */
	VEC(struct region) regions;
	VEC(node_id) nodes;
	struct map64 seen;    /* node -> the last region it was found for */
	struct map64 answers; /* question -> no or yes */
	struct map64 setjmps; /* func_id.v -> does it call setjmp? */
};

void reach_init(struct reach *r, struct graph *graph);
void reach_done(struct reach *r);
/* Can a frame that stands at `from` (a node about to take its branch, or what a call returns to)
 * come to the code at `to`? */
bool reach_place(struct reach *r, node_id from, node_id to);
/* ... to the call that returns to `wait`? */
bool reach_call_before(struct reach *r, node_id from, node_id wait);
/* ... to a call that may enter function `func`, be it by jumps out of its callee? */
bool reach_call_of(struct reach *r, node_id from, uint32_t func);
/* ... to a jump out of its function, to one that takes its place? */
bool reach_jump_out(struct reach *r, node_id from);

#endif
