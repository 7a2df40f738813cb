#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file_map.h"
#include "writer/calls_text.h"
#include "writer/segments_text.h"
#include "writer/stats.h"
#include "writer/tests/fake.h"

typedef enum err write_text(const struct trace *, const struct trace_names *, struct output *,
			    struct error *);

/* What `write` puts into a file, NUL-terminated, to be freed. */
static char *written(write_text *write, struct fake *f)
{
	char path[] = "/tmp/text-test-XXXXXX";
	int fd = mkstemp(path);
	struct output *output;
	struct file_map map;

	cr_assert_geq(fd, 0);
	cr_assert_eq(output_open(path, OUTPUT_TEXT, 1, &output, NULL), ERR_NONE);
	cr_assert_eq(write(&f->trace, &f->names, output, NULL), ERR_NONE);
	cr_assert_eq(output_commit(output, NULL), ERR_NONE);
	output_free(output);
	cr_assert_eq(file_map_open(path, &map, NULL), ERR_NONE);
	char *text = map.bytes ? strndup((const char *)map.data, map.bytes) : strdup("");
	file_map_done(&map);
	remove(path);
	return text;
}

static void expect(write_text *write, struct fake *f, const char *expected)
{
	char *text = written(write, f);

	cr_assert_str_eq(text, expected, "got:\n%s\nexpected:\n%s", text, expected);
	free(text);
}

/* Two threads; the first lost something twice: joined once, once not. */
static void fill(struct fake *f)
{
	fake_init(f);
	module_id app = fake_module("app"), lib = fake_module("libfoo.so");
	((struct module *)(uintptr_t)symbolizer_module_get(f->names.symbolizer, lib))->state =
		MODULE_NOT_FOUND;
	node_id main_node = fake_function("main", app, 0x1000);
	node_id parse = fake_function("parse", app, 0x2000);
	node_id nameless = fake_function(NULL, (module_id){0}, 0x9000);
	inline_id skip = fake_inlined("skip_blanks", "parse.c", 12);
	task_id server = fake_task(f, 10, 11, "server"), other = fake_task(f, 20, 20, "other");
	f->trace.start_ns = 1000;
	f->trace.end_ns = 2000;
	struct thread *t = fake_thread(f, server);
	t->traced_ns = 900;
	t->lost_ns = 100;
	t->losses[LOSS_OVERFLOW] = 2;
	uint32_t m = fake_call(t, CALL_NONE, main_node, 1000, 1900, CALL_ROOT | CALL_STITCHED);
	uint32_t p = fake_call(t, m, parse, 1010, 1400, CALL_TAIL | CALL_END_INFERRED);
	fake_inlined_call(t, p, skip, 1010, 1020, 0);
	fake_bracket(f, t, m, (struct bracket){.kind = BRACKET_SYSCALL, .number = 0}, 1400, 1500);
	fake_segment(t, 1000, 1500);
	t->segments.items[0].edges = 12;
	cr_assert(vec_push(&t->joins, ((struct join){.lost_ns = 1500,
						     .resumed_ns = 1550,
						     .lost_at = main_node,
						     .resumed_at = parse,
						     .cause = LOSS_OVERFLOW,
						     .evidence = JOIN_RETURNS,
						     .waiting = 3,
						     .kept = 2,
						     .inferred = 1,
						     .agreeing = 4,
						     .like = 57,
						     .proven = 2,
						     .returned = 1,
						     .excluded = 3})));
	fake_call(t, CALL_NONE, main_node, 1550, 1900, CALL_ROOT | CALL_HIDDEN);
	t->calls.items[4].site = m;
	fake_bracket(f, t, 4, (struct bracket){.kind = BRACKET_MISSING_CODE, .module = lib}, 1600,
		     1700);
	fake_segment(t, 1550, 1900);
	cr_assert(vec_push(&t->joins, ((struct join){.lost_ns = 1900,
						     .resumed_ns = 1950,
						     .resumed_at = nameless,
						     .cause = LOSS_OVERFLOW,
						     .evidence = JOIN_NONE,
						     .waiting = 1,
						     .ambiguous = 1,
						     .candidates = 2})));
	fake_call(t, CALL_NONE, nameless, 1950, 2000, CALL_SIGNAL | CALL_INTERRUPT | CALL_UNWOUND);
	fake_segment(t, 1950, 2000);
	t->segments.items[2].edges = 1;
	t = fake_thread(f, other);
	t->traced_ns = 1000;
	fake_call(t, CALL_NONE, main_node, 1000, 2000, 0);
	fake_segment(t, 1000, 2000);
}

