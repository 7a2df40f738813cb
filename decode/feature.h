/* The header features of a perf.data, one section (or HEADER_FEATURE record) at a time.
 * Part of perfdata.c's job, for perfdata.info and the events' names.
 *
 * Source: Linux tools/perf/Documentation/perf.data-file-format.txt. */
#ifndef DECODE_FEATURE_H
#define DECODE_FEATURE_H

#include <stddef.h>
#include <stdint.h>

#include "decode/perfdata.h"

enum {
	FEATURE_TRACING_DATA = 1,
	FEATURE_BUILD_ID = 2,
	FEATURE_EVENT_DESC = 12,
	FEATURE_COUNT_MAX = 256, /* bits in the header's bitmap */
};

/* Takes over what `data` says. A damaged or unknown feature is counted in p->info and
 * otherwise ignored: nothing in them is worth refusing the file. ERR_NOMEM only. */
MUST_CHECK enum err feature_read(struct perfdata *p, uint32_t file, uint64_t feature,
				 const uint8_t *data, size_t bytes);

/* EVENT_UPDATE records carry names in pipe mode. */
MUST_CHECK enum err feature_set_event_name(struct perfdata *p, uint32_t event, const char *name,
					   size_t length);

#endif
