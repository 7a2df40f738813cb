/* See options.h.
 *
 * getopt_long with "+": everything from the first non-option on belongs to the traced
 * program, so that "pt-capture run ls -l" needs no "--". */
#include "capture/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

const char options_help[] =
	"Usage: pt-capture run [OPTIONS] -- PROG ARGS...     run PROG and trace it\n"
	"       pt-capture attach -p PID[,PID] [OPTIONS]     trace running processes\n"
	"       pt-capture check [--json]                    can this machine trace? what is "
	"missing?\n"
	"       pt-capture bundle PERF.DATA [OPTIONS]        add the binaries to a perf.data\n"
	"\n"
	"Records Intel PT with perf and collects everything pt-decode needs elsewhere.\n"
	"A snapshot is taken at the end, on Ctrl-C, on SIGUSR2 and at triggers.\n"
	"\n"
	"What to trace\n"
	"  -p, --pid PID[,PID]      processes to attach to\n"
	"      --tid TID            only this thread of the process\n"
	"      --all-threads        every thread, present and future (default)\n"
	"      --kernel             kernel code too\n"
	"      --filter FILTER      an address filter of perf, e.g. 'filter main @ /bin/x'\n"
	"      --event EVENT        record another event too\n"
	"When to stop\n"
	"      --trigger WHERE      take a snapshot when any thread gets to a SYMBOL, 0xADDRESS\n"
	"                           or FILE:LINE (up to 4)\n"
	"      --multi N            N snapshots by trigger instead of one\n"
	"      --min-history TIME   arm the triggers only after TIME, e.g. 10ms\n"
	"      --callchain          record the call chain at the trigger\n"
	"      --duration TIME      stop after TIME, e.g. 5s\n"
	"How to trace\n"
	"      --full               write everything, not only snapshots\n"
	"      --buffer SIZE        trace memory per CPU, e.g. 16M (default: 16M or what is "
	"allowed)\n"
	"      --timing low|normal|high   how often the CPU tells the time\n"
	"      --profile robust     easier to decode after losses, at the price of more data\n"
	"      --perf PROGRAM       the perf to use\n"
	"Output\n"
	"  -o, --output DIR|FILE.tar.zst   default: pt-COMMAND-TIME/\n"
	"      --no-binaries        leave out programs and libraries\n"
	"      --redact             replace names by keyed hashes; implies --no-binaries\n"
	"      --print-command      show the perf command line and run nothing\n"
	"      --ready-fd N         write \"ready\" to N and close it once tracing\n"
	"      --json               check: as JSON\n"
	"  -q, --quiet  -v, --verbose (-vv)  -h, --help  --version\n"
	"\n"
	"Exit status: run: that of PROG (128+N if signal N ended it); 125 capture failed or no\n"
	"Intel PT, 126 PROG cannot run, 127 PROG not found; attach, bundle: 0 or 125; check: 0\n"
	"ready, 1 not; 2 wrong usage.\n";

