#include "writer/trace_fxt.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file_map.h"
#include "decode/flow.h"
#include "writer/tests/fake.h"
#include "writer/tests/fxt_read.h"

static struct fxt_read write_once(struct fake *f, const struct fxt_options *options,
				  unsigned threads, struct fxt_counts *counts, struct buffer *bytes)
{
	char path[] = "/tmp/trace-fxt-test-XXXXXX";
	struct output *output;
	struct fxt_read read;
	struct file_map map;
	struct error error = {0};
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(output_open(path, OUTPUT_BINARY, threads, &output, &error), ERR_NONE, "%s",
		     error.message);
	cr_assert_eq(trace_fxt_write(&f->trace, &f->names, options, output, counts, &error),
		     ERR_NONE, "%s", error.message);
	cr_assert_eq(output_commit(output, &error), ERR_NONE);
	cr_assert_eq(output_bytes(output), counts->bytes);
	output_free(output);
	close(fd);
	cr_assert_eq(file_map_open(path, &map, NULL), ERR_NONE);
	cr_assert(fxt_read(&read, map.data, map.bytes), "%s", read.error);
	cr_assert(buffer_reserve(bytes, map.bytes));
	memcpy(bytes->data, map.data, map.bytes);
	bytes->bytes = map.bytes;
	file_map_done(&map);
	remove(path);
	return read;
}

static void expect_equal(const struct buffer *a, const struct buffer *b)
{
	cr_assert_eq(a->bytes, b->bytes);
	cr_assert_eq(memcmp(a->data, b->data, a->bytes), 0);
}

/* Writes the fake's trace and reads it back; it must be sound. The blocks in which it is
 * encoded and the threads that do it may not be seen. */
static struct fxt_read write_and_read(struct fake *f, const struct fxt_options *options,
				      struct fxt_counts *counts)
{
	struct buffer bytes = {0}, shown = {0};
	struct fxt_read read = write_once(f, options, 1, counts, &bytes);

	fxt_read_show(&read, &shown);
	for (uint32_t calls = 1; calls <= 1000; calls = calls * 10 + 1) {
		struct fxt_options small = *options;
		struct buffer first = {0};

		small.block_calls = calls;
		for (unsigned threads = 1; threads <= 5; threads += 2) {
			struct buffer again = {0}, again_shown = {0};
			struct fxt_counts again_counts;
			struct fxt_read again_read =
				write_once(f, &small, threads, &again_counts, &again);

			fxt_read_show(&again_read, &again_shown);
			fxt_read_done(&again_read);
			expect_equal(&again_shown, &shown);
			buffer_done(&again_shown);
			cr_assert_eq(again_counts.slices, counts->slices);
			cr_assert_eq(again_counts.flows, counts->flows);
			cr_assert_eq(again_counts.instants, counts->instants);
			cr_assert_eq(again_counts.too_deep, counts->too_deep);
			cr_assert_eq(again_counts.clamped, counts->clamped);
			if (counts->clamped == 0)
				cr_assert_eq(again_counts.blocks_again, 0);
			if (threads == 1) {
				first = again;
				continue;
			}
			expect_equal(&again, &first);
			buffer_done(&again);
		}
		buffer_done(&first);
	}
	buffer_done(&bytes);
	buffer_done(&shown);
	return read;
}

static void expect_shown(struct fake *f, const struct fxt_options *options, const char *expected)
{
	struct fxt_counts counts;
	struct fxt_read read = write_and_read(f, options, &counts);
	struct buffer text = {0};

	fxt_read_show(&read, &text);
	buffer_text(&text, "");
	cr_assert(buffer_reserve(&text, 1));
	text.data[text.bytes] = '\0';
	/* The first track is the decoder's own, with the start of the trace. */
	const char *own = "2147483646/2147483646 pt-decode\n  0+0 event trace start {perf_time_ns=";
	cr_assert_eq(strncmp((char *)text.data, own, strlen(own)), 0, "%s", (char *)text.data);
	const char *rest = strchr(strchr((char *)text.data, '\n') + 1, '\n') + 1;
	cr_assert_str_eq(rest, expected, "got:\n%s\nexpected:\n%s", rest, expected);
	buffer_done(&text);
	fxt_read_done(&read);
}

