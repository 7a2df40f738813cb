/* See segment.h.
 *
 * Each kind of event has one handler. What they share is the order of questions about a
 * control transfer that lands at `to`:
 *
 *     1. does the top frame wait for it?          an ordinary return
 *     2. does a deeper frame wait for it?         frames above it were skipped
 *     3. does a parked stack wait for it?         a switch of stacks
 *     4. is it a landing pad, a setjmp, the inside of a waiting function?   an unwind
 *     5. is it the first byte of a function?      a tail call (push; ret and the like)
 *     6. is it preceded by a call?                an outer frame, found by its return
 *     7. none of these                            the top frame was replaced
 *
 * Addresses decide before functions, functions before names (names are never asked). */
#include "decode/segment.h"

#include <stdlib.h>
#include <string.h>

#include "decode/away.h"
#include "decode/parked.h"
#include "decode/resume.h"
#include "decode/strand.h"

enum { STACK_MAX = 1 << 22 }; /* frames; no real stack is so deep: start afresh */

struct weaver {
	struct weave weave;
	struct strand *strands; /* indexed by task_id.v */
	size_t strand_count;
	task_id current;
};

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
static size_t strand_unwind_target(struct strand *s, node_id to)
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
	return by_function;
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

static bool strand_unwind(struct strand *s, node_id to)
{
	size_t at = strand_jump_buffer(s, to);

	if (at == SIZE_MAX)
		at = strand_unwind_target(s, to);
	if (at == SIZE_MAX)
		return false;
	strand_park_from(s, strand_above(s, at), CALL_UNWOUND);
	strand_inline_to(s, to);
	return true;
}

/* ---- returns ---- */

static void strand_return(struct strand *s, node_id from, node_id to);

bool strand_is_restorer(struct strand *s, node_id node)
{
	static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	const struct node_cold *cold = strand_cold(s, node);
	const uint8_t *code = NULL;

	if (weave_role(s->weave, strand_node(s, node)->func) == FUNC_SIGNAL_RESTORER)
		return true;
	size_t count = graph_code(s->weave->graph, cold->space, cold->ip, &code);
	bool same = count >= sizeof sigreturn && memcmp(code, sigreturn, sizeof sigreturn) == 0;
	return same;
}

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

/* Has the callee changed its return address? It goes on in its caller, behind no call. */
static bool strand_return_beside(struct strand *s, node_id to)
{
	const struct node *n = strand_node(s, to);
	size_t caller = s->top;

	while (caller > 0 && s->stack.items[caller - 1].kind == FRAME_INLINED)
		caller--;
	if (caller == 0 || n->func == 0 || n->flags & NODE_CALL_PRECEDED ||
	    s->stack.items[caller - 1].func != n->func ||
	    frame_lands_at(s, &s->stack.items[s->top], to))
		return false;
	strand_pop_to(s, s->top, 0);
	strand_inline_to(s, to);
	return true;
}

