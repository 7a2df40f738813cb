/* What calls, gaps and threads are called, for every output alike.
 *
 * Texts live as long as the symbolizer and the sideband, or stand in the caller's scratch.
 * Nothing is cached here: writers ask once per function and keep what they made of it. */
#ifndef WRITER_NAMES_H
#define WRITER_NAMES_H

#include <stdint.h>

#include "decode/trace.h"
#include "writer/buffer.h"

enum { NAME_SCRATCH_BYTES = 256 };

/* "main"; code without a function: "[libfoo.so]", or "[unknown]" outside every module. */
const char *name_frame(const struct trace_names *names, node_id node,
		       char scratch[NAME_SCRATCH_BYTES]);
const char *name_inlined(const struct trace_names *names, inline_id frame);
/* "[syscall read]", "[interrupted]", "[lost: overflow]", "[missing code libfoo.so]" ... */
const char *name_bracket(const struct trace_names *names, const struct bracket *bracket,
			 char scratch[NAME_SCRATCH_BYTES]);
/* By kind of call. */
const char *name_call(const struct trace *trace, const struct trace_names *names,
		      const struct call *call, char scratch[NAME_SCRATCH_BYTES]);
/* comm at that time, or "tid N" / "[unknown thread]". */
const char *name_task(const struct trace_names *names, task_id task, uint64_t time_ns,
		      char scratch[NAME_SCRATCH_BYTES]);
/* Appends "thread PID/TID NAME", NAME being the last one in the trace. */
void name_thread_line(const struct trace *trace, const struct trace_names *names,
		      const struct thread *thread, struct buffer *text);
const char *name_module(const struct trace_names *names, module_id module);
/* "found", "not found" ... for an enum module_state. */
const char *name_module_state(uint8_t state);
/* "read" for 0 (x86-64); NULL = no such number. */
const char *name_syscall(int32_t number);

#endif
