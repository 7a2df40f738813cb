/* What trace.h promises of a finished trace: every call begins before it ends, inside its parent
 * and not before its sibling ends; parents come before their children, starts never go back. */
#ifndef DECODE_TESTS_TRACE_PROMISES_H
#define DECODE_TESTS_TRACE_PROMISES_H

#include "decode/trace.h"

/* NULL, or which promise is broken. */
const char *trace_broken_promise(const struct trace *trace);

#endif
