/* The PT set-up of a recording: AUXTRACE_INFO of intel_pt, the PT event's attr.config, and the
 * CPUID feature -> struct trace_config and the clock.
 *
 * Source: Linux tools/perf/util/intel-pt.h (order of the values), tools/perf/arch/x86/util/
 * intel-pt.c, Documentation/ABI sysfs-devices-intel_pt formats. */
#ifndef DECODE_TRACE_CONFIG_H
#define DECODE_TRACE_CONFIG_H

#include "decode/perfdata.h"
#include "decode/sideband.h"

/* The values of AUXTRACE_INFO that a file has; those beyond its end are 0. */
struct trace_info {
	uint64_t pmu_type, time_shift, time_mult, time_zero, has_time_zero;
	uint64_t tsc_bit, no_return_compression_bit;
	uint64_t switch_kind; /* enum trace_switches */
	uint64_t is_snapshot, is_per_cpu;
	uint64_t mtc_bit, mtc_freq_bits, tsc_ctc_numerator, tsc_ctc_denominator;
	uint64_t cyc_bit, max_non_turbo_ratio;
	const char *filter; /* not NUL-terminated */
	size_t filter_bytes;
};

enum trace_switches {
	TRACE_SWITCHES_NONE,
	TRACE_SWITCHES_TRACEPOINT,
	TRACE_SWITCHES_OWN,
	TRACE_SWITCHES_ALL
};

void trace_info_read(const struct record_auxtrace_info *r, struct trace_info *info);
/* "GenuineIntel,6,85,4" or "GenuineIntel-6-55-4": false = another form. */
bool trace_config_cpuid(const char *text, struct trace_config *config);
/* Fills config and clock. `conversion` (TIME_CONV) may be NULL, and info too: a file without
 * AUXTRACE_INFO; then the bits of attr.config are those that all CPUs so far have. */
MUST_CHECK enum err trace_config_read(const struct perfdata *file, const struct trace_info *info,
				      const struct record_time_conv *conversion,
				      struct sideband *result);
/* Is this the PT event itself? */
bool trace_config_is_pt(const struct perfdata *file, const struct trace_info *info,
			const struct perfdata_event *event);

#endif
