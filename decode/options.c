/* See options.h. */
#include "decode/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
	"Usage: pt-decode [OPTIONS] PERF.DATA|BUNDLE-DIR|BUNDLE.tar.zst...\n"
	"Decodes Intel PT from a perf.data and writes a trace for https://ui.perfetto.dev.\n"
	"\n"
	"Output:\n"
	"  -o, --output FILE        trace.fxt.gz by default; .fxt or .fxt.gz; - = standard output\n"
	"      --dump KIND          text instead of a trace: records, sideband, packets, edges,\n"
	"                           calls, segments, joins, symbols (to standard output, or -o)\n"
	"      --args none|basic|full  what each slice carries (default basic: ip and marks)\n"
	"      --stats FILE         losses, joins, unresolved code, times and memory as JSON\n"
	"      --max-loss PCT       exit 3 if more than PCT % of the traced time is lost\n"
	"\n"
	"Where code and symbols are:\n"
	"      --symfs DIR          files at their recorded path below DIR (nothing of this host)\n"
	"      --debug-dir DIR      debug files by build id or debuglink (repeatable)\n"
	"      --debuginfod         may ask the servers of $DEBUGINFOD_URLS\n"
	"      --kcore FILE, --kallsyms FILE   kernel code and symbols\n"
	"      --perf-map FILE, --jitdump FILE JIT code (repeatable)\n"
	"\n"
	"What goes into the trace:\n"
	"      --pid N, --tid N, --cpu N, --comm NAME   only these (repeatable)\n"
	"      --time START..END    ns, or like +5ms..+10ms from the first event; either may be "
	"left out\n"
	"      --between START STOP only from calls of START to calls of STOP (function names)\n"
	"      --min-duration T     leave out shorter calls, e.g. 1us\n"
	"      --no-inline, --no-demangle, --kernel, --user   detail\n"
	"\n"
	"Many captures:\n"
	"      --batch DIR|LIST     decode all into the directory -o; one JSON line each on "
	"stdout\n"
	"      --shard I/N          of a batch only every Nth capture, from the Ith (1..N)\n"
	"      --report FILE        JUnit XML of the batch\n"
	"\n"
	"Running:\n"
	"  -j, --jobs N             threads (default: all CPUs); the output is the same for any N\n"
	"      --engine fast|libipt own flow decoder, or libipt's block decoder as reference\n"
	"      --max-memory SIZE    spill to a file, refuse what needs more, e.g. 2G\n"
	"  -q, --quiet  -v, --verbose  --progress  -h, --help  -V, --version\n"
	"\n"
	"Exit status: 0 complete, 1 failed (no output), 2 usage, 3 output written, but more lost\n"
	"than --max-loss allows.\n";

const char *options_help(void)
{
	return help_text;
}

enum long_option {
	OPT_DUMP = 256,
	OPT_ARGS,
	OPT_STATS,
	OPT_MAX_LOSS,
	OPT_SYMFS,
	OPT_DEBUG_DIR,
	OPT_DEBUGINFOD,
	OPT_KCORE,
	OPT_KALLSYMS,
	OPT_PERF_MAP,
	OPT_JITDUMP,
	OPT_PID,
	OPT_TID,
	OPT_CPU,
	OPT_COMM,
	OPT_TIME,
	OPT_BETWEEN,
	OPT_MIN_DURATION,
	OPT_NO_INLINE,
	OPT_NO_DEMANGLE,
	OPT_KERNEL,
	OPT_USER,
	OPT_BATCH,
	OPT_SHARD,
	OPT_REPORT,
	OPT_ENGINE,
	OPT_MAX_MEMORY,
	OPT_PROGRESS,
};

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"jobs", required_argument, NULL, 'j'},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"dump", required_argument, NULL, OPT_DUMP},
	{"args", required_argument, NULL, OPT_ARGS},
	{"stats", required_argument, NULL, OPT_STATS},
	{"max-loss", required_argument, NULL, OPT_MAX_LOSS},
	{"symfs", required_argument, NULL, OPT_SYMFS},
	{"debug-dir", required_argument, NULL, OPT_DEBUG_DIR},
	{"debuginfod", no_argument, NULL, OPT_DEBUGINFOD},
	{"kcore", required_argument, NULL, OPT_KCORE},
	{"kallsyms", required_argument, NULL, OPT_KALLSYMS},
	{"perf-map", required_argument, NULL, OPT_PERF_MAP},
	{"jitdump", required_argument, NULL, OPT_JITDUMP},
	{"pid", required_argument, NULL, OPT_PID},
	{"tid", required_argument, NULL, OPT_TID},
	{"cpu", required_argument, NULL, OPT_CPU},
	{"comm", required_argument, NULL, OPT_COMM},
	{"time", required_argument, NULL, OPT_TIME},
	{"between", required_argument, NULL, OPT_BETWEEN},
	{"min-duration", required_argument, NULL, OPT_MIN_DURATION},
	{"no-inline", no_argument, NULL, OPT_NO_INLINE},
	{"no-demangle", no_argument, NULL, OPT_NO_DEMANGLE},
	{"kernel", no_argument, NULL, OPT_KERNEL},
	{"user", no_argument, NULL, OPT_USER},
	{"batch", required_argument, NULL, OPT_BATCH},
	{"shard", required_argument, NULL, OPT_SHARD},
	{"report", required_argument, NULL, OPT_REPORT},
	{"engine", required_argument, NULL, OPT_ENGINE},
	{"max-memory", required_argument, NULL, OPT_MAX_MEMORY},
	{"progress", no_argument, NULL, OPT_PROGRESS},
	{0},
};