enum {
	OPT_TID = 256,
	OPT_ALL_THREADS,
	OPT_KERNEL,
	OPT_FILTER,
	OPT_EVENT,
	OPT_TRIGGER,
	OPT_MULTI,
	OPT_MIN_HISTORY,
	OPT_CALLCHAIN,
	OPT_DURATION,
	OPT_FULL,
	OPT_BUFFER,
	OPT_TIMING,
	OPT_PROFILE,
	OPT_PERF,
	OPT_NO_BINARIES,
	OPT_REDACT,
	OPT_PRINT_COMMAND,
	OPT_READY_FD,
	OPT_JSON,
	OPT_VERSION,
	OPT_SYSTEM_ROOT
};

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"tid", required_argument, NULL, OPT_TID},
	{"all-threads", no_argument, NULL, OPT_ALL_THREADS},
	{"kernel", no_argument, NULL, OPT_KERNEL},
	{"filter", required_argument, NULL, OPT_FILTER},
	{"event", required_argument, NULL, OPT_EVENT},
	{"trigger", required_argument, NULL, OPT_TRIGGER},
	{"multi", required_argument, NULL, OPT_MULTI},
	{"min-history", required_argument, NULL, OPT_MIN_HISTORY},
	{"callchain", no_argument, NULL, OPT_CALLCHAIN},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"full", no_argument, NULL, OPT_FULL},
	{"buffer", required_argument, NULL, OPT_BUFFER},
	{"timing", required_argument, NULL, OPT_TIMING},
	{"profile", required_argument, NULL, OPT_PROFILE},
	{"perf", required_argument, NULL, OPT_PERF},
	{"output", required_argument, NULL, 'o'},
	{"no-binaries", no_argument, NULL, OPT_NO_BINARIES},
	{"redact", no_argument, NULL, OPT_REDACT},
	{"print-command", no_argument, NULL, OPT_PRINT_COMMAND},
	{"ready-fd", required_argument, NULL, OPT_READY_FD},
	{"json", no_argument, NULL, OPT_JSON},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, OPT_VERSION},
	/* For tests and for explaining another machine: not in --help. */
	{"system-root", required_argument, NULL, OPT_SYSTEM_ROOT},
	{NULL, 0, NULL, 0},
};

struct unit {
	const char *suffix;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {NULL, 0}};
static const struct unit time_units[] = {{"ns", 1},         {"us", 1000},       {"ms", 1000000},
					 {"s", 1000000000}, {"m", 60000000000}, {NULL, 0}};

/* A positive decimal number with one of the units. */
static enum err parse_quantity(const char *name, const char *text, const struct unit *units,
			       uint64_t *value, struct error *error)
{
	char *end;

	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && errno == 0 && number > 0)
		for (const struct unit *u = units; u->suffix; u++)
			if (strcmp(end, u->suffix) == 0 && number <= INT64_MAX / u->factor) {
				*value = number * u->factor;
				return ERR_NONE;
			}
	return error_set(error, ERR_USAGE, "--%s: \"%s\" is not a %s", name, text,
			 units == size_units ? "size such as 16M" : "time such as 5ms");
}

/* A decimal number of 1..max at *text; *text moves behind it. */
static enum err parse_number(const char *name, const char **text, long max, long *value,
			     struct error *error)
{
	char *end;

	errno = 0;
	long number = strtol(*text, &end, 10);
	if (**text < '0' || **text > '9' || errno != 0 || number < 1 || number > max ||
	    (*end && *end != ','))
		return error_set(error, ERR_USAGE, "--%s: \"%s\" is not a number of 1..%ld", name,
				 *text, max);
	*text = end;
	*value = number;
	return ERR_NONE;
}

static enum err parse_one_number(const char *name, const char *text, long max, long *value,
				 struct error *error)
{
	const char *whole = text;
	enum err err = parse_number(name, &text, max, value, error);

	if (err == ERR_NONE && *text)
		err = error_set(error, ERR_USAGE, "--%s: \"%s\" is not one number", name, whole);
	return err;
}

static enum err parse_pids(const char *text, struct capture_options *o, struct error *error)
{
	for (;; text++) {
		long pid;
		enum err err = parse_number("pid", &text, INT_MAX, &pid, error);

		if (err != ERR_NONE)
			return err;
		if (o->pid_count == OPTIONS_PIDS_MAX)
			return error_set(error, ERR_USAGE, "--pid: more than %d processes",
					 OPTIONS_PIDS_MAX);
		o->pids[o->pid_count++] = (pid_t)pid;
		if (!*text)
			return ERR_NONE;
	}
}

static enum err parse_word(const char *name, const char *text, const char *const *words, int *index,
			   struct error *error)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(text, words[i]) == 0) {
			*index = i;
			return ERR_NONE;
		}
	return error_set(error, ERR_USAGE, "--%s: unknown value \"%s\"", name, text);
}

