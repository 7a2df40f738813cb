/* Which frames can have gone on. d and p call each other, and p calls q; main calls d, twice:
 *
 *     main  10 call d   15 call d   1a ret
 *     d     10 call p   15 ret                p   10 call d   15 call q   1a ret      q   00 ret
 *
 *     A, from the outermost: main > d > p > d > p, left at the end of the last */
#include <criterion/criterion.h>

#include "decode/goes_on.h"
#include "decode/tests/fake_code.h"

enum { MAIN = 1, D, P, Q, TOP = 4 };

static struct aligner known;
static struct reach reach;

static void code(enum node_kind kind, uint32_t func, uint64_t off, uint32_t callee)
{
	fake_branch(kind, fake_ip(func, off), callee ? fake_ip(callee, 0) : 0);
}

static void setup(void)
{
	fake_reset(Q);
	code(NODE_CALL, MAIN, 0x10, D);
	code(NODE_CALL, MAIN, 0x15, D);
	code(NODE_RETURN, MAIN, 0x1a, 0);
	code(NODE_CALL, D, 0x10, P);
	code(NODE_RETURN, D, 0x15, 0);
	code(NODE_CALL, P, 0x10, D);
	code(NODE_CALL, P, 0x15, Q);
	code(NODE_RETURN, P, 0x1a, 0);
	code(NODE_RETURN, Q, 0x00, 0);
	reach_init(&reach, &graph);
	known = (struct aligner){.graph = &graph, .g = graph_tables(&graph), .reach = &reach};
	const struct chain_frame chain[] = {{TOP, P, fake_node(D, 0x15)},
					    {3, D, fake_node(P, 0x15)},
					    {2, P, fake_node(D, 0x15)},
					    {1, D, fake_node(MAIN, 0x15)},
					    {0, MAIN, 0}};
	for (size_t i = 0; i <= TOP; i++)
		cr_assert(vec_push(&known.chain, chain[i]));
	known.lost_at = fake_node(P, 0x1a);
	known.has_first = true;
}

static void teardown(void)
{
	aligner_done(&known);
	reach_done(&reach);
}

static void level(uint32_t func, node_id landed)
{
	cr_assert(vec_push(&known.levels, ((struct level){.func = func, .landed = landed})));
}

static void expect(long depth, long low, long high, long alike)
{
	struct goes_on can = goes_on_at(&known, depth);

	cr_expect(can.low == low && can.high == high && can.alike == alike,
		  "depth %ld: %ld .. %ld of %ld", depth, can.low, can.high, can.alike);
}

TestSuite(goes_on, .init = setup, .fini = teardown);

/* Behind the loss: p, from its begin, returns into d. */
Test(goes_on, a_depth_that_no_frame_allows)
{
	known.first_func = P;
	known.resumed_at = fake_node(P, 0x10);
	level(D, fake_node(D, 0x15));
	expect(4, 0, -1, 4); /* X2 is a p that calls only q, X3 a d that calls nothing more */
	expect(2, 0, 0, 2);  /* main calls another d */
	expect(3, 0, -1, 1); /* there is a d of A */
	cr_expect(goes_on_can(&known, 2, 0));
	cr_expect(!goes_on_can(&known, 2, 1));
	cr_expect(!goes_on_can(&known, 2, 2), "it waits behind that");
	cr_expect(goes_on_can(&known, 4, 1), "further out anything may have been called");
}

/* The last p goes on at its end. */
Test(goes_on, only_all_of_them)
{
	known.first_func = P;
	known.resumed_at = fake_node(P, 0x1a);
	level(D, fake_node(D, 0x15));
	level(P, fake_node(P, 0x15));
	level(D, fake_node(D, 0x15));
	expect(4, 0, 4, 4); /* or main has called another d */
	level(MAIN, fake_node(MAIN, 0x15));
	expect(4, 4, 4, 4); /* not from there, to which it does not come back */
}

Test(goes_on, functions_that_differ)
{
	known.first_func = Q;
	known.resumed_at = fake_node(Q, 0);
	expect(4, 0, -1, 3); /* d, as X3, calls no q */
	expect(3, 2, 2, 2);  /* p does */
}

Test(goes_on, no_claim)
{
	known.first_func = P;
	known.resumed_at = fake_node(P, 0x10);
	expect(TOP + 2, goes_on_anything.low, goes_on_anything.high, goes_on_anything.alike);
	expect(-1, goes_on_anything.low, goes_on_anything.high, goes_on_anything.alike);
	known.lost_at = 0;
	expect(4, 3, 4, 4); /* where the last p stood is not known: it may have jumped to another */
	cr_expect(goes_on_can(&known, 4, -1));
	cr_expect(goes_on_can(&known, 4, TOP + 1));
}