static const struct fxt_options basic = {.args = FXT_ARGS_BASIC};
static const struct fxt_options none = {.args = FXT_ARGS_NONE};

Test(trace_fxt, draws_calls_inlined_frames_and_gaps)
{
	struct fake f;

	fake_init(&f);
	module_id app = fake_module("app"), lib = fake_module("libfoo.so");
	node_id main_node = fake_function("main", app, 0x1000);
	node_id work = fake_function("work", app, 0x2000);
	node_id nameless = fake_function(NULL, lib, 0x3000);
	inline_id skip = fake_inlined("skip_blanks", "parse.c", 12);
	struct thread *t = fake_thread(&f, fake_task(&f, 10, 11, "server"));
	f.trace.start_ns = 1000;
	f.trace.end_ns = 2000;
	uint32_t m = fake_call(t, CALL_NONE, main_node, 1000, 2000, CALL_START_INFERRED);
	uint32_t w = fake_call(t, m, work, 1100, 1500, CALL_END_INFERRED | CALL_UNWOUND);
	fake_inlined_call(t, w, skip, 1100, 1200, 0);
	fake_call(t, w, nameless, 1200, 1300, CALL_TAIL | CALL_AMBIGUOUS);
	fake_bracket(&f, t, m, (struct bracket){.kind = BRACKET_SYSCALL, .number = 0, .node = work},
		     1500, 1600);
	fake_bracket(&f, t, m, (struct bracket){.kind = BRACKET_SYSCALL, .number = 9999}, 1600,
		     1700);
	fake_bracket(&f, t, m, (struct bracket){.kind = BRACKET_SYSCALL, .number = -1}, 1700, 1710);
	fake_bracket(
		&f, t, m,
		(struct bracket){.kind = BRACKET_LOST, .cause = LOSS_OVERFLOW, .lost_bytes = 99},
		1710, 1720);
	fake_bracket(&f, t, m, (struct bracket){.kind = BRACKET_MISSING_CODE, .module = lib}, 1720,
		     1730);
	fake_bracket(&f, t, m, (struct bracket){.kind = BRACKET_INTERRUPTED}, 1730, 1740);
	fake_segment(t, 1000, 2000);
	expect_shown(&f, &basic,
		     "10/11 server\n"
		     "  0+1000 function main {ip=0x1000 inferred=start}\n"
		     "    100+400 function work {ip=0x2000 inferred=end unwound=true}\n"
		     "      100+100 inlined skip_blanks\n"
		     "      200+100 function [libfoo.so] {ip=0x3000 ambiguous=true tail=true}\n"
		     "    500+100 gap [syscall read] {ip=0x2000 number=0}\n"
		     "    600+100 gap [syscall 9999] {number=9999}\n"
		     "    700+10 gap [syscall]\n"
		     "    710+10 gap [lost: overflow] {lost_bytes=99}\n"
		     "    720+10 gap [missing code libfoo.so]\n"
		     "    730+10 gap [interrupted]\n");
	expect_shown(&f, &none,
		     "10/11 server\n"
		     "  0+1000 function main\n"
		     "    100+400 function work\n"
		     "      100+100 inlined skip_blanks\n"
		     "      200+100 function [libfoo.so]\n"
		     "    500+100 gap [syscall read]\n"
		     "    600+100 gap [syscall 9999]\n"
		     "    700+10 gap [syscall]\n"
		     "    710+10 gap [lost: overflow]\n"
		     "    720+10 gap [missing code libfoo.so]\n"
		     "    730+10 gap [interrupted]\n");
	fake_done(&f);
}

Test(trace_fxt, full_arguments_say_where_code_is)
{
	struct fake f;

	fake_init(&f);
	module_id app = fake_module("app");
	node_id main_node = fake_function("main", app, 0x1010);
	inline_id inlined = fake_inlined("inl", "util.h", 7);
	struct thread *t = fake_thread(&f, fake_task(&f, 10, 11, "server"));
	uint32_t m = fake_call(t, CALL_NONE, main_node, 0, 100, 0);
	t->calls.items[m].site = main_node;
	fake_inlined_call(t, m, inlined, 10, 20, 0);
	fake_segment(t, 0, 100);
	f.trace.end_ns = 100;
	expect_shown(&f, &(struct fxt_options){.args = FXT_ARGS_FULL},
		     "10/11 server\n"
		     "  0+100 function main {ip=0x1010 called at=main.c:24 symbol=main module=app "
		     "line=main.c:16}\n"
		     "    10+10 inlined inl {called at=util.h:7}\n");
	fake_done(&f);
}

