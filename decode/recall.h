/* Recall: when a thread was in the like situation before (or will be), how did it go on?
 *
 *     loss     A: main > f > g        gap        B: h, which calls k, returns into f
 *     before   main > f > g    ── as long ──>    f > h, then calls k, returns into f
 *              └───────┘ of these two frames one went on, g had returned, h was new
 *
 * A situation before is where the thread did what it does first behind the loss, in the same
 * function, and returns as it does there; as long before that, the innermost frames were those
 * of A. Each tells a depth of B and how many of A's frames go on; the more alike in times the
 * more it counts. It sees what return addresses do not tell: how deep a recursion is, with few
 * returns to go by, and which frames are new though they look the same. */
#ifndef DECODE_RECALL_H
#define DECODE_RECALL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "decode/align.h"
#include "decode/precedent.h"

enum { RECALL_VOTES_MAX = 64 };
#define DEPTH_ANY LONG_MIN
static const double RECALL_MOST = 0.5; /* a depth with this share decides */
static const double RECALL_KEEPS =
	0.9; /* to draw two frames as one misleads more than the reverse */

struct recall {
	const struct precedents *precedents;
	struct graph *graph;
	struct graph_tables g;
	uint32_t *order; /* calls by their start, without roots */
	size_t count;
	struct spill order_store;
	uint32_t samples; /* situations looked at for a join */
};

struct recalled {
	struct recall_vote {
		long depth; /* of L0, as in struct alignment */
		long kept;  /* the innermost frame of A that goes on, counted as depths are */
		bool open;  /* only so far as the situation is beneath the same frames: those
			       further in may go on or not */
		double weight;
		/* The situation most like this one: its frames took the place of those of A
		 * that are gone. */
		double likest;
		uint32_t row; /* where L0 is */
		uint64_t time_ns;
	} votes[RECALL_VOTES_MAX];
	size_t count;
	uint32_t situations; /* how many were found */
	uint32_t beneath;    /* how many that were only beneath the same frames */
};

/* False when memory is short. */
bool recall_init(struct recall *r, struct trace *trace, const struct precedents *precedents,
		 struct graph *graph);
void recall_done(struct recall *r);
/* What happened in gaps like that before segment `seg`, whose first row is `first`. */
void recall_find(const struct recall *r, const struct aligner *known, const struct join *join,
		 const struct segment *seg, uint32_t first, struct recalled *found);
/* Leaves out what was only beneath the same frames. */
void recalled_drop_open(struct recalled *found);
/* The row at level i of the likest situation of a vote; CALL_NONE = that is unknown. */
uint32_t recall_level(const struct recall *r, const struct recall_vote *vote, long i);
/* Of what was recalled, the share that says this depth; and of that, what says that A's frame
 * at depth `kept` goes on; DEPTH_ANY = of all that was recalled. < 0: nothing
 * tells. */
double recalled_depth(const struct recalled *found, long depth);
double recalled_keeps(const struct recalled *found, long depth, long kept);

#endif
