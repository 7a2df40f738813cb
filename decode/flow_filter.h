/* The address filter of a recording: which code was traced.
 *
 *     filter START[/SIZE][@FILE], start START..., stop START..., tracestop START/SIZE...
 *
 * START is an offset in FILE, or an address of the kernel. Only "filter" bounds what is traced;
 * the others are read over.
 *
 * Source: perf-record(1), --filter; Linux kernel/events/core.c, address range filters. */
#ifndef DECODE_FLOW_FILTER_H
#define DECODE_FLOW_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "decode/sideband.h"

struct flow_filter_range {
	uint64_t start, end;
	const char *file; /* NULL = the kernel */
	size_t file_length;
};

struct flow_filter {
	VEC(struct flow_filter_range) ranges; /* none = everything is traced */
};

/* A zeroed filter is empty. The text must live as long. False when memory is short; what
 * cannot be read is left out. */
bool flow_filter_parse(struct flow_filter *f, const char *text);
void flow_filter_done(struct flow_filter *f);
/* Is code at ip traced? */
bool flow_filter_passes(const struct flow_filter *f, const struct sideband *s, space_id space,
			uint64_t ip);

#endif
