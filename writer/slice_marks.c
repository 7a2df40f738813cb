/* See slice_marks.h. Flows are numbered in the order of their ends. */
#include "writer/slice_marks.h"

#include <stdlib.h>

#include "writer/call_order.h"

enum { ITEMS_PER_RANGE = 1 << 17 };

uint32_t mark_next(const uint64_t *bits, uint32_t call, uint32_t end)
{
	if (call >= end)
		return end;
	uint64_t word = bits[call / 64] & ~(uint64_t)0 << call % 64;
	uint32_t at = call / 64;

	while (word == 0 && ++at <= (end - 1) / 64)
		word = bits[at];
	if (word == 0)
		return end;
	call = at * 64 + (uint32_t)__builtin_ctzll(word);
	return call < end ? call : end;
}

bool call_is_loss(const struct trace *trace, const struct call *call)
{
	if (call->kind != CALL_BRACKET || call->what >= trace->brackets.count)
		return false;
	uint8_t kind = trace->brackets.items[call->what].kind;
	return kind == BRACKET_LOST || kind == BRACKET_MISSING_CODE ||
	       kind == BRACKET_MISSING_FRAME || kind == BRACKET_FILTERED;
}

/* Of one thread, a part of the calls or arrows: looked at beside the others (output_put_work). */
struct mark_range {
	struct slice_marks *m;
	const struct trace *trace;
	const struct thread *thread;
	const struct fxt_options *options;
	size_t first, end;
};

/* False: was set before, perhaps by another thread just now. */
static bool mark_set(uint64_t *bits, uint32_t call)
{
	uint64_t bit = (uint64_t)1 << call % 64;

	return !(__atomic_load_n(&bits[call / 64], __ATOMIC_RELAXED) & bit) &&
	       !(__atomic_fetch_or(&bits[call / 64], bit, __ATOMIC_RELAXED) & bit);
}

/* ---- begin and end ---- */

/* Calls around one of zero length that starts at their end. Where one has been marked, those
 * around it are, or will be. */
static void range_find_pairs(const struct mark_range *r)
{
	const struct thread *t = r->thread;
	const struct call *calls = t->calls.items;

	for (size_t i = r->first; i < r->end; i++) {
		const struct call *call = &calls[i];

		if (call->start_ns != call->end_ns || call->flags & CALL_HIDDEN ||
		    call_is_short(r->trace, r->options, call))
			continue;
		uint32_t up = call->parent;
		while (up != CALL_NONE && (up = call_drawn(t, up)) != CALL_NONE &&
		       calls[up].end_ns == call->start_ns && mark_set(r->m->paired, up)) {
			mark_set(r->m->special, up);
			up = calls[up].parent;
		}
	}
}

/* ---- arrows ---- */

/* Ends of arrows, stably by call: DIGITS times by a part of its number. False: no memory. */
static bool sort_by_call(struct arrow_ends *ends)
{
	enum { BITS = 11, BUCKETS = 1 << BITS, DIGITS = 3 };
	struct arrow_ends to = {0};

	if (!vec_reserve(&to, ends->count))
		return false;
	for (unsigned shift = 0; shift < BITS * DIGITS; shift += BITS) {
		size_t at[BUCKETS + 1] = {0};

		for (size_t i = 0; i < ends->count; i++)
			at[(ends->items[i].call >> shift) % BUCKETS + 1]++;
		for (unsigned i = 1; i < BUCKETS; i++)
			at[i] += at[i - 1];
		for (size_t i = 0; i < ends->count; i++)
			to.items[at[(ends->items[i].call >> shift) % BUCKETS]++] = ends->items[i];
		struct arrow_ends swap = *ends;
		to.count = ends->count;
		*ends = to;
		to = swap;
	}
	vec_done(&to);
	return true;
}

