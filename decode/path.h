/* The shortest way through the code from where A was left to where B starts.
 *
 *     A: main > f, left here        f:  jcc ─> call g         g:  call h      h:  B starts here
 *     B: L0 = h, all else unknown       ret
 *
 * Searched breadth first, by branches: over calls and into them, and out of A's frames by their
 * returns; an indirect call leads to what was seen to be called there. At the end of it the stack
 * has those of A's frames that the way has not left, and those that it has entered: main, f, g, h.
 * It says what is possible, and in few branches; not what is likely. */
#ifndef DECODE_PATH_H
#define DECODE_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/map64.h"
#include "common/vec.h"
#include "decode/align.h"
#include "decode/callers.h"

#define PATH_NONE UINT32_MAX

/* A's innermost frames, outermost first, then those that were entered. */
struct path_frame {
	uint32_t outer; /* index; PATH_NONE = unknown */
	uint32_t func;
	long depth;   /* as in struct alignment */
	node_id wait; /* where it returns to */
	node_id site; /* where it was called, and begins, if it was entered */
	node_id entry;
	bool of_a; /* or in the place of one of those: its return is followed */
};

struct path_place {
	node_id node;
	uint32_t frame;
};

struct paths {
	struct graph *graph;
	struct graph_tables g;
	const struct callers *callers;
	VEC(struct path_frame) frames;
	VEC(struct path_place) places; /* by distance */
	struct map64 frame_index, seen;
	bool open;        /* there are other ways, or some that cannot be followed */
	uint64_t visited; /* places, in all searches */
};

struct path {
	uint32_t frame; /* of L0, in paths.frames; PATH_NONE = no way was found */
	long kept; /* depth of the innermost frame of A that was not left; -1 = none was found */
	bool only; /* every way leads to this stack */
};

void paths_init(struct paths *p, struct graph *graph, const struct callers *callers);
void paths_done(struct paths *p);
/* False when memory is short. */
bool paths_find(struct paths *p, const struct aligner *a, struct path *found);

#endif
