/* What a frame can come to. The code of f:
 *
 *     00 call g ── pad ───────────┐     30 jmp 40          60 ret
 *     05 jcc 20 ──┐               │     40 jcc h (out)     70 jmp *
 *     0a call h   │  20 jmp 0a    │     45 ret             80 call *
 *     0f ret      └>              └>    50 call q          85 ret
 *                                       55 ret
 *
 * h only returns, q jumps to h, s jumps anywhere. */
#include <criterion/criterion.h>
#include <string.h>

#include "decode/reach.h"
#include "decode/tests/fake_code.h"

enum { F = 1, G, H, Q, S };

static struct reach reach;

static void setup(void)
{
	fake_reset(S);
	fake_branch(NODE_CALL, fake_ip(F, 0x00), fake_ip(G, 0));
	fake_branch(NODE_COND, fake_ip(F, 0x05), fake_ip(F, 0x20));
	fake_branch(NODE_CALL, fake_ip(F, 0x0a), fake_ip(H, 0));
	fake_branch(NODE_RETURN, fake_ip(F, 0x0f), 0);
	fake_branch(NODE_JUMP, fake_ip(F, 0x20), fake_ip(F, 0x0a));
	fake_branch(NODE_JUMP, fake_ip(F, 0x30), fake_ip(F, 0x40));
	fake_branch(NODE_COND, fake_ip(F, 0x40), fake_ip(H, 0));
	fake_branch(NODE_RETURN, fake_ip(F, 0x45), 0);
	fake_branch(NODE_CALL, fake_ip(F, 0x50), fake_ip(Q, 0));
	fake_branch(NODE_RETURN, fake_ip(F, 0x55), 0);
	fake_branch(NODE_RETURN, fake_ip(F, 0x60), 0);
	fake_branch(NODE_JUMP_INDIRECT, fake_ip(F, 0x70), 0);
	fake_branch(NODE_CALL_INDIRECT, fake_ip(F, 0x80), 0);
	fake_branch(NODE_RETURN, fake_ip(F, 0x85), 0);
	fake_branch(NODE_RETURN, fake_ip(H, 0), 0);
	fake_branch(NODE_JUMP, fake_ip(Q, 0), fake_ip(H, 0));
	fake_branch(NODE_JUMP_INDIRECT, fake_ip(S, 0), 0);
	symbols.pads[symbols.pad_count][0] = fake_ip(F, 0x05);
	symbols.pads[symbols.pad_count++][1] = fake_ip(F, 0x50);
	reach_init(&reach, &graph);
}

static void teardown(void)
{
	reach_done(&reach);
}

TestSuite(reach, .init = setup, .fini = teardown);

Test(reach, places)
{
	static const struct {
		uint64_t from, to;
		bool can;
	} rows[] = {
		{0x00, 0x00, true},                       /* it stands there */
		{0x00, 0x0f, true},                       /* over calls */
		{0x05, 0x00, false},                      /* never back */
		{0x05, 0x20, true},                       /* taken */
		{0x20, 0x0f, true},  {0x0f, 0x0a, false}, /* returns */
		{0x30, 0x45, true},  {0x30, 0x0f, false},
		{0x05, 0x50, true},  /* the call before it throws */
		{0x0f, 0x50, false}, /* that before this one does not */
		{0x70, 0x00, true},  /* anywhere */
		{0x90, 0x00, true},  /* code that nothing is known of */
		{0x80, 0x85, true},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		cr_expect_eq(
			reach_place(&reach, fake_node(F, rows[i].from), fake_node(F, rows[i].to)),
			rows[i].can, "%lx to %lx", (unsigned long)rows[i].from,
			(unsigned long)rows[i].to);
}

Test(reach, calls_by_where_they_return_to)
{
	cr_expect(reach_call_before(&reach, fake_node(F, 0x05), fake_node(F, 0x0f)));
	cr_expect(!reach_call_before(&reach, fake_node(F, 0x05), fake_node(F, 0x05)),
		  "not g again");
	cr_expect(!reach_call_before(&reach, fake_node(F, 0x0f), fake_node(F, 0x0f)));
	cr_expect(reach_call_before(&reach, fake_node(F, 0x0f), fake_node(F, 0x60)),
		  "that is behind no call");
}

Test(reach, calls_by_what_they_enter)
{
	static const struct {
		uint64_t from;
		uint32_t func;
		bool can;
	} rows[] = {
		{0x00, G, true},  {0x05, G, false}, {0x0a, H, true}, {0x0a, Q, false}, /* typed */
		{0x0f, H, false},                                    /* no more calls */
		{0x50, H, true},                                     /* q jumps there */
		{0x50, Q, true},  {0x50, S, false}, {0x80, S, true}, /* may call anything */
		{0x0f, 0, true},                                     /* unknown */
	};

	fake_branch(NODE_RETURN, fake_ip(G, 0), 0);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		cr_expect_eq(reach_call_of(&reach, fake_node(F, rows[i].from), rows[i].func),
			     rows[i].can, "%lx calls %u", (unsigned long)rows[i].from,
			     rows[i].func);
}

Test(reach, jumps_out_of_the_function)
{
	cr_expect(reach_jump_out(&reach, fake_node(F, 0x30)));
	cr_expect(!reach_jump_out(&reach, fake_node(F, 0x00)));
	cr_expect(reach_jump_out(&reach, fake_node(F, 0x70)), "perhaps");
}

/* A piece that another function jumps into is no proof of leaving. */
Test(reach, jumps_into_the_midst_of_a_function_may_come_back)
{
	fake_branch(NODE_JUMP, fake_ip(F, 0xa0), fake_ip(H, 0x30));
	cr_expect(reach_place(&reach, fake_node(F, 0xa0), fake_node(F, 0)));
}

/* longjmp() leads back to any place behind it. */
Test(reach, a_function_that_calls_setjmp_proves_nothing)
{
	cr_expect(!reach_place(&reach, fake_node(F, 0x0f), fake_node(F, 0)));
	reach_done(&reach);
	reach_init(&reach, &graph);
	symbols.funcs[H].role = FUNC_SETJMP;
	cr_expect(reach_place(&reach, fake_node(F, 0x0f), fake_node(F, 0)));
	cr_expect(reach_call_before(&reach, fake_node(F, 0x0f), fake_node(F, 0x0f)));
}

/* Generated code may be replaced. */
Test(reach, code_that_changes_proves_nothing)
{
	graph.cold[fake_node(F, 0x60)].is_generated = true;
	cr_expect(reach_place(&reach, fake_node(F, 0x60), fake_node(F, 0)));
}

/* As long a line of code as there are nodes for, and then some. */
Test(reach, too_much_code_proves_nothing)
{
	enum { LONG = 1100 };
	uint64_t ip = fake_ip(S + 1, 0);

	symbols.count = S + 8;
	for (node_id i = 0; i < LONG; i++) {
		node_id n = graph_node(&graph, (space_id){2}, ip + i * CALL_BYTES);

		graph.hot[n].kind = NODE_THROUGH;
	}
	cr_expect(reach_place(&reach, graph_node(&graph, (space_id){2}, ip), fake_node(F, 0)));
}
