/* What happened: `--stats FILE` as JSON, and the summary for the person at the terminal. */
#ifndef WRITER_STATS_H
#define WRITER_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/vec.h"
#include "decode/flow.h"
#include "decode/trace.h"
#include "writer/output.h"
#include "writer/trace_fxt.h"

/* One stage of the pipeline. */
struct stage_stats {
	const char *name;
	double wall_s, cpu_s;  /* cpu of all threads */
	uint64_t peak_bytes;   /* of the process at its end; 0 = not measured */
};

/* Gathered by the pipeline; strings are borrowed. */
struct run_stats {
	const char *const *inputs;
	size_t input_count;
	uint64_t input_bytes;
	struct flow_stats flow; /* summed over all pieces; .bytes = bytes of PT */
	VEC(struct stage_stats) stages;
	const char *output;     /* path; NULL = none */
	uint64_t output_bytes;
	struct fxt_counts fxt;  /* zeroed when no FXT was written */
};

/* Lost thread time in percent of traced plus lost thread time: 0 .. 100 (--max-loss). */
double stats_loss_percent(const struct trace *trace);
MUST_CHECK enum err stats_write_json(const struct run_stats *run, const struct trace *trace,
				     const struct trace_names *names, struct output *output,
				     struct error *error);
/* The summary: a few lines, each ended by a newline, for stderr. */
MUST_CHECK enum err stats_summary(const struct run_stats *run, const struct trace *trace,
				  const struct trace_names *names, struct buffer *text);

#endif
