/* --dump edges: one line per branch, as `perf script --ns --itrace=be -F tid,time,flags,ip,addr`
 * prints it, so that the two can be compared line by line and other tools read either:
 *
 *     TID SEC.NSEC:   FLAGS  IP => ADDR
 *
 * FLAGS: call, return, jmp, jcc, syscall, sysret, int, iret, hw int, tx abrt, "tr strt",
 * "tr end  call" ... "tr end  async". A gap is a line with "instruction trace error", which
 * says what was lost, where and when; a "tr strt" says where execution is found again, unless
 * that is at a PSB.
 * Buffers of several CPUs or threads are merged by time; a thread's lines are in execution
 * order. Without times the time field is left out, and buffers follow one another. */
#ifndef DECODE_DUMP_EDGES_H
#define DECODE_DUMP_EDGES_H

#include <stdio.h>

#include "decode/flow.h"
#include "decode/select.h"
#include "symbolize/symbolize.h"

enum dump_edges_engine { DUMP_EDGES_FAST, DUMP_EDGES_LIBIPT };

struct dump_edges_options {
	enum dump_edges_engine engine;
	const struct selection *selection; /* by task and time; NULL = all */
	const int32_t *cpus;               /* only these; count 0 = all */
	size_t cpu_count;
};

/* ERR_IO when `out` fails, ERR_NOMEM. stats may be NULL. */
MUST_CHECK enum err dump_edges(const struct sideband *sideband, struct symbolizer *symbolizer,
			       const struct dump_edges_options *options, FILE *out,
			       struct flow_stats *stats, struct error *error);

#endif
