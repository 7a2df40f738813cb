/* See resume.h. */
#include "decode/resume.h"

#include "decode/flow.h"

static bool strand_push_join(struct strand *s, struct join j)
{
	if (vec_push(&s->thread->joins, j))
		return true;
	s->weave->out_of_memory = true;
	return false;
}

static uint32_t strand_waiting_count(const struct strand *s)
{
	uint32_t count = 0;

	for (size_t i = 0; i < s->stack.count; i++)
		count += s->stack.items[i].kind != FRAME_INLINED;
	return count;
}

/* Ends the open segment at the loss and starts the next one at `to`. */
static void strand_break(struct strand *s, uint64_t lost_ns, node_id lost_at, unsigned cause,
			 node_id to, bool barrier)
{
	struct join j = {.lost_ns = lost_ns,
			 .resumed_ns = s->now_ns,
			 .lost_at = lost_at,
			 .resumed_at = to,
			 .cause = (uint8_t)cause,
			 .evidence = barrier ? JOIN_BARRIER : JOIN_NONE,
			 .waiting = strand_waiting_count(s)};
	uint64_t now = s->now_ns;
	uint32_t index = CALL_NONE;

	if (s->thread->segments.count) {
		s->now_ns = lost_ns < now ? lost_ns : now;
		strand_end_segment(s);
		s->now_ns = now;
	}
	if (s->thread->segments.count && strand_push_join(s, j))
		index = (uint32_t)s->thread->joins.count - 1;
	strand_start_segment(s, to, index);
	if (s->thread->segments.count)
		vec_last(&s->thread->segments)->barrier = barrier;
	s->state = STRAND_ON;
}

/* Did the thread exec between two times? */
static bool strand_exec_between(struct strand *s, uint64_t from_ns, uint64_t to_ns)
{
	const struct sideband *sb = s->weave->sideband;

	for (; s->next_exec < sb->task_names.count; s->next_exec++) {
		const struct task_name *n = &sb->task_names.items[s->next_exec];

		if (n->time_ns > to_ns)
			return false;
		if (n->task.v == s->task.v && n->exec && n->time_ns >= from_ns && n->time_ns > 0) {
			s->next_exec++;
			return true;
		}
	}
	return false;
}

/* ---- what happened while tracing was off, drawn ---- */

/* Draws [descheduled] slices for the switches of this task in [from, now); returns whether
 * there were any. The cursor only moves forward: times of a strand do. */
static bool strand_draw_descheduled(struct strand *s, uint64_t from_ns, bool draw)
{
	const struct sideband *sb = s->weave->sideband;
	bool any = false;
	uint64_t now = s->now_ns;

	while (s->next_switch < sb->task_switches.count) {
		const struct task_switch *sw = &sb->task_switches.items[s->next_switch];

		if (sw->task.v > s->task.v || (sw->task.v == s->task.v && sw->time_ns >= now))
			break;
		s->next_switch++;
		if (sw->task.v != s->task.v || sw->in || sw->time_ns < from_ns)
			continue;
		any = true;
		const struct task_switch *in = &sb->task_switches.items[s->next_switch];
		uint64_t until = now;
		if (s->next_switch < sb->task_switches.count && in->task.v == s->task.v && in->in &&
		    in->time_ns < now)
			until = in->time_ns;
		if (draw) {
			s->now_ns = until;
			strand_bracket(s, weave_bracket(s->weave, BRACKET_DESCHEDULED, 0, 0),
				       sw->time_ns);
			s->now_ns = now;
		}
	}
	return any;
}

