/* Which of A's frames can have gone on across a loss, by the code alone, if L0 stands at a depth?
 *
 *     A                        B
 *     main   waits behind f    main            X0 .. Xc went on, those further in are others. The
 *     f      waits behind g    f     called h  code of Xc must lead from where A left it to where
 *     g                        h               B knows it, or to a call of what B knows above it.
 *
 * Here c = 1 needs a way in f from behind the call of g to that of h, and c = 0 one in main from
 * behind the call of f to there again. Without either L0 is at another depth. */
#ifndef DECODE_GOES_ON_H
#define DECODE_GOES_ON_H

#include <stdbool.h>

#include "decode/align.h"

/* c is one of low .. high, if all frames go on that are further out than B's outermost level and
 * what called that; high < low: the code allows none. */
struct goes_on {
	long low, high;
	long alike; /* the innermost frame whose function and return addresses do not disagree */
};

/* No claim. */
extern const struct goes_on goes_on_anything;

struct goes_on goes_on_at(struct aligner *a, long depth);
/* Can X(c) be the innermost frame that went on? */
bool goes_on_can(struct aligner *a, long depth, long c);

#endif
