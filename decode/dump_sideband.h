/* --dump sideband: what a recording says beside the PT bytes, as text for people and tests.
 *
 * Sections in a fixed order, one item a line, the first word its kind:
 *
 *     config, clock, task, comm, space, map, runs (a pid in a space), cpu (a CPU's switches),
 *     switch (a task's), buffer, extent, cut, known, event, poke, loss, count
 *
 * Times are SEC.NSEC; "start" and "end" stand for unknown ends. */
#ifndef DECODE_DUMP_SIDEBAND_H
#define DECODE_DUMP_SIDEBAND_H

#include <stdio.h>

#include "decode/sideband.h"

/* ERR_IO when `out` has an error in the end. */
MUST_CHECK enum err dump_sideband(const struct sideband *s, const struct symbolizer *symbolizer,
				  FILE *out, struct error *error);

#endif
