/* What container.c and container_header.c share. */
#ifndef TESTDATA_CONTAINER_PRIVATE_H
#define TESTDATA_CONTAINER_PRIVATE_H

#include "testdata/container.h"

enum {
	CONTAINER_PT_TYPE = 8, /* of the PMU, in /sys */
	/* Bits of the PT event's config, as the driver's format files name them. */
	CONFIG_PT = 1 << 0,
	CONFIG_CYC = 1 << 1,
	CONFIG_MTC = 1 << 9,
	CONFIG_TSC = 1 << 10,
	CONFIG_NO_RETURN_COMPRESSION = 1 << 11,
	CONFIG_BRANCH = 1 << 13,
	CONFIG_MTC_PERIOD = 1 << 14,
	CONFIG_PSB_PERIOD = 1 << 24,
};

/* The tracepoint's number, which the TRACING_DATA feature explains. */
enum { SCHED_SWITCH_TYPE = 314, SCHED_SWITCH_BYTES = 64 };

bool write_tracing_data(FILE *f);

static inline uint64_t container_id(const struct container *c, enum container_event event,
				    uint32_t ring)
{
	return 100 + event * c->config.rings + ring;
}

#endif
