/* A machine is described as a tree of small files; perf's abilities as the texts it prints. */
#include "capture/capabilities.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/capabilities_test.XXXXXX";

static void put(const char *path, const char *text)
{
	char full[4096];
	int length = snprintf(full, sizeof full, "%s%s", root, path);

	cr_assert(length > 0 && (size_t)length < sizeof full);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	FILE *file = fopen(full, "w");
	cr_assert_not_null(file, "%s", full);
	fputs(text, file);
	fclose(file);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void make_root(void)
{
	cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(capabilities, .init = make_root, .fini = remove_root);

#define PMU "/sys/bus/event_source/devices/intel_pt/"

Test(capabilities, a_machine_with_everything)
{
	struct capabilities c;

	put("/proc/cpuinfo",
	    "processor\t: 0\nvendor_id\t: GenuineIntel\n"
	    "model name\t: Intel(R) Xeon(R) Gold 6230\nflags\t\t: fpu vme intel_pt ssse3\n");
	put("/sys/devices/system/cpu/online", "0-3,8-11\n");
	put(PMU "type", "8\n");
	put(PMU "nr_addr_filters", "2\n");
	put(PMU "caps/psb_cyc", "1\n");
	put(PMU "caps/mtc", "1\n");
	put(PMU "caps/ptwrite", "0\n");
	put(PMU "caps/cycle_thresholds", "1fff\n");
	put(PMU "caps/mtc_periods", "249\n");
	put(PMU "caps/psb_periods", "3f\n");
	put("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
	put("/proc/sys/kernel/perf_event_paranoid", "3\n");
	put("/proc/sys/kernel/perf_event_mlock_kb", "516\n");
	put("/proc/sys/kernel/kptr_restrict", "1\n");
	put("/proc/self/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n"
				 "CapEff:\t0000004000004000\nSeccomp:\t2\n");
	put("/proc/self/limits",
	    "Limit                     Soft Limit           Hard Limit           Units\n"
	    "Max locked memory         8388608              8388608              bytes\n");
	put("/proc/1/cgroup", "0::/kubepods/pod1\n");
	capabilities_probe("/nonexistent/perf", root, &c);

	cr_expect(c.cpu_intel && c.cpu_pt && !c.cpu_hypervisor);
	cr_expect_str_eq(c.cpu_model, "Intel(R) Xeon(R) Gold 6230");
	cr_expect_eq(c.cpu_count, 8);
	cr_expect(c.pt.present && c.pt.psb_cyc && c.pt.mtc && !c.pt.ptwrite);
	cr_expect_eq(c.pt.type, 8);
	cr_expect_eq(c.pt.address_filters, 2);
	cr_expect_eq(c.pt.mtc_periods, 0x249);
	cr_expect_eq(c.kernel.major, 6);
	cr_expect(c.kernel_mmap_build_id && !c.kernel_aux_pause);
	cr_expect_eq(c.perf_event_paranoid, 3);
	cr_expect_eq(c.memlock_bytes, 8 << 20);
	cr_expect_not(c.root);
	cr_expect_eq(c.seccomp, 2);
	cr_expect(c.container);
	cr_expect(capabilities_may_trace_user(&c), "CAP_PERFMON");
	cr_expect_eq(capabilities_lockable_bytes(&c), UINT64_MAX, "CAP_IPC_LOCK");
	cr_expect_eq(c.perf.path[0], '\0');
}

Test(capabilities, an_empty_machine_has_nothing)
{
	struct capabilities c;

	capabilities_probe("/nonexistent/perf", root, &c);
	cr_expect_not(c.cpu_intel || c.cpu_pt || c.pt.present || c.perf_events || c.container);
	cr_expect_gt(c.cpu_count, 0);
	cr_expect_eq(capabilities_lockable_bytes(&c), (516u << 10) * c.cpu_count + (64u << 10));
}

Test(capabilities, hostile_files_do_no_harm)
{
	struct capabilities c;

	put("/sys/devices/system/cpu/online", "0-99999999999999,5-1,-");
	put("/proc/self/limits", "Max locked memory");
	put("/proc/cpuinfo", "flags");
	capabilities_probe("/nonexistent/perf", root, &c);
	cr_expect_gt(c.cpu_count, 0);
}

struct text_case {
	const char *name, *version, *help;
	struct perf_capabilities expected;
};

static const struct text_case texts[] = {
	{"5.4",
	 "perf version 5.4.86\n",
	 "    -o, --output <file>   output file name\n    -S, --snapshot[=<opts>]\n",
	 {.version = {5, 4}}},
	{"5.9: control without snapshot",
	 "perf version 5.9.0\n",
	 "    -o, --output <file>\n        --kcore           copy\n        --control "
	 "<fd:ctl-fd[,ack-fd]>\n"
	 "                          'enable': enable events, 'disable': disable events\n",
	 {.version = {5, 9}, .control = true, .kcore = true}},
	{"6.1",
	 "perf version 6.1.187\n             get_cpuid: [ on  ]  # HAVE_AUXTRACE_SUPPORT\n",
	 "    -o, --output <file>\n        --kcore\n        --buildid-mmap    Record\n"
	 "        --control <fd:..>\n      'snapshot': AUX area tracing snapshot).\n",
	 {.version = {6, 1},
	  .control = true,
	  .control_snapshot = true,
	  .kcore = true,
	  .buildid_mmap = true}},
	{"no version from a wrapper, but the options",
	 "starting perf...\n",
	 "    -o, --output <file>\n        --kcore\n        --control\n",
	 {.control = true, .kcore = true}},
	{"a version, but no options",
	 "perf version 5.10.5\n",
	 "",
	 {.version = {5, 10}, .control = true, .control_snapshot = true, .kcore = true}},
	{"built without AUX tracing",
	 "perf version 6.8.1\n               auxtrace: [ OFF ]  # HAVE_AUXTRACE_SUPPORT\n"
	 "                   zstd: [ on  ]  # HAVE_ZSTD_SUPPORT\n",
	 "    -o, --output <file>\n",
	 {.version = {6, 8}, .no_auxtrace = true}},
	{"another library is off",
	 "perf version 6.8.1\n                libbfd: [ OFF ]  # HAVE_LIBBFD_SUPPORT\n"
	 "               auxtrace: [ on  ]  # HAVE_AUXTRACE_SUPPORT\n",
	 "    -o, --output <file>\n",
	 {.version = {6, 8}}},
	{"a wrapper without a perf",
	 "WARNING: perf not found for kernel 6.5.0-14\n",
	 "WARNING: perf not found for kernel 6.5.0-14\n",
	 {.unusable = true}},
	{"nothing at all", "", "", {.unusable = true}},
};

Test(capabilities, perf_is_read_from_its_texts)
{
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		const struct text_case *t = &texts[i];
		struct perf_capabilities p = {0};

		perf_capabilities_parse(t->version, t->help, &p);
		cr_expect(memcmp(&p, &t->expected, sizeof p) == 0, "%s", t->name);
	}
}
