/* Trigger hits of a capture bundle -> instants of the sideband.
 *
 * They are events like those perf recorded: drawn at their time and, where the capture took
 * the stack with them, anchors for the calls around. */
#ifndef DECODE_HITS_H
#define DECODE_HITS_H

#include "common/bundle.h"
#include "common/error.h"
#include "decode/sideband.h"

/* The bundle owns the frames that the instants point to: it must live as long. */
MUST_CHECK enum err hits_add(struct sideband *sideband, const struct bundle *bundle);

#endif
