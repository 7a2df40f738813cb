/* Frames of code that the trace does not show: it is missing, or the filter leaves it out. They
 * are drawn in brackets and may call back and return like others (docs/segments.md). */
#ifndef DECODE_UNSEEN_H
#define DECODE_UNSEEN_H

#include "decode/strand.h"

/* What runs now, behind the branch at `from`, is not known. If it was called or jumped to, its
 * frame is there already. */
void strand_enter_missing(struct strand *s, node_id from);
/* Into known code at `to`, out of missing code or back inside the filter. */
void strand_reenter(struct strand *s, node_id to);
/* If the top frame, which missing code seemed to have called, returns to `to` in a frame beneath
 * that: the missing code had returned before, unseen, and the frame there has made the call. */
bool strand_return_past_missing(struct strand *s, node_id to);
/* exec in code that is missing: to a new space, which one close behind has not made yet. */
bool strand_has_execed_unseen(struct strand *s, node_id to);
/* Back inside the filter at `to`. The branch at off_node had left it. */
void strand_reenter_filter(struct strand *s, node_id to);

#endif