Test(text, calls_are_an_indented_tree)
{
	struct fake f;

	fill(&f);
	expect(calls_text_write, &f,
	       "thread 10/11 server: 6 calls in 3 segments, traced 900 ns, lost 100 ns\n"
	       "           0          900  main (stitched)\n"
	       "          10          390    parse (end inferred, tail)\n"
	       "          10           10      skip_blanks (inlined)\n"
	       "         400          100    [syscall read]\n"
	       "         600          100    [missing code libfoo.so]\n"
	       "         950           50  [unknown] (signal, interrupt, unwound)\n"
	       "thread 20/20 other: 1 call in 1 segment, traced 1000 ns, lost 0 ns\n"
	       "           0         1000  main\n");
	fake_done(&f);
}

Test(text, deep_recursion_stays_readable)
{
	struct fake f;

	fake_init(&f);
	node_id a = fake_function("a", (module_id){0}, 0x10);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	uint32_t parent = CALL_NONE;
	for (int i = 0; i < 5000; i++)
		parent = fake_call(t, parent, a, 0, 10, 0);
	fake_segment(t, 0, 10);
	char *text = written(calls_text_write, &f);
	cr_assert_lt(strlen(text), 5000 * 260);
	cr_assert_not_null(strstr(text, " depth 4999: a\n"));
	cr_assert_null(strstr(text, " depth 100: a\n"));
	free(text);
	fake_done(&f);
}

Test(text, segments_and_joins_can_be_followed)
{
	struct fake f;

	fill(&f);
	expect(segments_text_write, &f,
	       "thread 10/11 server: 3 segments, 2 losses\n"
	       "  0..500 ns: 12 edges, 4 calls, 1 root\n"
	       "  550..900 ns: 0 edges, 2 calls, 1 root; after overflow of 50 ns, joined by return "
	       "addresses\n"
	       "  950..1000 ns: 1 edge, 1 call, 0 roots; after overflow of 50 ns, not joined\n"
	       "thread 20/20 other: 1 segment, 0 losses\n"
	       "  0..1000 ns: 0 edges, 1 call, 0 roots\n");
	expect(joins_text_write, &f,
	       "thread 10/11 server, at 500: overflow, 50 ns without trace, from main to parse: "
	       "joined "
	       "by return addresses: 2 of 3 open frames go on, 1 entered unseen, 4 returns "
	       "agree, as in 57 like situations, 2 can only have gone on, by the code, 1 must "
	       "have returned, by the code, 3 other places excluded by the code\n"
	       "thread 10/11 server, at 900: overflow, 50 ns without trace, from ? to [unknown] at "
	       "0x9000: not joined: nothing tells which of 1 open frame go on, ambiguous: 2 places "
	       "possible\n");
	fake_done(&f);
}

static const char *const inputs[] = {"perf.data", "bad\xff name"};

static struct run_stats run_of(void)
{
	return (struct run_stats){
		.inputs = inputs,
		.input_count = 2,
		.input_bytes = 12345,
		.flow = {.bytes = 777, .packets = 99},
		.output = "trace.fxt.gz",
		.output_bytes = 1234567,
		.fxt = {.calls = 5, .slices = 7, .too_deep = 1, .bytes = 300},
	};
}

static struct run_stats run;

static enum err write_stats(const struct trace *trace, const struct trace_names *names,
			    struct output *output, struct error *error)
{
	return stats_write_json(&run, trace, names, output, error);
}

Test(text, statistics_are_json)
{
	struct fake f;
	const char *module, *advice, *thread;
	json_int_t bytes, joined, not_joined, returns, overflow, overflow_ns, lost, calls;
	double loss, share, cpu;

	fill(&f);
	run = run_of();
	cr_assert(vec_push(&run.stages, ((struct stage_stats){"flow", 1.5, 2.5, 1000})));
	char *text = written(write_stats, &f);
	json_t *root = json_loads(text, 0, NULL);
	cr_assert_not_null(root, "%s", text);
	json_t *inputs_json = json_object_get(root, "inputs");
	cr_assert_str_eq(json_string_value(json_array_get(inputs_json, 0)), "perf.data");
	cr_assert_str_eq(json_string_value(json_array_get(inputs_json, 1)), "bad\xef\xbf\xbd name");
	cr_assert_eq(json_unpack(root,
				 "{s:{s:I}, s:{s:I,s:I,s:{s:I}}, s:{s:{s:I,s:I}}, s:f, "
				 "s:[{s:s,s:s,s:I,s:f}], s:[{s:s,s:I}], s:[{s:f}]}",
				 "pt", "bytes", &bytes, "joins", "joined", &joined, "not_joined",
				 &not_joined, "by_evidence", "return addresses", &returns, "losses",
				 "overflow", "count", &overflow, "lost_ns", &overflow_ns,
				 "loss_percent", &loss, "unresolved", "module", &module, "advice",
				 &advice, "lost_ns", &lost, "percent", &share, "threads", "name",
				 &thread, "calls", &calls, "stages", "cpu_s", &cpu),
		     0);
	cr_assert_eq(bytes, 777);
	cr_assert(joined == 1 && not_joined == 1 && returns == 1 && overflow == 2);
	cr_assert_eq(overflow_ns, 100);
	cr_assert_float_eq(loss, 5.0, 1e-6);
	cr_assert_str_eq(module, "libfoo.so");
	cr_assert_str_eq(advice, "put it under --symfs");
	cr_assert_eq(lost, 100);
	cr_assert_float_eq(share, 5.0, 1e-6);
	cr_assert_str_eq(thread, "server");
	cr_assert_eq(calls, 3);
	cr_assert_float_eq(cpu, 2.5, 1e-9);
	json_decref(root);
	free(text);
	vec_done(&run.stages);
	fake_done(&f);
}

