/* A hand-built trace and the names in it, in place of a decoder and a symbolizer. */
#ifndef WRITER_TESTS_FAKE_H
#define WRITER_TESTS_FAKE_H

#include "decode/trace.h"

struct fake {
	struct trace trace;
	struct sideband sideband;
	struct trace_names names;
};

/* Only one fake at a time: the symbolizer's functions find it by themselves. */
void fake_init(struct fake *f);
void fake_done(struct fake *f);

module_id fake_module(const char *basename);
/* A function and the node at its start. */
node_id fake_function(const char *name, module_id module, uint64_t ip);
inline_id fake_inlined(const char *name, const char *file, uint32_t line);
task_id fake_task(struct fake *f, int32_t pid, int32_t tid, const char *comm);
/* Pointers into the trace are valid until the next thread. */
struct thread *fake_thread(struct fake *f, task_id task);
/* All calls pushed between two of these form the segment. Roots are noted by CALL_ROOT. */
void fake_segment(struct thread *t, uint64_t start, uint64_t end);
uint32_t fake_call(struct thread *t, uint32_t parent, uint32_t what, uint64_t start, uint64_t end,
		   uint16_t flags);
uint32_t fake_inlined_call(struct thread *t, uint32_t parent, inline_id what, uint64_t start,
			   uint64_t end, uint16_t flags);
uint32_t fake_bracket(struct fake *f, struct thread *t, uint32_t parent, struct bracket bracket,
		      uint64_t start, uint64_t end);

#endif
