/* What goes into the trace: threads, times, kernel or user, between two functions.
 *
 * Works on the finished trace: rows that are not wanted become CALL_HIDDEN, rows that
 * overlap an edge of the time range are cut there, parents stay right. Threads that are not
 * wanted are dropped. */
#ifndef DECODE_SELECT_H
#define DECODE_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "decode/trace.h"

struct selection {
	const int32_t *pids, *tids;
	size_t pid_count, tid_count;
	const char *const *comms; /* a thread that ever had one of these names */
	size_t comm_count;
	uint64_t from_ns, until_ns; /* half-open, perf clock; 0 and TIME_NONE = all */
	const char *between_start, *between_stop; /* function names; NULL = all */
	bool kernel_only, user_only;
};

/* ERR_NOT_FOUND: a function of `between` does not occur. */
MUST_CHECK enum err select_trace(struct trace *trace, const struct trace_names *names,
				 const struct selection *selection, struct error *error);
/* The same question for a task, before anything is decoded. */
bool select_task(const struct selection *selection, const struct sideband *sideband, task_id task);

#endif
