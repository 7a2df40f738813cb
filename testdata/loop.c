/* See loop.h. Two equal calls at equal depth are of one activation of the caller if the
 * stack was never shorter than the caller in between. */
#include "testdata/loop.h"

#include "common/map64.h"

enum { DEPTHS_MAX = 4096, LOOP_MIN_EVENTS = 64 };

static bool is_call(const struct rec_event *ev)
{
	return ev->kind == REC_CALL || ev->kind == REC_ICALL;
}

static uint64_t key_of(const struct rec_event *ev)
{
	return map64_hash(ev->from) ^ ev->to << 16 ^ ev->depth;
}

/* The number after that of the last event whose stack was shorter than depth; 0 = none. */
static size_t last_below(const size_t *last_at, uint32_t depth)
{
	size_t last = 0;

	for (uint32_t d = 0; d < depth; d++)
		if (last_at[d] > last)
			last = last_at[d];
	return last;
}

bool loop_find(const struct recording *r, size_t first, size_t *from, size_t *to)
{
	static size_t last_at[DEPTHS_MAX];
	struct map64 seen = {0}; /* call -> its first event in this activation */
	size_t best = LOOP_MIN_EVENTS;
	bool found = false;

	for (size_t i = 0; i < DEPTHS_MAX; i++)
		last_at[i] = 0;
	for (size_t at = first; at < r->events.count && r->threads.count == 1; at++) {
		const struct rec_event *ev = &r->events.items[at];

		if (ev->depth >= DEPTHS_MAX)
			continue;
		last_at[ev->depth] = at + 1;
		if (!is_call(ev) || ev->depth == 0)
			continue;
		uint32_t since = map64_get(&seen, key_of(ev));
		bool same = since != MAP64_NONE && r->events.items[since].from == ev->from &&
			    r->events.items[since].to == ev->to &&
			    r->events.items[since].depth == ev->depth &&
			    last_below(last_at, ev->depth - 1) <= since;
		if (!same && !map64_set(&seen, key_of(ev), (uint32_t)at))
			break;
		if (same && at - since > best) {
			best = at - since;
			*from = since;
			*to = at;
			found = true;
		}
	}
	map64_done(&seen);
	return found;
}
