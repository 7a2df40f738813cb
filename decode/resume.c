/* See resume.h. */
#include "decode/resume.h"

#include <string.h>

#include "decode/away.h"
#include "decode/break.h"
#include "decode/doubt.h"
#include "decode/flow.h"
#include "decode/transfer.h"
#include "decode/unseen.h"

enum { VECTOR_PAGE_FAULT = 14 };

/* Data are missing from the CPU's buffer, while it may have run several tasks. */
static bool loss_is_cut(unsigned cause)
{
	return cause == LOSS_AUX_TRUNCATED || cause == LOSS_AUX_PARTIAL || cause == LOSS_AUX_LOST ||
	       cause == LOSS_OVERWRITTEN;
}

/* ---- going on ---- */

static void strand_unwind_to(struct strand *s, size_t first, node_id to)
{
	strand_pop_to(s, first, CALL_UNWOUND);
	strand_inline_to(s, to);
}

/* Topmost waiting frame of to's function, as "first index above it"; SIZE_MAX = none. */
static size_t strand_above_function(const struct strand *s, node_id to)
{
	uint32_t func = strand_node(s, to)->func;
	size_t floor = strand_floor(s);

	for (size_t i = s->top + 1; func && i-- > floor;) {
		const struct frame *f = &s->stack.items[i];

		if (f->kind == FRAME_INLINED || f->func != func || f->kind == FRAME_SIGRETURN)
			continue;
		for (i++; i < s->stack.count && s->stack.items[i].kind == FRAME_INLINED; i++)
			;
		return i;
	}
	return SIZE_MAX;
}

bool strand_unwind_to_function(struct strand *s, node_id to)
{
	size_t at = strand_above_function(s, to);

	if (at == SIZE_MAX)
		return false;
	strand_unwind_to(s, at, to);
	return true;
}

/* sigreturn goes to another place than the interrupted one, or to that of an outer handler. */
static bool strand_sigreturn_elsewhere(struct strand *s, node_id to)
{
	size_t floor = strand_floor(s);

	for (size_t i = s->stack.count; i-- > floor;) {
		const struct frame *f = &s->stack.items[i];

		if ((f->kind == FRAME_SIGNAL || f->kind == FRAME_SIGRETURN) && i > 0 &&
		    strand_same_ip(s, f->ret, to)) {
			strand_unwind_to(s, i, to);
			return true;
		}
	}
	const struct frame *f = &s->stack.items[s->top];
	if (f->kind != FRAME_SIGRETURN)
		return false;
	if (f->ret == 0 && s->top == 0) {
		strand_add_root(s, to); /* what the first handler of the trace interrupted */
		return true;
	}
	return false;
}

void strand_resume_elsewhere(struct strand *s, node_id expected, node_id to)
{
	if (strand_sigreturn_elsewhere(s, to))
		return;
	const struct node *n = strand_node(s, to);
	const struct frame *f = &s->stack.items[s->top];
	if (n->flags & NODE_INTO_FUNCTION && expected) {
		/* A signal handler: it comes back to where the thread was. */
		if (f->kind == FRAME_SIGRETURN && s->top > 0) {
			expected = f->ret;
			strand_pop_to(s, s->top, 0);
		}
		strand_push(s, to, expected, expected, CALL_SIGNAL);
		return;
	}
	if (f->ret && s->top > 0 && strand_same_ip(s, f->ret, to)) {
		strand_pop_to(s, s->top, 0); /* returned unseen: vsyscall, uretprobe */
		strand_inline_to(s, to);
		return;
	}
	if (n->func && n->func == f->func) {
		strand_inline_to(s, to); /* rseq abort, fixup, single-stepped instruction */
		return;
	}
	size_t at = strand_waiting_for(s, to);
	if (at != SIZE_MAX && at > 0)
		strand_unwind_to(s, at, to);
	else if (!strand_unwind_to_function(s, to))
		strand_break(s, s->now_ns, expected, LOSS_DATA_LOST, to, false);
}

static bool strand_syscall_resumes(const struct strand *s, node_id to)
{
	const struct node_cold *from = strand_cold(s, s->off_node), *at = strand_cold(s, to);

	return at->ip == from->end_ip || at->ip == from->branch_ip;
}

bool strand_is_restorer(struct strand *s, node_id node)
{
	static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	const struct node_cold *cold = strand_cold(s, node);
	const uint8_t *code = NULL;

	if (weave_role(s->weave, strand_node(s, node)->func) == FUNC_SIGNAL_RESTORER)
		return true;
	size_t count = graph_code(s->weave->graph, cold->space, cold->ip, &code);
	return count >= sizeof sigreturn && memcmp(code, sigreturn, sizeof sigreturn) == 0;
}

