/* Precedents: when a thread was in a call made at one place of a function, and some time later
 * in one made at another place of it, was that one activation of the function or two?
 *
 *     f   ├── g ──┤      ├── h ──┤ │  │ ├── g ──┤     ├── h ──┤     one, where g comes before h
 *             t          t + gap
 *                           t            t + gap                    two, where h comes first
 *
 * Asked of all the calls of the thread that were seen whole. It knows what durations alone do
 * not: the order in which a function makes its calls. */
#ifndef DECODE_PRECEDENT_H
#define DECODE_PRECEDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "decode/call_store.h"
#include "decode/trace.h"

struct precedents {
	const struct thread *thread;
	uint32_t *first; /* per node, and one more: where the calls that wait there begin */
	uint32_t *calls; /* call indices by (node waited at, start) */
	struct spill calls_store;
	uint32_t node_count;
};

/* A function was in a call that waits at `before` when it had lasted for about age_ns, or longer
 * if it was not seen to begin; gap_ns later it was in one that waits at `after`, with about
 * rest_ns, or more, to come. */
struct precedent_case {
	node_id before, after;
	uint64_t age_ns, gap_ns, rest_ns;
	bool older, longer;
};

struct precedent {
	uint32_t count;
	uint64_t one_ns, two_ns; /* time in which a loss would have found one or two */
};

/* Rows may be joined while it is in use. False when memory is short. */
bool precedents_init(struct precedents *p, struct trace *trace, const struct thread *thread,
		     struct graph *graph);
void precedents_done(struct precedents *p);
/* The physical frame that made a call, as a row that is drawn. */
uint32_t precedents_caller(const struct precedents *p, uint32_t row);
struct precedent precedents_count(const struct precedents *p, const struct precedent_case *c);

#endif
