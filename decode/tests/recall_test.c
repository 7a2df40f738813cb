/* A thread that does the same again and again, with a loss now and then:
 *
 *     main  ├──────────── f ────────────┤        f every 100 ns
 *             ├── g ──┤   ├── h ──┤              g at 10..40, h at 50..90
 *               ├─k─┤       ├─k─┤                k at 20..30, 60..80 */
#include <criterion/criterion.h>
#include <string.h>

#include "decode/recall.h"
#include "decode/tests/fake_code.h"

enum { MAIN = 1, F, G, H, K, ROUNDS = 20, ROUND_NS = 100, LOST_ROUND = 10 };

static struct trace trace;
static struct thread thread;
static struct precedents precedents;
static struct recall recall;
static struct recalled found;
static struct aligner known;
static struct segment behind;
static struct join join;
static uint32_t bottom, round_of_loss;

static void add_round(uint64_t t)
{
	uint32_t f = fake_call(&thread, F, fake_node(MAIN, 0x10), bottom, t + 1, t + 99);
	uint32_t g = fake_call(&thread, G, fake_node(F, 0x10), f, t + 10, t + 40);

	fake_call(&thread, K, fake_node(G, 0x10), g, t + 20, t + 30);
	uint32_t h = fake_call(&thread, H, fake_node(F, 0x20), f, t + 50, t + 90);
	fake_call(&thread, K, fake_node(H, 0x10), h, t + 60, t + 80);
}

static void chain_add(uint32_t row, uint32_t func, node_id wait)
{
	cr_assert(vec_push(&known.chain, ((struct chain_frame){row, func, wait})));
}

/* Lost in the k of g at lost_ns of a round; behind it is a frame of `func`, from at_ns of the round
 * on, that calls nothing and returns to `landed` at end_ns. */
static void lose(uint64_t lost_ns, uint64_t at_ns, uint32_t func, node_id landed, uint64_t end_ns)
{
	uint64_t t = LOST_ROUND * ROUND_NS;
	uint32_t f = fake_call(&thread, F, fake_node(MAIN, 0x10), bottom, t + 1, t + lost_ns);
	uint32_t g = fake_call(&thread, G, fake_node(F, 0x10), f, t + 10, t + lost_ns);
	uint32_t k = fake_call(&thread, K, fake_node(G, 0x10), g, t + 20, t + lost_ns);

	for (uint32_t i = f; i <= k; i++)
		thread.calls.items[i].flags = CALL_END_INFERRED;
	chain_add(k, K, fake_node(G, 0x10 + CALL_BYTES));
	chain_add(g, G, fake_node(F, 0x10 + CALL_BYTES));
	chain_add(f, F, fake_node(MAIN, 0x10 + CALL_BYTES));
	chain_add(bottom, MAIN, 0);
	uint32_t first = fake_call(&thread, func, 0, CALL_NONE, t + at_ns, t + end_ns);
	thread.calls.items[first].flags = CALL_START_INFERRED;
	known.first_func = func;
	known.has_first = true;
	uint32_t level =
		fake_call(&thread, graph.hot[landed].func, 0, CALL_NONE, t + at_ns, t + 99);
	thread.calls.items[level].flags = CALL_ROOT;
	cr_assert(vec_push(
		&known.levels,
		((struct level){.row = level, .func = graph.hot[landed].func, .landed = landed})));
	join = (struct join){.lost_ns = t + lost_ns, .resumed_ns = t + at_ns};
	behind = (struct segment){.first_call = first, .end_call = first + 1};
	round_of_loss = f;
}

static void setup(void)
{
	fake_reset(K);
	thread = (struct thread){0};
	known = (struct aligner){.graph = &graph, .g = graph_tables(&graph)};
	bottom = fake_call(&thread, MAIN, 0, CALL_NONE, 0, ROUNDS * ROUND_NS);
	cr_assert(vec_push(&thread.segments,
			   ((struct segment){.start_ns = 0, .end_ns = ROUNDS * ROUND_NS})));
	for (uint64_t i = 0; i < LOST_ROUND; i++)
		add_round(i * ROUND_NS);
}

static void ask(void)
{
	for (uint64_t i = LOST_ROUND + 1; i < ROUNDS; i++)
		add_round(i * ROUND_NS);
	cr_assert(precedents_init(&precedents, &trace, &thread, &graph));
	cr_assert(recall_init(&recall, &trace, &precedents, &graph));
	recall_find(&recall, &known, &join, &behind, behind.first_call, &found);
}

static void teardown(void)
{
	recall_done(&recall);
	precedents_done(&precedents);
	aligner_done(&known);
	vec_done(&thread.calls);
	vec_done(&thread.segments);
}

TestSuite(recall, .init = setup, .fini = teardown);

/* Depths: main 0, f 1, g 2, k 3. */
Test(recall, the_same_call_goes_on)
{
	lose(25, 28, K, fake_node(G, 0x10 + CALL_BYTES), 30);
	ask();
	cr_expect_gt(found.situations, 0);
	cr_expect_eq(recalled_depth(&found, 3), 1);
	cr_expect_eq(recalled_keeps(&found, 3, 3), 1, "k itself");
}

Test(recall, another_has_taken_its_place)
{
	lose(25, 70, K, fake_node(H, 0x10 + CALL_BYTES), 80);
	ask();
	recalled_drop_open(&found);
	cr_expect_gt(found.situations, 0);
	cr_expect_gt(recalled_depth(&found, 3), 0.5, "as deep as before");
	cr_expect_eq(recalled_keeps(&found, 3, 1), 1, "f went on");
	cr_expect_eq(recalled_keeps(&found, 3, 2), 0, "g did not");
}

Test(recall, the_likest_situation_tells_what_was_called)
{
	lose(25, 70, K, fake_node(H, 0x10 + CALL_BYTES), 80);
	ask();
	recalled_drop_open(&found);
	cr_assert_gt(found.count, 0);
	uint32_t row = recall_level(&recall, &found.votes[0], 1);

	cr_assert_neq(row, CALL_NONE);
	cr_expect_eq(graph.hot[thread.calls.items[row].what].func, H);
	cr_expect_eq(recall_level(&recall, &found.votes[0], 99), CALL_NONE);
	cr_expect_eq(recall_level(&recall, &found.votes[0], -1), CALL_NONE);
}

/* Where the thread had never come to in the same way, only what is beneath tells. */
Test(recall, elsewhere_beneath_the_same_frames)
{
	lose(25, 99, K, fake_node(H, 0x10 + CALL_BYTES), 99);
	join.lost_ns = join.resumed_ns = 0;
	ask();
	cr_expect_eq(found.situations, 0);
	for (size_t i = 0; i < found.count; i++)
		cr_expect(found.votes[i].open);
	recalled_drop_open(&found);
	cr_expect_eq(found.count, 0);
	cr_expect_lt(recalled_keeps(&found, DEPTH_ANY, 0), 0, "nothing tells");
	cr_expect_eq(recalled_depth(&found, 3), 0);
}

Test(recall, nothing_is_like_a_return_never_seen)
{
	lose(25, 70, K, fake_node(K, 0x10 + CALL_BYTES), 80);
	ask();
	cr_expect_eq(found.situations + found.count, 0);
}
