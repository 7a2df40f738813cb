/* `--dump segments` and `--dump joins`: how the trace is cut and what was made of each cut.
 *
 * segments: one line a lossless stretch (times, calls, roots, edges, how it is tied to the
 * one before). joins: one line a loss (cause, length, where, frames waiting/kept/inferred,
 * the evidence, the outcome), in words a person can follow. */
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
