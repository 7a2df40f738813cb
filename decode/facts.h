/* Facts about code that building call trees asks for again and again: asked once of the
 * symbolizer, under the graph's lock, then known. Each thread has its own. */
#ifndef DECODE_FACTS_H
#define DECODE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/map64.h"
#include "common/vec.h"
#include "decode/graph.h"

enum {
	FUNC_ROLE_UNKNOWN = 0xff,
	INLINE_DEPTH_MAX = 64, /* deeper inline chains are cut at their outer end */
};

struct facts {
	struct graph *graph;
	struct symbolizer *symbolizer;
	struct graph_tables tables;
	uint8_t *roles; /* indexed by func_id.v; FUNC_ROLE_UNKNOWN = not asked yet */
	size_t role_count;
	uint32_t *inline_parents; /* indexed by inline_id.v; the id itself = not asked yet */
	size_t inline_count;
	uint32_t *lines; /* indexed by node_id: start in line_chains; 0 = not asked yet */
	size_t line_count;
	VEC(uint32_t) line_chains; /* per line: count, then the innermost inline_id.v in turn */
	struct map64 drops;        /* node_id -> facts_drops_return() */
	bool out_of_memory;        /* sticky: what was answered since may be wrong */
};

void facts_init(struct facts *f, struct graph *graph, struct symbolizer *symbolizer);
void facts_done(struct facts *f);

enum func_role facts_ask_role(struct facts *f, uint32_t func);
static inline enum func_role facts_role(struct facts *f, uint32_t func)
{
	if (func < f->role_count && f->roles[func] != FUNC_ROLE_UNKNOWN)
		return (enum func_role)f->roles[func];
	return facts_ask_role(f, func);
}

/* PLT stubs and thunks: frames that wait, but are not drawn. */
static inline bool role_is_transparent(enum func_role role)
{
	return role == FUNC_PLT || role == FUNC_INDIRECT_THUNK || role == FUNC_RETURN_THUNK;
}

/* The inlined frames that end in `innermost`, from there outwards; returns how many. */
size_t facts_inline_chain(struct facts *f, uint32_t innermost, uint32_t chain[INLINE_DEPTH_MAX]);

/* The innermost inlined frames that run in turn inside a node with NODE_INLINE_CHANGES;
 * returns how many. Valid until the next question. */
size_t facts_line(struct facts *f, node_id node, const uint32_t **innermost);

/* Does the code at this node, that was called from its own function, drop the return address?
 * It finds out its own address, or jumps over data. */
bool facts_drops_return(struct facts *f, node_id node);

#endif
