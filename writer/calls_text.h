/* `--dump calls`: the call tree as indented text, one line a call, in the order drawn.
 *
 *     thread 4711/4712 server: 4 calls in 1 segment, traced 812 ns, lost 0 ns
 *                0          812  main
 *               10          400    parse (tail)
 *               10           12      skip_blanks (inlined)
 *              410          300    [syscall read]
 *
 * Columns: start (ns since trace->start_ns), duration, name indented by depth, marks. */
#ifndef WRITER_CALLS_TEXT_H
#define WRITER_CALLS_TEXT_H

#include "common/error.h"
#include "decode/trace.h"
#include "writer/output.h"

MUST_CHECK enum err calls_text_write(const struct trace *trace, const struct trace_names *names,
				     struct output *output, struct error *error);

#endif
