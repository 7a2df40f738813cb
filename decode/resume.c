/* See resume.h. */
#include "decode/resume.h"

#include <string.h>

#include "decode/away.h"
#include "decode/doubt.h"
#include "decode/flow.h"
#include "decode/transfer.h"

enum {
	SYSCALL_EXECVE = 59, /* of x86-64 */
	SYSCALL_EXECVEAT = 322,
	EXEC_SLACK_NS = 5000,
	EXEC_LATE_NS = 1000000, /* from the record to the first instruction of the program */
};

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

enum { GUESS_EDGES_MAX = 256 }; /* a wrong guess contradicts the code long before */

/* Data are missing from the CPU's buffer, while it may have run several tasks. */
static bool loss_is_cut(unsigned cause)
{
	return cause == LOSS_AUX_TRUNCATED || cause == LOSS_AUX_PARTIAL || cause == LOSS_AUX_LOST ||
	       cause == LOSS_OVERWRITTEN;
}

/* Damaged bytes: what was decoded is wrong, not only incomplete. */
static bool loss_is_damage(unsigned cause)
{
	return cause == LOSS_MISMATCH || cause == LOSS_BAD_PACKET || cause == LOSS_BAD_IP;
}

/* The open segment began at a guess behind damage and soon contradicted itself: none of it
 * happened. It is taken back, as if the first loss had lasted until now. */
static bool strand_take_back(struct strand *s, struct join *j)
{
	struct thread *t = s->thread;
	const struct segment *seg = t->segments.count ? vec_last(&t->segments) : NULL;

	if (!seg || !s->guessed || seg->join == CALL_NONE || seg->bracket == CALL_NONE ||
	    seg->edges > GUESS_EDGES_MAX || !loss_is_damage(j->cause))
		return false;
	*j = t->joins.items[seg->join];
	j->resumed_ns = s->now_ns;
	t->calls.count = seg->bracket;
	t->roots.count = seg->first_root;
	t->bases.count = seg->first_base;
	while (t->arrows.count && vec_last(&t->arrows)->to >= t->calls.count)
		t->arrows.count--;
	t->joins.count--;
	t->segments.count--;
	return true;
}

void strand_break(struct strand *s, uint64_t lost_ns, node_id lost_at, unsigned cause, node_id to,
		  bool barrier)
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
	if (strand_take_back(s, &j))
		j.resumed_at = to;
	if (s->thread->segments.count && strand_push_join(s, j))
		index = (uint32_t)s->thread->joins.count - 1;
	strand_start_segment(s, to, index);
	if (s->thread->segments.count) {
		vec_last(&s->thread->segments)->barrier = barrier;
		vec_last(&s->thread->segments)->bottom =
			barrier && strand_node(s, to)->flags & NODE_INTO_FUNCTION;
	}
	s->state = STRAND_ON;
	s->guessed = false;
}

/* Did the thread exec between two times? Each exec is found once. */
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

/* Does the new beginning at `to`, which is not where the thread stood, come from exec? The
 * records' times and those of the trace differ by up to EXEC_SLACK_NS. */
static bool strand_has_execed(struct strand *s, node_id left_at, uint64_t left_ns, node_id to)
{
	bool is_exec = false;

	if (left_at && strand_node(s, left_at)->kind == NODE_SYSCALL) {
		uint32_t b = weave_bracket(s->weave, BRACKET_SYSCALL, left_at, 0);
		int32_t number = s->weave->trace->brackets.items[b].number;

		is_exec = number == SYSCALL_EXECVE || number == SYSCALL_EXECVEAT;
	}
	uint64_t slack =
		is_exec || strand_node(s, to)->flags & NODE_INTO_FUNCTION ? EXEC_SLACK_NS : 0;
	uint64_t from = left_ns > slack ? left_ns - slack : 0;
	return strand_exec_between(s, from, s->now_ns + slack) || is_exec;
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
	if (at == SIZE_MAX || at == 0)
		at = strand_above_function(s, to);
	if (at != SIZE_MAX)
		strand_unwind_to(s, at, to);
	else
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

/* Is this the page in which the kernel steps over instructions, or catches returns? */
static bool strand_is_uprobes(const struct strand *s, node_id node)
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

/* ---- out of code that is not traced or not known ---- */

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
	at = entry ? SIZE_MAX : strand_above_function(s, to);
	if (at != SIZE_MAX) {
		strand_unwind_to(s, at, to);
		return;
	}
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

/* Back inside the filter at `to`. The branch at off_node had left it. */
static void strand_reenter_filter(struct strand *s, node_id to)
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

/* Does the thread, or what it has execed, begin at `to`? A thread goes on behind its clone. */
static bool strand_begins_thread(const struct strand *s, node_id to)
{
	static const uint8_t syscall[] = {0x0f, 0x05};
	const struct sideband *sb = s->weave->sideband;
	const struct task *task = &sb->tasks.items[s->task.v];
	const struct node_cold *cold = strand_cold(s, to);
	const uint8_t *code = NULL;

	if (task->start_ns && !task->is_new_process)
		return graph_code(s->weave->graph, cold->space, cold->ip - sizeof syscall, &code) >=
			       sizeof syscall &&
		       memcmp(code, syscall, sizeof syscall) == 0;
	if (!(strand_node(s, to)->flags & NODE_INTO_FUNCTION))
		return false;
	for (size_t i = 0; i < sb->task_names.count; i++) {
		const struct task_name *n = &sb->task_names.items[i];

		if (n->task.v == s->task.v && n->exec && n->time_ns > 0 &&
		    n->time_ns <= s->now_ns + EXEC_SLACK_NS &&
		    s->now_ns <= n->time_ns + EXEC_LATE_NS)
			return true;
	}
	return false;
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

void strand_on_end(struct strand *s, node_id from, unsigned cause)
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
	if (cause == FLOW_END_BRANCH && s->stack.count && strand_node(s, from)->kind == NODE_RETURN)
		strand_pop_to(s, s->top, 0);
}

/* What runs now is not known. If it was called or jumped to, its frame is there already. */
static void strand_enter_missing(struct strand *s, node_id from)
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

/* exec in code that is missing: to a new space, which one close behind has not made yet. */
static bool strand_has_execed_unseen(struct strand *s, node_id to)
{
	return s->off_node && strand_cold(s, s->off_node)->space.v != strand_cold(s, to)->space.v &&
	       strand_has_execed(s, 0, s->off_ns, to);
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

bool strand_exec_barrier(struct strand *s, node_id left_at, uint64_t left_ns, node_id to)
{
	if (!strand_has_execed(s, left_at, left_ns, to))
		return false;
	strand_break(s, s->now_ns, 0, LOSS_NONE, to, true);
	return true;
}

void strand_give_up(struct strand *s, node_id from, node_id to)
{
	s->thread->losses[LOSS_INTERNAL_LIMIT]++;
	strand_break(s, s->now_ns, from, LOSS_INTERNAL_LIMIT, to, false);
}

void strand_finish(struct strand *s)
{
	if (s->state == STRAND_NEW)
		return;
	strand_end_segment(s);
}
