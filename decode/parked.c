/* See parked.h.
 *
 * A guess may be replaced by a stack with more drawn frames, and rows cannot be inserted. So
 * the switch opens as many rows as the longest candidate needs; those left over stand in
 * front, hidden:
 *
 *     rows     (hidden) (hidden) [workA] [yield]         reserved = 4
 *     it is C: [main]   [loop]   [workC] [yield]
 */
#include "decode/parked.h"

#include <stdlib.h>
#include <string.h>

#include "decode/call_store.h"

enum {
	PARKED_MAX = 256, /* stacks remembered per thread; the oldest are forgotten */
	PARKED_FRAMES_MAX = 1 << 20,
};

static void parked_remove(struct strand *s, size_t i)
{
	struct parked p = s->parked.items[i];
	struct frame *frames = s->parked_frames.items + p.first;

	memmove(frames, frames + p.count,
		(s->parked_frames.count - p.first - p.count) * sizeof *frames);
	s->parked_frames.count -= p.count;
	memmove(s->parked.items + i, s->parked.items + i + 1,
		(s->parked.count - i - 1) * sizeof *s->parked.items);
	s->parked.count--;
	for (size_t k = i; k < s->parked.count; k++)
		s->parked.items[k].first -= p.count;
}

/* Forgets the older half at once: amortised, and old stacks rarely return. */
static void parked_make_room(struct strand *s)
{
	size_t drop = s->parked.count / 2;
	uint32_t frames = s->parked.items[drop].first;

	memmove(s->parked_frames.items, s->parked_frames.items + frames,
		(s->parked_frames.count - frames) * sizeof(struct frame));
	s->parked_frames.count -= frames;
	memmove(s->parked.items, s->parked.items + drop,
		(s->parked.count - drop) * sizeof(struct parked));
	s->parked.count -= drop;
	for (size_t i = 0; i < s->parked.count; i++)
		s->parked.items[i].first -= frames;
}

static void parked_add(struct strand *s, const struct frame *frames, size_t count, uint64_t order)
{
	if (count == 0 || s->parked_frames.count + count > PARKED_FRAMES_MAX)
		return;
	if (s->parked.count >= PARKED_MAX)
		parked_make_room(s);
	struct parked p = {.order = order,
			   .key = frames[count - 1].ret,
			   .first = (uint32_t)s->parked_frames.count,
			   .count = (uint32_t)count};
	if (!vec_reserve(&s->parked_frames, s->parked_frames.count + count) ||
	    !vec_push(&s->parked, p)) {
		s->weave->out_of_memory = true;
		return;
	}
	memcpy(s->parked_frames.items + p.first, frames, count * sizeof *frames);
	s->parked_frames.count += count;
}

static const struct frame *parked_stack(const struct strand *s, size_t i)
{
	return s->parked_frames.items + s->parked.items[i].first;
}

static size_t drawn_count(const struct frame *frames, size_t count)
{
	size_t drawn = 0;

	for (size_t i = 0; i < count; i++)
		drawn += frames[i].call != CALL_NONE;
	return drawn;
}

/* ---- guesses ---- */

/* Do the `count` topmost frames of two stacks wait at the same places? */
static bool same_inner_frames(const struct strand *s, const struct frame *a, size_t a_count,
			      const struct frame *b, size_t b_count, size_t count)
{
	if (count > a_count || count > b_count)
		return false;
	for (size_t i = 1; i <= count; i++)
		if (!strand_same_ip(s, a[a_count - i].ret, b[b_count - i].ret))
			return false;
	return true;
}

/* The guess is over: it was right if no other stack fits what has been returned from. */
static void guess_settle(struct strand *s)
{
	struct guess *g = &s->guess;
	struct call *calls = s->thread->calls.items;
	uint32_t row = g->first_row + g->row_count;
	size_t returned = 1; /* the topmost frame returned at the switch */
	bool alone = true;

	if (g->frame_count == 0)
		return;
	while (returned < g->frame_count) {
		const struct frame *f = &g->frames[g->frame_count - 1 - returned];

		if (f->call != CALL_NONE && calls[--row].end_ns == TIME_NONE)
			break;
		returned++;
	}
	for (size_t i = 0; i < s->parked.count && alone; i++)
		alone = !same_inner_frames(s, parked_stack(s, i), s->parked.items[i].count,
					   g->frames, g->frame_count, returned);
	for (row = g->first_row; alone && row < g->first_row + g->row_count; row++)
		calls[row].flags &= (uint16_t)~CALL_AMBIGUOUS;
	g->frame_count = 0;
}

static void replace_base(struct thread *t, size_t first_base, uint32_t old, uint32_t new)
{
	for (size_t i = t->bases.count; i-- > first_base;)
		if (t->bases.items[i] == old) {
			t->bases.items[i] = new;
			return;
		}
}

