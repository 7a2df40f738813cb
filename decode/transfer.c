/* See transfer.h. */
#include "decode/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "decode/break.h"
#include "decode/call_store.h"
#include "decode/doubt.h"
#include "decode/parked.h"
#include "decode/resume.h"
#include "decode/unseen.h"
#include "decode/unwind.h"

enum { STACK_MAX = 1 << 22 }; /* frames; no real stack is so deep: start afresh */

/* ---- landing somewhere that nobody waits for ---- */

size_t strand_waiting_for(const struct strand *s, node_id to)
{
	size_t floor = strand_floor(s);

	for (size_t i = s->stack.count; i-- > floor;) {
		const struct frame *f = &s->stack.items[i];

		if (f->ret && f->kind != FRAME_SIGNAL && f->kind != FRAME_SIGRETURN &&
		    strand_same_ip(s, f->ret, to))
			return i;
	}
	return SIZE_MAX;
}

/* Does the call that this frame makes lead, by its function's LSDA, to the landing pad `to`? */
static bool frame_lands_at(struct strand *s, const struct frame *callee, node_id to)
{
	const struct node_cold *ret = strand_cold(s, callee->ret);
	const struct node_cold *pad = strand_cold(s, to);
	uint64_t pad_vaddr = 0;

	if (callee->ret == 0 || ret->module.v != pad->module.v)
		return false;
	graph_lock(s->weave->graph);
	bool known =
		symbolizer_landing_pad(s->weave->symbolizer, ret->module, ret->vaddr, &pad_vaddr);
	graph_unlock(s->weave->graph);
	return known && pad_vaddr == pad->vaddr;
}

/* The waiting frame (stack index) inside whose function `to` lies and that could be unwound
 * to; SIZE_MAX = none. A frame waits when another physical frame is above it. */
static size_t strand_unwind_target(struct strand *s, node_id to, bool by_lsda)
{
	uint32_t func = strand_node(s, to)->func;
	size_t floor = strand_floor(s), by_function = SIZE_MAX;
	const struct frame *callee = NULL; /* the physical frame above the one looked at */

	if (func == 0)
		return SIZE_MAX;
	for (size_t i = s->top + 1; i-- > floor;) {
		const struct frame *f = &s->stack.items[i];

		if (f->kind == FRAME_INLINED)
			continue;
		if (callee && f->func == func) {
			if (frame_lands_at(s, callee, to))
				return i;
			/* _Unwind_Resume goes on past the frame that called it. */
			bool resumed = weave_role(s->weave, callee->func) == FUNC_UNWIND_RESUME;
			if (by_function == SIZE_MAX && !resumed)
				by_function = i;
		}
		callee = f;
	}
	return by_lsda ? SIZE_MAX : by_function;
}

static size_t strand_jump_buffer(struct strand *s, node_id to)
{
	for (size_t i = s->jump_buffers.count; i-- > 0;) {
		if (!strand_same_ip(s, s->jump_buffers.items[i].node, to))
			continue;
		for (size_t k = s->stack.count; k-- > 0;)
			if (s->stack.items[k].call == s->jump_buffers.items[i].call &&
			    s->stack.items[k].kind != FRAME_INLINED)
				return k;
	}
	return SIZE_MAX;
}

/* First index above the physical frame at i and its inlined frames. */
static size_t strand_above(const struct strand *s, size_t i)
{
	i++;
	while (i < s->stack.count && s->stack.items[i].kind == FRAME_INLINED)
		i++;
	return i;
}

static bool strand_unwind(struct strand *s, node_id to, bool by_lsda)
{
	size_t at = strand_jump_buffer(s, to);

	if (at == SIZE_MAX && strand_unwind_counted(s, to))
		return true;
	if (at == SIZE_MAX)
		at = strand_unwind_target(s, to, by_lsda);
	if (at == SIZE_MAX)
		return false;
	if (strand_throws(s))
		strand_drop_from(s, strand_above(s, at), CALL_UNWOUND);
	else
		strand_park_from(s, strand_above(s, at), CALL_UNWOUND);
	strand_inline_to(s, to);
	return true;
}

/* ---- returns ---- */

