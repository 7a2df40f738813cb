/* Where a bundle is made: a directory of ours, renamed or packed when it is complete. */
#ifndef CAPTURE_OUTPUT_H
#define CAPTURE_OUTPUT_H

#include <limits.h>
#include <stdbool.h>

#include "common/error.h"

struct output {
	char target[PATH_MAX]; /* what the user gets */
	char dir[PATH_MAX];    /* where it is made: beside it, "TARGET.partial-PID" */
	bool archive;          /* target ends in .tar.zst */
};

/* name NULL: "pt-COMMAND-YYYYmmdd-HHMMSS" here. The directory is made, mode 0700. A target
 * that exists is ERR_USAGE, never replaced. */
MUST_CHECK enum err output_begin(const char *name, const char *command, struct output *output,
				 struct error *error);
/* Makes it the target. On failure the directory stays, and the message names it. */
MUST_CHECK enum err output_finish(const struct output *output, struct error *error);
/* Removes it. */
void output_discard(const struct output *output);

#endif
