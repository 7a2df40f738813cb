/* See doubt.h. */
#include "decode/doubt.h"

#include "decode/strand.h"

enum {
	DOUBT_EDGES = 256,     /* wrong bits contradict the code long before */
	DOUBT_STACK_MAX = 4096 /* frames; deeper stacks are not kept */
};

static const struct segment *strand_open_segment(const struct strand *s)
{
	return s->thread->segments.count ? vec_last(&s->thread->segments) : NULL;
}

static bool doubt_is_recent(const struct strand *s)
{
	const struct segment *seg = strand_open_segment(s);

	return s->doubt.set && seg && s->doubt.segment == s->thread->segments.count &&
	       seg->edges - s->doubt.edges <= DOUBT_EDGES;
}

void strand_doubt(struct strand *s)
{
	const struct thread *t = s->thread;
	struct doubt *d = &s->doubt;
	size_t bases = t->bases.count - s->first_base;

	if (doubt_is_recent(s) || !strand_open_segment(s))
		return;
	d->set = false;
	if (s->stack.count > DOUBT_STACK_MAX || bases > DOUBT_STACK_MAX)
		return;
	if (!vec_reserve(&d->stack, s->stack.count) || !vec_reserve(&d->bases, bases)) {
		s->weave->out_of_memory = true;
		return;
	}
	for (d->stack.count = 0; d->stack.count < s->stack.count; d->stack.count++)
		d->stack.items[d->stack.count] = s->stack.items[d->stack.count];
	for (d->bases.count = 0; d->bases.count < bases; d->bases.count++)
		d->bases.items[d->bases.count] = t->bases.items[s->first_base + d->bases.count];
	d->set = true;
	d->segment = t->segments.count;
	d->edges = strand_open_segment(s)->edges;
	d->calls = t->calls.count;
	d->roots = t->roots.count;
	d->now_ns = s->now_ns;
	d->top = s->top;
	d->switched = s->switched;
}

bool strand_take_back_doubtful(struct strand *s)
{
	struct thread *t = s->thread;
	struct doubt *d = &s->doubt;

	if (!doubt_is_recent(s))
		return false;
	d->set = false;
	t->calls.count = d->calls;
	t->roots.count = d->roots;
	t->bases.count = s->first_base;
	while (t->arrows.count &&
	       (vec_last(&t->arrows)->to >= d->calls || vec_last(&t->arrows)->from >= d->calls))
		t->arrows.count--;
	bool ok = vec_reserve(&s->stack, d->stack.count) &&
		  vec_reserve(&t->bases, s->first_base + d->bases.count);
	if (!ok) {
		s->weave->out_of_memory = true;
		return false;
	}
	for (size_t i = 0; i < d->bases.count; i++) {
		t->bases.items[t->bases.count++] = d->bases.items[i];
		t->calls.items[d->bases.items[i]].parent = CALL_NONE;
	}
	s->stack.count = d->stack.count;
	for (size_t i = 0; i < d->stack.count; i++) {
		uint32_t row = d->stack.items[i].call;

		s->stack.items[i] = d->stack.items[i];
		if (row == CALL_NONE)
			continue;
		t->calls.items[row].end_ns = TIME_NONE;
		t->calls.items[row].flags &= (uint16_t)~(CALL_UNWOUND | CALL_END_INFERRED);
	}
	s->top = d->top;
	s->switched = d->switched;
	s->now_ns = d->now_ns;
	/* These may hold rows that are gone; the segment ends here. */
	s->guess.frame_count = 0;
	s->parked.count = s->parked_frames.count = s->jump_buffers.count = 0;
	s->in_transaction = false;
	vec_last(&t->segments)->edges = d->edges;
	return true;
}

void strand_doubt_done(struct strand *s)
{
	vec_done(&s->doubt.stack);
	vec_done(&s->doubt.bases);
}
