#include "testdata/loop.h"

#include <criterion/criterion.h>

static void add(struct recording *r, enum rec_kind kind, uint64_t from, uint64_t to, uint32_t depth)
{
	struct rec_event ev = {.kind = (uint8_t)kind, .from = from, .to = to, .depth = depth};

	cr_assert(vec_push(&r->events, ev));
}

/* main calls f in a loop, f calls g n times. */
static void round_of(struct recording *r, int n)
{
	add(r, REC_CALL, 0x100, 0x200, 1);
	for (int i = 0; i < n; i++) {
		add(r, REC_CALL, 0x210, 0x300, 2);
		add(r, REC_RET, 0x310, 0x215, 1);
	}
	add(r, REC_RET, 0x220, 0x105, 0);
	add(r, REC_JCC, 0x110, 0x0f0, 0);
}

Test(loop, the_longest_stretch_in_one_activation)
{
	struct recording r = {0};
	size_t from = 0, to = 0;

	cr_assert(vec_push(&r.threads, ((struct rec_thread){.pid = 1})));
	for (int i = 0; i < 20; i++)
		round_of(&r, 10);
	cr_assert(loop_find(&r, 0, &from, &to));
	cr_expect_eq(from, 0);
	cr_expect_eq(to, 19 * 23u);
	recording_done(&r);
}

Test(loop, equal_calls_in_other_activations_are_no_loop)
{
	struct recording r = {0};
	size_t from = 0, to = 0;

	cr_assert(vec_push(&r.threads, ((struct rec_thread){.pid = 1})));
	for (uint64_t i = 0; i < 50; i++) { /* g is called from f at equal depth, but f ended */
		add(&r, REC_CALL, 0x1000 + 16 * i, 0x200, 1);
		add(&r, REC_CALL, 0x210, 0x300, 2);
		add(&r, REC_RET, 0x310, 0x215, 1);
		add(&r, REC_RET, 0x220, 0x1005 + 16 * i, 0);
	}
	cr_expect_not(loop_find(&r, 0, &from, &to));
	recording_done(&r);
}
