/* See piece.h: the times of pieces against each other.
 *
 * A CPU's clock does not go back, so the first times of the pieces must not. Where they do, a
 * TSC packet is damaged or the clock jumped:
 *
 *      times   ╱  ‾ ╱        ╱         The longest series that never goes back is right, of those
 *             ╱    ╱    ___ ╱          within the time of the records. The others are moved to
 *            ╱    ╱        ╱           where the piece before ends, as its MTC packets tell, or
 *                                      where their bytes lie between their neighbours.
 */
#include <stdlib.h>

#include "decode/flow_time.h"
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

/* Marks the pieces of the longest series that does not go back, out of those from from_ns on. */
static void mark_good(const struct flow_piece *pieces, size_t count, uint64_t from_ns,
		      uint32_t *tails, uint32_t *before, bool *good)
{
	size_t length = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t time = pieces[i].header_time_ns;
		size_t low = 0, high = length;

		good[i] = false;
		if (time == TIME_NONE || time < from_ns)
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

/* The last time that a piece tells behind its first; 0 = none. */
static uint64_t piece_end_ns(const struct sideband *sideband, const struct flow_piece *piece)
{
	enum packet_context context = PACKET_NO_BLOCK;
	struct flow_time t;
	struct packet packet;
	int length;
	bool known = false;

	flow_time_init(&t, sideband);
	flow_time_start(&t, piece);
	for (size_t at = 0; at < piece->count; at += (size_t)length) {
		length = packet_decode(piece->bytes + at, piece->count - at, context, &packet);
		if (length <= 0)
			break;
		context = packet_next_context(context, &packet);
		if (flow_time_packet(&t, &packet)) {
			t.anchor.cycles = t.cycles; /* what comes is counted from here */
			known |= packet.kind == PACKET_MTC;
		}
	}
	return known ? flow_time_now(&t) : 0;
}

static void move_others(const struct sideband *sideband, struct flow_piece *pieces, size_t count,
			const bool *good)
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
		bool goes_on = i > 0 && p->cut == LOSS_NONE && !p->first;
		uint64_t time = goes_on ? piece_end_ns(sideband, p - 1) : 0;
		if (time == 0)
			time = last && next ? time_between(last, next, p->stream_off)
			       : next       ? next->header_time_ns
					    : last->header_time_ns;
		else if (next && time > next->header_time_ns)
			time = next->header_time_ns;
		p->time_bias_ns = (int64_t)(time - p->header_time_ns);
	}
}

/* Where the records begin, if any piece begins behind that. */
static uint64_t records_from(const struct sideband *sideband, const struct flow_piece *pieces,
			     size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pieces[i].header_time_ns != TIME_NONE &&
		    pieces[i].header_time_ns >= sideband->first_ns)
			return sideband->first_ns;
	return 0;
}

bool pieces_settle_times(const struct sideband *sideband, struct pieces *p)
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
			mark_good(pieces, count, records_from(sideband, pieces, count), tails,
				  before, good);
			move_others(sideband, pieces, count, good);
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