static void strand_note_setjmp(struct strand *s, node_id to)
{
	struct jump_buffer b = {.node = to, .call = s->stack.items[s->top].call};
	/* Buffers of frames that are gone fall out here; most programs have one or two. */
	size_t kept = 0;

	for (size_t i = 0; i < s->jump_buffers.count; i++) {
		struct jump_buffer old = s->jump_buffers.items[i];

		if ((old.node != b.node || old.call != b.call) && old.call != CALL_NONE &&
		    s->thread->calls.items[old.call].end_ns == TIME_NONE)
			s->jump_buffers.items[kept++] = old;
	}
	s->jump_buffers.count = kept;
	if (!vec_push(&s->jump_buffers, b))
		s->weave->out_of_memory = true;
}

/* Thunks: `call 1f; 1: mov %reg,(%rsp); ret` is an indirect jump in disguise; in a return
 * thunk the same (with lea 8(%rsp),%rsp) is a return. The call's frame is not what returns. */
static bool strand_return_in_thunk(struct strand *s, node_id from, node_id to)
{
	const struct frame *f = &s->stack.items[s->top];
	enum func_role role = FUNC_PLAIN;

	if (f->kind == FRAME_TRANSPARENT && f->ret && s->top > 0)
		role = weave_role(s->weave, strand_node(s, f->ret)->func);
	if (role == FUNC_INDIRECT_THUNK || role == FUNC_RETURN_THUNK) {
		strand_pop_to(s, s->top, 0);
		if (role == FUNC_RETURN_THUNK) {
			strand_return(s, from, to);
			return true;
		}
	} else if (weave_role(s->weave, strand_node(s, from)->func) != FUNC_INDIRECT_THUNK) {
		return false;
	}
	strand_jump(s, from, to);
	return true;
}

/* The handler of a signal has returned to the restorer, which is about to call sigreturn. */
static bool strand_return_to_restorer(struct strand *s, node_id to)
{
	if (strand_node(s, to)->flags & NODE_CALL_PRECEDED || !strand_is_restorer(s, to))
		return false;
	size_t floor = strand_floor(s), at = s->top;
	while (at > floor && s->stack.items[at].kind != FRAME_SIGNAL)
		at--;
	if (s->stack.items[at].kind == FRAME_KERNEL)
		return false;
	struct frame sigreturn = {.func = strand_node(s, to)->func, .kind = FRAME_SIGRETURN};
	sigreturn.call = CALL_NONE;
	if (s->stack.items[at].kind == FRAME_SIGNAL) {
		sigreturn.ret = s->stack.items[at].ret;
		sigreturn.site = s->stack.items[at].site;
	} else {
		at = s->top; /* the handler's start was not seen */
	}
	strand_pop_to(s, at, 0);
	strand_push_frame(s, sigreturn);
	return true;
}

/* A deeper frame waits for `to`: those above it were skipped. If it is itself what returns,
 * they are over; else they may be a stack that was left. */
static void strand_return_deeper(struct strand *s, node_id from, node_id to, size_t at)
{
	if (s->stack.items[at].func == strand_node(s, from)->func) {
		strand_pop_to(s, at + 1, CALL_UNWOUND);
		strand_pop_to(s, at, 0);
	} else {
		strand_park_from(s, at, CALL_UNWOUND);
	}
	strand_inline_to(s, to);
}

/* If the top frame, or who called it, unwinds the stack: how many of the innermost frames are
 * over with that at least. _Unwind_Resume ends its caller, too. */
static uint8_t strand_unwinding(const struct strand *s)
{
	uint8_t looked = 0;

	for (size_t i = s->top + 1; i-- > 0 && looked < 2;) {
		if (s->stack.items[i].kind == FRAME_INLINED)
			continue;
		enum func_role role = s->stack.items[i].role;
		looked++;
		if (role == FUNC_UNWIND_RESUME)
			return looked + 1;
		if (role == FUNC_UNWINDER || role == FUNC_LONGJMP)
			return looked;
	}
	return 0;
}