struct word {
	const char *text;
	uint64_t value;
};

static const struct word dump_words[] = {
	{"records", DUMP_RECORDS}, {"sideband", DUMP_SIDEBAND}, {"packets", DUMP_PACKETS},
	{"edges", DUMP_EDGES},     {"calls", DUMP_CALLS},       {"segments", DUMP_SEGMENTS},
	{"joins", DUMP_JOINS},     {"symbols", DUMP_SYMBOLS},   {0}};
static const struct word args_words[] = {
	{"none", ARGS_NONE}, {"basic", ARGS_BASIC}, {"full", ARGS_FULL}, {0}};
static const struct word engine_words[] = {{"fast", ENGINE_FAST}, {"libipt", ENGINE_LIBIPT}, {0}};
static const struct word time_units[] = {{"ns", 1},         {"us", 1000}, {"ms", 1000000},
					 {"s", 1000000000}, {"", 1},      {0}};
static const struct word size_units[] = {{"K", 1 << 10},           {"M", 1 << 20}, {"G", 1 << 30},
					 {"T", (uint64_t)1 << 40}, {"", 1},        {0}};

static enum err parse_word(const char *name, const char *text, const struct word *words,
			   uint64_t *value, struct error *error)
{
	char known[128] = "";

	for (; words->text; words++) {
		if (strcmp(text, words->text) == 0) {
			*value = words->value;
			return ERR_NONE;
		}
		if (known[0])
			strncat(known, ", ", sizeof known - strlen(known) - 1);
		strncat(known, words->text, sizeof known - strlen(known) - 1);
	}
	return error_set(error, ERR_USAGE, "--%s: '%s' is not one of %s", name, text, known);
}

/* A decimal number with an optional fraction and one of the units. */
static bool parse_scaled(const char *text, const struct word *units, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	uint64_t whole = strtoull(text, &end, 10);
	double fraction = 0, digit = 0.1;
	if (errno)
		return false;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++, digit /= 10)
			fraction += (*end - '0') * digit;
	for (; units->text; units++) {
		if (strcmp(end, units->text) != 0)
			continue;
		if (whole > UINT64_MAX / units->value / 2)
			return false;
		*value = whole * units->value + (uint64_t)(fraction * (double)units->value + 0.5);
		return true;
	}
	return false;
}

static enum err parse_time_point(const char *text, struct time_point *point, struct error *error)
{
	*point = (struct time_point){0};
	if (!*text)
		return ERR_NONE;
	point->given = true;
	point->relative = *text == '+';
	if (!parse_scaled(text + point->relative, time_units, &point->ns))
		return error_set(error, ERR_USAGE, "--time: '%s' is not a time like +5ms", text);
	return ERR_NONE;
}

static enum err parse_time_range(const char *text, struct options *o, struct error *error)
{
	const char *dots = strstr(text, "..");
	char start[64];

	if (!dots || (size_t)(dots - text) >= sizeof start)
		return error_set(error, ERR_USAGE, "--time: '%s' is not START..END", text);
	memcpy(start, text, (size_t)(dots - text));
	start[dots - text] = '\0';
	enum err err = parse_time_point(start, &o->from, error);
	if (err == ERR_NONE)
		err = parse_time_point(dots + 2, &o->until, error);
	if (err == ERR_NONE && o->from.given && o->until.given &&
	    o->from.relative == o->until.relative && o->from.ns >= o->until.ns)
		err = error_set(error, ERR_USAGE, "--time: '%s' is empty: it ends before it starts",
				text);
	return err;
}

