#include "capture/check.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define GOOD \
	.cpu_intel = true, .cpu_pt = true, .cpu_model = "Xeon", .cpu_count = 4, \
	.pt = {.present = true, .type = 8, .psb_cyc = true, .mtc = true}, .kernel = {6, 1}, \
	.kernel_release = "6.1.0", .perf_events = true, .perf_event_mlock_bytes = 516 << 10, \
	.memlock_bytes = UINT64_MAX, \
	.perf = {.path = "/usr/bin/perf", \
		 .version = {6, 1}, \
		 .control = true, \
		 .control_snapshot = true}

struct check_case {
	const char *name;
	struct capabilities caps;
	const char *item; /* the first missing one; NULL = ready */
	const char *text, *fix;
};

/* "good, but": the overridden initialisers are the point. */
#pragma GCC diagnostic ignored "-Woverride-init"

static const struct check_case cases[] = {
	{"good", {GOOD, .perf_event_paranoid = 1}, NULL, NULL, NULL},
	{"a user with paranoid 2", {GOOD, .perf_event_paranoid = 2}, NULL, NULL, NULL},
	{"AMD", {.cpu_model = "EPYC", .perf_events = true}, "cpu", "not an Intel CPU", "Intel CPU"},
	{"a virtual machine",
	 {.cpu_intel = true, .cpu_hypervisor = true, .perf_events = true},
	 "cpu",
	 "virtual machine",
	 "pt_mode=1"},
	{"an old Intel",
	 {.cpu_intel = true, .perf_events = true},
	 "cpu",
	 "does not offer",
	 "Broadwell"},
	{"CPU has it, kernel not",
	 {.cpu_intel = true, .cpu_pt = true, .perf_events = true},
	 "pmu",
	 "no intel_pt PMU",
	 "CONFIG_CPU_SUP_INTEL"},
	{"in use", {GOOD, .pt.open_errno = EBUSY}, "pmu", "in use", "pgrep -a perf"},
	{"Debian's default",
	 {GOOD, .perf_event_paranoid = 3},
	 "permission",
	 "perf_event_paranoid is 3",
	 "sudo sysctl kernel.perf_event_paranoid=2"},
	{"paranoid, but perf has the capability",
	 {GOOD, .perf_event_paranoid = 4, .perf.file_caps = (uint64_t)1 << 38},
	 NULL,
	 NULL,
	 NULL},
	{"seccomp in a container",
	 {GOOD, .software_event_errno = EPERM, .seccomp = 2, .container = true},
	 "seccomp",
	 "seccomp",
	 "docker run"},
	{"no perf", {GOOD, .perf.path = ""}, "perf", "not installed", "apt-get install"},
	{"a wrapper without a perf",
	 {GOOD, .perf.version = {0, 0}, .perf.unusable = true},
	 "perf",
	 "does not work",
	 "linux-tools"},
	{"old perf", {GOOD, .perf.version = {4, 19}}, "perf", "older than 5.4", "5.4 or later"},
	{"perf without AUX",
	 {GOOD, .perf.no_auxtrace = true},
	 "perf",
	 "without AUX",
	 "NO_AUXTRACE"},
	{"no perf events",
	 {GOOD, .perf_events = false},
	 "kernel",
	 "no perf events",
	 "CONFIG_PERF_EVENTS"},
};

Test(check, says_what_is_missing_and_how_to_mend_it)
{
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct check_report report;

		check_build(&cases[i].caps, &report);
		const struct check_item *missing = check_first_missing(&report);
		cr_expect_eq(report.ready, cases[i].item == NULL, "%s", cases[i].name);
		if (!cases[i].item) {
			cr_expect_null(missing, "%s", cases[i].name);
			continue;
		}
		cr_assert_not_null(missing, "%s", cases[i].name);
		cr_expect_str_eq(missing->name, cases[i].item, "%s", cases[i].name);
		cr_expect_not_null(strstr(missing->text, cases[i].text), "%s: %s", cases[i].name,
				   missing->text);
		cr_expect_not_null(strstr(missing->fix, cases[i].fix), "%s: %s", cases[i].name,
				   missing->fix);
	}
}

Test(check, locked_memory_is_computed)
{
	/* 128 CPUs x 16 MiB are more than 2 GiB; 516 KiB each and 8 MiB are allowed. */
	struct capabilities c = {GOOD};
	struct check_report report;

	c.cpu_count = 128;
	c.memlock_bytes = 8 << 20;
	check_build(&c, &report);
	char *text = check_text(&report);
	cr_assert_not_null(text);
	cr_expect_not_null(strstr(text, "16M on 128 CPUs lock 2064 MiB, 72 MiB are allowed"), "%s",
			   text);
	cr_expect(report.ready, "smaller buffers are used");
	free(text);
}

Test(check, json_is_json)
{
	struct capabilities c = {.cpu_model = "odd \"name\" \\ with \x01 control"};
	struct check_report report;

	check_build(&c, &report);
	char *text = check_json(&report);
	cr_assert_not_null(text);
	json_t *root = json_loads(text, 0, NULL);
	cr_assert_not_null(root);
	cr_expect(json_is_false(json_object_get(root, "ready")));
	cr_expect_eq(json_array_size(json_object_get(root, "checks")), report.count);
	json_decref(root);
	free(text);
}
