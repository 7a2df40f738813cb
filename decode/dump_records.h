/* --dump records: one line of text per record, for people and for comparing with
 * `perf script -D`.
 *
 *     [FILE:]OFFSET BYTES TYPE SEC.NSEC cpu C PID/TID: FIELD ...
 *
 * OFFSET is hexadecimal and that of the COMPRESSED record for what came out of one; FILE is
 * its index when there are several. What the record does not say is not printed. A summary
 * of the header stands before, of the damage behind, each line beginning with '#'. */
#ifndef DECODE_DUMP_RECORDS_H
#define DECODE_DUMP_RECORDS_H

#include <stdio.h>

#include "decode/perfdata.h"

/* ERR_IO when `out` has an error in the end. Walks the file. */
MUST_CHECK enum err dump_records(struct perfdata *p, FILE *out, struct error *error);

#endif