/* Times are too coarse to tell children from siblings; the nesting must still be true. */
Test(trace_fxt, calls_of_no_length_keep_their_place)
{
	struct fake f;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10),
		b = fake_function("b", (module_id){0}, 0x20);
	node_id c = fake_function("c", (module_id){0}, 0x30),
		d = fake_function("d", (module_id){0}, 0x40);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	f.trace.end_ns = 100;
	uint32_t root = fake_call(t, CALL_NONE, a, 0, 10, 0);
	uint32_t first = fake_call(t, root, b, 5, 5, 0);
	fake_call(t, first, c, 5, 5, 0); /* child of b */
	fake_call(t, root, d, 5, 5, 0);  /* sibling of b */
	uint32_t last = fake_call(t, root, b, 5, 10, 0);
	fake_call(t, last, c, 7, 10, 0);
	fake_call(t, last, d, 10, 10, 0); /* at the very end of b and a, after c */
	fake_call(t, CALL_NONE, b, 10, 20, 0);
	fake_segment(t, 0, 20);
	expect_shown(&f, &none,
		     "1/1 t\n"
		     "  0+10 function a\n"
		     "    5+0 function b\n"
		     "      5+0 function c\n"
		     "    5+0 function d\n"
		     "    5+5 function b\n"
		     "      7+3 function c\n"
		     "      10+0 function d\n"
		     "  10+10 function b\n");
	fake_done(&f);
}

Test(trace_fxt, roots_come_first_and_merged_ones_not_at_all)
{
	struct fake f;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10),
		b = fake_function("b", (module_id){0}, 0x20);
	node_id c = fake_function("c", (module_id){0}, 0x30),
		d = fake_function("d", (module_id){0}, 0x40);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	f.trace.end_ns = 100;
	/* Found in the order of the returns: b first, then a around it. */
	fake_call(t, 2, c, 0, 5, 0);
	t->calls.items[0].parent = 1;
	fake_call(t, 2, b, 0, 40, CALL_ROOT | CALL_STITCHED);
	fake_call(t, CALL_NONE, a, 0, 50, CALL_ROOT);
	fake_segment(t, 0, 10);
	t->roots.items[0] = 2;
	t->roots.items[1] = 1;
	cr_assert(vec_push(&t->joins, ((struct join){.lost_ns = 10,
						     .resumed_ns = 20,
						     .cause = LOSS_OVERFLOW,
						     .evidence = JOIN_RETURNS,
						     .agreeing = 3})));
	/* The next segment's root is b again: merged. d is its child. */
	fake_call(t, CALL_NONE, b, 20, 40, CALL_ROOT | CALL_HIDDEN);
	t->calls.items[3].site = 1;
	fake_call(t, 3, d, 25, 30, 0);
	fake_segment(t, 20, 50);
	expect_shown(&f, &basic,
		     "1/1 t\n"
		     "  0+50 function a {ip=0x10}\n"
		     "    0+40 function b {ip=0x20 stitched=return addresses gaps=1 gap_ns=10 "
		     "gap_cause=overflow confirmed_by_returns=3}\n"
		     "      0+5 function c {ip=0x30}\n"
		     "      25+5 function d {ip=0x40}\n");
	fake_done(&f);
}

