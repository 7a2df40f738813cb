/* Stacks that were left and may be entered again: coroutines, fibres, goroutines.
 *
 * A stack is parked when control leaves frames without their return. It is entered again by
 * a return or an indirect jump to the address that its topmost frame waits for. Runtimes
 * switch in one function, so many stacks wait at one address: the one parked first is taken
 * as a guess, and the first return that fits another one better corrects it:
 *
 *     parked   [workA] [yield] [switch]      top frame of both waits at yield+5
 *              [workB] [yield] [switch]
 *     switch returns to yield+5              guess: A; rows for workA and yield are opened
 *     yield returns to workB+5               it was B: the rows become those of B
 *
 * Frames of the left stack end at the switch and those of the entered one are opened again,
 * marked CALL_SWITCHED, and CALL_AMBIGUOUS while several stacks fit. */
#ifndef DECODE_PARKED_H
#define DECODE_PARKED_H

#include "decode/strand.h"

/* Ends all frames from stack index `first` on (their rows get `flags`) and remembers them. */
void strand_park_from(struct strand *s, size_t first, unsigned flags);
/* Ends them for good. */
void strand_drop_from(struct strand *s, size_t first, unsigned flags);
/* Like strand_park_from, but `first` itself goes on, as a frame of another stack. */
void strand_park_but_one(struct strand *s, size_t first, unsigned flags);
/* Enters the parked stack that waits for `to`; false = there is none. */
bool strand_switch_back(struct strand *s, node_id to);
/* The top frame does not wait for `to`, but would if another stack had been guessed: makes it
 * so and returns true. */
bool strand_guess_again(struct strand *s, node_id to);
/* Forgets all: the segment ends. */
void strand_forget_parked(struct strand *s);

#endif