static enum err add_string(const char *name, const char *text, const char **list, size_t *count,
			   size_t max, struct error *error)
{
	if (!text[0])
		return error_set(error, ERR_USAGE, "--%s: empty value", name);
	if (*count == max)
		return error_set(error, ERR_USAGE, "--%s: given more than %zu times", name, max);
	list[(*count)++] = text;
	return ERR_NONE;
}

static enum err parse_option(int opt, const char *arg, struct capture_options *o, struct error *e)
{
	static const char *const timings[] = {"normal", "low", "high", NULL};
	static const char *const profiles[] = {"default", "robust", NULL};
	enum err err = ERR_NONE;
	long number = 0;
	int word = 0;

	switch (opt) {
	case 'p': return parse_pids(arg, o, e);
	case 'o':
		if (!arg[0])
			return error_set(e, ERR_USAGE, "--output: empty name");
		o->output = arg;
		break;
	case 'q': o->verbosity = LOG_QUIET; break;
	case 'v': o->verbosity = o->verbosity < 0 ? 1 : o->verbosity + 1; break;
	case 'h': o->command = CAPTURE_HELP; break;
	case OPT_VERSION: o->command = CAPTURE_VERSION; break;
	case OPT_TID:
		err = parse_one_number("tid", arg, INT_MAX, &number, e);
		o->tid = (pid_t)number;
		break;
	case OPT_ALL_THREADS: o->tid = 0; break;
	case OPT_KERNEL: o->kernel = true; break;
	case OPT_FILTER:
		return add_string("filter", arg, o->filters, &o->filter_count, OPTIONS_FILTERS_MAX,
				  e);
	case OPT_EVENT:
		return add_string("event", arg, o->events, &o->event_count, OPTIONS_EVENTS_MAX, e);
	case OPT_TRIGGER:
		return add_string("trigger", arg, o->triggers, &o->trigger_count,
				  OPTIONS_TRIGGERS_MAX, e);
	case OPT_MULTI:
		err = parse_one_number("multi", arg, 10000, &number, e);
		o->snapshots = (unsigned)number;
		break;
	case OPT_MIN_HISTORY:
		return parse_quantity("min-history", arg, time_units, &o->min_history_ns, e);
	case OPT_CALLCHAIN: o->callchain = true; break;
	case OPT_DURATION: return parse_quantity("duration", arg, time_units, &o->duration_ns, e);
	case OPT_FULL: o->full = true; break;
	case OPT_BUFFER: return parse_quantity("buffer", arg, size_units, &o->buffer_bytes, e);
	case OPT_TIMING:
		err = parse_word("timing", arg, timings, &word, e);
		o->timing = (enum capture_timing)word;
		break;
	case OPT_PROFILE:
		err = parse_word("profile", arg, profiles, &word, e);
		o->profile = (enum capture_profile)word;
		break;
	case OPT_PERF: o->perf = arg; break;
	case OPT_NO_BINARIES: o->no_binaries = true; break;
	case OPT_REDACT: o->redact = true; break;
	case OPT_PRINT_COMMAND: o->print_command = true; break;
	case OPT_READY_FD:
		err = parse_one_number("ready-fd", arg, INT_MAX, &number, e);
		o->ready_fd = (int)number;
		break;
	case OPT_JSON: o->json = true; break;
	case OPT_SYSTEM_ROOT: o->system_root = arg; break;
	}
	return err;
}

/* What only makes sense together, or with one command. */
static enum err check_combination(struct capture_options *o, int argc, char **argv, struct error *e)
{
	bool tracing = o->command == CAPTURE_RUN || o->command == CAPTURE_ATTACH;