size_t arrow_ends_find(const struct arrow_ends *ends, uint32_t call, size_t near)
{
	const struct arrow_end *items = ends->items;
	size_t low = near, high = near, step = 1;

	for (; low > 0 && items[low - 1].call > call; step *= 2) {
		high = low - 1;
		low = low > step ? low - step : 0;
	}
	for (; high < ends->count && items[high].call <= call; step *= 2) {
		low = high + 1;
		high = ends->count - high > step ? high + step : ends->count;
	}
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (items[mid].call <= call)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Which arrows are drawn: fills `coming`, where arrows that are not get CALL_NONE. What they
 * leave stands in `flow` for arrow_link(). */
static void range_find_arrows(const struct mark_range *r)
{
	const struct thread *t = r->thread;

	for (size_t i = r->first; i < r->end; i++) {
		const struct arrow *arrow = &t->arrows.items[i];
		uint32_t from = call_drawn(t, arrow->from), to = call_drawn(t, arrow->to);
		/* Both ends drawn, and the start before the end: readers ignore others. */
		bool drawn = from != CALL_NONE && to != CALL_NONE && from < to &&
			     !(t->calls.items[to].flags & CALL_ROOT) &&
			     !call_is_short(r->trace, r->options, &t->calls.items[from]) &&
			     !call_is_short(r->trace, r->options, &t->calls.items[to]);

		r->m->coming.items[i] = (struct arrow_end){.call = drawn ? to : CALL_NONE,
							   .flow = from,
							   .type = FXT_FLOW_END,
							   .kind = arrow->kind};
	}
}

/* An arrow that comes and one that leaves are one step of a longer flow, which saves a record:
 * the last that came and the first that leaves, if they are of one kind. Arrows are in the
 * order of where they lead, so all that come to a call are known before one leaves. */
static bool arrow_link(struct slice_marks *m, struct arrow_end end)
{
	struct arrow_ends *coming = &m->coming;
	uint32_t from = end.flow;
	struct arrow_end *came = NULL;

	if (mark_get(m->special, from)) {
		size_t behind = arrow_ends_find(coming, from, coming->count);

		if (behind && coming->items[behind - 1].call == from)
			came = &coming->items[behind - 1];
	}
	if (came && !came->left && came->kind == end.kind) {
		came->type = FXT_FLOW_STEP;
		end.flow = came->flow;
	} else {
		struct arrow_end begin = {.call = from,
					  .flow = m->flow_count,
					  .type = FXT_FLOW_BEGIN,
					  .kind = end.kind};

		end.flow = m->flow_count++;
		if (!vec_push(&m->leaving, begin))
			return false;
	}
	if (came)
		came->left = true;
	mark_set(m->special, from);
	mark_set(m->special, end.call);
	coming->items[coming->count++] = end;
	return true;
}

static bool marks_link_arrows(struct slice_marks *m, size_t count)
{
	uint32_t last_to = 0;

	for (size_t i = 0; i < count; i++) {
		struct arrow_end end = m->coming.items[i];

		if (end.call == CALL_NONE || end.call < last_to)
			continue;
		last_to = end.call;
		if (!arrow_link(m, end))
			return false;
	}
	return sort_by_call(&m->leaving);
}

/* ---- by all threads ---- */

static void pairs_make(void *context, struct buffer *out)
{
	(void)out;
	range_find_pairs(context);
}

static void arrows_make(void *context, struct buffer *out)
{
	(void)out;
	range_find_arrows(context);
}

static bool range_settle(void *context, struct buffer *out)
{
	(void)context;
	(void)out;
	return false;
}

static void range_done(void *context)
{
	free(context);
}

static enum err no_memory(struct error *error)
{
	return error_set(error, ERR_NOMEM, "out of memory while writing the trace");
}

/* Does the work of a range in parts. */
static enum err range_put(const struct mark_range *range, const struct block_work *work,
			  struct output *output, struct error *error)
{
	enum err err = ERR_NONE;

	for (size_t at = range->first; at < range->end && err == ERR_NONE; at += ITEMS_PER_RANGE) {
		struct mark_range *part = malloc(sizeof *part);

		if (!part)
			return no_memory(error);
		*part = *range;
		part->first = at;
		if (range->end - at > ITEMS_PER_RANGE)
			part->end = at + ITEMS_PER_RANGE;
		err = output_put_work(output, work, part, error);
	}
	return err;
}

static enum err marks_find(const struct mark_range *calls, const struct mark_range *arrows,
			   struct output *output, struct error *error)
{
	static const struct block_work pairs_work = {pairs_make, range_settle, range_done},
				       arrows_work = {arrows_make, range_settle, range_done};

	if (calls->end <= ITEMS_PER_RANGE && arrows->end <= ITEMS_PER_RANGE) {
		range_find_pairs(calls); /* does not wait for the threads */
		range_find_arrows(arrows);
		return ERR_NONE;
	}
	enum err err = range_put(calls, &pairs_work, output, error);
	if (err == ERR_NONE)
		err = range_put(arrows, &arrows_work, output, error);
	enum err drained = output_drain(output, err == ERR_NONE ? error : NULL);
	return err == ERR_NONE ? drained : err;
}

enum err slice_marks_new(const struct trace *trace, const struct thread *thread,
			 const struct fxt_options *options, struct output *output,
			 uint64_t *last_flow, struct slice_marks **result, struct error *error)
{
	struct slice_marks *m = calloc(1, sizeof *m);
	struct mark_range calls = {m, trace, thread, options, 0, thread->calls.count},
			  arrows = {m, trace, thread, options, 0, thread->arrows.count};
	size_t words = thread->calls.count / 64 + 1;
	enum err err;

	if (options->args == FXT_ARGS_NONE)
		arrows.end = 0;
	if (m) {
		m->special = calloc(words, sizeof *m->special);
		m->paired = calloc(words, sizeof *m->paired);
		m->first_flow = *last_flow + 1;
	}
	if (!m || !m->special || !m->paired || !vec_reserve(&m->coming, arrows.end))
		err = no_memory(error);
	else
		err = marks_find(&calls, &arrows, output, error);
	if (err == ERR_NONE && !marks_link_arrows(m, arrows.end))
		err = no_memory(error);
	if (err == ERR_NONE) {
		*last_flow += m->flow_count;
		*result = m;
	} else {
		slice_marks_free(m);
	}
	return err;
}

void slice_marks_free(struct slice_marks *m)
{
	if (!m)
		return;
	free(m->special);
	free(m->paired);
	vec_done(&m->coming);
	vec_done(&m->leaving);
	free(m);
}