static enum err parse_number(const char *name, const char *text, int64_t low, int64_t high,
			     int64_t *value, struct error *error)
{
	char *end;

	errno = 0;
	long long n = strtoll(text, &end, 10);
	if (errno || end == text || *end || n < low || n > high)
		return error_set(error, ERR_USAGE, "--%s: '%s' is not a number from %lld to %lld",
				 name, text, (long long)low, (long long)high);
	*value = n;
	return ERR_NONE;
}

static enum err parse_shard(const char *text, struct options *o, struct error *error)
{
	char *end, *end2;
	unsigned long index = strtoul(text, &end, 10);
	unsigned long count = *end == '/' ? strtoul(end + 1, &end2, 10) : 0;

	if (*end != '/' || *end2 || index < 1 || count < 1 || index > count || count > 1000000)
		return error_set(error, ERR_USAGE, "--shard: '%s' is not I/N with 1 <= I <= N",
				 text);
	o->shard_index = (unsigned)index - 1;
	o->shard_count = (unsigned)count;
	return ERR_NONE;
}

#define PUSH(list, item) (vec_push(&(list), (item)) ? ERR_NONE : ERR_NOMEM)

static enum err options_id(struct options *o, int opt, const char *name, struct error *error)
{
	int64_t n = 0;
	enum err err = parse_number(name, optarg, 0, INT32_MAX, &n, error);

	if (err != ERR_NONE)
		return err;
	return opt == OPT_PID   ? PUSH(o->pids, (int32_t)n)
	       : opt == OPT_TID ? PUSH(o->tids, (int32_t)n)
				: PUSH(o->cpus, (int32_t)n);
}

static enum err options_word(struct options *o, int opt, struct error *error)
{
	uint64_t word = 0;
	enum err err = opt == OPT_DUMP   ? parse_word("dump", optarg, dump_words, &word, error)
		       : opt == OPT_ARGS ? parse_word("args", optarg, args_words, &word, error)
					 : parse_word("engine", optarg, engine_words, &word, error);

	if (err != ERR_NONE)
		return err;
	if (opt == OPT_DUMP)
		o->dump = (enum dump_kind)word;
	else if (opt == OPT_ARGS)
		o->args = (enum args_kind)word;
	else
		o->engine = (enum engine_kind)word;
	return ERR_NONE;
}

static enum err options_quantity(struct options *o, int opt, struct error *error)
{
	char *end;
	int64_t n = 0;

	switch (opt) {
	case OPT_MIN_DURATION:
		if (!parse_scaled(optarg, time_units, &o->min_duration_ns))
			return error_set(error, ERR_USAGE,
					 "--min-duration: '%s' is not a time like 1us", optarg);
		return ERR_NONE;
	case OPT_MAX_MEMORY:
		if (!parse_scaled(optarg, size_units, &o->max_memory_bytes) || !o->max_memory_bytes)
			return error_set(error, ERR_USAGE,
					 "--max-memory: '%s' is not a size like 2G", optarg);
		return ERR_NONE;
	case OPT_MAX_LOSS:
		o->max_loss_percent = strtod(optarg, &end);
		if (end == optarg || *end ||
		    !(o->max_loss_percent >= 0 && o->max_loss_percent <= 100))
			return error_set(error, ERR_USAGE, "--max-loss: '%s' is not a percentage",
					 optarg);
		return ERR_NONE;
	default: break;
	}
	enum err err = parse_number("jobs", optarg, 1, 1024, &n, error);
	o->jobs = (unsigned)n;
	return err;
}

