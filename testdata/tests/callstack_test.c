#include "testdata/callstack.h"

#include <criterion/criterion.h>

/* The stack pointer before each instruction; CALL writes to sp - 8. */

Test(callstack, calls_and_returns)
{
	struct callstack s = {0};

	cr_assert(callstack_call(&s, 0x7000));
	cr_assert(callstack_call(&s, 0x6f00));
	cr_assert_eq(s.frames.count, 2);
	callstack_ret(&s, 0x6ef8);
	cr_assert_eq(s.frames.count, 1);
	callstack_ret(&s, 0x6ff8);
	cr_assert_eq(s.frames.count, 0);
	callstack_ret(&s, 0x7100); /* past the bottom */
	cr_assert_eq(s.frames.count, 0);
	callstack_done(&s);
}

Test(callstack, a_return_that_was_pushed_by_hand_pops_nothing)
{
	struct callstack s = {0};

	cr_assert(callstack_call(&s, 0x7000));
	callstack_ret(&s, 0x6ff0); /* push; ret */
	cr_assert_eq(s.frames.count, 1);
	callstack_done(&s);
}

Test(callstack, longjmp_drops_what_lies_below)
{
	struct callstack s = {0};

	for (uint64_t sp = 0x7000; sp > 0x6000; sp -= 0x100)
		cr_assert(callstack_call(&s, sp));
	cr_assert_eq(s.frames.count, 16);
	callstack_jump(&s, 0x6df0); /* slots 6ff8, 6ef8, 6df8 are at or above it */
	cr_assert_eq(s.frames.count, 3);
	callstack_done(&s);
}

Test(callstack, handlers_on_their_own_stack)
{
	struct callstack s = {0};

	cr_assert(callstack_call(&s, 0x7fff00000000));
	cr_assert(callstack_call(&s, 0x7ffeffffff00));
	cr_assert(callstack_signal(&s, 0x550000001000));
	cr_assert(callstack_call(&s, 0x550000000f00));
	cr_assert_eq(s.frames.count, 4);
	callstack_ret(&s, 0x550000000ef8);
	cr_assert_eq(s.frames.count, 3);
	callstack_ret(&s, 0x550000001000); /* from the handler to the restorer */
	cr_assert_eq(s.frames.count, 3);
	callstack_sigreturn(&s);
	cr_assert_eq(s.frames.count, 2);
	/* and left by siglongjmp to the first frame */
	cr_assert(callstack_signal(&s, 0x550000001000));
	cr_assert(callstack_call(&s, 0x550000000f00));
	callstack_jump(&s, 0x7ffefffffff8);
	cr_assert_eq(s.frames.count, 1);
	callstack_done(&s);
}

Test(callstack, an_unknown_stack_keeps_the_old_frames)
{
	struct callstack s = {0};

	cr_assert(callstack_call(&s, 0x7fff00000000));
	callstack_jump(&s, 0x550000001000); /* swapcontext to a fresh stack */
	cr_assert(callstack_call(&s, 0x550000000f00));
	cr_assert_eq(s.frames.count, 2);
	callstack_done(&s);
}

Test(callstack, back_where_recording_began)
{
	struct callstack s = {.base = 0x7fff00000008};

	cr_assert(callstack_call(&s, 0x7fff00000000));
	callstack_jump(&s, 0x7fff00000000); /* an exception caught in the first function */
	cr_assert_eq(s.frames.count, 0);
	callstack_done(&s);
}