Test(trace_fxt, short_calls_are_left_out_but_losses_stay)
{
	struct fake f;
	struct fxt_counts counts;
	struct fxt_options options = {.args = FXT_ARGS_NONE, .min_duration_ns = 10};

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	f.trace.end_ns = 100;
	uint32_t root = fake_call(t, CALL_NONE, a, 0, 100, 0);
	uint32_t brief = fake_call(t, root, a, 10, 19, 0);
	fake_call(t, brief, a, 11, 18, 0);
	fake_bracket(&f, t, brief, (struct bracket){.kind = BRACKET_LOST, .cause = LOSS_OVERFLOW},
		     18, 19);
	fake_call(t, root, a, 20, 30, 0);
	fake_bracket(&f, t, root, (struct bracket){.kind = BRACKET_SYSCALL, .number = 0}, 30, 39);
	fake_bracket(&f, t, root, (struct bracket){.kind = BRACKET_SYSCALL, .number = 0}, 40, 50);
	fake_segment(t, 0, 100);
	expect_shown(&f, &options,
		     "1/1 t\n"
		     "  0+100 function a\n"
		     "    18+1 gap [lost: overflow]\n"
		     "    20+10 function a\n"
		     "    40+10 gap [syscall read]\n");
	struct fxt_read read = write_and_read(&f, &options, &counts);
	cr_assert_eq(counts.too_short, 3);
	cr_assert_eq(counts.slices, 4);
	fxt_read_done(&read);
	fake_done(&f);
}

Test(trace_fxt, depth_beyond_the_viewer_does_not_hurt_the_callers)
{
	struct fake f;
	struct fxt_counts counts;
	enum { DEEP = 2000 };

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10),
		after = fake_function("after", (module_id){0}, 0x20);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	f.trace.end_ns = 10000;
	uint32_t parent = CALL_NONE;
	for (uint64_t i = 0; i < DEEP; i++)
		parent = fake_call(t, parent, a, i, 10000 - i, 0);
	/* A second branch from the deepest visible one, and one from the root. */
	fake_call(t, FXT_DEPTH_MAX - 1, after, 9000, 9001, 0);
	fake_call(t, 0, after, 9999, 10000, 0);
	fake_segment(t, 0, 10000);
	struct fxt_read read = write_and_read(&f, &basic, &counts);
	const struct fxt_track *track = &read.tracks.items[1];
	cr_assert_eq(counts.too_deep, DEEP - FXT_DEPTH_MAX + 1);
	cr_assert_eq(track->slices.count, (size_t)FXT_DEPTH_MAX + 1);
	const struct fxt_slice *deepest = &track->slices.items[FXT_DEPTH_MAX - 1];
	cr_assert_eq(deepest->end, 10000 - (FXT_DEPTH_MAX - 1));
	cr_assert_not_null(strstr(deepest->args, "deeper calls=not drawn"));
	cr_assert_null(strstr(track->slices.items[FXT_DEPTH_MAX - 2].args, "deeper"));
	const struct fxt_slice *last = &track->slices.items[FXT_DEPTH_MAX];
	cr_assert_str_eq(last->name, "after");
	cr_assert_eq(last->depth, 1);
	fxt_read_done(&read);
	fake_done(&f);
}

Test(trace_fxt, arrows_join_the_calls_they_name)
{
	struct fake f;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10),
		b = fake_function("b", (module_id){0}, 0x20);
	node_id c = fake_function("c", (module_id){0}, 0x30);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	f.trace.end_ns = 100;
	uint32_t root = fake_call(t, CALL_NONE, a, 0, 100, 0);
	uint32_t one = fake_call(t, root, b, 10, 20, 0);
	fake_call(t, one, a, 10, 20, 0); /* covers all of its parent */
	uint32_t two = fake_call(t, root, c, 20, 20, CALL_TAIL);
	uint32_t three = fake_call(t, root, b, 20, 30, CALL_TAIL);
	fake_segment(t, 0, 100);
	cr_assert(vec_push(&t->arrows, ((struct arrow){one, two, 0})));
	cr_assert(vec_push(&t->arrows, ((struct arrow){two, three, 1})));
	uint32_t four = fake_call(t, root, c, 30, 40, 0), five = fake_call(t, root, a, 40, 50, 0);
	vec_last(&t->segments)->end_call = (uint32_t)t->calls.count;
	cr_assert(vec_push(&t->arrows, ((struct arrow){three, four, 1})));
	cr_assert(vec_push(&t->arrows, ((struct arrow){three, five, 1})));
	cr_assert(vec_push(&t->arrows, ((struct arrow){three, one, 1}))); /* back: not drawn */
	cr_assert(vec_push(&t->arrows, ((struct arrow){77, one, 1})));    /* nonsense */
	expect_shown(&f, &basic,
		     "1/1 t\n"
		     "  0+100 function a {ip=0x10}\n"
		     "    10+10 function b {ip=0x20} ->1\n"
		     "      10+10 function a {ip=0x10}\n"
		     "    20+0 function c {ip=0x30 tail=true} <-1 ->2\n"
		     "    20+10 function b {ip=0x20 tail=true} <-2 ->2 ->3\n"
		     "    30+10 function c {ip=0x30} <-2\n"
		     "    40+10 function a {ip=0x10} <-3\n");
	fake_done(&f);
}

