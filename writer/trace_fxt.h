/* struct trace -> Fuchsia Trace Format, as https://ui.perfetto.dev shows it best.
 *
 * Thread by thread, in order of time: slices (parents first) and instants; at the end instants
 * of threads that were not traced, and CPU frequencies. Times are ns since trace->start_ns; that absolute time is kept
 * as an argument of the first event. How calls become events and what each costs in bytes:
 * docs/fxt.md.
 *
 * Nothing in the trace can make the output unsound: a call that leaves its parent's time is
 * held inside it (counted in `clamped`), nesting beyond FXT_DEPTH_MAX is left out with a
 * mark on the call above (counted in `too_deep`). */
#ifndef WRITER_TRACE_FXT_H
#define WRITER_TRACE_FXT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "decode/trace.h"
#include "writer/output.h"

enum {
	/* Perfetto shows 512 levels; one stays free for instants, which are slices to it. */
	FXT_DEPTH_MAX = 511,
};

enum fxt_args {
	FXT_ARGS_BASIC, /* ip and marks (stitched, inferred, ambiguous, tail, ...) */
	FXT_ARGS_NONE,
	FXT_ARGS_FULL,  /* also symbol, module, line, call site */
};

struct fxt_options {
	enum fxt_args args;
	uint64_t min_duration_ns; /* shorter ones, and all below, are left out; not losses */
	bool traced_threads_only; /* no events of threads that have no calls: they were not asked for */
	bool has_wall_clock;
	uint64_t wall_ns;         /* ns since 1970 at trace->start_ns */
	uint32_t block_calls;     /* encoded at a time; 0 = as many as are good */
};

struct fxt_counts {
	uint64_t calls; /* CALL_FRAME rows, also too short or too deep ones */
	uint64_t slices, zero_length, too_short, too_deep, clamped;
	uint64_t flows, instants, counters;
	uint64_t string_records;  /* more than distinct strings where the table was recycled */
	uint64_t bytes;           /* before compression */
	uint64_t blocks;          /* of slices */
	uint64_t blocks_again;    /* of those, encoded twice: see slice_block.c */
};

MUST_CHECK enum err trace_fxt_write(const struct trace *trace, const struct trace_names *names,
				    const struct fxt_options *options, struct output *output,
				    struct fxt_counts *counts, struct error *error);

#endif
