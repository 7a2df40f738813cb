/* Transfer: what calls, returns, jumps, kernel entries and transactions do to a strand's stack.
 *
 * A control transfer that lands at `to` is asked, in this order:
 *
 *     1. does the top frame wait for it?          an ordinary return
 *     2. does a deeper frame wait for it?         frames above it were skipped
 *     3. does a parked stack wait for it?         a switch of stacks
 *     4. is it the first byte of a function?      a tail call (push; ret and the like)
 *     5. is it a setjmp, a landing pad, the inside of a waiting function?   an unwind
 *     6. is it preceded by a call?                an outer frame, found by its return
 *     7. none of these                            the top frame was replaced
 *
 * Addresses decide before functions, functions before names (names are never asked). */
#ifndef DECODE_TRANSFER_H
#define DECODE_TRANSFER_H

#include "decode/flow.h"
#include "decode/strand.h"
#include "decode/tree.h"

void strand_call(struct strand *s, node_id from, node_id to);
void strand_return(struct strand *s, node_id from, node_id to);
/* Into another function, or indirect. */
void strand_jump(struct strand *s, node_id from, node_id to);
/* Back from the kernel. */
void strand_exit(struct strand *s, node_id to);
void strand_transaction(struct strand *s, const struct flow_event *e);

/* The events of a tree at once, while the strand is on. False: the stack wants to see them, one
 * by one; nothing has happened. */
bool strand_tree(struct strand *s, const struct stay *stay, const struct tree *tree);

/* Stack index of the topmost frame that waits for `to`; SIZE_MAX = none. */
size_t strand_waiting_for(const struct strand *s, node_id to);

#endif
