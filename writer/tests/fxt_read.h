/* A reader of Fuchsia traces for tests: checks what was written and shows it as a viewer would.
 *
 * Checks: record sizes, order of time within a thread, padding, refs, UTF-8, argument sizes, end >= start, and per thread the
 * rules by which Perfetto nests slices (no partly overlapping ones, no unmatched or crossing
 * begin and end, flows only on slices and in pairs, no nesting beyond 512). */
#ifndef WRITER_TESTS_FXT_READ_H
#define WRITER_TESTS_FXT_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "writer/buffer.h"

struct fxt_slice {
	uint64_t start, end;
	char *name, *category, *args; /* args: "ip=0x10 tail=true" */
	uint32_t depth, thread;
	uint8_t type;                 /* event type: 0 instant, 2 begin, 4 complete */
	VEC(uint64_t) flows;          /* ids; bit 63 set where the flow ends here */
};

struct fxt_track {
	uint64_t pid, tid, last_ts;
	char *name;
	VEC(struct fxt_slice) slices; /* in viewer order: parents first */
};

struct fxt_read {
	VEC(struct fxt_track) tracks;   /* in order of first appearance */
	VEC(struct fxt_track) processes; /* pid and name only */
	struct buffer counters;         /* "CPU frequency:MHz:3 = 2100 @5" lines */
	size_t strings_defined, max_string_index, threads_defined, events, event_bytes, blobs;
	uint32_t max_depth;
	char error[256];                /* the first problem; "" = sound */
};

/* Whole file in memory, not compressed. False when something is wrong; r is valid then too. */
bool fxt_read(struct fxt_read *r, const uint8_t *data, size_t bytes);
/* "pid/tid name" and its slices, indented, one a line: "start+duration category name {args}". */
void fxt_read_show(const struct fxt_read *r, struct buffer *text);
/* Members of a gzip file, unpacked; false if damaged. `members` counts them. */
bool fxt_gunzip(const uint8_t *data, size_t bytes, struct buffer *result, size_t *members);
void fxt_read_done(struct fxt_read *r);

#endif
