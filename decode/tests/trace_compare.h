/* Are two traces, made with one graph, the same in every row and table? */
#ifndef DECODE_TESTS_TRACE_COMPARE_H
#define DECODE_TESTS_TRACE_COMPARE_H

#include "decode/trace.h"

/* NULL, or what differs first. */
const char *trace_difference(const struct trace *a, const struct trace *b);

#endif
