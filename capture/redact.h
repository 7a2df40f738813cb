/* --redact: names become keyed hashes, so that a bundle can leave the place.
 *
 * Every part of a path, every comm, command line, host name and trigger is replaced by a
 * hash of it under a random key; equal names stay equal. The key is written to
 * TARGET.redact-key (mode 0600) beside the bundle and never into it: who has it can find out
 * which name a hash stands for. perf's own log is removed. */
#ifndef CAPTURE_REDACT_H
#define CAPTURE_REDACT_H

#include "common/bundle.h"
#include "common/error.h"

/* Changes DIR/perf.data, removes DIR/perf.log, and changes the description of the bundle,
 * which is not written yet. */
MUST_CHECK enum err redact_bundle(struct bundle *bundle, const char *dir, const char *target,
				  struct error *error);

#endif