bool strand_is_uprobes(const struct strand *s, node_id node)
{
	const struct sideband *sb = s->weave->sideband;
	const struct node_cold *cold = strand_cold(s, node);

	if (strand_node(s, node)->kind != NODE_MISSING || cold->space.v >= sb->spaces.count)
		return false;
	const struct mapping *m = space_find(&sb->spaces.items[cold->space.v], cold->ip);
	return m && m->flags & MAPPING_UPROBES;
}

bool strand_is_trampoline(struct strand *s, node_id node)
{
	return weave_role(s->weave, strand_node(s, node)->func) == FUNC_RETURN_TRAMPOLINE ||
	       strand_is_uprobes(s, node);
}

/* ---- events ---- */

/* Tracing was off and goes on at `to`; whether nothing was missed. */
static bool strand_continues(struct strand *s, node_id to, node_id *expected)
{
	const struct frame *f = &s->stack.items[s->top];

	*expected = s->off_node;
	if (s->off_node == 0)
		return strand_node(s, to)->func == f->func;
	if (f->kind == FRAME_SIGRETURN && s->off_cause == FLOW_END_SYSCALL) {
		*expected = f->ret;
		return s->top > 0 && strand_same_ip(s, f->ret, to);
	}
	if (s->off_cause == FLOW_END_SYSCALL) {
		*expected = graph_successor(s->weave->graph, s->off_node, 0);
		return strand_syscall_resumes(s, to);
	}
	return strand_same_ip(s, s->off_node, to);
}

/* May it be a signal that lets the thread go on at `to`: a handler begins, or one is over? */
static bool strand_is_signal(const struct strand *s, node_id to)
{
	if (strand_node(s, to)->flags & NODE_INTO_FUNCTION)
		return true;
	for (size_t i = s->stack.count; i-- > 0;)
		if (s->stack.items[i].kind == FRAME_SIGNAL ||
		    s->stack.items[i].kind == FRAME_SIGRETURN)
			return true;
	return false;
}

static void strand_go_on(struct strand *s, node_id to, bool at_begin)
{
	bool filtered = s->off_cause == FLOW_END_BRANCH;
	uint64_t lost_ns;
	unsigned cause;
	node_id expected = s->off_node;
	bool continues = !filtered && s->stack.count && strand_continues(s, to, &expected);
	bool lost = strand_lost_while_off(s, !at_begin || !continues, &lost_ns, &cause);

	if (!lost && s->cut && !(continues && strand_switched_out(s, s->now_ns))) {
		lost = true;
		lost_ns = s->off_ns;
		cause = s->cut;
	} else if (!lost && !continues && !filtered && !strand_is_signal(s, to)) {
		/* Of a stay that left no trace, and cannot have been in the kernel only. */
		lost = strand_had_silent_stay(s, &lost_ns);
		cause = LOSS_DATA_LOST;
	}
	s->cut = LOSS_NONE;
	s->state = STRAND_ON;
	if (!continues && strand_has_execed(s, s->off_node, s->off_ns, to)) {
		if (s->off_node && s->stack.count)
			strand_draw_off(s);
		strand_break(s, s->now_ns, s->off_node, LOSS_NONE, to, true);
	} else if (lost) {
		uint64_t now = s->now_ns;

		s->now_ns = lost_ns;
		if (s->off_node)
			strand_draw_off(s);
		s->now_ns = now;
		strand_break(s, lost_ns, s->off_node, cause, to, false);
	} else if (filtered) {
		strand_reenter_filter(s, to);
	} else if (s->stack.count && strand_is_uprobes(s, to)) {
		strand_draw_off(s); /* runs one probed instruction out of line */
	} else if (s->stack.count == 0) {
		strand_break(s, s->off_ns, s->off_node, LOSS_DATA_LOST, to, false);
	} else {
		if (s->off_node)
			strand_draw_off(s);
		if (!continues) {
			strand_resume_elsewhere(s, expected, to);
			return;
		}
		if (s->stack.items[s->top].kind == FRAME_SIGRETURN &&
		    s->off_cause == FLOW_END_SYSCALL)
			strand_pop_to(s, s->top, 0);
		strand_inline_to(s, to);
	}
}

