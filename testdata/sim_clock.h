/* The clocks of the modelled machine, all functions of one count of core cycles.
 *
 *     core cycles --3/4--> TSC (2.1 GHz) --/84--> CTC (25 MHz crystal)
 *                                        --mult/shift--> perf time in ns
 *
 * The core runs at 2.8 GHz: CBR 28 against a max non-turbo ratio of 21. */
#ifndef TESTDATA_SIM_CLOCK_H
#define TESTDATA_SIM_CLOCK_H

#include <stdint.h>

enum {
	SIM_CBR = 28,
	SIM_MAX_NON_TURBO_RATIO = 21,
	SIM_TSC_PER_CTC = 84,
	SIM_CTC_NUMERATOR = 168, /* CPUID 0x15: EBX */
	SIM_CTC_DENOMINATOR = 2, /* EAX */
	SIM_TIME_SHIFT = 31,
	SIM_TIME_MULT = 1022611261,
	SIM_TIME_ZERO = 12345678,
};

static inline uint64_t sim_tsc(uint64_t cycles)
{
	return cycles / 4 * 3 + cycles % 4 * 3 / 4;
}

static inline uint64_t sim_ns_of_tsc(uint64_t tsc)
{
	uint64_t high = tsc >> SIM_TIME_SHIFT, low = tsc & ((1ull << SIM_TIME_SHIFT) - 1);

	return SIM_TIME_ZERO + high * SIM_TIME_MULT + (low * SIM_TIME_MULT >> SIM_TIME_SHIFT);
}

static inline uint64_t sim_ns(uint64_t cycles)
{
	return sim_ns_of_tsc(sim_tsc(cycles));
}

static inline uint64_t sim_cycles_of_ns(uint64_t ns)
{
	return ns * 14 / 5; /* durations only */
}

#endif
