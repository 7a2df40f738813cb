/* Ways through the code. A was left in f, called by main:
 *
 *     main            f                    g              h
 *     05 call h       00 jcc 10 ──┐        00 call h      00 jmp i (out)
 *     0a ret          05 call g   │        05 ret
 *     10 call f       0a jmp 14   │                       i
 *     15 jmp 05       10 icall <──┘                       00 ret
 *                     15 ret
 */
#include <criterion/criterion.h>
#include <string.h>

#include "decode/path.h"
#include "decode/tests/fake_code.h"

enum { MAIN = 1, F, G, H, I, J };

static struct callers callers;
static struct trace trace;
static struct paths paths;
static struct aligner known;
static struct path path;

static void setup(void)
{
	fake_reset(J);
	memset(&trace, 0, sizeof trace);
	memset(&callers, 0, sizeof callers);
	fake_branch(NODE_CALL, fake_ip(MAIN, 0x05), fake_ip(H, 0));
	fake_branch(NODE_RETURN, fake_ip(MAIN, 0x0a), 0);
	fake_branch(NODE_CALL, fake_ip(MAIN, 0x10), fake_ip(F, 0));
	fake_branch(NODE_JUMP, fake_ip(MAIN, 0x15), fake_ip(MAIN, 0x05));
	fake_branch(NODE_COND, fake_ip(F, 0x00), fake_ip(F, 0x10));
	fake_branch(NODE_CALL, fake_ip(F, 0x05), fake_ip(G, 0));
	fake_branch(NODE_JUMP, fake_ip(F, 0x0a), fake_ip(F, 0x15));
	fake_branch(NODE_CALL_INDIRECT, fake_ip(F, 0x10), 0);
	fake_branch(NODE_RETURN, fake_ip(F, 0x15), 0);
	fake_branch(NODE_CALL, fake_ip(G, 0x00), fake_ip(H, 0));
	fake_branch(NODE_RETURN, fake_ip(G, 0x05), 0);
	fake_branch(NODE_JUMP, fake_ip(H, 0x00), fake_ip(I, 0));
	fake_branch(NODE_RETURN, fake_ip(I, 0x00), 0);
	fake_branch(NODE_RETURN, fake_ip(J, 0x00), 0);
	known = (struct aligner){.graph = &graph, .g = graph_tables(&graph)};
	cr_assert(vec_push(&known.chain, ((struct chain_frame){1, F, fake_node(MAIN, 0x15)})));
	cr_assert(vec_push(&known.chain, ((struct chain_frame){0, MAIN, 0})));
	paths_init(&paths, &graph, &callers);
	cr_assert(vec_push(&trace.threads, (struct thread){0}));
}

static void teardown(void)
{
	paths_done(&paths);
	callers_done(&callers);
	aligner_done(&known);
	vec_done(&trace.threads.items[0].calls);
	vec_done(&trace.threads);
}

/* From `lost` in f to the begin of `func`. */
static void find(uint64_t lost, uint32_t func)
{
	known.lost_at = fake_node(F, lost);
	known.resumed_at = fake_node(func, 0);
	known.first_func = func;
	cr_assert(paths_find(&paths, &known, &path));
}

static const struct path_frame *frame(uint32_t out)
{
	const struct path_frame *f = &paths.frames.items[path.frame];

	for (; out > 0; out--)
		f = &paths.frames.items[f->outer];
	return f;
}

TestSuite(path, .init = setup, .fini = teardown);

Test(path, into_calls)
{
	find(0x05, G);
	cr_assert_neq(path.frame, PATH_NONE);
	cr_expect_eq(frame(0)->depth, 2);
	cr_expect_eq(frame(0)->site, fake_node(F, 0x05));
	cr_expect_eq(frame(0)->entry, fake_node(G, 0));
	cr_expect_eq(path.kept, 1, "f goes on");
	cr_expect(!path.only, "main may return");
}

Test(path, the_shortest)
{
	find(0x05, H);
	cr_assert_neq(path.frame, PATH_NONE);
	cr_expect_eq(frame(0)->depth, 3, "g calls it before main does");
	cr_expect_eq(frame(1)->func, G);
	cr_expect(!path.only);
	find(0x15, H);
	cr_expect_eq(frame(0)->depth, 1, "f has returned");
	cr_expect_eq(path.kept, 0);
}

/* h becomes i, in whose place it stands. */
Test(path, by_a_jump_out_of_the_function)
{
	find(0x15, I);
	cr_assert_neq(path.frame, PATH_NONE);
	cr_expect_eq(frame(0)->depth, 1);
	cr_expect_eq(frame(0)->site, fake_node(MAIN, 0x05));
	cr_expect_eq(frame(0)->entry, fake_node(I, 0));
}

Test(path, what_b_returns_to_decides)
{
	cr_assert(vec_push(&known.levels,
			   ((struct level){.func = MAIN, .landed = fake_node(MAIN, 0x0a)})));
	find(0x05, H);
	cr_assert_neq(path.frame, PATH_NONE);
	cr_expect_eq(frame(0)->depth, 1);
	known.levels.items[0].landed = fake_node(J, 0);
	find(0x05, H);
	cr_expect_eq(path.frame, PATH_NONE);
	cr_expect_eq(path.kept, -1);
}

/* An indirect call leads to what was seen to be called there. */
Test(path, indirect_calls)
{
	struct call c = {.what = fake_node(J, 0), .site = fake_node(F, 0x10), .kind = CALL_FRAME};

	find(0x10, J);
	cr_expect_eq(path.frame, PATH_NONE);
	cr_assert(vec_push(&trace.threads.items[0].calls, c));
	cr_assert(callers_of_trace(&callers, &trace, graph_tables(&graph)));
	find(0x10, J);
	cr_assert_neq(path.frame, PATH_NONE);
	cr_expect_eq(frame(0)->depth, 2);
	cr_expect(!path.only, "it may have called others");
}

/* Where main cannot return, there is one way. */
Test(path, only)
{
	symbols.branches[1].kind = NODE_JUMP;
	symbols.branches[1].target_ip = fake_ip(MAIN, 0x0a);
	find(0x15, H);
	cr_assert_neq(path.frame, PATH_NONE);
	cr_expect(path.only);
	cr_expect_eq(path.kept, 0);
}

Test(path, nothing_is_searched_from_unknown_places)
{
	find(0x05, G);
	uint64_t visited = paths.visited;

	known.lost_at = fake_node(J, 0); /* not in A's innermost frame */
	cr_assert(paths_find(&paths, &known, &path));
	cr_expect_eq(path.frame, PATH_NONE);
	known.lost_at = 0;
	cr_assert(paths_find(&paths, &known, &path));
	cr_expect_eq(path.frame, PATH_NONE);
	cr_expect_eq(paths.visited, visited);
}

/* A function that calls itself for ever: the search ends. */
Test(path, endless_recursion)
{
	symbols.branches[symbols.branch_count - 1].kind = NODE_CALL;
	symbols.branches[symbols.branch_count - 1].target_ip = fake_ip(J, 0);
	symbols.branches[5].target_ip = fake_ip(J, 0);
	fake_branch(NODE_RETURN, fake_ip(J, 0x05), 0);
	find(0x05, I);
	cr_expect_leq(paths.places.count, 1 << 12);
	cr_expect(!path.only);
}
