/* ptgen: makes test traces. See ptgen --help. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "testdata/machine.h"
#include "testdata/recorder.h"

static const char help[] =
	"Usage: ptgen record [OPTIONS] -o RECORDING -- PROGRAM [ARGS]\n"
	"       ptgen encode [OPTIONS] -o DIR RECORDING\n"
	"\n"
	"record runs a program, one instruction at a time, and records its branches:\n"
	"  -o, --output FILE      the recording\n"
	"  -a, --attach FUNCTION  begin when FUNCTION is reached (default: at the exec)\n"
	"  -n, --max-insns N      stop after N instructions\n"
	"  -b, --burst N          instructions a thread runs before another may (300)\n"
	"  -s, --symfs DIR        copy the mapped files to DIR, the vdso to DIR/vdso.so\n"
	"\n"
	"encode writes DIR/perf.data and DIR/truth.txt, as if perf record had been there:\n"
	"  -o, --output DIR       is made if needed\n"
	"  -c, --cpus N           per-CPU recording on N CPUs (default: per thread)\n"
	"      --system-wide      PT never stops at context switches (with -c)\n"
	"      --switches KIND    none, own, cpu-wide (default with -c), tracepoint\n"
	"      --snapshots N      N snapshots, the last at the end\n"
	"      --aux-sample N     N bytes of AUX data in each interrupt's sample instead\n"
	"      --aux-bytes N      size of the AUX buffer\n"
	"      --psb-bytes N      a PSB every N bytes (16384)\n"
	"      --mtc-shift N      an MTC every 2^N crystal ticks (3); none: no MTC\n"
	"      --cyc --noretcomp --long-tnt --defer-tips --timeless --ovf-psb\n"
	"      --mmap-build-ids --header-build-ids --compressed --callchains\n"
	"      --irq-us N         an interrupt every N us or so (50); 0 = none\n"
	"      --no-page-faults\n"
	"      --seed N\n"
	"      --fault KIND       ovf, ovf-pge, auxgap, lostswitch, tscback (--fault-size in ns);\n"
	"                         drop, drop-flagged, corrupt (in bytes)\n"
	"      --fault-count N    so many, spread over the recording (1)\n"
	"      --fault-size LOW[-HIGH]\n"
	"      --no-map NAME      no MMAP2 record for files with NAME in their path\n"
	"      --repeat N         replay the recording's main loop N times; the truth is abridged\n"
	"  -s, --symfs DIR        where to read build ids\n";

struct options {
	const char *output, *symfs;
	struct recorder_options recorder;
	struct machine_options machine;
};

enum {
	OPT_SWITCHES = 256,
	OPT_SNAPSHOTS,
	OPT_AUX,
	OPT_PSB,
	OPT_MTC,
	OPT_CYC,
	OPT_NORETCOMP,
	OPT_LONG_TNT,
	OPT_DEFER,
	OPT_TIMELESS,
	OPT_OVF_PSB,
	OPT_BUILD_IDS,
	OPT_HEADER_BUILD_IDS,
	OPT_COMPRESSED,
	OPT_CALLCHAINS,
	OPT_AUX_SAMPLE,
	OPT_SYSTEM_WIDE,
	OPT_IRQ,
	OPT_NO_FAULTS,
	OPT_SEED,
	OPT_FAULT,
	OPT_FAULT_COUNT,
	OPT_FAULT_SIZE,
	OPT_NO_MAP,
	OPT_REPEAT,
};

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"attach", required_argument, NULL, 'a'},
	{"max-insns", required_argument, NULL, 'n'},
	{"burst", required_argument, NULL, 'b'},
	{"symfs", required_argument, NULL, 's'},
	{"cpus", required_argument, NULL, 'c'},
	{"switches", required_argument, NULL, OPT_SWITCHES},
	{"snapshots", required_argument, NULL, OPT_SNAPSHOTS},
	{"aux-bytes", required_argument, NULL, OPT_AUX},
	{"psb-bytes", required_argument, NULL, OPT_PSB},
	{"mtc-shift", required_argument, NULL, OPT_MTC},
	{"cyc", no_argument, NULL, OPT_CYC},
	{"noretcomp", no_argument, NULL, OPT_NORETCOMP},
	{"long-tnt", no_argument, NULL, OPT_LONG_TNT},
	{"defer-tips", no_argument, NULL, OPT_DEFER},
	{"timeless", no_argument, NULL, OPT_TIMELESS},
	{"ovf-psb", no_argument, NULL, OPT_OVF_PSB},
	{"mmap-build-ids", no_argument, NULL, OPT_BUILD_IDS},
	{"header-build-ids", no_argument, NULL, OPT_HEADER_BUILD_IDS},
	{"compressed", no_argument, NULL, OPT_COMPRESSED},
	{"callchains", no_argument, NULL, OPT_CALLCHAINS},
	{"system-wide", no_argument, NULL, OPT_SYSTEM_WIDE},
	{"aux-sample", required_argument, NULL, OPT_AUX_SAMPLE},
	{"irq-us", required_argument, NULL, OPT_IRQ},
	{"no-page-faults", no_argument, NULL, OPT_NO_FAULTS},
	{"fault", required_argument, NULL, OPT_FAULT},
	{"fault-count", required_argument, NULL, OPT_FAULT_COUNT},
	{"fault-size", required_argument, NULL, OPT_FAULT_SIZE},
	{"no-map", required_argument, NULL, OPT_NO_MAP},
	{"repeat", required_argument, NULL, OPT_REPEAT},
	{"seed", required_argument, NULL, OPT_SEED},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int usage(const char *what)
{
	log_error("%s\nTry --help", what);
	return 2;
}

/* The place of name in names; -1 if it has none. */
static int choose(const char *name, const char *const *names, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	return -1;
}

