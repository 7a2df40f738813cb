/* TSC <-> perf clock, by the file's TIME_CONV / AUXTRACE_INFO parameters.
 *
 * Source: linux/perf_event.h, struct perf_event_mmap_page (time_zero, time_mult,
 * time_shift, cap_user_time_zero, cap_user_time_short). */
#ifndef DECODE_CLOCK_H
#define DECODE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct clock {
	uint64_t time_zero, time_cycles, time_mask; /* the last two only with `is_short` */
	uint32_t time_mult;
	uint16_t time_shift; /* < 64 */
	bool is_short;
	bool valid; /* false: the trace has no time; tsc values are used as if they were ns */
};

static inline uint64_t clock_ns(const struct clock *c, uint64_t tsc)
{
	if (!c->valid)
		return tsc;
	if (c->is_short)
		tsc = c->time_cycles + ((tsc - c->time_cycles) & c->time_mask);
	uint64_t quot = tsc >> c->time_shift;
	uint64_t rem = tsc & (((uint64_t)1 << c->time_shift) - 1);
	return c->time_zero + quot * c->time_mult + ((rem * c->time_mult) >> c->time_shift);
}

__extension__ typedef unsigned __int128 clock_wide;

/* The inverse, rounded down. */
static inline uint64_t clock_tsc(const struct clock *c, uint64_t ns)
{
	if (!c->valid || c->time_mult == 0)
		return ns;
	uint64_t t = ns - c->time_zero;
	uint64_t quot = t / c->time_mult;
	uint64_t rem = t % c->time_mult;
	return (quot << c->time_shift) + (uint64_t)(((clock_wide)rem << c->time_shift) / c->time_mult);
}

#endif
