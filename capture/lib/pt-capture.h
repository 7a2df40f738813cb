/* For programs that know best when to look: link libpt-capture.a and run under pt-capture.
 *
 *     ptcapture_mark_start(request_id);
 *     ... handle the request ...
 *     if (took_too_long)
 *             ptcapture_take_snapshot(request_id);
 *
 * The functions do nothing by themselves (a call and a return). pt-capture puts a hardware
 * breakpoint on them: mark_start is drawn in the trace, take_snapshot takes a snapshot as a
 * --trigger does (the first one ends the recording, unless --multi N). The argument is
 * recorded with them. Safe in any thread and in signal handlers. */
#ifndef PT_CAPTURE_H
#define PT_CAPTURE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void ptcapture_mark_start(uint64_t argument);
void ptcapture_take_snapshot(uint64_t argument);

#ifdef __cplusplus
}
#endif

#endif
