/* Segments: flow events -> per thread, lossless stretches of call tree (see strand.h).
 *
 * Rules: docs/segments.md. One weaver takes the events of all buffers; those of one thread
 * must come in execution order. At each loss the thread's segment ends with its frames still
 * open, and a join record says what is known; join.h ties the segments together afterwards. */
#ifndef DECODE_SEGMENT_H
#define DECODE_SEGMENT_H

#include <stddef.h>

#include "common/error.h"
#include "decode/trace.h"
#include "decode/tree.h"

struct weaver;

MUST_CHECK enum err weaver_new(const struct sideband *sideband, struct symbolizer *symbolizer,
			       struct graph *graph, struct trace *trace, struct weaver **result);
void weaver_free(struct weaver *w);

/* Events of one AUX buffer, beginning with the task they belong to. */
MUST_CHECK enum err weaver_events(struct weaver *w, const struct aux_buffer *buffer,
				  const struct stay *stay);
/* Ends all segments: every thread of the trace is complete, not yet joined. */
MUST_CHECK enum err weaver_finish(struct weaver *w);

#endif