/* Has the callee changed its return address? It goes on in its caller, behind no call. */
static bool strand_return_beside(struct strand *s, node_id to)
{
	const struct node *n = strand_node(s, to);
	size_t caller = s->top;

	while (caller > 0 && s->stack.items[caller - 1].kind == FRAME_INLINED)
		caller--;
	if (caller == 0 || n->func == 0 || n->flags & NODE_CALL_PRECEDED ||
	    s->stack.items[caller - 1].func != n->func || strand_unwinding(s) ||
	    frame_lands_at(s, &s->stack.items[s->top], to))
		return false;
	strand_pop_to(s, s->top, 0);
	strand_inline_to(s, to);
	return true;
}

/* The stack has been unwound beyond all that is known of it, by an unknown number of frames. */
static bool strand_unwind_beyond(struct strand *s, node_id from, node_id to)
{
	uint8_t unwound = strand_unwinding(s);

	if (!unwound)
		return false;
	strand_break(s, s->now_ns, from, LOSS_NONE, to, false);
	if (s->thread->joins.count)
		vec_last(&s->thread->joins)->unwound = unwound;
	return true;
}

/* A return to the first byte of a function that waits on this stack: a fresh fibre of the kind
 * that has just left. It takes the place of the one that left, which waits elsewhere now. They
 * share its row: with equal chains from there on, nobody can tell which of them runs when. */
static bool strand_start_sibling(struct strand *s, node_id to)
{
	uint32_t func = strand_node(s, to)->func;

	for (size_t i = s->top; func && i-- > strand_floor(s) + 1;) {
		const struct frame *f = &s->stack.items[i];

		if (f->kind != FRAME_PHYSICAL || f->func != func || f->call == CALL_NONE)
			continue;
		s->thread->calls.items[f->call].flags |= CALL_SWITCHED | CALL_AMBIGUOUS;
		strand_park_but_one(s, i, CALL_SWITCHED);
		strand_inline_to(s, to);
		return true;
	}
	return false;
}

static void strand_return_to_nobody(struct strand *s, node_id from, node_id to)
{
	const struct node *n = strand_node(s, to);
	const struct frame *f = &s->stack.items[s->top];
	bool bottom = s->top == 0 && f->ret == 0;

	if (n->flags & NODE_INTO_FUNCTION) {
		if (!strand_start_sibling(s, to))
			strand_replace_top(s, to);
	} else if (strand_return_past_missing(s, to) || strand_unwind(s, to, true) ||
		   strand_return_beside(s, to) || strand_unwind(s, to, false) ||
		   (!(n->flags & NODE_CALL_PRECEDED) && strand_unwind_beyond(s, from, to))) {
		return;
	} else if (n->func == f->func && !bottom) {
		strand_inline_to(s, to); /* call +0 used as a push */
	} else if (bottom && (n->flags & NODE_CALL_PRECEDED || n->kind == NODE_MISSING)) {
		strand_add_root(s, to);
	} else if (!bottom && n->flags & NODE_CALL_PRECEDED && f->ret) {
		strand_park_from(s, 0, CALL_SWITCHED); /* a stack never seen before */
		s->switched = true;
		strand_push(s, to, 0, 0, CALL_START_INFERRED | CALL_SWITCHED);
	} else {
		strand_replace_top(s, to);
	}
}

/* Lands at `to`, for which the top frame does not wait. */
static void strand_land(struct strand *s, node_id from, node_id to)
{
	if (strand_return_to_restorer(s, to))
		return;
	/* A landing pad may stand right behind a call that never returns, which waits for it. */
	if (strand_throws(s) && strand_unwind(s, to, true))
		return;
	if (strand_is_trampoline(s, to))
		return; /* half returned: until the trampoline goes on to where it waits */
	if (strand_guess_again(s, to)) {
		strand_return(s, from, to);
		return;
	}
	if (s->top > 0 || s->stack.items[s->top].ret)
		strand_doubt(s);
	const struct frame *f = &s->stack.items[s->top];
	size_t at = strand_waiting_for(s, to);
	if (at != SIZE_MAX && at > 0)
		strand_return_deeper(s, from, to, at);
	else if (strand_node(s, to)->kind == NODE_MISSING && s->top > 0 && f->ret == 0)
		strand_pop_to(s, s->top, 0); /* a callback goes back into missing code */
	else if (strand_switch_back(s, to))
		return;
	else if (at == 0)
		strand_add_root(s, to);
	else
		strand_return_to_nobody(s, from, to);
}