static void strand_draw_off(struct strand *s)
{
	uint64_t now = s->now_ns;

	if (s->off_cause == FLOW_END_SYSCALL) {
		uint32_t b = weave_bracket(s->weave, BRACKET_SYSCALL, s->off_node, 0);

		/* Open while its descheduled part is drawn inside. */
		s->now_ns = s->off_ns;
		uint32_t row = strand_open_call(s, CALL_BRACKET, b, 0, 0);
		s->now_ns = now;
		strand_push_frame(s, (struct frame){.call = row, .kind = FRAME_INLINED});
		strand_draw_descheduled(s, s->off_ns, true);
		strand_pop_to(s, s->stack.count - 1, 0);
	} else if (s->off_cause == FLOW_END_ASYNC) {
		bool out = strand_draw_descheduled(s, s->off_ns, false);
		enum bracket_kind kind = out ? BRACKET_DESCHEDULED : BRACKET_INTERRUPTED;

		strand_bracket(s, weave_bracket(s->weave, kind, 0, 0), s->off_ns);
	} else {
		strand_bracket(s, weave_bracket(s->weave, BRACKET_FILTERED, 0, 0), s->off_ns);
	}
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

void strand_resume_elsewhere(struct strand *s, node_id expected, node_id to)
{
	const struct node *n = strand_node(s, to);
	const struct frame *f = &s->stack.items[s->top];

	/* sigreturn to a place other than the interrupted one, or out of a nested handler. */
	for (size_t i = s->stack.count; i-- > strand_floor(s);) {
		const struct frame *g = &s->stack.items[i];

		if ((g->kind == FRAME_SIGNAL || g->kind == FRAME_SIGRETURN) && i > 0 &&
		    strand_same_ip(s, g->ret, to)) {
			strand_unwind_to(s, i, to);
			return;
		}
	}
	if (n->flags & NODE_INTO_FUNCTION) {
		/* A signal handler: it comes back to where the thread was. */
		if (f->kind == FRAME_SIGRETURN && s->top > 0) {
			expected = f->ret;
			strand_pop_to(s, s->top, 0);
		}
		strand_push(s, to, expected, expected, CALL_SIGNAL);
		return;
	}
	if (f->ret && s->top > 0 && strand_same_ip(s, f->ret, to)) {
		strand_unwind_to(s, s->top, to); /* emulated return (vsyscall) */
		return;
	}
	if (n->func && n->func == f->func) {
		strand_inline_to(s, to); /* rseq abort, fixup, single-stepped instruction */
		return;
	}
	size_t at = strand_waiting_for(s, to);
	if (at != SIZE_MAX && at > 0) {
		strand_unwind_to(s, at, to);
		return;
	}
	at = strand_above_function(s, to);
	if (at != SIZE_MAX) {
		strand_unwind_to(s, at, to);
		return;
	}
	strand_break(s, s->off_ns ? s->off_ns : s->now_ns, expected, LOSS_DATA_LOST, to, false);
}

static bool strand_syscall_resumes(const struct strand *s, node_id to)
{
	const struct node_cold *from = strand_cold(s, s->off_node), *at = strand_cold(s, to);

	return at->ip == from->end_ip || at->ip == from->branch_ip;
}

/* Re-entry into a filter, or into known code out of missing code. */
static void strand_reenter(struct strand *s, node_id to)
{
	size_t at = strand_waiting_for(s, to);

	if (at != SIZE_MAX && at > 0) {
		strand_pop_to(s, at, 0);
		strand_inline_to(s, to);
		return;
	}
	if (strand_node(s, to)->flags & NODE_INTO_FUNCTION) {
		strand_push(s, to, 0, 0, 0); /* called by what was not seen */
		return;
	}
	at = strand_above_function(s, to);
	if (at != SIZE_MAX)
		strand_unwind_to(s, at, to);
	else
		strand_push(s, to, 0, 0, CALL_START_INFERRED);
}

static void strand_leave_branch(struct strand *s)
{
	/* The branch that left the filter acts on the stack before tracing is off. */
	switch (strand_node(s, s->off_node)->kind) {
	case NODE_RETURN:
		if (s->top > 0)
			strand_pop_to(s, s->top, 0);
		break;
	default: break;
	}
}

void strand_on_begin(struct strand *s, node_id to)
{
	if (s->state == STRAND_NEW) {
		strand_start_segment(s, to, CALL_NONE);
		s->state = STRAND_ON;
		return;
	}
	if (s->state == STRAND_LOST) {
		strand_on_resume(s, to);
		return;
	}
	if (s->state == STRAND_ON) { /* a second start without an end: nothing was missed */
		s->off_ns = s->now_ns;
		s->off_node = 0;
		s->off_cause = FLOW_END_ASYNC;
	}
	s->state = STRAND_ON;
	if (strand_exec_between(s, s->off_ns, s->now_ns)) {
		strand_break(s, s->off_ns, s->off_node, LOSS_NONE, to, true);
		return;
	}
	if (s->stack.count == 0) {
		strand_break(s, s->off_ns, s->off_node, LOSS_DATA_LOST, to, false);
		return;
	}
	if (s->off_node)
		strand_draw_off(s);
	if (s->off_cause == FLOW_END_BRANCH) {
		strand_reenter(s, to);
		return;
	}
	node_id expected = s->off_node;
	bool resumes = s->off_node == 0 || strand_same_ip(s, s->off_node, to);
	if (s->off_cause == FLOW_END_SYSCALL && s->off_node) {
		expected = graph_successor(s->weave->graph, s->off_node, 0);
		resumes = strand_syscall_resumes(s, to);
		if (s->stack.items[s->top].kind == FRAME_SIGRETURN) {
			expected = s->stack.items[s->top].ret;
			resumes = s->top > 0 && strand_same_ip(s, expected, to);
			if (resumes)
				strand_pop_to(s, s->top, 0);
		}
	}
	if (resumes)
		strand_inline_to(s, to);
	else
		strand_resume_elsewhere(s, expected, to);
}

void strand_on_sync(struct strand *s, node_id to)
{
	if (s->state != STRAND_ON)
		strand_on_begin(s, to);
	else if (s->stack.count == 0)
		strand_start_segment(s, to, CALL_NONE);
}

void strand_on_end(struct strand *s, node_id from, unsigned cause)
{
	if (s->state != STRAND_ON)
		return; /* a second end without a start */
	s->state = STRAND_OFF;
	s->off_ns = s->now_ns;
	s->off_node = from;
	s->off_cause = (uint8_t)cause;
	if (cause == FLOW_END_BRANCH && from && s->stack.count)
		strand_leave_branch(s);
}

void strand_on_gap(struct strand *s, node_id from, unsigned cause)
{
	if (cause < LOSS_COUNT)
		s->thread->losses[cause]++;
	if (s->state == STRAND_LOST || s->state == STRAND_NEW)
		return;
	if (s->state == STRAND_ON || from)
		s->off_node = from;
	s->off_ns = s->now_ns;
	s->off_cause = (uint8_t)cause;
	s->state = STRAND_LOST;
	if (cause == LOSS_MISSING_CODE && s->stack.count && from &&
	    s->stack.items[s->top].kind != FRAME_MISSING)
		/* Entered by a way that left no event: what runs now is not known. */
		strand_push(s, from, 0, 0, CALL_START_INFERRED);
}

void strand_on_resume(struct strand *s, node_id to)
{
	if (s->state == STRAND_NEW) {
		strand_start_segment(s, to, CALL_NONE);
	} else if (s->state == STRAND_LOST && s->off_cause == LOSS_MISSING_CODE && s->stack.count) {
		/* Only the frames of the missing code are unknown. */
		strand_reenter(s, to);
	} else {
		strand_break(s, s->off_ns, s->off_node, s->off_cause, to, false);
	}
	s->state = STRAND_ON;
}

void strand_finish(struct strand *s)
{
	if (s->state == STRAND_NEW)
		return;
	strand_end_segment(s);
}