/* Makes the reserved rows before `end` those of `frames`, whose calls are set to them. */
static void rows_become(struct strand *s, struct frame *frames, size_t count, uint32_t end,
			unsigned flags)
{
	struct call *calls = s->thread->calls.items;
	uint32_t row = s->guess.first_row, base = row, parent = CALL_NONE;
	uint32_t first_drawn = end - (uint32_t)drawn_count(frames, count);

	while (base < row + s->guess.row_count && calls[base].flags & CALL_HIDDEN)
		base++;
	for (; row < first_drawn; row++) {
		s->thread->has_hidden = true;
		calls[row].flags = CALL_HIDDEN | CALL_SWITCHED;
		calls[row].site = calls[row].parent = CALL_NONE;
		calls[row].end_ns = calls[row].start_ns;
	}
	replace_base(s->thread, s->first_base, base, first_drawn);
	for (size_t i = 0; i < count; i++) {
		if (frames[i].call == CALL_NONE)
			continue;
		const struct call *old = &calls[frames[i].call];

		if (calls[row].flags & CALL_HIDDEN)
			calls[row].end_ns = TIME_NONE;
		calls[row].kind = old->kind;
		calls[row].what = old->what;
		calls[row].site = old->site;
		calls[row].flags =
			(uint16_t)(flags | (old->flags & (CALL_SIGNAL | CALL_INTERRUPT)));
		calls[row].parent = parent;
		frames[i].call = parent = row++;
	}
}

/* Opens rows for `frames` on the empty stack, and `reserved` in all. */
static bool rows_reopen(struct strand *s, const struct frame *frames, size_t count, size_t reserved,
			unsigned flags)
{
	struct thread *t = s->thread;
	struct call row = {.start_ns = s->now_ns,
			   .end_ns = s->now_ns,
			   .parent = CALL_NONE,
			   .site = CALL_NONE,
			   .flags = CALL_HIDDEN};

	s->guess.first_row = (uint32_t)t->calls.count;
	s->guess.row_count = (uint32_t)reserved;
	if (t->calls.count + reserved >= CALL_NONE)
		return false;
	t->has_hidden |= reserved > 0;
	for (size_t i = 0; i < reserved; i++)
		if (!calls_add(s->weave->trace, t, row))
			return false;
	if (reserved && !vec_push(&t->bases, s->guess.first_row + (uint32_t)reserved))
		return false;
	for (size_t i = 0; i < count; i++)
		strand_push_frame(s, frames[i]);
	rows_become(s, s->stack.items, s->stack.count, s->guess.first_row + s->guess.row_count,
		    flags);
	return !s->weave->out_of_memory;
}

static void arrow_to_top(struct strand *s, uint32_t from)
{
	struct arrow arrow = {
		.from = from, .to = s->stack.items[s->top].call, .kind = ARROW_SWITCH};

	if (arrow.from != CALL_NONE && arrow.to != CALL_NONE &&
	    !vec_push(&s->thread->arrows, arrow))
		s->weave->out_of_memory = true;
}

/* ---- in and out ---- */

static void strand_park(struct strand *s, size_t first, size_t kept, unsigned flags)
{
	size_t last = s->stack.count;

	if (first < s->guess.frame_count)
		guess_settle(s); /* its rows are parked now */
	/* Only what waits for something can be entered again. */
	while (last > first && (s->stack.items[last - 1].kind == FRAME_INLINED ||
				s->stack.items[last - 1].ret == 0))
		last--;
	parked_add(s, s->stack.items + first, last - first, s->parked_order++);
	strand_pop_to(s, kept, flags);
}

void strand_park_from(struct strand *s, size_t first, unsigned flags)
{
	strand_park(s, first, first, flags);
}

void strand_drop_from(struct strand *s, size_t first, unsigned flags)
{
	if (first < s->guess.frame_count)
		guess_settle(s); /* none of its frames has returned */
	strand_pop_to(s, first, flags);
}

void strand_park_but_one(struct strand *s, size_t first, unsigned flags)
{
	strand_park(s, first, first + 1, flags);
}

static struct frame *frames_copy(struct strand *s, const struct frame *frames, size_t count)
{
	struct frame *copy = malloc(count * sizeof *copy);

	if (copy)
		memcpy(copy, frames, count * sizeof *copy);
	else
		s->weave->out_of_memory = true;
	return copy;
}

static void guess_becomes(struct strand *s, struct frame *frames, size_t count, uint64_t order)
{
	free(s->guess.frames);
	s->guess.frames = frames;
	s->guess.frame_count = count;
	s->guess.order = order;
}

