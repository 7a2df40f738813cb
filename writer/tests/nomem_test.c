/* Every allocation of a whole run fails once: each time the run must say ERR_NOMEM, and leak
 * or touch nothing it should not (as seen by the sanitizers). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "writer/calls_text.h"
#include "writer/segments_text.h"
#include "writer/stats.h"
#include "writer/tests/fake.h"
#include "writer/trace_fxt.h"

/* The linker sends all calls in the program here (--wrap). */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static long until_failure = -1; /* < 0 = none */

static bool fails_now(void)
{
	return until_failure >= 0 && until_failure-- == 0;
}

void *__wrap_malloc(size_t bytes)
{
	return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	return fails_now() ? NULL : __real_realloc(p, bytes);
}

static void fill(struct fake *f)
{
	enum { CALLS = 3000 };
	uint32_t parent = CALL_NONE;
	char name[32];

	fake_init(f);
	module_id app = fake_module("app"), lib = fake_module("lib");
	for (uint32_t i = 0; i < CALLS; i++) {
		snprintf(name, sizeof name, "not \xff clean %u", i);
		fake_function(name, app, 0x1000 + i * 64);
		fake_inlined(name, "x.h", i);
	}
	struct thread *t = fake_thread(f, fake_task(f, 1, 2, "comm"));
	for (uint32_t i = 0; i < CALLS; i++) {
		uint16_t flags = i % 7 ? 0 : CALL_STITCHED | CALL_TAIL;
		struct arrow arrow = {i / 2, i, ARROW_TAIL_CALL};

		if (i % 3 == 1)
			parent = fake_inlined_call(t, parent, (inline_id){i + 1}, i, 20000 - i,
						   flags);
		else
			parent = fake_call(t, parent, i + 1, i, 20000 - i, flags);
		if (i % 5 == 0)
			cr_assert(vec_push(&t->arrows, arrow));
	}
	fake_bracket(f, t, 0, (struct bracket){.kind = BRACKET_MISSING_CODE, .module = lib}, 19999,
		     20000);
	fake_segment(t, 0, 20000);
	for (uint32_t i = 0; i < 50; i++)
		cr_assert(vec_push(&f->trace.frequencies, ((struct frequency){i, (int32_t)i, 20})));
	f->trace.end_ns = 20000;
}

static enum err run_all(const struct fake *f, const char *path)
{
	struct fxt_options full = {
		.args = FXT_ARGS_FULL, .has_wall_clock = true, .block_calls = 1000};
	struct run_stats run = {.output = path};
	struct output *output = NULL;
	struct fxt_counts counts;
	struct buffer text = {0};
	enum err err = output_open(path, OUTPUT_BINARY, 1, &output, NULL);

	if (err == ERR_NONE)
		err = trace_fxt_write(&f->trace, &f->names, &full, output, &counts, NULL);
	if (err == ERR_NONE)
		err = calls_text_write(&f->trace, &f->names, output, NULL);
	if (err == ERR_NONE)
		err = segments_text_write(&f->trace, &f->names, output, NULL);
	if (err == ERR_NONE)
		err = stats_write_json(&run, &f->trace, &f->names, output, NULL);
	if (err == ERR_NONE)
		err = stats_summary(&run, &f->trace, &f->names, &text);
	if (err == ERR_NONE)
		err = output_commit(output, NULL);
	output_free(output);
	buffer_done(&text);
	return err;
}

Test(nomem, every_failed_allocation_is_reported)
{
	char dir[] = "/tmp/nomem-test-XXXXXX", path[64];
	struct fake f;
	long runs = 0;
	bool reached_the_end = false;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/x.gz", dir);
	fill(&f);
	for (; !reached_the_end; runs++) {
		until_failure = runs;
		enum err err = run_all(&f, path);
		reached_the_end = until_failure >= 0;
		until_failure = -1;
		cr_assert_eq(err, reached_the_end ? ERR_NONE : ERR_NOMEM, "allocation %ld: %d",
			     runs, err);
		cr_assert_eq(access(path, F_OK) == 0, reached_the_end);
	}
	cr_assert_gt(runs, 100, "few allocations: is malloc wrapped?");
	unlink(path);
	cr_assert_eq(rmdir(dir), 0, "no temporary is left");
	fake_done(&f);
}