static bool parse_switches(const char *name, enum container_switches *switches)
{
	static const char *const names[] = {"none", "tracepoint", "own", "cpu-wide"};
	int at = choose(name, names, sizeof names / sizeof *names);

	*switches = (enum container_switches)at;
	return at >= 0;
}

static bool parse_fault(const char *name, enum fault_kind *kind)
{
	static const char *const names[] = {"none",    "ovf",        "ovf-pge",
					    "auxgap",  "drop",       "drop-flagged",
					    "corrupt", "lostswitch", "tscback"};
	int at = choose(name, names, sizeof names / sizeof *names);

	*kind = (enum fault_kind)at;
	return at >= 0;
}

static bool parse_option(int option, const char *value, struct options *o, bool *switches_given)
{
	uint64_t number = strtoull(value, NULL, 0);
	struct machine_options *m = &o->machine;

	switch (option) {
	case 'o': o->output = value; break;
	case 'a': o->recorder.attach = value; break;
	case 'n': o->recorder.max_insns = number; break;
	case 'b': o->recorder.burst = (uint32_t)number; break;
	case 's': o->symfs = value; break;
	case 'c': m->cpus = (uint32_t)number; break;
	case OPT_SWITCHES:
		*switches_given = true;
		return parse_switches(value, &m->container.switches);
	case OPT_SNAPSHOTS: m->snapshots = (uint32_t)number; break;
	case OPT_AUX: m->aux_bytes = number; break;
	case OPT_PSB: m->tracer.psb_bytes = (uint32_t)number; break;
	case OPT_MTC:
		m->tracer.mtc = strcmp(value, "none") != 0;
		m->tracer.mtc_shift = (uint32_t)number;
		break;
	case OPT_CYC: m->tracer.cyc = true; break;
	case OPT_NORETCOMP: m->tracer.no_compression = true; break;
	case OPT_LONG_TNT: m->tracer.long_tnt = true; break;
	case OPT_DEFER: m->tracer.defer_tips = true; break;
	case OPT_TIMELESS: m->container.timeless = true; break;
	case OPT_OVF_PSB: m->tracer.ovf_psb = true; break;
	case OPT_BUILD_IDS: m->container.mmap_build_ids = true; break;
	case OPT_HEADER_BUILD_IDS: m->container.header_build_ids = true; break;
	case OPT_COMPRESSED: m->container.compressed = true; break;
	case OPT_CALLCHAINS: m->container.callchains = true; break;
	case OPT_SYSTEM_WIDE: m->container.system_wide = true; break;
	case OPT_AUX_SAMPLE: m->container.aux_sample_bytes = (uint32_t)number; break;
	case OPT_IRQ: m->irq_us = (uint32_t)number; break;
	case OPT_NO_FAULTS: m->page_faults = false; break;
	case OPT_SEED: m->seed = number; break;
	case OPT_FAULT: return parse_fault(value, &m->fault.kind);
	case OPT_FAULT_COUNT: m->fault.count = (uint32_t)number; break;
	case OPT_FAULT_SIZE:
		m->fault.low = m->fault.high = number;
		if (strchr(value, '-'))
			m->fault.high = strtoull(strchr(value, '-') + 1, NULL, 0);
		break;
	case OPT_NO_MAP: m->no_map = value; break;
	case OPT_REPEAT: m->repeat = (uint32_t)number; break;
	default: return false;
	}
	return true;
}

