/* The straight line of pt-decode: one capture in, one output out.
 *
 *     perf.data -> sideband -> pieces of PT -> flow -> segments -> joins -> selection -> output */
#ifndef DECODE_PIPELINE_H
#define DECODE_PIPELINE_H

#include "common/error.h"
#include "decode/options.h"

struct pipeline_result {
	double loss_percent; /* lost of traced plus lost thread time */
	char *summary;       /* text for stderr, malloced; NULL = none */
};

/* Decodes options->inputs and writes what the options ask for. On error there is no output. */
MUST_CHECK enum err pipeline_run(const struct options *options, struct pipeline_result *result,
				 struct error *error);
void pipeline_result_done(struct pipeline_result *result);

#endif
