/* Calls -> FXT events: a run of a thread's calls, in the order in which they are drawn. What
 * they need is made before (slice_marks.h, the refs of trace_slices.h), so that runs can be
 * encoded side by side. */
#ifndef WRITER_SLICE_ENCODE_H
#define WRITER_SLICE_ENCODE_H

#include "writer/call_order.h"
#include "writer/slice_marks.h"
#include "writer/slice_path.h"
#include "writer/trace_slices.h"

struct slice_run {
	const struct thread *thread;
	struct slice_marks *marks;
	struct call_order order; /* before its first call */
	uint32_t calls;
	uint32_t before; /* the call before them; CALL_NONE = it starts the thread */
	bool is_last;    /* it ends the thread */
	uint8_t thread_ref;
	size_t instant, instant_end; /* rows of instants that stand in it */
};

/* Appends the events to `out` and counts them. `path`: before and after. */
void slice_run_encode(const struct slices *s, const struct slice_run *run, struct slice_path *path,
		      struct buffer *out, struct fxt_counts *counts);
/* Guesses the path before a run from its calls' parents. False: too deep to be looked for. The
 * guess is right if the trace is as trace.h says. */
bool slice_run_guess(const struct slices *s, const struct slice_run *run, struct slice_path *path);

#endif
