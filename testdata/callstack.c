/* See callstack.h.
 *
 * Stacks differ (signal stacks, coroutines), so "below" only means something near by:
 * a frame is alive if its slot is at most NEAR_BYTES above the stack pointer. Nothing
 * alive: near the base, all have ended; else it is a stack never seen before, and the old
 * frames are kept. */
#include "testdata/callstack.h"

#include <string.h>

enum { NEAR_BYTES = 1 << 20 };

static void unwind(struct callstack *s, uint64_t sp)
{
	for (size_t n = s->frames.count; n > 0; n--) {
		uint64_t slot = s->frames.items[n - 1].slot;

		if (slot >= sp && slot - sp < NEAR_BYTES) {
			s->frames.count = n;
			return;
		}
	}
	if (s->base - sp < NEAR_BYTES || sp - s->base < NEAR_BYTES)
		s->frames.count = 0;
}

bool callstack_call(struct callstack *s, uint64_t sp)
{
	return vec_push(&s->frames, ((struct call_frame){.slot = sp - 8}));
}

void callstack_ret(struct callstack *s, uint64_t sp)
{
	unwind(s, sp);
	if (s->frames.count == 0 || vec_last(&s->frames)->slot != sp)
		return;
	if (!vec_last(&s->frames)->signal) /* its frame stays while the restorer runs */
		s->frames.count--;
}

void callstack_jump(struct callstack *s, uint64_t sp)
{
	unwind(s, sp);
}

bool callstack_signal(struct callstack *s, uint64_t sp)
{
	return vec_push(&s->frames, ((struct call_frame){.slot = sp, .signal = true}));
}

void callstack_sigreturn(struct callstack *s)
{
	for (size_t n = s->frames.count; n > 0; n--) {
		if (s->frames.items[n - 1].signal) {
			s->frames.count = n - 1;
			return;
		}
	}
}

bool callstack_copy(struct callstack *to, const struct callstack *from)
{
	if (!vec_reserve(&to->frames, from->frames.count + 1))
		return false;
	if (from->frames.count > 0)
		memcpy(to->frames.items, from->frames.items,
		       from->frames.count * sizeof *from->frames.items);
	to->frames.count = from->frames.count;
	to->base = from->base;
	return true;
}

void callstack_done(struct callstack *s)
{
	vec_done(&s->frames);
}
