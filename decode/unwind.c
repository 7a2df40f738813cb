/* See unwind.h. The function of the second phase has no name in most files: it is the one called
 * by the unwinder that calls the personality routines. */
#include "decode/unwind.h"

#include "decode/call_store.h"
#include "decode/parked.h"

enum {
	UNWINDER_DEPTH = 2, /* physical frames: what restores the registers may be one of its own */
	SITES_MAX = 16,     /* calls that the second phase makes */
	BEFORE_MAX = 16,    /* frames that are taken to be passed because they were before */
	LOOKS_MAX = 16,     /* at each row of the thread, over all landings */
};

static uint32_t thread_physical_parent(const struct thread *t, uint32_t row)
{
	do
		row = t->calls.items[row].parent;
	while (row != CALL_NONE && t->calls.items[row].kind == CALL_INLINED);
	return row;
}

/* The row that called a personality routine last since `unwinder` was entered. */
static uint32_t strand_second_phase(struct strand *s, uint32_t unwinder)
{
	const struct thread *t = s->thread;

	for (uint32_t row = (uint32_t)t->calls.count; --row > unwinder;) {
		const struct call *c = &t->calls.items[row];

		if (c->kind == CALL_FRAME &&
		    weave_role(s->weave, strand_node(s, c->what)->func) == FUNC_PERSONALITY)
			return thread_physical_parent(t, row);
	}
	return CALL_NONE;
}

/* How often a frame has made that of its calls which it has made most often. */
static size_t thread_rounds(const struct thread *t, uint32_t frame)
{
	struct {
		node_id site;
		size_t count;
	} sites[SITES_MAX];
	size_t known = 0, rounds = 0;

	for (uint32_t row = frame + 1; row < t->calls.count; row++) {
		node_id site = t->calls.items[row].site;
		size_t i = 0;

		if (site == 0 || thread_physical_parent(t, row) != frame)
			continue;
		while (i < known && sites[i].site != site)
			i++;
		if (i == SITES_MAX)
			continue;
		if (i == known) {
			sites[known].site = site;
			sites[known++].count = 0;
		}
		if (++sites[i].count > rounds)
			rounds = sites[i].count;
	}
	return rounds;
}

/* Stack index of the unwinder on top; SIZE_MAX = there is none. */
static size_t strand_unwinder(const struct strand *s)
{
	size_t looked = 0;

	for (size_t i = s->top + 1; i-- > 0 && looked < UNWINDER_DEPTH;) {
		enum func_role role = s->stack.items[i].role;

		if (s->stack.items[i].kind == FRAME_INLINED)
			continue;
		if (role == FUNC_UNWINDER || role == FUNC_UNWIND_RESUME)
			return i;
		looked++;
	}
	return SIZE_MAX;
}

bool strand_throws(const struct strand *s)
{
	return strand_unwinder(s) != SIZE_MAX;
}

/* How many frames out of the unwinder it has landed at a place before; always the same, or 0. */
static size_t strand_frames_before(struct strand *s, const struct frame *unwinder, node_id to,
				   size_t rounds)
{
	uint64_t key = (uint64_t)unwinder->func << 32 | to;
	uint32_t before = map64_get(&s->weave->landings, key);

	if (rounds == 0 && before == MAP64_NONE)
		return unwinder->role == FUNC_UNWIND_RESUME ? 2 : 0;
	if (rounds == 0)
		return before <= BEFORE_MAX ? before : 0;
	if (before == rounds)
		return rounds;
	if (!map64_set(&s->weave->landings, key, before == MAP64_NONE ? (uint32_t)rounds : 0))
		s->weave->out_of_memory = true;
	return rounds;
}

/* How many frames out of the unwinder it lands; 0 = unknown. */
static size_t strand_frames_passed(struct strand *s, const struct frame *unwinder, node_id to)
{
	const struct call *calls = s->thread->calls.items;
	uint64_t count = s->thread->calls.count;
	uint32_t row = unwinder->call, phase = CALL_NONE;

	/* Unwinders inside unwinders could make that quadratic. */
	if (row != CALL_NONE && s->unwound_rows <= LOOKS_MAX * count) {
		s->unwound_rows += count - row;
		phase = strand_second_phase(s, row);
	}

	/* _Unwind_Resume may have no first phase to tell it from. */
	bool whole = phase != CALL_NONE && !(calls[phase].flags & CALL_START_INFERRED) &&
		     (phase == row ? unwinder->role == FUNC_UNWIND_RESUME
				   : thread_physical_parent(s->thread, phase) == row);
	return strand_frames_before(s, unwinder, to, whole ? thread_rounds(s->thread, phase) : 0);
}

static void strand_add_unknown_root(struct strand *s)
{
	struct thread *t = s->thread;
	struct call row = {.start_ns = vec_last(&t->segments)->start_ns,
			   .end_ns = s->now_ns,
			   .site = CALL_NONE,
			   .parent = CALL_NONE,
			   .flags = CALL_ROOT | CALL_HIDDEN | CALL_START_INFERRED | CALL_UNWOUND,
			   .kind = CALL_FRAME,
			   .expected = true};

	if (t->calls.count >= CALL_NONE - 1 || !calls_add(s->weave->trace, t, row)) {
		s->weave->out_of_memory = true;
		return;
	}
	t->has_hidden = true;
	uint32_t index = (uint32_t)t->calls.count - 1;
	for (size_t i = s->first_base; i < t->bases.count; i++)
		t->calls.items[t->bases.items[i]].parent = index;
	t->bases.count = s->first_base;
	if (!vec_push(&t->bases, index) || !vec_push(&t->roots, index))
		s->weave->out_of_memory = true;
}

bool strand_unwind_counted(struct strand *s, node_id to)
{
	size_t unwinder = strand_unwinder(s);
	size_t left =
		unwinder == SIZE_MAX ? 0 : strand_frames_passed(s, &s->stack.items[unwinder], to);

	if (left == 0 || s->switched || strand_floor(s) > 0)
		return false;
	for (size_t i = unwinder; i-- > 0;) {
		const struct frame *f = &s->stack.items[i];

		if (f->kind == FRAME_INLINED)
			continue;
		if (f->kind != FRAME_PHYSICAL)
			return false; /* hides frames of its own */
		if (--left > 0)
			continue;
		if (f->func == 0 || f->func != strand_node(s, to)->func)
			return false;
		for (i++; s->stack.items[i].kind == FRAME_INLINED; i++)
			;
		strand_drop_from(s, i, CALL_UNWOUND);
		strand_inline_to(s, to);
		return true;
	}
	if (s->stack.items[0].ret)
		return false;
	strand_pop_to(s, 0, CALL_UNWOUND);
	while (--left > 0)
		strand_add_unknown_root(s);
	strand_add_root(s, to);
	return true;
}
