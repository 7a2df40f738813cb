/* How far an exception has gone: the unwinder's second phase looks at one frame after another,
 * from its caller out, and lands in the last one. Its calls are in the trace, so they are
 * counted:
 *
 *     _Unwind_RaiseException          _Unwind_Resume begins with its second phase
 *       find FDE, personality ...     first phase: is there a handler at all?
 *       second phase
 *         find FDE                    frame 1: __cxa_throw, it has no personality
 *         find FDE, personality       frame 2
 *         find FDE, personality       frame 3: lands here
 */
#ifndef DECODE_UNWIND_H
#define DECODE_UNWIND_H

#include "decode/strand.h"

/* Is an unwinder on top of the stack, which may go on in a landing pad? */
bool strand_throws(const struct strand *s);
/* The unwinder on top of the stack has landed at `to`, by what its second phase tells: the frames
 * that it has passed end. Those beneath all that is known of the stack become roots, hidden as
 * long as their functions are unknown. False: it does not tell, or not on top is an unwinder. */
bool strand_unwind_counted(struct strand *s, node_id to);

#endif