/* Takes the candidate with the lowest order out of the parked ones. */
static bool parked_choose(struct strand *s, node_id to, struct parked *chosen,
			  struct frame **chosen_frames, size_t *candidates, size_t *reserved)
{
	size_t at = SIZE_MAX;

	*candidates = *reserved = 0;
	for (size_t i = 0; i < s->parked.count; i++) {
		const struct parked *p = &s->parked.items[i];

		if (!strand_same_ip(s, p->key, to))
			continue;
		size_t drawn = drawn_count(parked_stack(s, i), p->count - 1);
		if (at == SIZE_MAX || p->order < s->parked.items[at].order)
			at = i;
		if (drawn > *reserved)
			*reserved = drawn;
		++*candidates;
	}
	if (at == SIZE_MAX)
		return false;
	*chosen = s->parked.items[at];
	struct frame *frames = frames_copy(s, parked_stack(s, at), chosen->count);
	if (!frames)
		return false;
	parked_remove(s, at); /* one activation runs once */
	*chosen_frames = frames;
	return true;
}

bool strand_switch_back(struct strand *s, node_id to)
{
	struct parked p;
	size_t candidates, reserved;
	struct frame *entered = NULL;

	if (!parked_choose(s, to, &p, &entered, &candidates, &reserved))
		return false;
	uint32_t left = s->stack.count ? s->stack.items[s->top].call : CALL_NONE;
	for (size_t i = 0; i < p.count; i++)
		if (entered[i].call != CALL_NONE) {
			struct call *row = &s->thread->calls.items[entered[i].call];

			row->flags = (uint16_t)((row->flags & ~CALL_UNWOUND) | CALL_SWITCHED);
		}
	strand_park_from(s, 0, CALL_SWITCHED);
	s->switched = true;
	/* The topmost frame returns now; those beneath it reopen. */
	if (!rows_reopen(s, entered, p.count - 1, reserved,
			 CALL_SWITCHED | (candidates > 1 ? CALL_AMBIGUOUS : 0)))
		s->weave->out_of_memory = true;
	guess_becomes(s, entered, candidates > 1 ? p.count : 0, p.order);
	if (s->stack.count == 0)
		strand_push(s, to, 0, 0, CALL_SWITCHED | CALL_START_INFERRED);
	arrow_to_top(s, left);
	strand_inline_to(s, to);
	return true;
}

/* Index of a parked stack that agrees with what has returned from the guess, and waits for
 * `to` where the guess does not; SIZE_MAX = none. */
static size_t guess_find_better(const struct strand *s, size_t returned, node_id to)
{
	const struct guess *g = &s->guess;

	for (size_t i = 0; i < s->parked.count; i++) {
		const struct frame *other = parked_stack(s, i);
		size_t count = s->parked.items[i].count;

		if (count > returned &&
		    same_inner_frames(s, other, count, g->frames, g->frame_count, returned) &&
		    strand_same_ip(s, other[count - 1 - returned].ret, to))
			return i;
	}
	return SIZE_MAX;
}

bool strand_guess_again(struct strand *s, node_id to)
{
	struct guess *g = &s->guess;
	uint32_t top_row = s->stack.items[s->top].call, end = g->first_row + g->row_count;

	if (g->frame_count == 0 || top_row < g->first_row || top_row >= end)
		return false;
	size_t returned = g->frame_count - 1 - s->top; /* inner frames that have returned */
	size_t better = guess_find_better(s, returned, to);
	if (better == SIZE_MAX)
		return false;
	struct parked p = s->parked.items[better];
	struct frame *right = frames_copy(s, parked_stack(s, better), p.count);
	/* Inlined frames above the top one stay as they are. */
	size_t above = s->stack.count - s->top - 1, kept = p.count - returned;
	if (!right || !vec_reserve(&s->stack, kept + above)) {
		s->weave->out_of_memory = true;
		free(right);
		return false;
	}
	memmove(s->stack.items + kept, s->stack.items + s->top + 1, above * sizeof *s->stack.items);
	memcpy(s->stack.items, right, kept * sizeof *right);
	s->stack.count = kept + above;
	s->top = kept - 1;
	s->doubt.set = false; /* rows from before it change */
	/* The rows of frames that have returned are the last ones: they stay. */
	rows_become(s, s->stack.items, kept,
		    end - (uint32_t)drawn_count(right + kept, returned - 1),
		    CALL_SWITCHED | CALL_AMBIGUOUS);
	parked_remove(s, better);
	parked_add(s, g->frames, g->frame_count, g->order);
	guess_becomes(s, right, p.count, p.order);
	return true;
}

void strand_forget_parked(struct strand *s)
{
	guess_settle(s);
	s->parked.count = s->parked_frames.count = 0;
}
