/* Golden command lines over perf versions and CPUs. */
#include "capture/perf_argv.h"

#include <criterion/criterion.h>
#include <string.h>

#define PERF_5_4 \
	{ \
		.path = "perf", .version = { 5, 4 } \
	}
#define PERF_5_9 \
	{ \
		.path = "perf", .version = {5, 9}, .control = true, .kcore = true \
	}
#define PERF_5_10 \
	{ \
		.path = "perf", .version = {5, 10}, .control = true, .control_snapshot = true, \
		.kcore = true \
	}
#define PERF_5_14 \
	{ \
		.path = "perf", .version = {5, 14}, .control = true, .control_snapshot = true, \
		.kcore = true, .buildid_mmap = true \
	}
#define PERF_6_1 \
	{ \
		.path = "/usr/bin/perf", .version = {6, 1}, .control = true, \
		.control_snapshot = true, .kcore = true, .buildid_mmap = true \
	}
#define PERF_6_13 \
	{ \
		.path = "perf", .version = {6, 13}, .control = true, .control_snapshot = true, \
		.kcore = true, .buildid_mmap = true \
	}
#define PERF_UNKNOWN \
	{ \
		.path = "perf" \
	}

/* nr_addr_filters 2 and the bitmaps of Skylake and later; Broadwell has neither CYC nor MTC */
#define CPU_SKYLAKE \
	{ \
		.present = true, .type = 8, .address_filters = 2, .psb_cyc = true, .mtc = true, \
		.cycle_thresholds = 0x1fff, .mtc_periods = 0x249, .psb_periods = 0x3f \
	}
#define CPU_ICELAKE \
	{ \
		.present = true, .type = 8, .address_filters = 2, .psb_cyc = true, .mtc = true, \
		.ptwrite = true, .cycle_thresholds = 0x1fff, .mtc_periods = 0x249, \
		.psb_periods = 0x3f \
	}
#define CPU_ALDERLAKE \
	{ \
		.present = true, .type = 8, .address_filters = 2, .psb_cyc = true, .mtc = true, \
		.ptwrite = true, .event_trace = true, .cycle_thresholds = 0x1fff, \
		.mtc_periods = 0x249, .psb_periods = 0x3f \
	}
#define CPU_BROADWELL \
	{ \
		.present = true, .type = 8 \
	}
#define ROOT \
	.cpu_count = 4, .caps = 0x1ffffffffff, .root = true, .kcore_readable = true, \
	.perf_event_paranoid = 2, .perf_event_mlock_bytes = 516 << 10, .memlock_bytes = 8 << 20
#define USER \
	.cpu_count = 8, .perf_event_paranoid = 2, .perf_event_mlock_bytes = 516 << 10, \
	.memlock_bytes = 8 << 20

static char *ls_argv[] = {(char[]){"ls"}, (char[]){"a b"}, NULL};
#define RUN    .command = CAPTURE_RUN, .program = ls_argv
#define ATTACH .command = CAPTURE_ATTACH, .pids = {17, 23}, .pid_count = 2

struct golden {
	const char *name;
	struct capture_options options;
	struct capabilities caps;
	uint64_t pause_at;
	pid_t pid;
	const char *expected; /* the quoted command line, or the error message's start */
	const char *note;     /* part of one of the notes; NULL = no notes at all */
	enum err err;
};