Test(trace_fxt, a_limit_of_memory_that_is_passed_ends_it)
{
	struct memory_limit limit = {.bytes = 1};
	struct fxt_counts counts;
	struct error error = {0};
	struct output *output;
	struct fake f;

	fake_init(&f);
	f.trace.memory = &limit;
	cr_assert_eq(output_open("/dev/null", OUTPUT_BINARY, 1, &output, &error), ERR_NONE);
	cr_expect_eq(trace_fxt_write(&f.trace, &f.names, &basic, output, &counts, &error),
		     ERR_LIMIT);
	output_free(output);
	fake_done(&f);
}

/* Found in the order of where they lead, drawn in that of calls, too. */
Test(trace_fxt, arrows_that_cross_others_start_where_they_leave)
{
	enum { ARROWS = 3000 }; /* more than one digit of a call's number */
	struct fake f;
	struct fxt_counts counts;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	for (uint32_t i = 0; i < 2 * ARROWS; i++)
		fake_call(t, CALL_NONE, a, i, i + 1, 0);
	fake_segment(t, 0, 2 * ARROWS);
	f.trace.end_ns = 2 * ARROWS;
	for (uint32_t i = 0; i < ARROWS; i++)
		cr_assert(vec_push(&t->arrows, ((struct arrow){ARROWS - 1 - i, ARROWS + i, 0})));
	struct fxt_read read = write_and_read(&f, &basic, &counts);
	const struct fxt_track *track = &read.tracks.items[1];
	cr_assert_eq(counts.flows, ARROWS);
	for (uint32_t i = 0; i < ARROWS; i++) {
		const struct fxt_slice *from = &track->slices.items[ARROWS - 1 - i],
				       *to = &track->slices.items[ARROWS + i];

		cr_assert_eq(from->flows.count, 1, "%u", i);
		cr_assert_eq(from->flows.items[0], i + 1, "%u", i);
		cr_assert_eq(to->flows.count, 1, "%u", i);
		cr_assert_eq(to->flows.items[0], (i + 1) | (uint64_t)1 << 63, "%u", i);
	}
	fxt_read_done(&read);
	fake_done(&f);
}

/* What no decoder should give: the output stays sound and keeps what can be kept. */
Test(trace_fxt, a_trace_that_contradicts_itself_is_held_in_shape)
{
	struct fake f;
	struct fxt_counts counts;
	uint64_t random = 12345;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	for (int round = 0; round < 50; round++) {
		struct thread *t = fake_thread(&f, fake_task(&f, 1, 100 + round, "t"));

		for (uint32_t i = 0; i < 200; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			uint64_t start = random >> 33 & 63, end = random >> 40 & 63;
			uint32_t parent =
				random >> 50 & 1 ? CALL_NONE : (uint32_t)(random >> 51 & 255);
			uint16_t flags = random >> 20 & 7 ? 0 : CALL_ROOT;

			if ((random >> 24 & 7) == 0)
				flags |= CALL_HIDDEN;
			fake_call(t, parent, a, start, end, flags);
			t->calls.items[i].site = random >> 60 & 3;
			if (i % 50 == 49)
				fake_segment(t, 0, 64);
		}
		for (uint32_t i = 0; i < 20; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			struct arrow arrow = {random >> 30 & 255, random >> 40 & 255, 0};

			cr_assert(vec_push(&t->arrows, arrow));
		}
	}
	f.trace.start_ns = 5;
	f.trace.end_ns = 64;
	struct fxt_read read = write_and_read(&f, &basic, &counts);
	cr_assert_gt(counts.clamped, 0);
	cr_assert_gt(counts.slices, 1000);
	fxt_read_done(&read);
	struct buffer bytes = {0};
	read = write_once(&f, &(struct fxt_options){.block_calls = 1}, 3, &counts, &bytes);
	cr_assert_gt(counts.blocks_again, 0, "wrong guesses are found");
	fxt_read_done(&read);
	buffer_done(&bytes);
	fake_done(&f);
}

