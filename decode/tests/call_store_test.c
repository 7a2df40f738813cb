/* The calls of a thread in heap, mapping and file: same contents everywhere. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "decode/call_store.h"

struct store_case {
	const char *name;
	uint64_t spill_bytes;
	size_t count;
	enum calls_place place;
};

static struct store_case cases[] = {
	{"few stay in the heap", 1 << 20, 1000, CALLS_IN_HEAP},
	{"many are mapped", 0, 1000000, CALLS_MAPPED},
	{"below the limit: mapped", (uint64_t)1 << 30, 1000000, CALLS_MAPPED},
	{"above it: in a file", 8 << 20, 1000000, CALLS_IN_FILE},
};

ParameterizedTestParameters(call_store, contents)
{
	return cr_make_param_array(struct store_case, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(struct store_case *c, call_store, contents)
{
	struct trace trace = {.spill_bytes = c->spill_bytes};
	struct thread t = {0};

	for (uint32_t i = 0; i < c->count; i++) {
		cr_assert(calls_add(&trace, &t, (struct call){.start_ns = i, .what = i ^ 0x5a5a}));
		if (i)
			t.calls.items[i / 2].parent++; /* older calls stay writable */
	}
	cr_expect_eq(t.calls.count, c->count);
	cr_expect_eq(t.calls_place, c->place, "%s: %d", c->name, t.calls_place);
	for (uint32_t i = 0; i < c->count; i++) {
		const struct call *call = &t.calls.items[i];
		uint32_t later = (i > 0 && 2 * i < c->count) + (2 * (size_t)i + 1 < c->count);

		cr_assert_eq(call->start_ns, i, "%s", c->name);
		cr_assert_eq(call->what, i ^ 0x5a5a, "%s", c->name);
		cr_assert_eq(call->parent, later, "%s: %u", c->name, i);
	}
	cr_expect_leq(trace.mapped_bytes, c->spill_bytes ? c->spill_bytes : UINT64_MAX);
	calls_done(&t);
	cr_expect_null(t.calls.items);
}

Test(call_store, no_file_is_an_error)
{
	struct trace trace = {.spill_bytes = 1};
	struct thread t = {0};
	uint32_t added = 0;

	cr_assert_eq(setenv("TMPDIR", "/nonexistent", 1), 0);
	while (added < 1000000 && calls_add(&trace, &t, (struct call){.what = added}))
		added++;
	cr_assert(added > 1000 && added < 1000000, "%u", added);
	cr_expect_eq(t.calls.count, added);
	cr_expect_eq(t.calls.items[added - 1].what, added - 1);
	calls_done(&t);
}

Test(call_store, other_arrays_stay_within_the_limit)
{
	enum { LARGE = 16 << 20 };
	struct trace trace = {.spill_bytes = LARGE + LARGE / 2};
	struct spill few, first, second;

	cr_assert(spill_new(&trace, 100, &few));
	cr_assert(spill_new(&trace, LARGE - 5, &first));
	cr_assert(spill_new(&trace, LARGE, &second));
	cr_expect_eq(few.place, CALLS_IN_HEAP);
	cr_expect_eq(first.place, CALLS_MAPPED);
	cr_expect_eq(second.place, CALLS_IN_FILE);
	cr_expect_eq(trace.mapped_bytes, LARGE);
	uint64_t before = memory_used();
	for (size_t i = 0; i < LARGE; i++) {
		cr_assert_eq(((char *)second.items)[i], 0);
		((char *)second.items)[i] = (char)i;
	}
	cr_expect_lt(memory_used(), before + LARGE / 2, "the file's pages are not ours");
	spill_done(&first);
	cr_expect_eq(trace.mapped_bytes, 0);
	spill_done(&few);
	spill_done(&second);
	spill_done(&second);
}
