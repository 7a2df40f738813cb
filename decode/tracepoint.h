/* Fields of tracepoint samples, by the format descriptions in the recording (TRACING_DATA).
 * The only place that knows libtraceevent.
 *
 *     struct tracepoints *t;
 *     tracepoints_new(&t, info.tracing_data, info.tracing_data_bytes, error);
 *     id = tracepoints_find(t, "sched", "sched_switch");   // attr.config of such events
 *
 * Not thread-safe. Source: Linux tools/perf/util/trace-event-read.c for the blob. */
#ifndef DECODE_TRACEPOINT_H
#define DECODE_TRACEPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct tracepoints;

/* ERR_FORMAT: the blob contradicts itself; ERR_UNSUPPORTED: foreign endianness or version. */
MUST_CHECK enum err tracepoints_new(struct tracepoints **out, const uint8_t *blob, size_t bytes,
				    struct error *error);
void tracepoints_free(struct tracepoints *t);

/* The id (perfdata_event.config of PERF_TYPE_TRACEPOINT events), or -1. */
int64_t tracepoints_find(const struct tracepoints *t, const char *system, const char *name);

/* "sched", "sched_switch" of an id; false = not described. */
bool tracepoints_name(const struct tracepoints *t, uint32_t id, const char **system,
		      const char **name);

/* A number out of sample.raw, sign-extended if signed; false = no such field. */
bool tracepoints_number(const struct tracepoints *t, uint32_t id, const uint8_t *raw,
			size_t raw_bytes, const char *field, uint64_t *value);

/* A text out of sample.raw, not NUL-terminated; false = no such field or not text. */
bool tracepoints_text(const struct tracepoints *t, uint32_t id, const uint8_t *raw,
		      size_t raw_bytes, const char *field, const char **text, size_t *length);

/* All fields as text ("prev_comm=a prev_pid=1 ..."), cut at size - 1 bytes. */
void tracepoints_format(const struct tracepoints *t, uint32_t id, const uint8_t *raw,
			size_t raw_bytes, char *text, size_t size);

#endif
