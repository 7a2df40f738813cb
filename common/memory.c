/* See memory.h. */
#include "common/memory.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_EVERY_NS = 10000000 };

uint64_t memory_used(void)
{
	unsigned long long size, resident, shared;
	FILE *f = fopen("/proc/self/statm", "re");
	int got = f ? fscanf(f, "%llu %llu %llu", &size, &resident, &shared) : 0;

	if (f)
		fclose(f);
	return got == 3 ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

bool memory_limit_is_passed(struct memory_limit *limit)
{
	struct timespec ts;

	if (!limit || !limit->bytes || limit->passed_bytes)
		return limit && limit->passed_bytes;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	uint64_t now_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	if (limit->asked_ns && now_ns - limit->asked_ns < LOOK_EVERY_NS)
		return false;
	uint64_t used = memory_used();
	limit->asked_ns = now_ns;
	if (used > limit->bytes)
		limit->passed_bytes = used;
	return limit->passed_bytes;
}
