/* What joining works on: a thread, one join at a time. For join.c (which segments are tied),
 * expect.c (frames that nobody has seen) and stitch.c (which frames go on). */
#ifndef DECODE_JOINER_H
#define DECODE_JOINER_H

#include "common/error.h"
#include "decode/align.h"
#include "decode/callers.h"
#include "decode/goes_on.h"
#include "decode/join.h"
#include "decode/lifetime.h"
#include "decode/path.h"
#include "decode/precedent.h"
#include "decode/recall.h"
#include "decode/trace.h"

/* What may join two segments. */
enum effort {
	EFFORT_CERTAIN, /* return addresses that allow one depth */
	EFFORT_LIKELY,
	EFFORT_ANY, /* what happened elsewhere beneath the same frames */
};

struct root_home {
	uint32_t segment;
	uint32_t order; /* of the roots of a segment that found last is the outermost */
};

/* The frames from `row` out go on at least until then, though no join has looked at them. */
struct still_open {
	uint64_t until_ns;
	uint32_t row;
	uint16_t marks;
};

struct joiner {
	struct trace *trace;
	struct thread *thread;
	struct join_limits limits; /* what is left of them */
	VEC(struct still_open) still_open;
	struct callers callers;
	struct lifetimes lifetimes;
	struct precedents precedents;
	struct recall recall;
	struct recalled recalled; /* of the join at hand */
	struct goes_on can;       /* likewise */
	struct reach reach;
	struct paths paths;
	struct aligner known; /* A's stack; B's levels: own roots, then those of later segments */
	uint32_t top;         /* A's innermost open row, maybe inlined */
	uint32_t kept;        /* innermost row that goes on across the last join */
	VEC(struct root_home) home; /* of each thread->roots item */
	uint32_t found;             /* roots, and how often one was found to be older */
	struct row_list {
		VEC(uint32_t) rows;
	} * beneath; /* per segment: roots that later segments found, outermost last */
};

/* A frame that an exception has passed, known by nothing but that. */
static inline bool call_is_unknown(const struct call *c)
{
	return c->expected && c->what == 0;
}

static inline uint32_t joiner_row(const struct joiner *j, uint32_t row)
{
	return thread_drawn(j->thread, row);
}

static inline uint32_t joiner_func(const struct joiner *j, uint32_t row)
{
	const struct call *c = &j->thread->calls.items[row];

	return c->kind == CALL_FRAME ? j->known.g.hot[c->what].func : 0;
}

/* L0: the frame in which the segment starts. */
static inline uint32_t segment_first_row(const struct thread *t, const struct segment *seg)
{
	if (seg->first_call >= seg->end_call)
		return CALL_NONE;
	const struct call *c = &t->calls.items[seg->first_call];
	return c->kind == CALL_INLINED || c->flags & CALL_ROOT ? CALL_NONE : seg->first_call;
}

/* ---- stitch.c ---- */

/* Carries out the join of segment s as `a` says on the chain in j->known. */
bool joiner_apply(struct joiner *j, size_t s, const struct alignment *a);
/* Gives all outermost rows of segment s a parent; returns when the last of them ends. */
uint64_t joiner_base(struct joiner *j, size_t s, uint32_t parent);
/* Carries out what all joins left to do further out than their chains. */
void joiner_extend_open(struct joiner *j);
/* The outermost row that is known around a row. */
uint32_t joiner_outermost(const struct joiner *j, uint32_t row);
/* The segment that an outermost row belongs to. */
uint32_t joiner_home(const struct joiner *j, uint32_t row);

/* ---- expect.c ---- */

/* Frames that an exception has passed, in turn from the innermost out to one that is known: they
 * are those that call each other so elsewhere, for `sure` if no others do. */
void joiner_name_passed(struct joiner *j, const struct segment *seg, bool sure);
/* Level i, that an exception has passed, runs the function that A's frame chain[at] did, if that
 * calls the next one further in. */
void joiner_name_like(struct joiner *j, long i, long at);
/* Asks what happened in gaps like this; where return addresses say little, that decides. False
 * when memory is short. */
MUST_CHECK bool joiner_recall(struct joiner *j, size_t s, enum effort effort, struct alignment *a);
/* Where nothing else ties them, what the shortest way through the code leaves, if the gap is short.
 * False when memory is short. */
MUST_CHECK bool joiner_search(struct joiner *j, size_t s, struct alignment *a);
/* Frames of A further out than all that is known of B that hardly last so long are others, of the
 * same functions. False when memory is short. */
MUST_CHECK bool joiner_expect_same(struct joiner *j, size_t s, const struct alignment *a);

#endif
