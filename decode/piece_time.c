/* See piece.h: the times of pieces against each other.
 *
 * A CPU's clock does not go back, so the first times of the pieces must not. Where they do, a
 * TSC packet is damaged or the clock jumped:
 *
 *      times   ╱  ‾ ╱        ╱         The longest series that never goes back is right.
 *             ╱    ╱    ___ ╱          The others are moved to where their bytes lie
 *            ╱    ╱        ╱           between their neighbours in it.
 */
#include <stdlib.h>

#include "decode/piece.h"

static bool is_ascending(const struct pieces *p)
{
	uint64_t last = 0;

	for (size_t i = 0; i < p->items.count; i++) {
		uint64_t time = p->items.items[i].header_time_ns;

		if (time == TIME_NONE)
			continue;
		if (time < last)
			return false;
		last = time;
	}
	return true;
}

/* Marks the pieces of the longest series that does not go back. */
static void mark_good(const struct flow_piece *pieces, size_t count, uint32_t *tails,
		      uint32_t *before, bool *good)
{
	size_t length = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t time = pieces[i].header_time_ns;
		size_t low = 0, high = length;

		good[i] = false;
		if (time == TIME_NONE)
			continue;
		/* The longest series that this piece can go on. */
		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (pieces[tails[middle]].header_time_ns <= time)
				low = middle + 1;
			else
				high = middle;
		}
		before[i] = low ? tails[low - 1] : UINT32_MAX;
		tails[low] = (uint32_t)i;
		if (low == length)
			length++;
	}
	for (uint32_t i = length ? tails[length - 1] : UINT32_MAX; i != UINT32_MAX; i = before[i])
		good[i] = true;
}

/* Where in time a place in the stream lies, between two known ones. */
static uint64_t time_between(const struct flow_piece *from, const struct flow_piece *to,
			     uint64_t stream_off)
{
	double bytes = (double)(to->stream_off - from->stream_off);
	double share = bytes > 0 ? (double)(stream_off - from->stream_off) / bytes : 0;

	return from->header_time_ns +
	       (uint64_t)(share * (double)(to->header_time_ns - from->header_time_ns));
}

static void move_others(struct flow_piece *pieces, size_t count, const bool *good)
{
	const struct flow_piece *last = NULL, *next = NULL;

	for (size_t i = 0; i < count; i++) {
		struct flow_piece *p = &pieces[i];

		if (good[i])
			last = p;
		if (good[i] || p->header_time_ns == TIME_NONE)
			continue;
		if (!next || next <= p) {
			size_t k = i;

			while (k < count && !good[k])
				k++;
			next = k < count ? &pieces[k] : NULL;
		}
		uint64_t time = last && next ? time_between(last, next, p->stream_off)
				: next       ? next->header_time_ns
					     : last->header_time_ns;
		p->time_bias_ns = (int64_t)(time - p->header_time_ns);
	}
}

bool pieces_settle_times(struct pieces *p)
{
	size_t count = p->items.count;
	struct flow_piece *pieces = p->items.items;
	uint64_t next = TIME_NONE;

	if (!is_ascending(p) && count < UINT32_MAX) {
		uint32_t *tails = malloc(count * sizeof *tails);
		uint32_t *before = malloc(count * sizeof *before);
		bool *good = malloc(count * sizeof *good);
		bool have_memory = tails && before && good;

		if (have_memory) {
			mark_good(pieces, count, tails, before, good);
			move_others(pieces, count, good);
		}
		free(tails);
		free(before);
		free(good);
		if (!have_memory)
			return false;
	}
	for (size_t i = count; i-- > 0;) {
		pieces[i].next_time_ns = next;
		if (pieces[i].header_time_ns != TIME_NONE)
			next = pieces[i].header_time_ns + (uint64_t)pieces[i].time_bias_ns;
	}
	return true;
}