void strand_return(struct strand *s, node_id from, node_id to)
{
	const struct frame *f = &s->stack.items[s->top];

	if (f->ret == 0 || !strand_same_ip(s, f->ret, to)) {
		if (!strand_return_in_thunk(s, from, to))
			strand_land(s, from, to);
		return;
	}
	if (s->top == 0) {
		/* The bottom frame of a reopened stack. */
		if (!strand_switch_back(s, to))
			strand_add_root(s, to);
		return;
	}
	bool is_setjmp = f->role == FUNC_SETJMP;
	strand_pop_to(s, s->top, 0);
	if (is_setjmp)
		strand_note_setjmp(s, to);
	strand_inline_to(s, to);
}

/* ---- calls and jumps ---- */

void strand_call(struct strand *s, node_id from, node_id to)
{
	const struct node *n = strand_node(s, to);

	if (strand_node(s, from)->flags & NODE_CALL_NEXT)
		return;
	if (!(n->flags & NODE_INTO_FUNCTION) && n->func == strand_node(s, from)->func && n->func &&
	    facts_drops_return(&s->weave->facts, to)) {
		strand_inline_to(s, to);
		return;
	}
	if (s->stack.count >= STACK_MAX) {
		strand_give_up(s, from, to);
		return;
	}
	strand_push(s, to, graph_successor(s->weave->graph, from, 0), from, 0);
}

/* The C library's functions that are implemented in the dynamic linker are a jump to a function
 * of the same name there: one function to everybody who looks. */
static bool strand_is_forwarded(struct strand *s, const struct frame *f, node_id from, node_id to)
{
	const struct node *n = strand_node(s, to), *left = strand_node(s, from);

	if (f->func == 0 || f->func != left->func || n->func == 0 || f->kind != FRAME_PHYSICAL ||
	    strand_cold(s, from)->module.v == strand_cold(s, to)->module.v)
		return false;
	graph_lock(s->weave->graph);
	str_id old_name = symbolizer_func_linkage_name(s->weave->symbolizer, (func_id){f->func});
	str_id new_name = symbolizer_func_linkage_name(s->weave->symbolizer, (func_id){n->func});
	graph_unlock(s->weave->graph);
	return old_name.v == new_name.v;
}

void strand_jump(struct strand *s, node_id from, node_id to)
{
	const struct node *n = strand_node(s, to);
	const struct frame *f = &s->stack.items[s->top];
	enum func_role role = weave_role(s->weave, n->func);

	if (role == FUNC_INDIRECT_THUNK || role == FUNC_RETURN_THUNK)
		return; /* its indirect jump or return acts for this frame */
	if (n->flags & NODE_INTO_FUNCTION && strand_is_forwarded(s, f, from, to)) {
		s->stack.items[s->top].func = n->func;
		strand_inline_to(s, to);
		return;
	}
	if (f->kind != FRAME_TRANSPARENT) {
		bool indirect = strand_node(s, from)->kind != NODE_JUMP;

		if (indirect && f->ret && strand_same_ip(s, f->ret, to)) {
			strand_return(s, from, to);
			return;
		}
		if (!(n->flags & NODE_INTO_FUNCTION)) {
			strand_doubt(s);
			if (indirect && strand_throws(s) && strand_unwind(s, to, true))
				return;
			if (indirect && strand_guess_again(s, to)) {
				strand_return(s, from, to);
				return;
			}
			if (indirect && strand_waiting_for(s, to) != SIZE_MAX) {
				strand_land(s, from, to);
				return;
			}
			if (indirect && strand_switch_back(s, to))
				return;
			if (strand_unwind(s, to, false) ||
			    (indirect && strand_unwind_beyond(s, from, to)))
				return;
		}
	}
	strand_replace_top(s, to);
}

/* ---- trees of closed calls ---- */