/* The path to these calls is not looked for: their blocks wait for the ones before. */
Test(trace_fxt, a_recursion_too_deep_to_guess_its_path_is_encoded_in_order)
{
	struct fxt_options blocks = {.block_calls = 5000};
	struct buffer one = {0}, three = {0};
	struct fxt_counts counts;
	struct fake f;
	enum { DEEP = 100000 };

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	f.trace.end_ns = 2 * DEEP;
	uint32_t parent = CALL_NONE;
	for (uint64_t i = 0; i < DEEP; i++)
		parent = fake_call(t, parent, a, i, 2 * DEEP - i, 0);
	fake_call(t, CALL_NONE, a, 2 * DEEP, 2 * DEEP + 1, 0);
	fake_segment(t, 0, 2 * DEEP + 1);
	struct fxt_read read = write_once(&f, &blocks, 1, &counts, &one);
	cr_assert_eq(counts.slices, FXT_DEPTH_MAX + 1);
	cr_assert_gt(counts.blocks_again, 0);
	cr_assert_lt(counts.blocks_again, counts.blocks - 5);
	fxt_read_done(&read);
	read = write_once(&f, &blocks, 3, &counts, &three);
	fxt_read_done(&read);
	expect_equal(&one, &three);
	buffer_done(&one);
	buffer_done(&three);
	fake_done(&f);
}

/* So many calls that several threads look for those of no length, which are many, too. */
Test(trace_fxt, a_long_thread_gives_the_same_bytes_with_any_number_of_threads)
{
	enum { CALLS = 400000, DEEPEST = 30 };
	struct buffer first = {0};
	struct fxt_counts counts;
	struct fake f;
	uint32_t open[DEEPEST + 1] = {CALL_NONE}, depth = 0;
	uint64_t random = 7, now = 0;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	for (uint32_t i = 0; i < CALLS; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		now += random >> 62 == 0;
		for (uint64_t ends = random >> 58 & 3; depth > 0 && ends > 0; ends--)
			t->calls.items[open[depth--]].end_ns = now;
		uint32_t call = fake_call(t, open[depth], a, now, now, 0);
		if (depth < DEEPEST)
			open[++depth] = call;
	}
	for (; depth > 0; depth--)
		t->calls.items[open[depth]].end_ns = now;
	fake_segment(t, 0, now);
	f.trace.end_ns = now;
	for (unsigned threads = 1; threads <= 5; threads += 2) {
		struct buffer bytes = {0};
		struct fxt_read read = write_once(&f, &basic, threads, &counts, &bytes);

		cr_assert_eq(counts.slices, CALLS);
		cr_assert_eq(counts.clamped, 0);
		cr_assert_eq(counts.blocks_again, 0);
		cr_assert_gt(counts.zero_length, CALLS / 10);
		fxt_read_done(&read);
		if (threads == 1) {
			first = bytes;
			continue;
		}
		expect_equal(&bytes, &first);
		buffer_done(&bytes);
	}
	buffer_done(&first);
	fake_done(&f);
}

Test(trace_fxt, more_instants_than_the_string_table_holds)
{
	enum { INSTANTS = 40000 };
	struct fake f;
	struct fxt_counts counts;
	char text[32];

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	task_id task = fake_task(&f, 1, 1, "t");
	struct thread *t = fake_thread(&f, task);
	uint32_t root = fake_call(t, CALL_NONE, a, 0, INSTANTS, 0);
	fake_call(t, root, a, 10, 10, 0);
	fake_call(t, root, a, INSTANTS - 100, INSTANTS, 0);
	fake_segment(t, 0, INSTANTS);
	f.trace.end_ns = 2 * INSTANTS;
	for (uint64_t i = 0; i < INSTANTS; i++) {
		struct instant instant = {.time_ns = i + 50, .task = task};

		cr_assert(intern_string(&f.sideband.names, "e", &instant.name));
		snprintf(text, sizeof text, "number %d", (int)i);
		cr_assert(intern_string(&f.sideband.names, text, &instant.detail));
		cr_assert(vec_push(&f.sideband.instants, instant));
	}
	struct fxt_read read = write_and_read(&f, &basic, &counts);
	const struct fxt_track *track = &read.tracks.items[1];
	cr_assert_eq(track->slices.count, INSTANTS + 3);
	for (size_t i = 0; i < INSTANTS; i++) {
		size_t at = i + 2 + (i >= INSTANTS - 150); /* behind the last call */

		snprintf(text, sizeof text, "detail=number %zu", i);
		cr_assert_str_eq(track->slices.items[at].args, text);
	}
	cr_assert_gt(counts.string_records, 32767);
	fxt_read_done(&read);
	fake_done(&f);
}

