/* `--dump segments` and `--dump joins`: how the trace is cut and what was made of each cut.
 *
 *     thread 4711/4712 server: 2 segments, 1 loss
 *       0..10 ns: 12 edges, 3 calls, 2 roots
 *       20..50 ns: 40 edges, 9 calls, 1 root; after overflow of 10 ns, joined by return addresses
 *
 *     thread 4711/4712 server, at 10: overflow, 10 ns without trace, from parse+0x12 to
 *         read_line: joined by return addresses: 2 of 3 waiting frames go on, 3 returns agree
 *
 * All times in ns since trace->start_ns. Each loss stands on one line. */
#ifndef WRITER_SEGMENTS_TEXT_H
#define WRITER_SEGMENTS_TEXT_H

#include "common/error.h"
#include "decode/trace.h"
#include "writer/output.h"

MUST_CHECK enum err segments_text_write(const struct trace *trace, const struct trace_names *names,
					struct output *output, struct error *error);
MUST_CHECK enum err joins_text_write(const struct trace *trace, const struct trace_names *names,
				     struct output *output, struct error *error);

#endif
