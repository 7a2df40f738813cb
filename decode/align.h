/* At which depth of the stack before a loss does the part known behind it stand?
 *
 *     chain     A's open frames, innermost first: Xn .. X0, each but X0 waits at a known node;
 *               if it was cut, X0 has callers, and stays open with them
 *     levels    B's: L1 .. Lm, what its returns past the bottom landed in; L0 is where it starts
 *
 * The depth K puts L0 at the level of X(K); L(i) stands at that of X(K-i). */
#ifndef DECODE_ALIGN_H
#define DECODE_ALIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/graph.h"
#include "decode/reach.h"
#include "decode/trace.h"

struct chain_frame {
	uint32_t row;  /* call index */
	uint32_t func; /* func_id.v; 0 = unknown */
	node_id wait;  /* where its return will go; 0 = unknown */
};

struct level {
	uint32_t row;   /* call index; CALL_NONE = not drawn */
	uint32_t func;  /* func_id.v; 0 = unknown */
	node_id landed; /* node that a return landed on: lies in this level's function; 0 = none */
	node_id pad;    /* landing pad of the exception that ended the frames above; 0 = none */
};

struct aligner {
	struct graph *graph;
	struct graph_tables g;
	VEC(struct chain_frame) chain;
	bool cut; /* A has frames further out than the chain, which stay open */
	VEC(struct level) levels;
	uint32_t first_func; /* of L0; 0 = unknown */
	bool has_first;      /* L0 is drawn */
	node_id lost_at;     /* where the innermost frame of the chain was left; 0 = unknown */
	node_id resumed_at;  /* where L0 starts */
	struct reach *reach;
	uint32_t asked;    /* how often the code was, for the join at hand */
	VEC(node_id) text; /* scratch */
	VEC(uint32_t) z;
};

struct alignment {
	long depth;          /* K, counted from the chain's outermost known frame */
	uint32_t agreeing;   /* return addresses (or functions) that agree */
	uint32_t candidates; /* depths that agree as well */
	uint32_t excluded;   /* depths that agree as well, but that the code does not allow */
	enum join_evidence evidence;
	bool partial;     /* inner returns of the overlap disagree */
	bool not_by_code; /* the code does not allow this one either (goes_on.h) */
	long innermost;   /* levels further in than this are not those of A */
};

/* Finds the depth for which the evidence is best; evidence JOIN_NONE = there is none. False
 * when memory is short. */
bool aligner_find(struct aligner *a, const struct join *join, struct alignment *best);
/* Do the outermost levels that both sides know agree, if there are any? */
bool aligner_allows(struct aligner *a, long depth);
/* Is the outermost frame of a chain that was cut one further out than all levels? */
static inline bool aligner_sees(const struct aligner *a, long depth)
{
	return !a->cut || depth > (long)a->levels.count;
}
/* How far in the levels can be those of A: where a return address in the overlap disagrees,
 * all further in are others. */
long aligner_innermost(const struct aligner *a, long depth);
void aligner_done(struct aligner *a);

#endif
