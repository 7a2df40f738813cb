/* See unseen.h. */
#include "decode/unseen.h"

#include "decode/away.h"
#include "decode/break.h"
#include "decode/resume.h"
#include "decode/transfer.h"

/* ---- missing code ---- */

void strand_enter_missing(struct strand *s, node_id from)
{
	bool returned = strand_node(s, from)->kind == NODE_RETURN; /* to who called unseen */

	if (returned)
		strand_pop_to(s, s->top, 0);
	if ((s->stack.count && s->stack.items[s->top].kind == FRAME_MISSING) ||
	    strand_is_uprobes(s, from))
		return;
	uint32_t b = weave_bracket(s->weave, BRACKET_MISSING_CODE, returned ? 0 : from, 0);
	uint32_t row = strand_open_call(s, CALL_BRACKET, b, 0, CALL_START_INFERRED);
	strand_push_frame(s, (struct frame){.call = row, .kind = FRAME_MISSING});
}

/* The bracket of a frame of missing code; NULL = it is another frame. */
static const struct bracket *strand_missing(const struct strand *s, const struct frame *f)
{
	if (f->kind != FRAME_MISSING || f->call == CALL_NONE)
		return NULL;
	const struct call *row = &s->thread->calls.items[f->call];
	return row->kind == CALL_BRACKET ? &s->weave->trace->brackets.items[row->what] : NULL;
}

/* Of the frames of missing code on top the topmost in the module of `to`; SIZE_MAX = none. */
static size_t strand_missing_in(const struct strand *s, node_id to)
{
	for (size_t i = s->top + 1; i-- > 0;) {
		const struct bracket *b = strand_missing(s, &s->stack.items[i]);

		if (!b)
			break;
		if (b->node && b->module.v == strand_cold(s, to)->module.v)
			return i;
	}
	return SIZE_MAX;
}

void strand_reenter(struct strand *s, node_id to)
{
	const struct node *n = strand_node(s, to);
	size_t at = strand_waiting_for(s, to);

	if (at != SIZE_MAX && at > 0) {
		strand_pop_to(s, at, 0);
		strand_inline_to(s, to);
		return;
	}
	at = n->kind == NODE_MISSING ? strand_missing_in(s, to) : SIZE_MAX;
	if (at != SIZE_MAX) { /* still, or back in it */
		strand_pop_to(s, at + 1, 0);
		return;
	}
	if (n->flags & NODE_KERNEL && s->stack.items[strand_floor(s)].kind != FRAME_KERNEL) {
		strand_push(s, to, 0, 0, CALL_INTERRUPT);
		return;
	}
	bool entry = n->flags & NODE_INTO_FUNCTION;
	if (!entry && strand_unwind_to_function(s, to))
		return;
	if (!entry && s->top == 0 && s->stack.items[0].ret == 0 && n->flags & NODE_CALL_PRECEDED) {
		strand_add_root(s, to);
		return;
	}
	/* Called by what was not seen, or so it seems: see strand_return_past_missing. */
	s->reentered.missing = s->stack.items[s->top].call;
	s->reentered.row = (uint32_t)s->thread->calls.count;
	strand_push(s, to, 0, 0, entry ? 0 : CALL_START_INFERRED);
}

bool strand_return_past_missing(struct strand *s, node_id to)
{
	const struct node *n = strand_node(s, to);
	size_t missing = s->top - 1, at = missing, floor = strand_floor(s);

	if (s->top < 2 || s->stack.items[s->top].ret || !(n->flags & NODE_CALL_PRECEDED) ||
	    n->func == 0 || s->stack.items[missing].kind != FRAME_MISSING ||
	    s->stack.items[missing].call != s->reentered.missing ||
	    s->reentered.row >= s->thread->calls.count)
		return false;
	while (at > floor &&
	       (s->stack.items[at].kind != FRAME_PHYSICAL || s->stack.items[at].func != n->func))
		at--;
	if (s->stack.items[at].kind != FRAME_PHYSICAL || s->stack.items[at].func != n->func)
		return false;
	struct call *calls = s->thread->calls.items;
	uint32_t caller = s->stack.items[at].call;
	strand_pop_to(s, at + 1, 0);
	for (size_t i = at + 1; i <= missing; i++) /* they ended unseen, before the call */
		if (s->stack.items[i].call != CALL_NONE)
			calls[s->stack.items[i].call].end_ns = calls[s->reentered.row].start_ns;
	for (uint32_t row = s->reentered.row; row < s->thread->calls.count; row++)
		if (calls[row].parent == s->reentered.missing)
			calls[row].parent = caller;
	s->doubt.set = false; /* rows from before it have changed */
	strand_inline_to(s, to);
	return true;
}

bool strand_has_execed_unseen(struct strand *s, node_id to)
{
	return s->off_node && strand_cold(s, s->off_node)->space.v != strand_cold(s, to)->space.v &&
	       strand_has_execed(s, 0, s->off_ns, to);
}

/* ---- filters ---- */

/* Opens [filtered] as a frame since off_ns: code that the filter leaves out has been called. */
static void strand_push_filtered(struct strand *s, node_id ret, node_id site)
{
	uint64_t now = s->now_ns;
	uint32_t bracket = weave_bracket(s->weave, BRACKET_FILTERED, 0, 0);

	s->now_ns = s->off_ns;
	strand_push_frame(
		s, (struct frame){.call = strand_open_call(s, CALL_BRACKET, bracket, site, 0),
				  .ret = ret,
				  .site = site,
				  .kind = FRAME_MISSING});
	s->now_ns = now;
}

void strand_reenter_filter(struct strand *s, node_id to)
{
	uint64_t now = s->now_ns;
	node_id ret;

	switch (strand_node(s, s->off_node)->kind) {
	case NODE_CALL:
	case NODE_CALL_INDIRECT:
		ret = graph_successor(s->weave->graph, s->off_node, 0);
		strand_push_filtered(s, ret, s->off_node);
		break;
	case NODE_JUMP:
	case NODE_JUMP_INDIRECT: { /* a tail call out of it */
		struct frame f = s->stack.items[s->top];

		s->now_ns = s->off_ns;
		strand_pop_to(s, s->top, 0);
		s->now_ns = now;
		strand_push_filtered(s, f.ret, f.site);
		break;
	}
	default:
		/* What is open as not traced needs no bracket inside. */
		if (s->stack.count == 0 || s->stack.items[s->top].kind != FRAME_MISSING)
			strand_draw_off(s);
	}
	if (s->stack.count)
		strand_reenter(s, to);
	else
		strand_push(s, to, 0, 0,
			    strand_node(s, to)->flags & NODE_INTO_FUNCTION ? 0
									   : CALL_START_INFERRED);
}
