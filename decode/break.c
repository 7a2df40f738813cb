/* See break.h. */
#include "decode/break.h"

#include <string.h>

enum {
	SYSCALL_EXECVE = 59, /* of x86-64 */
	SYSCALL_EXECVEAT = 322,
	EXEC_SLACK_NS = 5000,
	EXEC_LATE_NS = 1000000, /* from the record to the first instruction of the program */
	GUESS_EDGES_MAX = 256,  /* a wrong guess contradicts the code long before */
};

bool loss_is_damage(unsigned cause)
{
	return cause == LOSS_MISMATCH || cause == LOSS_BAD_PACKET || cause == LOSS_BAD_IP;
}

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

void strand_give_up(struct strand *s, node_id from, node_id to)
{
	s->thread->losses[LOSS_INTERNAL_LIMIT]++;
	strand_break(s, s->now_ns, from, LOSS_INTERNAL_LIMIT, to, false);
}

/* ---- exec ---- */

bool strand_exec_between(struct strand *s, uint64_t from_ns, uint64_t to_ns)
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

bool strand_has_execed(struct strand *s, node_id left_at, uint64_t left_ns, node_id to)
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

bool strand_exec_barrier(struct strand *s, node_id left_at, uint64_t left_ns, node_id to)
{
	if (!strand_has_execed(s, left_at, left_ns, to))
		return false;
	strand_break(s, s->now_ns, 0, LOSS_NONE, to, true);
	return true;
}

bool strand_begins_thread(const struct strand *s, node_id to)
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
