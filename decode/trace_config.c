/* See trace_config.h. */
#include "decode/trace_config.h"

#include <stdio.h>
#include <string.h>

#include "common/bytes.h"

/* attr.config of intel_pt, as every kernel's sysfs format files describe it: the bits of
 * MSR_IA32_RTIT_CTL. AUXTRACE_INFO repeats those that perf looked up. */
enum {
	CONFIG_PASS_THROUGH = 1 << 0, /* take BranchEn as given */
	CONFIG_CYC = 1 << 1,
	CONFIG_MTC = 1 << 9,
	CONFIG_TSC = 1 << 10,
	CONFIG_NO_RETURN_COMPRESSION = 1 << 11,
	CONFIG_BRANCH = 1 << 13,
	CONFIG_MTC_FREQ = 0xf << 14,
};

/* Order of the u64 values; newer perf puts more behind the filter string. */
enum {
	INFO_PMU_TYPE,
	INFO_TIME_SHIFT,
	INFO_TIME_MULT,
	INFO_TIME_ZERO,
	INFO_HAS_TIME_ZERO,
	INFO_TSC_BIT,
	INFO_NO_RETURN_COMPRESSION_BIT,
	INFO_SWITCH_KIND,
	INFO_SNAPSHOT,
	INFO_PER_CPU,
	INFO_MTC_BIT,
	INFO_MTC_FREQ_BITS,
	INFO_TSC_CTC_N,
	INFO_TSC_CTC_D,
	INFO_CYC_BIT,
	INFO_MAX_NON_TURBO_RATIO,
	INFO_FILTER_BYTES,
	INFO_COUNT
};

void trace_info_read(const struct record_auxtrace_info *r, struct trace_info *info)
{
	uint64_t v[INFO_COUNT] = {0};

	for (size_t i = 0; i < INFO_COUNT && i < r->priv_count; i++)
		v[i] = load_le(r->priv + 8 * i, 8);
	*info = (struct trace_info){
		.pmu_type = v[INFO_PMU_TYPE],
		.time_shift = v[INFO_TIME_SHIFT],
		.time_mult = v[INFO_TIME_MULT],
		.time_zero = v[INFO_TIME_ZERO],
		.has_time_zero = v[INFO_HAS_TIME_ZERO],
		.tsc_bit = v[INFO_TSC_BIT],
		.no_return_compression_bit = v[INFO_NO_RETURN_COMPRESSION_BIT],
		.switch_kind = v[INFO_SWITCH_KIND],
		.is_snapshot = v[INFO_SNAPSHOT],
		.is_per_cpu = v[INFO_PER_CPU],
		.mtc_bit = v[INFO_MTC_BIT],
		.mtc_freq_bits = v[INFO_MTC_FREQ_BITS],
		.tsc_ctc_numerator = v[INFO_TSC_CTC_N],
		.tsc_ctc_denominator = v[INFO_TSC_CTC_D],
		.cyc_bit = v[INFO_CYC_BIT],
		.max_non_turbo_ratio = v[INFO_MAX_NON_TURBO_RATIO],
	};
	if (r->priv_count > INFO_COUNT) {
		size_t room = 8 * (r->priv_count - INFO_COUNT);
		uint64_t claimed = v[INFO_FILTER_BYTES];

		info->filter = (const char *)r->priv + 8 * INFO_COUNT;
		info->filter_bytes = strnlen(info->filter, claimed < room ? claimed : room);
	}
}

bool trace_config_cpuid(const char *text, struct trace_config *config)
{
	unsigned family, model, stepping;
	char vendor[32];

	/* the second form is that of perf's event tables, with hexadecimal numbers */
	if (sscanf(text, "%31[^,],%u,%u,%u", vendor, &family, &model, &stepping) != 4 &&
	    sscanf(text, "%31[^-]-%u-%x-%x", vendor, &family, &model, &stepping) != 4)
		return false;
	config->cpu_is_intel = strcmp(vendor, "GenuineIntel") == 0;
	config->cpu_family = (uint16_t)family;
	config->cpu_model = (uint8_t)model;
	config->cpu_stepping = (uint8_t)stepping;
	return true;
}

