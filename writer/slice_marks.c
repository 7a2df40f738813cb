/* See slice_marks.h. Flows are numbered in the order of their ends. */
#include "writer/slice_marks.h"

#include <stdlib.h>

#include "writer/call_order.h"

enum { CALLS_PER_RANGE = 1 << 17 };

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

/* Of one thread, a part of the calls: looked at beside the others (output_put_work). */
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

size_t arrow_ends_find(const struct arrow_ends *ends, uint32_t call)
{
	size_t low = 0, high = ends->count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (ends->items[mid].call <= call)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* An arrow that comes and one that leaves are one step of a longer flow, which saves a record:
 * the last that came and the first that leaves, if they are of one kind. Arrows are in the
 * order of where they lead, so all that come to a call are known before one leaves. */
static bool arrow_add(struct slice_marks *m, uint32_t from, uint32_t to, enum arrow_kind kind)
{
	size_t behind = arrow_ends_find(&m->coming, from);
	struct arrow_end *came = behind ? &m->coming.items[behind - 1] : NULL;
	struct arrow_end end = {.call = to, .type = FXT_FLOW_END, .kind = (uint8_t)kind};

	if (came && came->call != from)
		came = NULL;
	if (came && !came->left && came->kind == kind) {
		came->type = FXT_FLOW_STEP;
		end.flow = came->flow;
	} else {
		struct arrow_end begin = {.call = from,
					  .flow = m->flow_count,
					  .type = FXT_FLOW_BEGIN,
					  .kind = (uint8_t)kind};

		end.flow = m->flow_count++;
		if (!vec_push(&m->leaving, begin))
			return false;
	}
	if (came)
		came->left = true;
	mark_set(m->special, from);
	mark_set(m->special, to);
	return vec_push(&m->coming, end);
}

static bool range_find_arrows(const struct mark_range *r)
{
	const struct thread *t = r->thread;
	uint32_t last_to = 0;

	for (size_t i = 0; i < t->arrows.count; i++) {
		const struct arrow *arrow = &t->arrows.items[i];
		uint32_t from = call_drawn(t, arrow->from), to = call_drawn(t, arrow->to);

		/* Both ends drawn, and the start before the end: readers ignore others. */
		if (from == CALL_NONE || to == CALL_NONE || from >= to || to < last_to ||
		    t->calls.items[to].flags & CALL_ROOT ||
		    call_is_short(r->trace, r->options, &t->calls.items[from]) ||
		    call_is_short(r->trace, r->options, &t->calls.items[to]))
			continue;
		last_to = to;
		if (!arrow_add(r->m, from, to, (enum arrow_kind)arrow->kind))
			return false;
	}
	return sort_by_call(&r->m->leaving);
}

/* ---- by all threads ---- */

static void pairs_make(void *context, struct buffer *out)
{
	(void)out;
	range_find_pairs(context);
}

static void arrows_make(void *context, struct buffer *out)
{
	out->failed = !range_find_arrows(context);
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

static enum err range_put(const struct mark_range *range, const struct block_work *work,
			  struct output *output, struct error *error)
{
	struct mark_range *copy = malloc(sizeof *copy);

	if (!copy)
		return no_memory(error);
	*copy = *range;
	return output_put_work(output, work, copy, error);
}

static enum err marks_find(const struct mark_range *all, struct output *output, struct error *error)
{
	static const struct block_work pairs = {pairs_make, range_settle, range_done},
				       arrows = {arrows_make, range_settle, range_done};
	struct mark_range range = *all;
	bool has_arrows = all->options->args != FXT_ARGS_NONE && all->thread->arrows.count;
	enum err err = ERR_NONE;

	if (all->end <= CALLS_PER_RANGE) { /* does not wait for the threads */
		range_find_pairs(all);
		return !has_arrows || range_find_arrows(all) ? ERR_NONE : no_memory(error);
	}
	if (has_arrows)
		err = range_put(all, &arrows, output, error);
	for (size_t at = 0; at < all->end && err == ERR_NONE; at = range.end) {
		range.first = at;
		range.end = all->end - at > CALLS_PER_RANGE ? at + CALLS_PER_RANGE : all->end;
		err = range_put(&range, &pairs, output, error);
	}
	enum err drained = output_drain(output, err == ERR_NONE ? error : NULL);
	return err == ERR_NONE ? drained : err;
}

enum err slice_marks_new(const struct trace *trace, const struct thread *thread,
			 const struct fxt_options *options, struct output *output,
			 uint64_t *last_flow, struct slice_marks **result, struct error *error)
{
	struct slice_marks *m = calloc(1, sizeof *m);
	struct mark_range all = {m, trace, thread, options, 0, thread->calls.count};
	size_t words = thread->calls.count / 64 + 1;
	enum err err;

	if (m) {
		m->special = calloc(words, sizeof *m->special);
		m->paired = calloc(words, sizeof *m->paired);
		m->first_flow = *last_flow + 1;
	}
	if (!m || !m->special || !m->paired)
		err = no_memory(error);
	else
		err = marks_find(&all, output, error);
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
