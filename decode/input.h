/* What pt-decode is given: a perf.data (or a series of them), or a bundle -> sideband.
 *
 *     input_open -> input_read -> ... -> input_done
 *
 * A recording that was cut short while it was made (perf killed, disk full: its header says
 * so, and a pipe has none) is read as far as it goes, with a warning. A finished file that is
 * not whole was damaged afterwards, in a copy perhaps: that is ERR_FORMAT. */
#ifndef DECODE_INPUT_H
#define DECODE_INPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/bundle.h"
#include "decode/options.h"
#include "decode/perfdata.h"
#include "decode/sideband.h"

struct input {
	struct bundle bundle;
	struct perfdata file;
	struct symbolizer *symbolizer;
	struct sideband sideband;
	uint64_t bytes; /* of all files */
	bool file_open;
	char kcore[PATH_MAX], kallsyms[PATH_MAX]; /* of a perf.data directory; "" = none */
};

/* A zeroed input -> open files and a symbolizer. */
MUST_CHECK enum err input_open(struct input *in, const struct options *options,
			       struct error *error);
/* Fills in->sideband; the hits of a bundle are instants in it. ERR_NOT_FOUND: no Intel PT. */
MUST_CHECK enum err input_read(struct input *in, const struct options *options,
			       struct error *error);
/* Is the path one of the files that are read? After input_open(). */
bool input_is(const struct input *in, const struct options *options, const char *path);
/* Wall-clock ns since 1970 of a time of the trace; false = the recording does not tell. */
bool input_wall_clock(const struct input *in, uint64_t time_ns, uint64_t *wall_ns);
void input_done(struct input *in);

#endif
