/* Doubt: where a strand may have left the truth.
 *
 * Bytes that were lost without a word are noticed late: the bits behind them are taken for
 * those before, until trace and code disagree. What was decoded in between did not happen, and
 * its first sign is mostly a return that nobody waits for. The stack at such a place is kept
 * for a while; if damage follows soon, all from there on is taken back. */
#ifndef DECODE_DOUBT_H
#define DECODE_DOUBT_H

#include <stdbool.h>

struct strand;

/* Something unusual is about to be done to the stack. */
void strand_doubt(struct strand *s);
/* The trace is damaged here: takes back what followed a recent doubt. Whether there was one;
 * then s->now_ns is the time of the doubt. */
bool strand_take_back_doubtful(struct strand *s);
void strand_doubt_done(struct strand *s);

#endif
