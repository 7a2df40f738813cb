/* The true depth of a call stack, from where its return addresses lie.
 *
 * A frame is the stack slot that its CALL wrote. Whatever lies below the stack
 * pointer is dead: that settles longjmp, exceptions and handlers that never return
 * without knowing of them. */
#ifndef TESTDATA_CALLSTACK_H
#define TESTDATA_CALLSTACK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"

struct call_frame {
	uint64_t slot;
	bool signal; /* pushed by the kernel for a handler */
};

struct callstack {
	uint64_t base; /* the stack pointer when recording began on this stack; 0 = unknown */
	VEC(struct call_frame) frames;
};

/* sp = the stack pointer when the instruction begins. false when memory is short. */
bool callstack_call(struct callstack *s, uint64_t sp);
void callstack_ret(struct callstack *s, uint64_t sp);
/* An indirect jump: may leave frames behind. */
void callstack_jump(struct callstack *s, uint64_t sp);
bool callstack_signal(struct callstack *s, uint64_t sp);
void callstack_sigreturn(struct callstack *s);
bool callstack_copy(struct callstack *to, const struct callstack *from);
void callstack_done(struct callstack *s);

#endif