static void strand_start(struct strand *s, node_id to)
{
	strand_start_segment(s, to, CALL_NONE);
	s->state = STRAND_ON;
	if (s->thread->segments.count)
		vec_last(&s->thread->segments)->bottom = strand_begins_thread(s, to);
}

void strand_on_begin(struct strand *s, node_id to, bool at_begin)
{
	unsigned cause;

	switch (s->state) {
	case STRAND_NEW: strand_start(s, to); return;
	case STRAND_LOST: strand_on_resume(s, to, FLOW_RESUME_CERTAIN); return;
	case STRAND_ON: /* a second start without an end */
		if (strand_lost_before_off(s, &cause)) {
			strand_break(s, s->last_ns, 0, cause, to,
				     strand_exec_between(s, s->last_ns, s->now_ns));
			return;
		}
		s->off_ns = s->now_ns;
		s->off_node = 0;
		s->off_cause = FLOW_END_ASYNC;
		s->off_page_fault = false;
		break;
	case STRAND_OFF: break;
	}
	strand_go_on(s, to, at_begin);
}

void strand_on_sync(struct strand *s, node_id to)
{
	if (s->state != STRAND_ON || s->stack.count == 0)
		strand_on_begin(s, to, false);
}

void strand_on_end(struct strand *s, node_id from, unsigned cause, uint32_t data)
{
	if (s->state != STRAND_ON)
		return; /* a second end without a start */
	/* Only a filter lets a branch end the trace; else its end was lost. */
	if (cause == FLOW_END_BRANCH && s->weave->sideband->config.filter.v == 0)
		cause = FLOW_END_ASYNC;
	s->state = STRAND_OFF;
	s->cut = LOSS_NONE;
	s->off_ns = s->now_ns;
	s->off_node = from;
	s->off_cause = (uint8_t)cause;
	s->off_page_fault = data == 1 + VECTOR_PAGE_FAULT;
	if (cause == FLOW_END_BRANCH && s->stack.count && strand_node(s, from)->kind == NODE_RETURN)
		strand_pop_to(s, s->top, 0);
}

void strand_on_gap(struct strand *s, node_id from, unsigned cause)
{
	if (cause < LOSS_COUNT && trace_counts(s->weave->trace, s->now_ns, s->now_ns))
		s->thread->losses[cause]++;
	if (s->state == STRAND_LOST || s->state == STRAND_NEW)
		return;
	if (s->state == STRAND_OFF && loss_is_cut(cause) && strand_switched_out(s, TIME_NONE)) {
		s->cut = (uint8_t)cause; /* maybe after it had left this CPU: see strand_go_on */
		return;
	}
	/* Called or jumped to: code that nobody has mapped, as far as the records tell. */
	if (cause == LOSS_BAD_IP && s->stack.count && s->stack.items[s->top].kind == FRAME_MISSING)
		cause = LOSS_MISSING_CODE;
	if (s->state == STRAND_OFF && s->off_node && s->stack.count)
		strand_draw_off(s);
	bool taken_back =
		s->state == STRAND_ON && loss_is_damage(cause) && strand_take_back_doubtful(s);
	if (s->state == STRAND_ON || from)
		s->off_node = taken_back ? 0 : from;
	s->off_ns = s->now_ns;
	s->off_cause = (uint8_t)cause;
	s->state = STRAND_LOST;
	bool missing =
		cause == LOSS_MISSING_CODE || (cause == LOSS_BAD_IP && !s->guessed && !taken_back);
	if (missing && s->stack.count && from)
		strand_enter_missing(s, from);
}

void strand_on_resume(struct strand *s, node_id to, unsigned how)
{
	bool missing =
		s->off_cause == LOSS_MISSING_CODE || (s->off_cause == LOSS_BAD_IP && !s->guessed);

	if (s->state != STRAND_LOST) { /* whose gap was another thread's */
		strand_on_begin(s, to, false);
		return;
	}
	missing = missing && s->stack.count;
	bool execed = missing ? strand_has_execed_unseen(s, to)
			      : strand_exec_between(s, s->off_ns, s->now_ns);
	if (missing && !execed) {
		strand_reenter(s, to); /* only the frames of the missing code are unknown */
	} else {
		bool damage = loss_is_damage(s->off_cause);

		strand_break(s, s->off_ns, s->off_node, s->off_cause, to, execed);
		s->guessed = damage && how == FLOW_RESUME_TIP;
	}
	s->state = STRAND_ON;
}

void strand_finish(struct strand *s)
{
	if (s->state == STRAND_NEW)
		return;
	strand_end_segment(s);
}