Test(text, the_summary_says_what_was_lost_and_what_helps)
{
	struct fake f;
	struct buffer text = {0};

	fill(&f);
	run = run_of();
	cr_assert_eq(stats_summary(&run, &f.trace, &f.names, &text), ERR_NONE);
	cr_assert(buffer_reserve(&text, 1));
	text.data[text.bytes] = '\0';
	cr_assert_str_eq(
		(char *)text.data,
		"2 threads, 5 calls in 1.9 us of traced time\n"
		"lost 100 ns (5.0 %): 2 overflow\n"
		"2 gaps: 1 joined (1 by return addresses), 1 not joined; code evidence in 1; 1 "
		"ambiguous\n"
		"missing code in libfoo.so: 1 time, 100 ns (5.0 %); put it under --symfs\n"
		"1 call deeper than the viewer's 511 levels is not drawn\n"
		"wrote trace.fxt.gz: 7 slices, 1.23 MB; open it in https://ui.perfetto.dev\n");
	cr_assert_float_eq(stats_loss_percent(&f.trace), 5.0, 1e-9);
	buffer_done(&text);
	fake_done(&f);
}

/* 100 ns of missing code of which 60 ran in a call-back and 10 more in other missing code. */
Test(text, missing_code_does_not_count_what_it_calls)
{
	struct fake f;
	struct buffer text = {0};
	struct run_stats dump = {.output = "-"};

	fake_init(&f);
	module_id app = fake_module("app"), lib = fake_module("libfoo.so"),
		  other = fake_module("libbar.so");
	node_id a = fake_function("a", app, 0x10);
	struct thread *t = fake_thread(&f, fake_task(&f, 1, 1, "t"));
	uint32_t missing =
		fake_bracket(&f, t, CALL_NONE,
			     (struct bracket){.kind = BRACKET_MISSING_CODE, .module = lib}, 0, 100);
	uint32_t back = fake_call(t, missing, a, 10, 70, 0);
	fake_bracket(&f, t, back, (struct bracket){.kind = BRACKET_MISSING_CODE, .module = lib}, 20,
		     25);
	fake_bracket(&f, t, missing,
		     (struct bracket){.kind = BRACKET_MISSING_CODE, .module = other}, 80, 90);
	fake_segment(t, 0, 100);
	t->traced_ns = 100;
	cr_assert_eq(stats_summary(&dump, &f.trace, &f.names, &text), ERR_NONE);
	cr_assert(buffer_reserve(&text, 1));
	text.data[text.bytes] = '\0';
	cr_assert_str_eq((char *)text.data, "1 thread, 1 call in 100 ns of traced time\n"
					    "missing code in libfoo.so: 2 times, 35 ns (35 %)\n"
					    "missing code in libbar.so: 1 time, 10 ns (10 %)\n");
	buffer_done(&text);
	fake_done(&f);
}

Test(text, a_clean_trace_has_a_short_summary)
{
	struct fake f;
	struct buffer text = {0};
	struct run_stats empty = {0};

	fake_init(&f);
	cr_assert_eq(stats_summary(&empty, &f.trace, &f.names, &text), ERR_NONE);
	cr_assert(buffer_reserve(&text, 1));
	text.data[text.bytes] = '\0';
	cr_assert_str_eq((char *)text.data, "0 threads, 0 calls in 0 ns of traced time\n");
	cr_assert_eq(stats_loss_percent(&f.trace), 0);
	buffer_done(&text);
	fake_done(&f);
}
