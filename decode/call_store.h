/* Call store: the growing array of a thread's calls (thread.calls).
 *
 *     heap  ──4 MB──►  own mapping, huge pages  ──limit──►  unlinked temporary file, mapped
 *
 * Large arrays grow without being copied. Above the trace's spill limit they move into a file
 * in $TMPDIR (/var/tmp), whose pages the kernel writes out when memory is short: what is
 * appended stays cheap, what is read later is read in order. */
#ifndef DECODE_CALL_STORE_H
#define DECODE_CALL_STORE_H

#include "decode/trace.h"

/* Room for `need` calls in all. May move them. False: memory (or the file's disk) is full,
 * the array is as it was. */
bool calls_grow(struct trace *trace, struct thread *thread, size_t need);
static inline bool calls_reserve(struct trace *trace, struct thread *thread, size_t need)
{
	return need <= thread->calls.capacity || calls_grow(trace, thread, need);
}
/* Appends one; false: no room. */
static inline bool calls_add(struct trace *trace, struct thread *thread, struct call call)
{
	if (!calls_reserve(trace, thread, thread->calls.count + 1))
		return false;
	thread->calls.items[thread->calls.count++] = call;
	return true;
}
void calls_done(struct thread *thread);

/* An array that is made once, as large as the calls or a part of that, kept where they are. */
struct spill {
	struct trace *trace;
	void *items; /* zeroed */
	size_t bytes;
	enum calls_place place;
};
/* False: no memory, or no room in the file; `s` is empty then. */
bool spill_new(struct trace *trace, size_t bytes, struct spill *s);
void spill_done(struct spill *s);

#endif