static void strand_return_to_nobody(struct strand *s, node_id to)
{
	const struct node *n = strand_node(s, to);
	const struct frame *f = &s->stack.items[s->top];
	bool bottom = s->top == 0 && f->ret == 0;

	if (n->flags & NODE_INTO_FUNCTION) {
		strand_replace_top(s, to);
	} else if (strand_return_beside(s, to) || strand_unwind(s, to)) {
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

static void strand_return_unmatched(struct strand *s, node_id from, node_id to)
{
	if (strand_return_in_thunk(s, from, to) || strand_return_to_restorer(s, to))
		return;
	if (strand_is_trampoline(s, to))
		return; /* half returned: until the trampoline goes on to where it waits */
	if (strand_guess_again(s, to)) {
		strand_return(s, from, to);
		return;
	}
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
		strand_return_to_nobody(s, to);
}

static void strand_return(struct strand *s, node_id from, node_id to)
{
	const struct frame *f = &s->stack.items[s->top];

	if (f->ret == 0 || !strand_same_ip(s, f->ret, to)) {
		strand_return_unmatched(s, from, to);
		return;
	}
	if (s->top == 0) {
		/* The bottom frame of a reopened stack. */
		if (!strand_switch_back(s, to))
			strand_add_root(s, to);
		return;
	}
	bool is_setjmp = f->is_setjmp;
	strand_pop_to(s, s->top, 0);
	if (is_setjmp)
		strand_note_setjmp(s, to);
	strand_inline_to(s, to);
}

/* ---- calls and jumps ---- */

static void strand_call(struct strand *s, node_id from, node_id to)
{
	if (strand_node(s, from)->flags & NODE_CALL_NEXT)
		return;
	if (s->stack.count >= STACK_MAX) {
		strand_give_up(s, from, to);
		return;
	}
	strand_push(s, to, graph_successor(s->weave->graph, from, 0), from, 0);
}

void strand_jump(struct strand *s, node_id from, node_id to)
{
	const struct node *n = strand_node(s, to);
	const struct frame *f = &s->stack.items[s->top];
	enum func_role role = weave_role(s->weave, n->func);

	if (role == FUNC_INDIRECT_THUNK || role == FUNC_RETURN_THUNK)
		return; /* its indirect jump or return acts for this frame */
	if (f->kind != FRAME_TRANSPARENT) {
		bool indirect = strand_node(s, from)->kind != NODE_JUMP;

		if (indirect && f->ret && strand_same_ip(s, f->ret, to)) {
			strand_return(s, from, to);
			return;
		}
		if (!(n->flags & NODE_INTO_FUNCTION)) {
			if (indirect && strand_guess_again(s, to)) {
				strand_return(s, from, to);
				return;
			}
			if (indirect && strand_waiting_for(s, to) != SIZE_MAX) {
				strand_return_unmatched(s, from, to);
				return;
			}
			if (indirect && strand_switch_back(s, to))
				return;
			if (strand_unwind(s, to))
				return;
		}
	}
	strand_replace_top(s, to);
}

/* ---- kernel entry and exit ---- */

static void strand_exit(struct strand *s, node_id to)
{
	size_t floor = strand_floor(s);

	if (s->stack.items[floor].kind != FRAME_KERNEL) {
		/* The entry was not seen: everything so far ran on top of what is at `to`. */
		strand_add_root(s, to);
		return;
	}
	node_id expected = s->stack.items[floor].ret;
	uint32_t row = s->stack.items[floor].call;
	uint64_t entered_ns = row == CALL_NONE ? s->now_ns : s->thread->calls.items[row].start_ns;
	strand_pop_to(s, floor, 0);
	if (s->stack.count == 0)
		strand_add_root(s, to);
	else if (expected == 0)
		strand_reenter(s, to);
	else if (strand_same_ip(s, expected, to))
		strand_inline_to(s, to);
	else if (!strand_exec_barrier(s, entered_ns, to))
		strand_resume_elsewhere(s, expected, to);
}

/* ---- transactions ---- */

static void strand_transaction(struct strand *s, const struct flow_event *e)
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
		strand_pop_to(s, same, CALL_ABORTED);
		for (size_t i = same; i < s->transaction.count; i++) {
			struct frame f = s->transaction.items[i];

			if (f.call != CALL_NONE) {
				struct call row = s->thread->calls.items[f.call];

				f.call = strand_open_call(s, row.kind, row.what, row.site,
							  row.flags);
			}
			strand_push_frame(s, f);
		}
		s->in_transaction = false;
		if (e->to)
			strand_inline_to(s, e->to);
	}
}

/* ---- dispatch ---- */

static void weaver_mark(struct weaver *w, const struct aux_buffer *buffer,
			const struct flow_event *e, const uint64_t *payloads)
{
	struct trace *t = w->weave.trace;

	if (e->kind == FLOW_FREQUENCY) {
		struct frequency f = {.time_ns = e->time_ns, .cpu = buffer->cpu, .ratio = e->data};

		if (t->frequencies.count && vec_last(&t->frequencies)->ratio == f.ratio &&
		    vec_last(&t->frequencies)->cpu == f.cpu)
			return;
		if (!vec_push(&t->frequencies, f))
			w->weave.out_of_memory = true;
		return;
	}
	struct trace_mark m = {.time_ns = e->time_ns,
			       .payload = payloads ? payloads[e->data] : e->data,
			       .task = w->current,
			       .cpu = buffer->cpu,
			       .node = e->from,
			       .kind = e->kind};
	if (!vec_push(&t->marks, m))
		w->weave.out_of_memory = true;
}

static struct strand *weaver_strand(struct weaver *w)
{
	return w->current.v < w->strand_count ? &w->strands[w->current.v] : NULL;
}

/* Adds the time since the last change of state to what that state counts for. */
static void strand_account(struct strand *s, enum strand_state before)
{
	if (before == STRAND_ON)
		s->thread->traced_ns += s->now_ns - s->since_ns;
	else if (before == STRAND_LOST)
		s->thread->lost_ns += s->now_ns - s->since_ns;
	s->since_ns = s->now_ns;
}

