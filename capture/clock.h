/* perf's clock and the wall clock at one moment. */
#ifndef CAPTURE_CLOCK_H
#define CAPTURE_CLOCK_H

#include "common/bundle.h"

/* clock->known is false where the kernel does not tell how TSC and perf's clock relate. */
void clock_read(struct bundle_clock *clock);

#endif