static const struct golden goldens[] = {
	{"perf 5.4 knows neither control nor kcore",
	 {RUN},
	 {ROOT, .perf = PERF_5_4, .pt = CPU_SKYLAKE},
	 0,
	 0,
	 "perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/u --snapshot=e "
	 "--no-buildid-cache "
	 "-- ls 'a b'",
	 "SIGUSR2 is used",
	 ERR_NONE},
	{"perf 5.9 has control but no snapshot command",
	 {ATTACH},
	 {ROOT, .perf = PERF_5_9, .pt = CPU_SKYLAKE},
	 0,
	 0,
	 "perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/u --control=fd:3,4 --snapshot=e "
	 "--no-buildid-cache -p 17,23",
	 "SIGUSR2 is used",
	 ERR_NONE},
	{"perf 5.10",
	 {ATTACH},
	 {ROOT, .perf = PERF_5_10, .pt = CPU_SKYLAKE},
	 0,
	 0,
	 "perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/u --control=fd:3,4 --snapshot=e "
	 "--no-buildid-cache -p 17,23",
	 "no build ids in map records",
	 ERR_NONE},
	{"perf 5.14 on a kernel that puts build ids into map records",
	 {ATTACH},
	 {ROOT, .perf = PERF_5_14, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/u --control=fd:3,4 --snapshot=e "
	 "--buildid-mmap -p 17,23",
	 NULL,
	 ERR_NONE},
	{"perf 5.14 on an older kernel",
	 {ATTACH},
	 {ROOT, .perf = PERF_5_14, .pt = CPU_SKYLAKE},
	 0,
	 0,
	 "perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/u --control=fd:3,4 --snapshot=e "
	 "--no-buildid-cache -p 17,23",
	 "no build ids in map records",
	 ERR_NONE},
	{"perf 6.1, our program held, full trace",
	 {RUN, .full = true},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_ICELAKE, .kernel_mmap_build_id = true},
	 0,
	 99,
	 "/usr/bin/perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6,ptw,fup_on_ptw/u "
	 "--control=fd:3,4 --buildid-mmap -p 99",
	 NULL,
	 ERR_NONE},
	{"kernel code",
	 {RUN, .kernel = true},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d --kcore -m 128,16M -e intel_pt/cyc,cyc_thresh=6/ "
	 "--control=fd:3,4 "
	 "--snapshot=e --buildid-mmap -- ls 'a b'",
	 NULL,
	 ERR_NONE},
	{"kernel code without a perf that saves it",
	 {RUN, .kernel = true},
	 {ROOT, .perf = PERF_5_4, .pt = CPU_SKYLAKE},
	 0,
	 0,
	 "perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/ --snapshot=e "
	 "--no-buildid-cache -- ls "
	 "'a b'",
	 "no --kcore",
	 ERR_NONE},
	{"a wrapper that tells no version",
	 {RUN},
	 {ROOT, .perf = PERF_UNKNOWN, .pt = CPU_SKYLAKE},
	 0,
	 0,
	 "perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/u --snapshot=e "
	 "--no-buildid-cache "
	 "-- ls 'a b'",
	 "SIGUSR2 is used",
	 ERR_NONE},
	{"low timing",
	 {RUN, .timing = TIMING_LOW},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 128,16M -e intel_pt//u --control=fd:3,4 --snapshot=e "
	 "--buildid-mmap -- ls 'a b'",
	 NULL,
	 ERR_NONE},
	{"high timing",
	 {RUN, .timing = TIMING_HIGH},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=1,mtc_period=0/u "
	 "--control=fd:3,4 --snapshot=e --buildid-mmap -- ls 'a b'",
	 NULL,
	 ERR_NONE},
	{"Broadwell has no cycle packets",
	 {RUN},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_BROADWELL, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 128,16M -e intel_pt//u --control=fd:3,4 --snapshot=e "
	 "--buildid-mmap -- ls 'a b'",
	 "no cycle packets",
	 ERR_NONE},
	{"robust on Alder Lake",
	 {RUN, .profile = PROFILE_ROBUST},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_ALDERLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 128,16M -e "
	 "intel_pt/cyc,cyc_thresh=6,ptw,fup_on_ptw,noretcomp,event/u --control=fd:3,4 --snapshot=e "
	 "--buildid-mmap -- ls 'a b'",
	 NULL,
	 ERR_NONE},
	{"robust without event trace",
	 {RUN, .profile = PROFILE_ROBUST},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6,noretcomp/u "
	 "--control=fd:3,4 --snapshot=e --buildid-mmap -- ls 'a b'",
	 "no event trace",
	 ERR_NONE},
	{"one thread",
	 {.command = CAPTURE_ATTACH, .pids = {17}, .pid_count = 1, .tid = 18},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/u --control=fd:3,4 "
	 "--snapshot=e --buildid-mmap --per-thread -t 18",
	 NULL,
	 ERR_NONE},
	{"filter follows its event, other events come after",
	 {RUN, .filters = {"filter main @ /bin/ls"}, .filter_count = 1, .events = {"cycles:u"},
	  .event_count = 1},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 128,16M -e intel_pt/cyc,cyc_thresh=6/u --filter 'filter "
	 "main @ "
	 "/bin/ls' -e cycles:u --control=fd:3,4 --snapshot=e --buildid-mmap -- ls 'a b'",
	 NULL,
	 ERR_NONE},
	{"no filters on this CPU",
	 {RUN, .filters = {"filter main"}, .filter_count = 1},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_BROADWELL},
	 0,
	 0,
	 "--filter: this CPU has no address filters",
	 NULL,
	 ERR_UNSUPPORTED},
	{"the trigger pauses the trace in the kernel",
	 {ATTACH},
	 {ROOT, .perf = PERF_6_13, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0x401136,
	 0,
	 "perf record -o d -m 128,16M -e "
	 "'{intel_pt/cyc,cyc_thresh=6/u,mem:0x401136:x/aux-action=pause/u}' --control=fd:3,4 "
	 "--snapshot=e --buildid-mmap -p 17,23",
	 NULL,
	 ERR_NONE},
	{"a user may lock less: 516K x 8 + 8M, shared by 8 CPUs",
	 {RUN},
	 {USER, .perf = PERF_6_1, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 32,1M -e intel_pt/cyc,cyc_thresh=6/u --control=fd:3,4 "
	 "--snapshot=e --buildid-mmap -- ls 'a b'",
	 "buffer of 1M instead of 16M",
	 ERR_NONE},
	{"what is asked for is not made smaller in silence",
	 {RUN, .buffer_bytes = 16 << 20},
	 {USER, .perf = PERF_6_1, .pt = CPU_SKYLAKE},
	 0,
	 0,
	 "8 buffers of 16M need 132128 KiB of locked memory, 12320 KiB are allowed",
	 NULL,
	 ERR_LIMIT},
	{"a buffer is a power of two",
	 {RUN, .buffer_bytes = 3 << 20},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE, .kernel_mmap_build_id = true},
	 0,
	 0,
	 "/usr/bin/perf record -o d -m 128,4M -e intel_pt/cyc,cyc_thresh=6/u --control=fd:3,4 "
	 "--snapshot=e --buildid-mmap -- ls 'a b'",
	 "rounded up to 4M",
	 ERR_NONE},
	{"no buffer of hundreds of gigabytes",
	 {RUN, .buffer_bytes = (uint64_t)1 << 40},
	 {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE},
	 0,
	 0,
	 "--buffer: at most 16G",
	 NULL,
	 ERR_LIMIT},
};

