/* The path to a call: the slices it lies in, as they were drawn. All that one call's events
 * depend on what was written before is here, so blocks of calls can be encoded apart when
 * the path at their start is known. */
#ifndef WRITER_SLICE_PATH_H
#define WRITER_SLICE_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/trace.h"
#include "writer/trace_fxt.h"

enum {
	OPEN_PAIR = 1, /* its end must be written */
	OPEN_ROOT = 2, /* CALL_ROOT, and [0] */
};

struct open_slice {
	uint64_t end_ns; /* as drawn */
	uint32_t call;
	uint32_t flags; /* OPEN_* */
};

struct slice_path {
	uint64_t floor_ns; /* no later event starts before */
	uint32_t depth;    /* slices in `open` without [0], which stands for the thread */
	struct open_slice open[FXT_DEPTH_MAX + 1];
};

static inline const struct open_slice *path_top(const struct slice_path *p)
{
	return &p->open[p->depth];
}

/* Before a thread's first call. */
void path_start(struct slice_path *p, const struct trace *trace);
/* How many slices of the path contain the call that is drawn next. */
uint32_t path_depth_around(const struct slice_path *p, const struct thread *t,
			   const struct call *call);
bool path_equal(const struct slice_path *a, const struct slice_path *b);

#endif
