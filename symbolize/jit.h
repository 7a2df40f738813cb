/* Code made at run time: perf-PID.map (names) and jitdump (names and bytes, with times).
 *
 * Formats: tools/perf/Documentation/jit-interface.txt and jitdump-specification.txt of the
 * kernel. Memory is reused, so one address can hold several pieces of code one after the
 * other: entries are put into layers, inside which none overlaps another. A layer is what
 * the symbolizer calls a module.
 *
 * Order: jit_new(), jit_read_*() or jit_add() any number of times, jit_finish() once, then
 * lookups. */
#ifndef SYMBOLIZE_JIT_H
#define SYMBOLIZE_JIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/bytes.h"
#include "common/error.h"
#include "common/file_map.h"
#include "common/vec.h"

#define JIT_MAX_ENTRIES (1u << 24)
#define JIT_MAX_LAYERS  256 /* older code below that many reuses of one address is dropped */

struct jit_code {
	uint64_t start, end;
	uint64_t from_ns, until_ns; /* when it was there: 0, UINT64_MAX = not known */
	const char *name;
	const uint8_t *bytes; /* end - start of them, or NULL */
	uint32_t order;       /* of two at one time the later read is the newer */
	uint32_t layer;
};

struct jit {
	int32_t pid;
	struct file_map map; /* the file; the entries' bytes lie in it */
	struct arena names;
	VEC(struct jit_code) codes; /* after jit_finish(): sorted by layer, then start */
	VEC(uint32_t) layer_start;  /* index of each layer's first code, then the count */
};

/* How the time stamps of a jitdump that counts TSC ticks become perf clock; mult 0 = not
 * known, then the order in the file stands in for time. */
struct jit_clock {
	uint64_t time_zero;
	uint32_t time_mult;
	uint16_t time_shift;
};

/* Entries of a perf-PID.map. Lines that make no sense are skipped. false = no memory. */
bool jit_read_map(struct jit *j, struct bytes text);
/* Entries of a jitdump; sets pid. ERR_FORMAT: not one; ERR_UNSUPPORTED; ERR_NOMEM. A dump
 * that breaks off (its process was killed) is read up to there. */
MUST_CHECK enum err jit_read_dump(struct jit *j, struct bytes dump, const struct jit_clock *clock);
bool jit_add(struct jit *j, struct jit_code code);
bool jit_finish(struct jit *j);
void jit_done(struct jit *j);

static inline size_t jit_layer_count(const struct jit *j)
{
	return j->layer_start.count ? j->layer_start.count - 1 : 0;
}

/* The code at ip at that time: the newest that was there; when none was yet, the first to
 * come (clocks of dump and recording can differ). UINT64_MAX asks for the end of the trace.
 * `until_ns` = when the answer changes. */
const struct jit_code *jit_find(const struct jit *j, uint64_t ip, uint64_t time_ns,
				uint64_t *until_ns);
/* The code of one layer at ip, and else the gap [*start, *end) around ip. */
const struct jit_code *jit_find_in(const struct jit *j, size_t layer, uint64_t ip, uint64_t *start,
				   uint64_t *end);

#endif