static void strand_event(struct strand *s, const struct flow_event *e)
{
	if (e->time_ns < s->now_ns)
		s->thread->clamped_times++;
	else
		s->now_ns = e->time_ns;
	/* An event of running code while the strand is off or new: the engine missed a begin. */
	enum strand_state before = s->state;
	bool running = s->state == STRAND_ON && s->stack.count > 0;

	switch ((enum flow_kind)e->kind) {
	case FLOW_SYNC: strand_on_sync(s, e->to); break;
	case FLOW_BEGIN: strand_on_begin(s, e->to, true); break;
	case FLOW_END: strand_on_end(s, e->from, e->cause); break;
	case FLOW_GAP: strand_on_gap(s, e->from, e->cause); break;
	case FLOW_RESUME: strand_on_resume(s, e->to); break;
	case FLOW_CALL:
		if (running)
			strand_call(s, e->from, e->to);
		break;
	case FLOW_RETURN:
		if (running)
			strand_return(s, e->from, e->to);
		break;
	case FLOW_JUMP:
		if (running)
			strand_jump(s, e->from, e->to);
		break;
	case FLOW_STEP:
		if (running)
			strand_inline_to(s, e->to);
		break;
	case FLOW_ENTRY:
		if (running)
			strand_push(s, e->to, graph_successor(s->weave->graph, e->from, 0), e->from,
				    CALL_INTERRUPT);
		break;
	case FLOW_INTERRUPT:
		if (running)
			strand_push(s, e->to, e->from, e->from, CALL_INTERRUPT);
		break;
	case FLOW_EXIT:
		if (running)
			strand_exit(s, e->to);
		break;
	case FLOW_TX_BEGIN:
	case FLOW_TX_COMMIT:
	case FLOW_TX_ABORT:
		if (running)
			strand_transaction(s, e);
		break;
	default: break;
	}
	if (s->state != before)
		strand_account(s, before);
	if (s->thread->segments.count)
		vec_last(&s->thread->segments)->edges++;
}

enum err weaver_events(struct weaver *w, const struct aux_buffer *buffer,
		       const struct flow_event *events, size_t count, const uint64_t *payloads)
{
	struct strand *s = weaver_strand(w);
	struct cpu_losses *losses = weave_losses(&w->weave, buffer);

	for (size_t i = 0; i < count; i++) {
		const struct flow_event *e = &events[i];

		if (losses && (losses->open || e->kind == FLOW_GAP))
			weave_note_loss(&w->weave, losses, e);
		if (e->kind == FLOW_TASK) {
			w->current = (task_id){e->data};
			s = weaver_strand(w);
		} else if (e->kind == FLOW_FREQUENCY || e->kind == FLOW_PTWRITE ||
			   e->kind == FLOW_POWER || e->kind == FLOW_EVENT) {
			weaver_mark(w, buffer, e, payloads);
		} else if (s) {
			strand_event(s, e);
		}
	}
	return w->weave.out_of_memory ? ERR_NOMEM : ERR_NONE;
}

enum err weaver_new(const struct sideband *sideband, struct symbolizer *symbolizer,
		    struct graph *graph, struct trace *trace, struct weaver **result)
{
	struct weaver *w = calloc(1, sizeof *w);

	if (!w)
		return ERR_NOMEM;
	w->weave = (struct weave){.sideband = sideband,
				  .symbolizer = symbolizer,
				  .graph = graph,
				  .tables = graph_tables(graph),
				  .trace = trace,
				  .timeless = !sideband->clock.valid};
	w->strand_count = sideband->tasks.count;
	w->strands = calloc(w->strand_count + 1, sizeof *w->strands);
	if (!w->strands || !vec_reserve(&trace->threads, w->strand_count) ||
	    weave_init_losses(&w->weave) != ERR_NONE) {
		weaver_free(w);
		return ERR_NOMEM;
	}
	/* One thread a task, at a fixed address; those without trace are dropped at the end. */
	for (size_t i = 0; i < w->strand_count; i++) {
		struct thread thread = {.task = {(uint32_t)i}};

		trace->threads.items[trace->threads.count++] = thread;
		strand_init(&w->strands[i], &w->weave, &trace->threads.items[i],
			    (task_id){(uint32_t)i});
	}
	*result = w;
	return ERR_NONE;
}

void weaver_free(struct weaver *w)
{
	if (!w)
		return;
	for (size_t i = 0; w->strands && i < w->strand_count; i++)
		strand_done(&w->strands[i]);
	free(w->strands);
	weave_done(&w->weave);
	free(w);
}

static int thread_order(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return x->task.v < y->task.v ? -1 : x->task.v > y->task.v;
}

enum err weaver_finish(struct weaver *w)
{
	struct trace *t = w->weave.trace;
	size_t kept = 0;

	for (size_t i = 0; i < w->strand_count; i++) {
		strand_account(&w->strands[i], w->strands[i].state);
		strand_finish(&w->strands[i]);
	}
	for (size_t i = 0; i < t->threads.count; i++)
		if (t->threads.items[i].segments.count)
			t->threads.items[kept++] = t->threads.items[i];
	t->threads.count = kept;
	qsort(t->threads.items, kept, sizeof *t->threads.items, thread_order);
	return w->weave.out_of_memory ? ERR_NOMEM : ERR_NONE;
}