static enum err options_one(struct options *o, int opt, int argc, char **argv, struct error *error)
{
	switch (opt) {
	case 'o': o->output = optarg; return ERR_NONE;
	case 'q': o->verbosity = -1; return ERR_NONE;
	case 'v': o->verbosity++; return ERR_NONE;
	case 'h': o->action = ACTION_HELP; return ERR_NONE;
	case 'V': o->action = ACTION_VERSION; return ERR_NONE;
	case OPT_STATS: o->stats = optarg; return ERR_NONE;
	case OPT_SYMFS: o->symfs = optarg; return ERR_NONE;
	case OPT_DEBUG_DIR: return PUSH(o->debug_dirs, optarg);
	case OPT_DEBUGINFOD: o->debuginfod = true; return ERR_NONE;
	case OPT_KCORE: o->kcore = optarg; return ERR_NONE;
	case OPT_KALLSYMS: o->kallsyms = optarg; return ERR_NONE;
	case OPT_PERF_MAP: return PUSH(o->perf_maps, optarg);
	case OPT_JITDUMP: return PUSH(o->jitdumps, optarg);
	case OPT_PID: return options_id(o, opt, "pid", error);
	case OPT_TID: return options_id(o, opt, "tid", error);
	case OPT_CPU: return options_id(o, opt, "cpu", error);
	case OPT_COMM: return PUSH(o->comms, optarg);
	case OPT_TIME: return parse_time_range(optarg, o, error);
	case OPT_BETWEEN:
		o->between_start = optarg;
		if (optind >= argc)
			return error_set(error, ERR_USAGE, "--between needs two function names");
		o->between_stop = argv[optind++];
		return ERR_NONE;
	case OPT_NO_INLINE: o->no_inline = true; return ERR_NONE;
	case OPT_NO_DEMANGLE: o->no_demangle = true; return ERR_NONE;
	case OPT_KERNEL: o->kernel_only = true; return ERR_NONE;
	case OPT_USER: o->user_only = true; return ERR_NONE;
	case OPT_BATCH: o->batch = optarg; return ERR_NONE;
	case OPT_SHARD: return parse_shard(optarg, o, error);
	case OPT_REPORT: o->report_junit = optarg; return ERR_NONE;
	case OPT_PROGRESS: o->progress = true; return ERR_NONE;
	case OPT_DUMP:
	case OPT_ARGS:
	case OPT_ENGINE: return options_word(o, opt, error);
	default: return options_quantity(o, opt, error);
	}
}

static enum err options_check(const struct options *o, struct error *error)
{
	if (o->action != ACTION_DECODE)
		return ERR_NONE;
	if (o->kernel_only && o->user_only)
		return error_set(error, ERR_USAGE, "--kernel and --user exclude each other");
	if (!o->batch && (o->shard_count || o->report_junit))
		return error_set(error, ERR_USAGE, "--shard and --report go with --batch");
	if (o->output && !*o->output)
		return error_set(error, ERR_USAGE, "-o: the name is empty");
	if (o->batch && !o->output)
		return error_set(error, ERR_USAGE, "--batch needs -o OUTDIR");
	if (o->batch && (o->inputs.count || o->dump))
		return error_set(error, ERR_USAGE,
				 "--batch takes its inputs from DIR or LIST, no --dump");
	bool has_calls = o->dump == DUMP_NONE || o->dump >= DUMP_CALLS;
	if (!has_calls && (o->stats || o->max_loss_percent >= 0))
		return error_set(error, ERR_USAGE,
				 "--stats and --max-loss need call stacks: not with --dump records, "
				 "sideband, packets, edges");
	if (!o->batch && o->inputs.count == 0)
		return error_set(error, ERR_USAGE, "no perf.data given");
	return ERR_NONE;
}

enum err options_parse(int argc, char **argv, struct options *options, struct error *error)
{
	struct options o = {.max_loss_percent = -1};
	enum err err = ERR_NONE;
	int opt;

	opterr = 0;
	optind = 1;
	while (err == ERR_NONE &&
	       (opt = getopt_long(argc, argv, ":o:j:qvhV", long_options, NULL)) != -1) {
		if (opt == ':')
			err = error_set(error, ERR_USAGE, "%s needs an argument", argv[optind - 1]);
		else if (opt == '?')
			err = error_set(error, ERR_USAGE, "unknown option '%s'", argv[optind - 1]);
		else
			err = options_one(&o, opt, argc, argv, error);
	}
	for (; err == ERR_NONE && optind < argc; optind++)
		err = PUSH(o.inputs, argv[optind]);
	if (err == ERR_NONE)
		err = options_check(&o, error);
	if (err == ERR_NONE && (!vec_push(&o.debug_dirs, NULL) || !vec_push(&o.perf_maps, NULL) ||
				!vec_push(&o.jitdumps, NULL)))
		err = ERR_NOMEM;
	if (err == ERR_NONE)
		*options = o;
	else
		options_done(&o);
	return err;
}

void options_done(struct options *o)
{
	vec_done(&o->inputs);
	vec_done(&o->debug_dirs);
	vec_done(&o->perf_maps);
	vec_done(&o->jitdumps);
	vec_done(&o->pids);
	vec_done(&o->tids);
	vec_done(&o->cpus);
	vec_done(&o->comms);
}
