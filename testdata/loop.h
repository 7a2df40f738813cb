/* The main loop of a recording: the longest stretch that can be replayed again and again. */
#ifndef TESTDATA_LOOP_H
#define TESTDATA_LOOP_H

#include "testdata/recording.h"

/* Events [*from, *to) begin with the same call, in the same activation of the same function,
 * as the event at *to: control and stack are where they were. Looks at or after `first`.
 * false: none of some length, or several threads. */
bool loop_find(const struct recording *r, size_t first, size_t *from, size_t *to);

#endif
