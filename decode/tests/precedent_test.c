/* A thread that calls f again and again; f calls g, then h:
 *
 *     main  ├─────── f ───────┤ ├─────── f ───────┤ ...      every 100 ns
 *            ├─ g ─┤ ├─ h ─┤     ├─ g ─┤ ├─ h ─┤
 *     at    10     40 50    90  110
 */
#include <criterion/criterion.h>
#include <string.h>

#include "decode/precedent.h"
#include "decode/tests/fake_code.h"

enum { MAIN = 1, F, G, H, ROUNDS = 20, ROUND_NS = 100 };

static struct trace trace;
static struct thread thread;
static struct precedents precedents;
static node_id behind_g, behind_h;

static void setup(void)
{
	fake_reset(H);
	uint32_t bottom = fake_call(&thread, MAIN, 0, CALL_NONE, 0, ROUNDS * ROUND_NS);
	for (uint64_t t = 0; t < ROUNDS * ROUND_NS; t += ROUND_NS) {
		uint32_t f = fake_call(&thread, F, fake_node(MAIN, 0x10), bottom, t + 1, t + 99);

		fake_call(&thread, G, fake_node(F, 0x10), f, t + 10, t + 40);
		fake_call(&thread, H, fake_node(F, 0x20), f, t + 50, t + 90);
	}
	behind_g = fake_node(F, 0x10 + CALL_BYTES);
	behind_h = fake_node(F, 0x20 + CALL_BYTES);
	cr_assert(precedents_init(&precedents, &trace, &thread, &graph));
}

static void teardown(void)
{
	precedents_done(&precedents);
	cr_expect_eq(trace.mapped_bytes, 0);
	vec_done(&thread.calls);
}

TestSuite(precedent, .init = setup, .fini = teardown);

/* Lost in g, seen in h a moment later: f goes on. */
Test(precedent, in_the_order_of_the_calls_it_is_one)
{
	struct precedent_case c = {
		.before = behind_g, .after = behind_h, .age_ns = 24, .gap_ns = 40, .rest_ns = 35};
	struct precedent seen = precedents_count(&precedents, &c);

	cr_expect_gt(seen.count, ROUNDS);
	cr_expect_gt(seen.one_ns, 0);
	cr_expect_eq(seen.two_ns, 0);
}

/* Lost in h, seen in g: only another f can be there. */
Test(precedent, in_the_other_order_it_is_two)
{
	struct precedent_case c = {
		.before = behind_h, .after = behind_g, .age_ns = 70, .gap_ns = 50, .rest_ns = 75};
	struct precedent seen = precedents_count(&precedents, &c);

	cr_expect_gt(seen.count, ROUNDS);
	cr_expect_eq(seen.one_ns, 0);
	cr_expect_gt(seen.two_ns, 0);
}

Test(precedent, none_for_calls_never_seen_or_other_ages)
{
	struct precedent_case c = {.before = fake_node(H, 0x10), .after = behind_h, .longer = true};

	cr_expect_eq(precedents_count(&precedents, &c).count, 0);
	c = (struct precedent_case){.before = behind_g, .after = behind_h, .age_ns = 5000};
	cr_expect_eq(precedents_count(&precedents, &c).count, 0);
	c = (struct precedent_case){.after = behind_h};
	cr_expect_eq(precedents_count(&precedents, &c).count, 0);
}

/* A frame that was cut by a loss says nothing. */
Test(precedent, frames_not_seen_whole_do_not_count)
{
	struct precedent_case c = {
		.before = behind_g, .after = behind_h, .age_ns = 24, .gap_ns = 40, .rest_ns = 35};

	for (size_t i = 0; i < thread.calls.count; i++)
		if (graph.hot[thread.calls.items[i].what].func == F)
			thread.calls.items[i].flags |= CALL_END_INFERRED;
	cr_expect_eq(precedents_count(&precedents, &c).count, 0);
}