Test(trace_fxt, events_names_and_frequencies_are_shown)
{
	struct fake f;
	struct fxt_counts counts;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	task_id leader = fake_task(&f, 10, 10, "old"), worker = fake_task(&f, 10, 11, "worker");
	struct thread *t = fake_thread(&f, worker);
	fake_call(t, CALL_NONE, a, 1000, 2000, 0);
	fake_segment(t, 1000, 2000);
	f.trace.start_ns = 1000;
	f.trace.end_ns = 2000;
	str_id name, detail, comm;
	cr_assert(intern_string(&f.sideband.names, "sched:sched_wakeup", &name));
	cr_assert(intern_string(&f.sideband.names, "comm=x", &detail));
	cr_assert(intern_string(&f.sideband.names, "new", &comm));
	struct instant wakeup = {
		.time_ns = 1500, .task = worker, .name = name, .detail = detail, .ip = 0x77};
	struct instant early = {.time_ns = 10, .task = worker, .name = name};
	cr_assert(vec_push(&f.sideband.instants, early));
	cr_assert(vec_push(&f.sideband.instants, wakeup));
	struct instant other = {.time_ns = 1700, .task = leader, .name = name};
	cr_assert(vec_push(&f.sideband.instants, other));
	for (int i = 0; i < 2; i++) {
		struct task_name exec = {
			.time_ns = 1400, .task = i ? worker : leader, .comm = comm, .exec = true};

		cr_assert(vec_push(&f.sideband.task_names, exec));
	}
	struct trace_mark mark = {
		.time_ns = 1600, .payload = 0xabc, .task = worker, .node = a, .kind = FLOW_PTWRITE};
	cr_assert(vec_push(&f.trace.marks, mark));
	for (uint32_t i = 0; i < 4; i++) {
		struct frequency frequency = {1103 - i, 3, 20 + (3 - i) / 2};

		cr_assert(vec_push(&f.trace.frequencies, frequency));
	}
	static const char shown[] = "10/11 new\n"
				    "  0+1000 function a {ip=0x10}\n"
				    "    400+0 task exec: new\n"
				    "    500+0 event sched:sched_wakeup {detail=comm=x ip=0x77}\n"
				    "    600+0 event ptwrite {value=0xabc ip=0x10}\n"
				    "10/10 new\n"
				    "  700+0 event sched:sched_wakeup\n";
	char traced[sizeof shown] = "";
	expect_shown(&f, &basic, shown);
	memcpy(traced, shown, (size_t)(strstr(shown, "10/10") - shown));
	expect_shown(&f, &(struct fxt_options){.traced_threads_only = true}, traced);
	struct fxt_options clock = {.has_wall_clock = true, .wall_ns = 1700000000000000000};
	struct fxt_read read = write_and_read(&f, &clock, &counts);
	cr_assert_eq(read.blobs, 1);
	cr_assert_eq(counts.counters, 2);
	cr_assert(buffer_reserve(&read.counters, 1));
	read.counters.data[read.counters.bytes] = '\0';
	cr_assert_str_eq((char *)read.counters.data,
			 "CPU frequency:MHz=2000:3 @100\nCPU frequency:MHz=2100:3 @102\n");
	cr_assert_eq(read.processes.count, 2);
	cr_assert_str_eq(read.processes.items[1].name, "new");
	fxt_read_done(&read);
	fake_done(&f);
}

