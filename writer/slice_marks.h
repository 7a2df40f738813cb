/* What must be known of a thread's calls before any is drawn, as it depends on calls that
 * come later: which are drawn by begin and end, and where arrows start and end. */
#ifndef WRITER_SLICE_MARKS_H
#define WRITER_SLICE_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "decode/trace.h"
#include "writer/fxt.h"
#include "writer/output.h"
#include "writer/trace_fxt.h"

/* A flow event at a call. */
struct arrow_end {
	uint32_t call;
	uint32_t flow; /* slice_marks.first_flow is 0 */
	uint8_t type;  /* enum fxt_event_type */
	uint8_t kind;  /* enum arrow_kind */
	bool left;     /* of one that comes: one has left the call since */
};

/* By call; those of one call as they were found. */
struct arrow_ends {
	struct arrow_end *items;
	size_t count, capacity;
};

struct slice_marks {
	uint64_t *special; /* bit per call: in `paired`, or has arrows */
	uint64_t *paired;  /* bit per call: must be begin and end */
	struct arrow_ends coming, leaving;
	uint64_t first_flow;
	uint32_t flow_count;
};

/* The first end behind those of a call; quick if it is near `near`. */
size_t arrow_ends_find(const struct arrow_ends *ends, uint32_t call, size_t near);

static inline bool mark_get(const uint64_t *bits, uint32_t call)
{
	return bits[call / 64] >> call % 64 & 1;
}

/* The first marked call in [call, end); `end` = none. */
uint32_t mark_next(const uint64_t *bits, uint32_t call, uint32_t end);

/* Left out because of --min-duration? What is lost is shown at any length. */
bool call_is_loss(const struct trace *trace, const struct call *call);
static inline bool call_is_short(const struct trace *trace, const struct fxt_options *options,
				 const struct call *call)
{
	return call->end_ns - call->start_ns < options->min_duration_ns &&
	       !call_is_loss(trace, call);
}

/* last_flow: the number of flows so far. The output's threads help. */
MUST_CHECK enum err slice_marks_new(const struct trace *trace, const struct thread *thread,
				    const struct fxt_options *options, struct output *output,
				    uint64_t *last_flow, struct slice_marks **result,
				    struct error *error);
void slice_marks_free(struct slice_marks *m);

#endif