bool trace_config_is_pt(const struct perfdata *file, const struct trace_info *info,
			const struct perfdata_event *event)
{
	if (info)
		return event->type == info->pmu_type;
	const char *pmu = perfdata_pmu_name(file, event->type);
	return (pmu && strcmp(pmu, "intel_pt") == 0) || strncmp(event->name, "intel_pt", 8) == 0;
}

static void trace_config_clock(const struct trace_info *info,
			       const struct record_time_conv *conversion, struct clock *clock)
{
	uint64_t shift = 0, mult = 0;

	if (conversion && conversion->has_zero) {
		shift = conversion->time_shift;
		mult = conversion->time_mult;
		clock->time_zero = conversion->time_zero;
		clock->is_short = conversion->is_short;
		if (conversion->is_short) {
			clock->time_cycles = conversion->time_cycles;
			clock->time_mask = conversion->time_mask;
		}
	} else if (info && info->has_time_zero) {
		shift = info->time_shift;
		mult = info->time_mult;
		clock->time_zero = info->time_zero;
	}
	clock->valid = mult > 0 && mult <= UINT32_MAX && shift < 64;
	clock->time_mult = (uint32_t)mult;
	clock->time_shift = clock->valid ? (uint16_t)shift : 0;
}

static unsigned lowest_bit(uint64_t bits)
{
	return bits ? (unsigned)__builtin_ctzll(bits) : 0;
}

static void trace_config_event(const struct trace_info *info, uint64_t attr,
			       struct trace_config *config)
{
	uint64_t mtc_freq = info ? info->mtc_freq_bits : CONFIG_MTC_FREQ;
	uint64_t no_compression = info && info->no_return_compression_bit
					  ? info->no_return_compression_bit
					  : CONFIG_NO_RETURN_COMPRESSION;

	config->has_tsc |= (attr & (info ? info->tsc_bit : CONFIG_TSC)) != 0;
	config->has_mtc |= (attr & (info ? info->mtc_bit : CONFIG_MTC)) != 0;
	config->has_cyc |= (attr & (info ? info->cyc_bit : CONFIG_CYC)) != 0;
	if (config->has_mtc)
		config->mtc_period = (uint32_t)((attr & mtc_freq) >> lowest_bit(mtc_freq));
	config->no_return_compression |= (attr & no_compression) != 0;
	config->no_branches |= (attr & CONFIG_PASS_THROUGH) && !(attr & CONFIG_BRANCH);
}

enum err trace_config_read(const struct perfdata *file, const struct trace_info *info,
			   const struct record_time_conv *conversion, struct sideband *result)
{
	struct trace_config *config = &result->config;

	trace_config_clock(info, conversion, &result->clock);
	trace_config_cpuid(file->info.cpuid, config);
	for (size_t i = 0; i < file->events.count; i++) {
		const struct perfdata_event *event = &file->events.items[i];

		if (event->aux_sample_bytes)
			config->sample_mode = true;
		if (!trace_config_is_pt(file, info, event))
			continue;
		trace_config_event(info, event->config, config);
		config->user |= !event->exclude_user;
		config->kernel |= !event->exclude_kernel;
	}
	if (!info)
		return ERR_NONE;
	config->per_cpu = info->is_per_cpu;
	config->snapshot = info->is_snapshot;
	config->tsc_ctc_numerator = (uint32_t)info->tsc_ctc_numerator;
	config->tsc_ctc_denominator = (uint32_t)info->tsc_ctc_denominator;
	config->max_non_turbo_ratio = (uint32_t)info->max_non_turbo_ratio;
	if (info->filter_bytes &&
	    !intern_bytes(&result->names, info->filter, info->filter_bytes, &config->filter))
		return ERR_NOMEM;
	return ERR_NONE;
}
