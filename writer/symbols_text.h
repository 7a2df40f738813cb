/* `--dump symbols`: where code and names came from, one line a module and a function that ran.
 *
 *     module libc.so.6: found, build id 51657f8..., file /s/lib/libc.so.6, debug file /s/...
 *       26fc0-27040        3 calls  __libc_start_main (symbol) csu/libc-start.c:242
 *     module libx.so: not found, build id 12ab...
 *       advice: libx.so build-id 12ab...: not found; put it under --symfs, ...
 *
 * Columns of a function: range of addresses in the file, calls drawn, name, role if it has
 * one, source (symbol, unwind table, neighbours), line of its start. Sorted. */
#ifndef WRITER_SYMBOLS_TEXT_H
#define WRITER_SYMBOLS_TEXT_H

#include "common/error.h"
#include "decode/trace.h"
#include "writer/output.h"

MUST_CHECK enum err symbols_text_write(const struct trace *trace, const struct trace_names *names,
				       struct output *output, struct error *error);

#endif
