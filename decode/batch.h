/* Many captures: `--batch DIR|LIST -o OUTDIR`.
 *
 * DIR: every capture below it (files named *.data or perf.data*, bundles); LIST: a text file
 * with one path a line. Each is decoded in a process of its own into OUTDIR/NAME.fxt.gz with
 * NAME.json (its statistics) beside it, so a bad capture never stops the others and memory is
 * given back. A capture whose results are there and newer is skipped: a batch can be resumed.
 * One JSON line per capture on standard output; --report writes JUnit XML.
 *
 * --shard I/N takes every Nth capture of the sorted list, so that the same command runs as an
 * array job. */
#ifndef DECODE_BATCH_H
#define DECODE_BATCH_H

#include "common/error.h"
#include "decode/options.h"

/* Exit status of the batch: 0 all decoded, 1 some failed, 3 some lost more than --max-loss.
 * `prepare` is called in each process that decodes, before it does; when the batch ends early,
 * those processes are told by SIGTERM. */
MUST_CHECK enum err batch_run(const struct options *options, void (*prepare)(void), int *status,
			      struct error *error);

#endif
