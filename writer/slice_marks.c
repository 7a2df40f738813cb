/* See slice_marks.h. Flows are numbered in the order of their ends. */
#include "writer/slice_marks.h"

#include <stdlib.h>

#include "writer/call_order.h"

enum { CALLS_PER_RANGE = 1 << 17 };

static void mark_set(uint64_t *bits, uint32_t call)
{
	bits[call / 64] |= (uint64_t)1 << call % 64;
}

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

/* ---- begin and end ---- */

/* A part of the calls, looked at beside the others (output_put_work). */
struct mark_range {
	struct slice_marks *m;
	const struct trace *trace;
	const struct thread *thread;
	const struct fxt_options *options;
	size_t first, end;
};

/* False: was set before, perhaps by another thread just now. */
static bool mark_set_first(uint64_t *bits, uint32_t call)
{
	uint64_t bit = (uint64_t)1 << call % 64;

	return !(__atomic_load_n(&bits[call / 64], __ATOMIC_RELAXED) & bit) &&
	       !(__atomic_fetch_or(&bits[call / 64], bit, __ATOMIC_RELAXED) & bit);
}

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
		       calls[up].end_ns == call->start_ns && mark_set_first(r->m->paired, up)) {
			mark_set_first(r->m->special, up);
			up = calls[up].parent;
		}
	}
}

static void range_make(void *context, struct buffer *out)
{
	(void)out;
	range_find_pairs(context);
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

static enum err marks_find_pairs(const struct mark_range *all, struct output *output,
				 struct error *error)
{
	static const struct block_work work = {
		.make = range_make, .settle = range_settle, .done = range_done};
	enum err err = ERR_NONE;

	if (all->end <= CALLS_PER_RANGE) {
		range_find_pairs(all);
		return ERR_NONE;
	}
	for (size_t at = 0; at < all->end && err == ERR_NONE; at += CALLS_PER_RANGE) {
		struct mark_range *range = malloc(sizeof *range);

		if (!range) {
			err = error_set(error, ERR_NOMEM, "out of memory while writing the trace");
			break;
		}
		*range = *all;
		range->first = at;
		if (all->end - at > CALLS_PER_RANGE)
			range->end = at + CALLS_PER_RANGE;
		err = output_put_work(output, &work, range, error);
	}
	enum err drained = output_drain(output, err == ERR_NONE ? error : NULL);
	return err == ERR_NONE ? drained : err;
}

/* ---- arrows ---- */

static bool arrow_end_add(struct slice_marks *m, uint32_t call, enum fxt_event_type type,
			  const struct arrow *arrow, uint64_t flow)
{
	struct arrow_end end = {.flow = flow,
				.next = map64_get(&m->arrow_heads, call),
				.type = (uint8_t)type,
				.kind = arrow->kind};

	mark_set(m->special, call);
	return vec_push(&m->arrow_ends, end) &&
	       map64_set(&m->arrow_heads, call, (uint32_t)m->arrow_ends.count - 1);
}

/* An arrow that comes and one that leaves are one step of a longer flow, which saves a record.
 * Arrows are in the order of where they lead, so the former has been seen before. */
static bool arrow_add(struct slice_marks *m, uint32_t from, uint32_t to, const struct arrow *arrow,
		      uint64_t *last_flow)
{
	uint32_t head = map64_get(&m->arrow_heads, from);
	struct arrow_end *coming = head == MAP64_NONE ? NULL : &m->arrow_ends.items[head];
	uint64_t flow;

	if (coming && coming->type == FXT_FLOW_END && coming->kind == arrow->kind) {
		coming->type = FXT_FLOW_STEP;
		flow = coming->flow;
	} else {
		flow = ++*last_flow;
		if (!arrow_end_add(m, from, FXT_FLOW_BEGIN, arrow, flow))
			return false;
	}
	return arrow_end_add(m, to, FXT_FLOW_END, arrow, flow);
}

static bool marks_find_arrows(struct slice_marks *m, const struct trace *trace,
			      const struct thread *t, const struct fxt_options *options,
			      uint64_t *last_flow)
{
	uint32_t last_to = 0;

	for (size_t i = 0; i < t->arrows.count; i++) {
		const struct arrow *arrow = &t->arrows.items[i];
		uint32_t from = call_drawn(t, arrow->from), to = call_drawn(t, arrow->to);

		/* Both ends drawn, and the start before the end: readers ignore others. */
		if (from == CALL_NONE || to == CALL_NONE || from >= to || to < last_to ||
		    t->calls.items[to].flags & CALL_ROOT ||
		    call_is_short(trace, options, &t->calls.items[from]) ||
		    call_is_short(trace, options, &t->calls.items[to]))
			continue;
		last_to = to;
		if (!arrow_add(m, from, to, arrow, last_flow))
			return false;
	}
	return true;
}

enum err slice_marks_new(const struct trace *trace, const struct thread *thread,
			 const struct fxt_options *options, struct output *output,
			 uint64_t *last_flow, struct slice_marks **result, struct error *error)
{
	struct slice_marks *m = calloc(1, sizeof *m);
	struct mark_range all = {m, trace, thread, options, 0, thread->calls.count};
	size_t words = thread->calls.count / 64 + 1;

	if (m) {
		m->special = calloc(words, sizeof *m->special);
		m->paired = calloc(words, sizeof *m->paired);
	}
	bool ok = m && m->special && m->paired;
	enum err err = ok ? marks_find_pairs(&all, output, error) : ERR_NONE;
	if (ok && err == ERR_NONE && options->args != FXT_ARGS_NONE)
		ok = marks_find_arrows(m, trace, thread, options, last_flow);
	if (!ok)
		err = error_set(error, ERR_NOMEM, "out of memory while writing the trace");
	if (err == ERR_NONE)
		*result = m;
	else
		slice_marks_free(m);
	return err;
}

void slice_marks_free(struct slice_marks *m)
{
	if (!m)
		return;
	free(m->special);
	free(m->paired);
	map64_done(&m->arrow_heads);
	vec_done(&m->arrow_ends);
	free(m);
}
