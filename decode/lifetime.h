/* How long the calls of a function last: to tell whether a frame seen before and after a gap
 * is one activation or two.
 *
 * Only calls whose entry and return were both seen count. Durations are binned by powers of
 * two; survival() interpolates inside a bin. */
#ifndef DECODE_LIFETIME_H
#define DECODE_LIFETIME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/map64.h"
#include "common/vec.h"
#include "decode/trace.h"

enum { LIFETIME_BINS = 40 };

struct lifetime {
	uint32_t count;
	uint32_t bins[LIFETIME_BINS]; /* bin b: durations in [2^b, 2^(b+1)) ns, 0 in bin 0 */
};

struct lifetimes {
	struct map64 by_func;
	VEC(struct lifetime) items;
};

/* false when memory is short. */
bool lifetimes_add(struct lifetimes *l, uint32_t func, uint64_t duration_ns);
/* Collects from all calls of a trace. */
bool lifetimes_of_trace(struct lifetimes *l, const struct trace *trace, struct graph_tables g);
/* Is a frame of func that had lasted age_ns at the loss likelier the one that was seen for
 * rest_ns after it than one that ended and a new one? True if nothing is known of func. */
bool lifetimes_continues(const struct lifetimes *l, uint32_t func, uint64_t age_ns, uint64_t gap_ns,
			 uint64_t rest_ns);
/* How likely a frame of func that has lasted age_ns lasts gap_ns more; 1 if nothing is known. */
double lifetimes_survives(const struct lifetimes *l, uint32_t func, uint64_t age_ns,
			  uint64_t gap_ns);
void lifetimes_done(struct lifetimes *l);

#endif
