/* Where a segment of a strand ends and the next one begins: losses and exec. */
#ifndef DECODE_BREAK_H
#define DECODE_BREAK_H

#include "decode/strand.h"

/* Damaged bytes: what was decoded is wrong, not only incomplete. */
bool loss_is_damage(unsigned cause);
/* Ends the open segment at the loss and starts the next one at `to`. */
void strand_break(struct strand *s, uint64_t lost_ns, node_id lost_at, unsigned cause, node_id to,
		  bool barrier);
/* The stack is deeper than any real one: the edge from -> to starts afresh. */
void strand_give_up(struct strand *s, node_id from, node_id to);

/* Did the thread exec between two times? Each exec is found once. */
bool strand_exec_between(struct strand *s, uint64_t from_ns, uint64_t to_ns);
/* Does the new beginning at `to`, which is not where the thread stood, come from exec? The
 * records' times and those of the trace differ by some us. */
bool strand_has_execed(struct strand *s, node_id left_at, uint64_t left_ns, node_id to);
/* If the thread, that entered the kernel at left_at, has execed in it: starts a segment at `to`
 * that is joined to nothing. */
bool strand_exec_barrier(struct strand *s, node_id left_at, uint64_t left_ns, node_id to);
/* Does the thread, or what it has execed, begin at `to`? A thread goes on behind its clone. */
bool strand_begins_thread(const struct strand *s, node_id to);

#endif