	if (o->command == CAPTURE_RUN && argc == 0)
		return error_set(e, ERR_USAGE, "run: no program given");
	if (o->command == CAPTURE_RUN && o->pid_count > 0)
		return error_set(e, ERR_USAGE, "run: -p goes with attach");
	if (o->command == CAPTURE_BUNDLE && argc != 1)
		return error_set(e, ERR_USAGE, "bundle: exactly one PERF.DATA is needed");
	if ((o->command == CAPTURE_ATTACH || o->command == CAPTURE_CHECK) && argc > 0)
		return error_set(e, ERR_USAGE, "unexpected argument \"%s\"", argv[0]);
	if (o->command == CAPTURE_ATTACH && o->pid_count == 0)
		return error_set(e, ERR_USAGE, "attach: no process given (-p PID)");
	if (o->tid != 0 && (o->command != CAPTURE_ATTACH || o->pid_count != 1))
		return error_set(e, ERR_USAGE, "--tid goes with attach and one process");
	if (o->tid != 0 && o->event_count > 0)
		return error_set(e, ERR_USAGE, "--event cannot be combined with --tid");
	if (!tracing && (o->trigger_count > 0 || o->print_command))
		return error_set(e, ERR_USAGE, "--%s goes with run and attach",
				 o->print_command ? "print-command" : "trigger");
	if (o->json && o->command != CAPTURE_CHECK)
		return error_set(e, ERR_USAGE, "--json goes with check");
	if (o->trigger_count == 0 && (o->snapshots > 0 || o->min_history_ns > 0 || o->callchain))
		return error_set(e, ERR_USAGE, "--%s needs --trigger",
				 o->snapshots > 0        ? "multi"
				 : o->min_history_ns > 0 ? "min-history"
							 : "callchain");
	if (o->trigger_count > 0 && o->pid_count > 1)
		return error_set(e, ERR_USAGE, "--trigger goes with one process");
	if (o->redact && (o->filter_count > 0 || o->event_count > 0))
		return error_set(e, ERR_USAGE,
				 "--redact cannot be combined with --%s: perf.data repeats it",
				 o->filter_count > 0 ? "filter" : "event");
	return ERR_NONE;
}

enum err options_parse(int argc, char **argv, struct capture_options *options, struct error *error)
{
	static const char *const commands[] = {"run", "attach", "check", "bundle", "help", NULL};
	struct capture_options o = {.ready_fd = -1};
	enum err err = ERR_NONE;
	int word = CAPTURE_HELP, opt;

	if (argc < 2)
		return error_set(error, ERR_USAGE, "no command given");
	bool have_command = argv[1][0] != '-';
	if (have_command) {
		if (parse_word("", argv[1], commands, &word, NULL) != ERR_NONE)
			return error_set(error, ERR_USAGE, "unknown command \"%s\"", argv[1]);
		argc--, argv++;
	}
	o.command = (enum capture_command)word;

	opterr = 0;
	optind = 0; /* glibc: start afresh, for callers that parse twice */
	/* ":" = a missing argument is told from an unknown option. "+" only where a program
	 * with options of its own follows. */
	const char *shorts = o.command == CAPTURE_RUN ? "+:p:o:qvh" : ":p:o:qvh";
	while ((opt = getopt_long(argc, argv, shorts, long_options, NULL)) != -1) {
		if (opt == '?')
			return error_set(error, ERR_USAGE, "unknown option \"%s\"",
					 optopt && optopt < 256 ? (char[]){'-', (char)optopt, 0}
								: argv[optind - 1]);
		if (opt == ':')
			return error_set(error, ERR_USAGE, "option \"%s\" needs a value",
					 argv[optind - 1]);
		err = parse_option(opt, optarg, &o, error);
		if (err != ERR_NONE)
			return err;
		if (opt == 'h' || opt == OPT_VERSION) {
			*options = o; /* whatever else was said does not matter */
			return ERR_NONE;
		}
	}
	if (!have_command)
		return error_set(error, ERR_USAGE, "no command given");
	err = check_combination(&o, argc - optind, argv + optind, error);
	if (err != ERR_NONE)
		return err;
	if (o.command == CAPTURE_RUN)
		o.program = argv + optind;
	if (o.command == CAPTURE_BUNDLE)
		o.perf_data = argv[optind];
	if (o.trigger_count > 0 && o.snapshots == 0)
		o.snapshots = 1;
	if (o.redact)
		o.no_binaries = true; /* the symbols of binaries are names too */
	*options = o;
	return ERR_NONE;
}