static int record(struct options *o, struct error *e)
{
	struct recording r = {0};
	static char vdso[4096];
	int status;

	snprintf(vdso, sizeof vdso, "%s/vdso.so", o->symfs ? o->symfs : ".");
	o->recorder.symfs = o->symfs;
	o->recorder.vdso = o->symfs ? vdso : NULL;
	if (o->symfs && mkdir(o->symfs, 0777) < 0 && errno != EEXIST) {
		log_error("%s: %s", o->symfs, strerror(errno));
		return 1;
	}
	enum err failed = recorder_run(&o->recorder, &r, &status, e);
	if (!failed)
		failed = recording_save(&r, o->output, e);
	recording_done(&r);
	return failed == ERR_UNSUPPORTED ? 77 : failed != ERR_NONE;
}

static int encode(struct options *o, const char *recording, struct error *e)
{
	struct recording r = {0};

	if (mkdir(o->output, 0777) < 0 && errno != EEXIST) {
		log_error("%s: %s", o->output, strerror(errno));
		return 1;
	}
	o->machine.container.symfs = o->symfs;
	o->machine.container.command = recording;
	enum err failed = recording_load(&r, recording, e);
	if (!failed)
		failed = machine_run(&r, &o->machine, o->output, e);
	recording_done(&r);
	return failed != ERR_NONE;
}

int main(int argc, char **argv)
{
	struct options o = {
		.machine =
			{.seed = 1,
			 .irq_us = 50,
			 .page_faults = true,
			 .fault = {.count = 1, .low = 5000, .high = 5000},
			 .tracer = {.psb_bytes = 16384, .mtc = true, .mtc_shift = 3, .tsc = true}},
	};
	struct error e = {0};
	bool switches_given = false;
	int option, result;

	log_init("ptgen", LOG_NORMAL);
	if (argc < 2 || strcmp(argv[1], "--help") == 0) {
		fputs(help, argc < 2 ? stderr : stdout);
		return argc < 2 ? 2 : 0;
	}
	const char *command = argv[1];
	argv[1] = argv[0];
	while ((option = getopt_long(argc - 1, argv + 1, "+o:a:n:b:s:c:h", long_options, NULL)) !=
	       -1) {
		if (option == 'h')
			return fputs(help, stdout) < 0;
		if (option == '?' ||
		    !parse_option(option, optarg ? optarg : "", &o, &switches_given))
			return usage("wrong option");
	}
	if (o.machine.cpus > CONTAINER_RINGS)
		return usage("too many CPUs");
	if (o.machine.container.system_wide && !o.machine.cpus)
		return usage("--system-wide needs --cpus");
	if (!switches_given && o.machine.cpus)
		o.machine.container.switches = SWITCHES_CPU_WIDE;
	if (o.machine.snapshots && !o.machine.aux_bytes)
		o.machine.aux_bytes = 1 << 16;
	if (o.machine.repeat && !o.machine.aux_bytes)
		o.machine.aux_bytes = 1 << 22;
	if (o.machine.container.aux_sample_bytes > 16384)
		return usage("--aux-sample: at most 16384");
	char **rest = argv + 1 + optind;
	if (!o.output || !*rest)
		return usage("what, and where to?");
	if (strcmp(command, "record") == 0) {
		o.recorder.argv = rest;
		result = record(&o, &e);
	} else if (strcmp(command, "encode") == 0) {
		result = encode(&o, *rest, &e);
	} else {
		return usage("record or encode?");
	}
	if (result && e.message[0])
		log_error("%s", e.message);
	return result;
}
