#include "capture/options.h"

#include <criterion/criterion.h>
#include <string.h>

enum { ARGS_MAX = 16 };

struct parse_case {
	const char *name;
	const char *argv[ARGS_MAX];
	const char *error; /* part of the message; NULL = accepted */
};

static char program_name[] = "pt-capture";

static int parse(const char *const *words, struct capture_options *o, struct error *error)
{
	static char *argv[ARGS_MAX + 2]; /* the options point into it */
	int argc = 1;

	memset(argv, 0, sizeof argv);
	argv[0] = program_name;
	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	return (int)options_parse(argc, argv, o, error);
}

static const struct parse_case cases[] = {
	{"run", {"run", "--", "ls", "-l"}, NULL},
	{"run without dashes", {"run", "--full", "ls", "--kernel"}, NULL},
	{"attach", {"attach", "-p", "1,22"}, NULL},
	{"check", {"check", "--json"}, NULL},
	{"bundle", {"bundle", "perf.data", "-o", "x"}, NULL},
	{"help anywhere", {"attach", "--help"}, NULL},
	{"no command", {NULL}, "no command"},
	{"only an option", {"-v"}, "no command"},
	{"unknown command", {"trace"}, "unknown command \"trace\""},
	{"unknown long option", {"run", "--frob", "--", "ls"}, "unknown option \"--frob\""},
	{"unknown short option", {"run", "-Z", "--", "ls"}, "unknown option \"-Z\""},
	{"value missing", {"attach", "-p"}, "needs a value"},
	{"no program", {"run", "--full"}, "no program"},
	{"no pid", {"attach"}, "no process"},
	{"pid 0", {"attach", "-p", "0"}, "not a number of 1.."},
	{"pid garbage", {"attach", "-p", "1;reboot"}, "not a number"},
	{"pid list with a hole", {"attach", "-p", "1,,2"}, "not a number"},
	{"pid list with a tail", {"attach", "-p", "1,"}, "not a number"},
	{"size without a unit known", {"run", "--buffer", "16X", "ls"}, "not a size"},
	{"size negative", {"run", "--buffer", "-1", "ls"}, "not a size"},
	{"size beyond all", {"run", "--buffer", "99999999999999G", "ls"}, "not a size"},
	{"time without a unit", {"run", "--duration", "5", "ls"}, "not a time"},
	{"timing unknown", {"run", "--timing", "max", "ls"}, "unknown value \"max\""},
	{"multi without trigger", {"run", "--multi", "2", "ls"}, "--multi needs --trigger"},
	{"five triggers",
	 {"run", "--trigger", "a", "--trigger", "b", "--trigger", "c", "--trigger", "d",
	  "--trigger", "e", "ls"},
	 "more than 4"},
	{"trigger for many", {"attach", "-p", "1,2", "--trigger", "f"}, "one process"},
	{"tid for run", {"run", "--tid", "3", "ls"}, "--tid goes with attach"},
	{"tid with event", {"attach", "-p", "1", "--tid", "3", "--event", "cycles"}, "--event"},
	{"stray argument", {"check", "now"}, "unexpected argument \"now\""},
	{"json elsewhere", {"run", "--json", "ls"}, "--json goes with check"},
	{"redact with filter", {"run", "--redact", "--filter", "f", "ls"}, "--redact cannot"},
	{"empty trigger", {"run", "--trigger", "", "ls"}, "empty value"},
};

Test(options, accepts_and_refuses)
{
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct capture_options o;
		struct error error = {0};
		int err = parse(cases[i].argv, &o, &error);

		cr_expect_eq(err, cases[i].error ? ERR_USAGE : ERR_NONE, "%s: %d", cases[i].name,
			     err);
		if (cases[i].error)
			cr_expect_not_null(strstr(error.message, cases[i].error), "%s: \"%s\"",
					   cases[i].name, error.message);
	}
}

Test(options, options_behind_the_program_are_the_program_s)
{
	struct capture_options o;

	cr_assert_eq(parse((const char *[]){"run", "--full", "ls", "--kernel", NULL}, &o, NULL), 0);
	cr_expect(o.full);
	cr_expect_not(o.kernel);
	cr_expect_str_eq(o.program[0], "ls");
	cr_expect_str_eq(o.program[1], "--kernel");
	cr_expect_null(o.program[2]);
}

Test(options, values_have_units)
{
	struct capture_options o;

	cr_assert_eq(parse((const char *[]){"attach", "-p", "7,8", "--buffer=16M",
					    "--duration=1500us", "-vv", "-o", "out", NULL},
			   &o, NULL),
		     0);
	cr_expect_eq(o.buffer_bytes, 16 << 20);
	cr_expect_eq(o.duration_ns, 1500000);
	cr_expect_eq(o.pid_count, 2);
	cr_expect_eq(o.pids[1], 8);
	cr_expect_eq(o.verbosity, 2);
	cr_expect_str_eq(o.output, "out");
	cr_expect_eq(o.ready_fd, -1);
}

Test(options, implications)
{
	struct capture_options o;

	cr_assert_eq(
		parse((const char *[]){"run", "--redact", "--trigger", "f", "ls", NULL}, &o, NULL),
		0);
	cr_expect(o.no_binaries, "symbols are names");
	cr_expect_eq(o.snapshots, 1);
}
