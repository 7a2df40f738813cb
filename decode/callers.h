/* Who calls a function, by all the calls of a trace that were seen: the nodes that call it, and
 * how often. */
#ifndef DECODE_CALLERS_H
#define DECODE_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/map64.h"
#include "common/vec.h"
#include "decode/trace.h"

#define CALLER_NONE UINT32_MAX

struct caller {
	node_id site; /* ends in the call */
	uint32_t count;
	uint32_t next;        /* of the same callee; CALLER_NONE = last */
	node_id entry;        /* where it was entered; 0 = elsewhere than at its first byte */
	uint32_t next_callee; /* of the same site */
};

struct callers {
	struct graph_tables g;
	struct map64 first; /* func_id.v -> its first caller */
	struct map64 index; /* (func_id.v, site) */
	struct map64 sites; /* site -> its first callee */
	VEC(struct caller) items;
};

/* False when memory is short. */
bool callers_of_trace(struct callers *c, const struct trace *trace, struct graph_tables g);
void callers_done(struct callers *c);
/* Has `caller` called func? */
bool callers_has(const struct callers *c, uint32_t func, uint32_t caller);
/* The function that has called `func` most often, if `outer` has called that; 0 = any has.
 * The node of its call, or 0; *sure = no other is possible. */
node_id callers_expected(const struct callers *c, uint32_t func, uint32_t outer, bool *sure);
/* Where the functions begin that were called at a site, at most max of them; how many. */
size_t callers_callees(const struct callers *c, node_id site, node_id *entries, size_t max);

#endif
