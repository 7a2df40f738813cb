#include "decode/trace_config.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/bytes.h"

Test(trace_config, cpuid_forms)
{
	static const struct {
		const char *text;
		bool ok, intel;
		unsigned family, model, stepping;
	} cases[] = {
		{"GenuineIntel,6,85,4", true, true, 6, 85, 4},
		{"GenuineIntel-6-55-7", true, true, 6, 0x55, 7},
		{"GenuineIntel-6-8F-8", true, true, 6, 0x8f, 8},
		{"AuthenticAMD,25,1,1", true, false, 25, 1, 1},
		{"0x00000000410fd0c0", false, false, 0, 0, 0},
		{"GenuineIntel,6", false, false, 0, 0, 0},
		{"", false, false, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct trace_config c = {0};

		cr_expect_eq(trace_config_cpuid(cases[i].text, &c), cases[i].ok, "%s",
			     cases[i].text);
		cr_expect_eq(c.cpu_is_intel, cases[i].intel, "%s", cases[i].text);
		cr_expect_eq(c.cpu_family, cases[i].family, "%s", cases[i].text);
		cr_expect_eq(c.cpu_model, cases[i].model, "%s", cases[i].text);
		cr_expect_eq(c.cpu_stepping, cases[i].stepping, "%s", cases[i].text);
	}
}

/* What perf writes on a Skylake server. */
static const uint64_t skylake[] = {8, 31,    1022611261, 777, 1, 0x400, 0x800, 3, 1,
				   1, 0x200, 0x3c000,    168, 2, 2,     21,    9};

static struct trace_info info_of(const uint64_t *values, size_t count, const char *filter)
{
	static uint8_t bytes[256];
	struct record_auxtrace_info record = {.kind = AUXTRACE_INTEL_PT, .priv = bytes};
	struct trace_info info;

	memset(bytes, 0, sizeof bytes);
	memcpy(bytes, values, count * 8);
	memcpy(bytes + count * 8, filter, strlen(filter));
	record.priv_count = count + (strlen(filter) + 7) / 8;
	trace_info_read(&record, &info);
	return info;
}

Test(trace_config, info_and_attr)
{
	struct trace_info info = info_of(skylake, 17, "main @ /p");
	/* cyc, mtc, tsc, noretcomp, branch, mtc_period=3 */
	struct perfdata_event event = {
		.type = 8, .config = 0xee02, .exclude_kernel = true, .name = ""};
	struct perfdata file = {.info.cpuid = "GenuineIntel,6,85,7",
				.events = {.items = &event, .count = 1}};
	struct sideband s = {0};

	cr_assert_eq(trace_config_read(&file, &info, NULL, &s), ERR_NONE);
	cr_expect(s.config.has_tsc && s.config.has_mtc && s.config.has_cyc);
	cr_expect(s.config.no_return_compression);
	cr_expect_not(s.config.no_branches);
	cr_expect_eq(s.config.mtc_period, 3);
	cr_expect_eq(s.config.tsc_ctc_numerator, 168);
	cr_expect_eq(s.config.tsc_ctc_denominator, 2);
	cr_expect_eq(s.config.max_non_turbo_ratio, 21);
	cr_expect(s.config.user && !s.config.kernel && s.config.per_cpu && s.config.snapshot);
	cr_expect_str_eq(intern_text(&s.names, s.config.filter), "main @ /p");
	cr_expect(s.clock.valid);
	cr_expect_eq(s.clock.time_zero, 777);
	cr_expect_eq(s.clock.time_mult, 1022611261);
	sideband_done(&s);
}

Test(trace_config, time_conv_is_preferred)
{
	struct trace_info info = info_of(skylake, 17, "");
	struct record_time_conv conversion = {.time_shift = 30,
					      .time_mult = 5,
					      .time_zero = 9,
					      .time_cycles = 11,
					      .time_mask = 0xff,
					      .has_zero = true,
					      .is_short = true};
	struct perfdata file = {.info.cpuid = ""};
	struct sideband s = {0};

	cr_assert_eq(trace_config_read(&file, &info, &conversion, &s), ERR_NONE);
	cr_expect_eq(s.clock.time_shift, 30);
	cr_expect_eq(s.clock.time_zero, 9);
	cr_expect(s.clock.is_short);
	cr_expect_eq(s.clock.time_mask, 0xff);
	sideband_done(&s);
}

Test(trace_config, no_clock_without_time_zero_or_with_nonsense)
{
	static const struct {
		uint64_t shift, mult, has_zero;
		bool valid;
	} cases[] = {{31, 7, 1, true},
		     {31, 7, 0, false},
		     {64, 7, 1, false},
		     {31, 0, 1, false},
		     {31, UINT64_MAX, 1, false}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct trace_info info = {.time_shift = cases[i].shift,
					  .time_mult = cases[i].mult,
					  .has_time_zero = cases[i].has_zero};
		struct perfdata file = {.info.cpuid = ""};
		struct sideband s = {0};

		cr_assert_eq(trace_config_read(&file, &info, NULL, &s), ERR_NONE);
		cr_expect_eq(s.clock.valid, cases[i].valid, "case %zu", i);
		sideband_done(&s);
	}
}

Test(trace_config, an_old_short_info_and_a_filter_that_lies)
{
	struct trace_info info = info_of(skylake, 10, "");
	cr_expect_eq(info.tsc_ctc_numerator, 0);
	cr_expect_eq(info.is_per_cpu, 1);

	uint64_t lying[17];
	memcpy(lying, skylake, sizeof lying);
	lying[16] = UINT64_MAX;
	info = info_of(lying, 17, "abcdefgh");
	cr_expect_eq(info.filter_bytes, 8);
}

Test(trace_config, branches_can_be_off)
{
	/* pass-through without BranchEn: a trace of PTWRITE or power events only */
	struct perfdata_event event = {.type = 8, .config = 0x1001, .name = ""};
	struct perfdata file = {.info.cpuid = "", .events = {.items = &event, .count = 1}};
	struct trace_info info = {.pmu_type = 8};
	struct sideband s = {0};

	cr_assert_eq(trace_config_read(&file, &info, NULL, &s), ERR_NONE);
	cr_expect(s.config.no_branches);
	cr_expect(s.config.user && s.config.kernel);
	sideband_done(&s);
}