Test(trace_fxt, threads_of_one_id_do_not_cut_each_other)
{
	static const uint64_t times[][2] = {{0, 10}, {5, 20}, {10, 30}};
	struct fake f;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	for (int i = 0; i < 3; i++) {
		struct thread *t = fake_thread(&f, fake_task(&f, -1, -1, i ? "later" : "first"));

		fake_call(t, CALL_NONE, a, times[i][0], times[i][1], 0);
		fake_segment(t, times[i][0], times[i][1]);
	}
	f.trace.end_ns = 30;
	expect_shown(&f, &none,
		     "2147483647/2147483647 later\n"
		     "  0+10 function a\n"
		     "  10+20 function a\n"
		     "2147483647/2147483645 later\n"
		     "  5+15 function a\n");
	fake_done(&f);
}

Test(trace_fxt, instants_stand_in_order_and_disturb_nothing)
{
	struct fake f;
	str_id name;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10),
		b = fake_function("b", (module_id){0}, 0x20);
	task_id task = fake_task(&f, 1, 1, "t");
	struct thread *t = fake_thread(&f, task);
	uint32_t root = fake_call(t, CALL_NONE, a, 10, 50, 0);
	fake_call(t, root, b, 20, 20, 0);
	uint32_t pair = fake_call(t, root, b, 20, 40, 0);
	fake_call(t, pair, a, 25, 35, 0);
	fake_call(t, pair, a, 40, 40, 0);
	fake_segment(t, 10, 50);
	f.trace.end_ns = 60;
	cr_assert(intern_string(&f.sideband.names, "e", &name));
	for (uint64_t at = 0; at <= 60; at += 5) {
		struct instant instant = {.time_ns = at, .task = task, .name = name};

		cr_assert(vec_push(&f.sideband.instants, instant));
	}
	expect_shown(&f, &none,
		     "1/1 t\n"
		     "  0+0 event e\n"
		     "  5+0 event e\n"
		     "  10+40 function a\n"
		     "    10+0 event e\n"
		     "    15+0 event e\n"
		     "    20+0 function b\n"
		     "    20+20 function b\n"
		     "      20+0 event e\n"
		     "      25+10 function a\n"
		     "        25+0 event e\n"
		     "        30+0 event e\n"
		     "      35+0 event e\n"
		     "      40+0 function a\n"
		     "    40+0 event e\n"
		     "    45+0 event e\n"
		     "  50+0 event e\n"
		     "  55+0 event e\n"
		     "  60+0 event e\n");
	fake_done(&f);
}

Test(trace_fxt, more_functions_and_threads_than_the_tables_hold)
{
	struct fake f;
	struct fxt_counts counts;
	char name[32];
	enum { FUNCTIONS = 40000, THREADS = 300 };

	fake_init(&f);
	for (uint64_t i = 0; i < FUNCTIONS; i++) {
		snprintf(name, sizeof name, "function %d", (int)i);
		fake_function(name, (module_id){0}, 0x1000 + i * 64);
	}
	for (int i = 0; i < THREADS; i++) {
		struct thread *t = fake_thread(&f, fake_task(&f, 1 + i % 7, 1000 + i, "t"));

		for (uint64_t k = 0; k < 400; k++)
			fake_call(t, CALL_NONE, 1 + (uint32_t)((uint64_t)i * 400 + k) % FUNCTIONS,
				  k * 10, k * 10 + 10, 0);
		fake_segment(t, 0, 4000);
	}
	f.trace.end_ns = 4000;
	struct fxt_read read = write_and_read(&f, &basic, &counts);
	cr_assert_eq(counts.slices, THREADS * 400);
	for (size_t i = 1; i < read.tracks.count; i++) {
		for (size_t k = 0; k < 400; k++) {
			size_t function = ((i - 1) * 400 + k) % FUNCTIONS;
			char ip[32];

			snprintf(name, sizeof name, "function %zu", function);
			snprintf(ip, sizeof ip, "ip=0x%zx", 0x1000 + function * 64);
			cr_assert_str_eq(read.tracks.items[i].slices.items[k].name, name);
			cr_assert_str_eq(read.tracks.items[i].slices.items[k].args, ip);
		}
	}
	fxt_read_done(&read);
	fake_done(&f);
}
