/* Decodes all pieces of all AUX buffers on N threads and hands their events over, in
 * execution order per thread of the traced program, to one consumer.
 *
 *     pieces, by time ──► workers (flow, trees) ──► stays, merged by time ──► consumer
 *
 * A stay is what one CPU does for one task without a switch. Stays of all buffers are merged
 * by their start, so a task that moved between CPUs arrives in its own order. The consumer is
 * called by one thread at a time; the outcome does not depend on the number of threads. */
#ifndef DECODE_SCHEDULE_H
#define DECODE_SCHEDULE_H

#include "common/error.h"
#include "decode/tree.h"

struct schedule_options {
	unsigned jobs;       /* >= 1 */
	unsigned flow_flags; /* FLOW_ALL_BRANCHES */
	bool libipt;         /* the reference engine */
	bool trees;          /* build them of each piece: stay.trees */
	const int32_t *cpus; /* only these; count 0 = all */
	size_t cpu_count;
	uint64_t from_ns, until_ns; /* pieces wholly outside are skipped; 0, TIME_NONE = all */
	/* Called now and then with bytes decoded of all; may be NULL. */
	void (*progress)(void *context, uint64_t done_bytes, uint64_t all_bytes);
	void *progress_context;
};

typedef enum err schedule_consumer(void *context, const struct aux_buffer *buffer,
				   const struct stay *stay);

MUST_CHECK enum err schedule_run(struct graph *graph, const struct sideband *sideband,
				 const struct schedule_options *options, schedule_consumer *consume,
				 void *context, struct flow_stats *stats, struct error *error);

#endif