static bool has_note(const struct perf_argv *perf, const char *part)
{
	for (size_t i = 0; i < perf->note_count; i++)
		if (strstr(perf->notes[i], part))
			return true;
	return false;
}

Test(perf_argv, golden)
{
	for (size_t i = 0; i < sizeof goldens / sizeof goldens[0]; i++) {
		const struct golden *g = &goldens[i];
		struct perf_target target = {
			.data_path = "d", .control_fd = 3, .ack_fd = 4, .pause_at = {g->pause_at}};
		struct arena arena = {0};
		struct perf_argv perf = {0};
		struct error error = {0};
		enum err err = perf_argv_build(&g->options, &g->caps, &target, g->pid, &arena,
					       &perf, &error);

		cr_expect_eq(err, g->err, "%s: %s", g->name, error.message);
		if (err == ERR_NONE) {
			cr_expect_str_eq(perf_argv_quoted(&perf, &arena), g->expected, "%s",
					 g->name);
			cr_expect_null(perf.argv[perf.argc]);
			if (g->note)
				cr_expect(has_note(&perf, g->note), "%s: note", g->name);
			else
				cr_expect_eq(perf.note_count, 0, "%s: %s", g->name, perf.notes[0]);
		} else {
			cr_expect_eq(strncmp(error.message, g->expected, strlen(g->expected)), 0,
				     "%s: %s", g->name, error.message);
		}
		arena_done(&arena);
	}
}

Test(perf_argv, hostile_arguments_stay_single_arguments)
{
	char *program[] = {(char[]){"echo"}, (char[]){"'; reboot; '"}, (char[]){"$(id)"},
			   (char[]){""}, NULL};
	struct capture_options o = {.command = CAPTURE_RUN, .program = program};
	struct capabilities c = {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE};
	struct perf_target target = {.data_path = "d", .control_fd = -1, .ack_fd = -1};
	struct arena arena = {0};
	struct perf_argv perf;

	cr_assert_eq(perf_argv_build(&o, &c, &target, 0, &arena, &perf, NULL), ERR_NONE);
	cr_expect_str_eq(perf.argv[perf.argc - 3], "'; reboot; '");
	const char *text = perf_argv_quoted(&perf, &arena);
	cr_expect_not_null(strstr(text, "-- echo ''\\''; reboot; '\\''' '$(id)' ''"), "%s", text);
	arena_done(&arena);
}

Test(perf_argv, too_many_arguments_are_cut_when_shown)
{
	static char *program[PERF_ARGV_MAX * 2];
	struct capture_options o = {.command = CAPTURE_RUN, .program = program};
	struct capabilities c = {ROOT, .perf = PERF_6_1, .pt = CPU_SKYLAKE};
	struct perf_target target = {.data_path = "d", .control_fd = 3, .ack_fd = 4};
	struct arena arena = {0};
	struct perf_argv perf;

	for (size_t i = 0; i + 1 < sizeof program / sizeof program[0]; i++)
		program[i] = (char[]){"x"};
	cr_assert_eq(perf_argv_build(&o, &c, &target, 0, &arena, &perf, NULL), ERR_NONE);
	cr_expect_str_eq(perf.argv[perf.argc - 1], "...");
	arena_done(&arena);
}
