/* What a command line becomes; what is refused is in cli.test. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "decode/options.h"

enum { WORDS_MAX = 32, LINE_BYTES = 256 };

/* The options of "pt-decode LINE x": words at blanks. They live until the next call. */
static struct options parse(const char *line)
{
	static char text[LINE_BYTES], program[] = "pt-decode", input[] = "x";
	char *argv[WORDS_MAX + 1] = {program}, *rest;
	struct options options;
	struct error error = {0};
	int argc = 1;

	snprintf(text, sizeof text, "%s", line);
	for (char *word = strtok_r(text, " ", &rest); word && argc < WORDS_MAX;
	     word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	argv[argc++] = input;
	cr_assert_eq(options_parse(argc, argv, &options, &error), ERR_NONE, "%s: %s", line,
		     error.message);
	return options;
}

Test(options, defaults)
{
	struct options o = parse("");

	cr_expect_eq(o.action, ACTION_DECODE);
	cr_expect_eq(o.inputs.count, 1);
	cr_expect_str_eq(o.inputs.items[0], "x");
	cr_expect_null(o.output);
	cr_expect_eq(o.dump, DUMP_NONE);
	cr_expect_eq(o.args, ARGS_BASIC);
	cr_expect_eq(o.engine, ENGINE_FAST);
	cr_expect_lt(o.max_loss_percent, 0);
	cr_expect_eq(o.verbosity, 0);
	cr_expect_null(o.debug_dirs.items[0]);
	options_done(&o);
}

Test(options, times)
{
	static const struct {
		const char *text;
		struct time_point from, until;
	} cases[] = {
		{"--time 5..7", {true, false, 5}, {true, false, 7}},
		{"--time +5ms..+10ms", {true, true, 5000000}, {true, true, 10000000}},
		{"--time +1.5us..", {true, true, 1500}, {false, false, 0}},
		{"--time ..+2s", {false, false, 0}, {true, true, 2000000000}},
		{"--time 450000.5s..+1ns", {true, false, 450000500000000}, {true, true, 1}},
		{"--time=..", {false, false, 0}, {false, false, 0}},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct options o = parse(cases[i].text);

		cr_expect_eq(o.from.given, cases[i].from.given, "%s", cases[i].text);
		cr_expect_eq(o.from.relative, cases[i].from.relative, "%s", cases[i].text);
		cr_expect_eq(o.from.ns, cases[i].from.ns, "%s", cases[i].text);
		cr_expect_eq(o.until.given, cases[i].until.given, "%s", cases[i].text);
		cr_expect_eq(o.until.relative, cases[i].until.relative, "%s", cases[i].text);
		cr_expect_eq(o.until.ns, cases[i].until.ns, "%s", cases[i].text);
		options_done(&o);
	}
}

Test(options, sizes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {{"--max-memory 4096", 4096},
		     {"--max-memory 2K", 2048},
		     {"--max-memory 1.5M", 3 << 19},
		     {"--max-memory=2G", (uint64_t)2 << 30},
		     {"--max-memory 1T", (uint64_t)1 << 40}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct options o = parse(cases[i].text);

		cr_expect_eq(o.max_memory_bytes, cases[i].bytes, "%s", cases[i].text);
		options_done(&o);
	}
}

Test(options, what_may_be_repeated)
{
	struct options o = parse("--pid 1 --pid 2 --tid 3 --cpu 0 --cpu 4 --comm a --comm b "
				 "--debug-dir d1 --debug-dir d2 --perf-map m");

	cr_assert_eq(o.pids.count, 2);
	cr_expect_eq(o.pids.items[1], 2);
	cr_assert_eq(o.tids.count, 1);
	cr_assert_eq(o.cpus.count, 2);
	cr_expect_eq(o.cpus.items[1], 4);
	cr_assert_eq(o.comms.count, 2);
	cr_expect_str_eq(o.debug_dirs.items[1], "d2");
	cr_expect_null(o.debug_dirs.items[2]);
	cr_expect_str_eq(o.perf_maps.items[0], "m");
	options_done(&o);
}

Test(options, the_rest)
{
	struct options o = parse("--between start stop -j 3 -vv --args full --engine libipt "
				 "--min-duration 1us --max-loss 2.5 --dump joins -o out");

	cr_expect_str_eq(o.between_start, "start");
	cr_expect_str_eq(o.between_stop, "stop");
	cr_expect_eq(o.jobs, 3);
	cr_expect_eq(o.verbosity, 2);
	cr_expect_eq(o.args, ARGS_FULL);
	cr_expect_eq(o.engine, ENGINE_LIBIPT);
	cr_expect_eq(o.min_duration_ns, 1000);
	cr_expect_eq(o.max_loss_percent, 2.5);
	cr_expect_eq(o.dump, DUMP_JOINS);
	cr_expect_str_eq(o.output, "out");
	cr_expect_eq(o.inputs.count, 1);
	options_done(&o);
}

Test(options, batch)
{
	static char program[] = "pt-decode", batch[] = "--batch=runs", out[] = "-oout",
		    shard[] = "--shard=2/8";
	char *argv[] = {program, batch, out, shard, NULL};
	struct options o;

	cr_assert_eq(options_parse(4, argv, &o, NULL), ERR_NONE);
	cr_expect_str_eq(o.batch, "runs");
	cr_expect_eq(o.shard_index, 1);
	cr_expect_eq(o.shard_count, 8);
	options_done(&o);
}