/* Appends the rows of a tree, for which there is room, beneath the row `top`. */
static void strand_take_rows(struct strand *s, const struct call *in, const struct tree *tree,
			     uint32_t top)
{
	struct thread *t = s->thread;
	uint32_t first = (uint32_t)t->calls.count, count = tree->end_row - tree->first_row;
	struct call *out = t->calls.items + first;

	in += tree->first_row;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t parent = in[i].parent - tree->first_row;

		out[i] = in[i];
		if (!(in[i].flags & CALL_TAIL)) {
			out[i].parent = parent < count ? first + parent : top;
			continue;
		}
		struct arrow arrow = {.from = first + parent, .to = first + i};
		out[i].parent = out[parent].parent;
		if (!vec_push(&t->arrows, arrow))
			s->weave->out_of_memory = true;
	}
	t->calls.count += count;
}

bool strand_tree(struct strand *s, const struct stay *stay, const struct tree *tree)
{
	struct thread *t = s->thread;
	const struct flow_event *first = stay->events + (tree->first_event - stay->first_event);
	const struct flow_event *last = stay->events + (tree->end_event - stay->first_event) - 1;
	uint32_t count = tree->end_row - tree->first_row, top = strand_top_row(s);
	bool fits_chain = tree->inlined == TREE_ANY_CHAIN || tree->inlined == strand_innermost(s);

	if (!fits_chain || top == CALL_NONE || first->time_ns < s->now_ns ||
	    s->stack.count >= STACK_MAX - TREE_DEPTH_MAX ||
	    t->calls.count + count > CALL_NONE - 1 ||
	    !calls_reserve(s->weave->trace, t, t->calls.count + count))
		return false;
	strand_take_rows(s, stay->rows, tree, top);
	s->now_ns = last->time_ns;
	vec_last(&t->segments)->edges += tree->end_event - tree->first_event;
	strand_inline_to(s, last->to);
	return true;
}

/* ---- kernel entry and exit ---- */

void strand_exit(struct strand *s, node_id to)
{
	size_t floor = strand_floor(s);

	if (s->stack.items[floor].kind != FRAME_KERNEL) {
		/* The entry was not seen: everything so far ran on top of what is at `to`. */
		strand_add_root(s, to);
		return;
	}
	node_id expected = s->stack.items[floor].ret, left_at = s->stack.items[floor].site;
	uint32_t row = s->stack.items[floor].call;
	uint64_t entered_ns = row == CALL_NONE ? s->now_ns : s->thread->calls.items[row].start_ns;
	strand_pop_to(s, floor, 0);
	if (s->stack.count == 0)
		strand_add_root(s, to);
	else if (expected == 0)
		strand_reenter(s, to);
	else if (strand_same_ip(s, expected, to))
		strand_inline_to(s, to);
	else if (!strand_exec_barrier(s, left_at, entered_ns, to))
		strand_resume_elsewhere(s, expected, to);
}

/* ---- transactions ---- */

void strand_transaction(struct strand *s, const struct flow_event *e)
{
	if (e->kind == FLOW_TX_BEGIN) {
		s->transaction.count = 0;
		for (size_t i = 0; i < s->stack.count; i++)
			if (!vec_push(&s->transaction, s->stack.items[i]))
				s->weave->out_of_memory = true;
		s->in_transaction = true;
	} else if (e->kind == FLOW_TX_COMMIT) {
		s->in_transaction = false;
	} else if (s->in_transaction) {
		size_t same = 0;

		while (same < s->stack.count && same < s->transaction.count &&
		       s->stack.items[same].call == s->transaction.items[same].call)
			same++;
		/* An outer frame that was found meanwhile was there before. */
		bool root = same == 0 && s->stack.count && s->stack.items[0].call != CALL_NONE &&
			    s->thread->calls.items[s->stack.items[0].call].flags & CALL_ROOT;
		strand_pop_to(s, same + root, CALL_ABORTED);
		for (size_t i = same; i < s->transaction.count; i++) {
			struct frame f = s->transaction.items[i];

			if (root && i == 0 && f.ret == 0) /* what the return that found it hit */
				f.ret = s->thread->calls.items[s->stack.items[0].call].what;
			if (f.call != CALL_NONE) {
				struct call row = s->thread->calls.items[f.call];

				f.call = strand_open_call(s, row.kind, row.what, row.site,
							  row.flags &
								  (CALL_SIGNAL | CALL_INTERRUPT));
			}
			strand_push_frame(s, f);
		}
		s->in_transaction = false;
		if (e->to)
			strand_inline_to(s, e->to);
	}
}
