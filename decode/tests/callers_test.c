/* Who calls whom, by the calls of a trace:
 *
 *     main  f at 10 (x3), g at 20 (x1)      f  h at 10 (x2)      g  h at 10 (x3), h at 20 (x1) */
#include <criterion/criterion.h>
#include <string.h>

#include "decode/callers.h"
#include "decode/tests/fake_code.h"

enum { MAIN = 1, F, G, H, K };

static struct trace trace;
static struct thread *thread;
static struct callers callers;

static void add_calls(uint32_t func, node_id site, unsigned flags, int count)
{
	struct call c = {.what = fake_node(func, 0),
			 .site = site,
			 .flags = (uint16_t)flags,
			 .kind = CALL_FRAME};

	for (int i = 0; i < count; i++)
		cr_assert(vec_push(&thread->calls, c));
}

static void setup(void)
{
	fake_reset(K);
	memset(&trace, 0, sizeof trace);
	memset(&callers, 0, sizeof callers);
	cr_assert(vec_push(&trace.threads, (struct thread){0}));
	thread = trace.threads.items;
	add_calls(F, fake_node(MAIN, 0x10), 0, 3);
	add_calls(G, fake_node(MAIN, 0x20), 0, 1);
	add_calls(H, fake_node(F, 0x10), 0, 2);
	add_calls(H, fake_node(G, 0x10), 0, 3);
	add_calls(H, fake_node(G, 0x20), 0, 1);
	/* None of these is a call of K: pushed by the kernel, drawn as another row, of unknown
	 * origin. */
	add_calls(K, fake_node(F, 0x10), CALL_SIGNAL, 1);
	add_calls(K, fake_node(F, 0x10), CALL_INTERRUPT, 1);
	add_calls(K, fake_node(F, 0x10), CALL_HIDDEN, 1);
	add_calls(K, 0, 0, 1);
	cr_assert(callers_of_trace(&callers, &trace, graph_tables(&graph)));
}

static void teardown(void)
{
	callers_done(&callers);
	vec_done(&thread->calls);
	vec_done(&trace.threads);
}

TestSuite(callers, .init = setup, .fini = teardown);

Test(callers, who_has_called)
{
	cr_expect(callers_has(&callers, H, F));
	cr_expect(callers_has(&callers, H, G));
	cr_expect(!callers_has(&callers, H, MAIN));
	cr_expect(!callers_has(&callers, MAIN, H));
	cr_expect(!callers_has(&callers, 0, MAIN), "unknown");
}

Test(callers, expected_is_the_most_frequent_call)
{
	static const struct {
		uint32_t func, outer, by;
		uint64_t at;
		bool sure;
	} rows[] = {
		{F, 0, MAIN, 0x10, true},  {H, 0, G, 0x10, false}, /* f might be it */
		{H, MAIN, G, 0x10, false},                         /* main calls both */
		{G, F, 0, 0, true},    /* nothing that f calls calls g */
		{MAIN, 0, 0, 0, true}, /* never called */
		{K, 0, 0, 0, true},    /* never called by code */
		{0, 0, 0, 0, true},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		bool sure;
		node_id site = callers_expected(&callers, rows[i].func, rows[i].outer, &sure);

		cr_expect_eq(site, rows[i].by ? fake_node(rows[i].by, rows[i].at) : 0, "row %zu",
			     i);
		cr_expect_eq(sure, rows[i].sure, "row %zu", i);
	}
}

Test(callers, what_was_called)
{
	node_id entries[2], icall = fake_node(F, 0x20);

	cr_assert_eq(callers_callees(&callers, fake_node(MAIN, 0x10), entries, 2), 1);
	cr_expect_eq(entries[0], fake_node(F, 0));
	cr_expect_eq(callers_callees(&callers, fake_node(MAIN, 0x30), entries, 2), 0);
	add_calls(G, icall, 0, 2);
	add_calls(H, icall, 0, 1);
	add_calls(K, icall, CALL_TAIL, 1); /* jumped to by what was called */
	callers_done(&callers);
	cr_assert(callers_of_trace(&callers, &trace, graph_tables(&graph)));
	cr_assert_eq(callers_callees(&callers, icall, entries, 2), 2);
	cr_expect(entries[0] != entries[1] && entries[0] != fake_node(K, 0) &&
		  entries[1] != fake_node(K, 0));
	cr_expect_eq(callers_callees(&callers, icall, entries, 1), 1,
		     "no more than there is room for");
}

/* However many there are, a bounded number is looked at. */
Test(callers, of_a_function_that_everything_calls)
{
	callers_done(&callers);
	for (uint64_t i = 0; i < 200; i++)
		add_calls(K, fake_node(G, 0x100 + i * CALL_BYTES), 0, 1);
	cr_assert(callers_of_trace(&callers, &trace, graph_tables(&graph)));
	bool sure;

	cr_expect_neq(callers_expected(&callers, K, 0, &sure), 0);
	cr_expect(sure, "all from g");
	cr_expect(!callers_has(&callers, K, F));
}
