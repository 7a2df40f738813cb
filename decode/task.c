/* See task.h.
 *
 * A tid's newest task is found by a map. What tells a reused tid from an old one is FORK, or
 * any record after EXIT. Threads that lived before the recording are synthesized at time 0;
 * one that is made just then can be synthesized and forked too: that is still one task. */
#include "decode/task.h"

#include <string.h>

static bool task_add(struct task_table *t, int32_t pid, int32_t tid, uint64_t start_ns, task_id *id)
{
	struct sideband *s = t->sideband;
	struct task task = {
		.pid = pid > 0 ? pid : -1, .tid = tid, .start_ns = start_ns, .end_ns = TIME_NONE};

	if (s->tasks.count >= UINT32_MAX - 1 || !vec_push(&s->tasks, task))
		return false;
	if (!vec_push(&t->seen_live, start_ns != 0) || !vec_push(&t->comms, ((str_id){0})))
		return false;
	id->v = (uint32_t)s->tasks.count - 1;
	return id->v == 0 || map64_set(&t->by_tid, (uint32_t)tid, id->v);
}

bool task_table_init(struct task_table *t, struct sideband *sideband)
{
	task_id none;

	memset(t, 0, sizeof *t);
	t->sideband = sideband;
	return task_add(t, -1, -1, 0, &none);
}

void task_table_done(struct task_table *t)
{
	map64_done(&t->by_tid);
	vec_done(&t->seen_live);
	vec_done(&t->comms);
}

bool task_find(struct task_table *t, int32_t pid, int32_t tid, uint64_t time_ns, task_id *id)
{
	if (tid <= 0) {
		id->v = 0;
		return true;
	}
	uint32_t at = map64_get(&t->by_tid, (uint32_t)tid);
	if (at == MAP64_NONE)
		return task_add(t, pid, tid, 0, id);

	struct task *task = &t->sideband->tasks.items[at];
	if (task->exit_seen && time_ns > task->end_ns && pid > 0 && pid != task->pid)
		return task_add(t, pid, tid, task->end_ns, id);
	if (pid > 0 && task->pid < 0)
		task->pid = pid;
	if (time_ns)
		t->seen_live.items[at] = 1;
	id->v = at;
	return true;
}

static bool task_set_comm(struct task_table *t, task_id id, uint64_t time_ns, str_id comm,
			  bool exec)
{
	struct task_name name = {.time_ns = time_ns, .task = id, .comm = comm, .exec = exec};

	/* perf often says again what fork has told */
	if (!exec && t->comms.items[id.v].v == comm.v)
		return true;
	t->comms.items[id.v] = comm;
	return vec_push(&t->sideband->task_names, name);
}

bool task_fork(struct task_table *t, const struct record_task *r, uint64_t time_ns)
{
	struct sideband *s = t->sideband;
	task_id parent, child;

	if (r->tid <= 0)
		return true;
	if (!task_find(t, r->parent_pid, r->parent_tid, time_ns, &parent))
		return false;
	uint32_t old = map64_get(&t->by_tid, (uint32_t)r->tid);
	bool is_same =
		old != MAP64_NONE && !t->seen_live.items[old] && !s->tasks.items[old].exit_seen;
	if (is_same) {
		child.v = old;
	} else {
		if (old != MAP64_NONE && s->tasks.items[old].end_ns == TIME_NONE)
			s->tasks.items[old].end_ns = time_ns;
		if (!task_add(t, r->pid, r->tid, time_ns, &child))
			return false;
	}
	struct task *task = &s->tasks.items[child.v];
	task->pid = r->pid > 0 ? r->pid : task->pid;
	task->start_ns = time_ns;
	if (child.v != parent.v) {
		task->forked_from = parent;
		task->is_new_process = r->pid != r->parent_pid;
	}
	t->seen_live.items[child.v] = 1;
	str_id comm = t->comms.items[parent.v];
	return comm.v == 0 || task_set_comm(t, child, time_ns, comm, false);
}

bool task_exit(struct task_table *t, const struct record_task *r, uint64_t time_ns)
{
	task_id id;

	if (!task_find(t, r->pid, r->tid, time_ns, &id))
		return false;
	if (id.v && !t->sideband->tasks.items[id.v].exit_seen) {
		t->sideband->tasks.items[id.v].end_ns = time_ns;
		t->sideband->tasks.items[id.v].exit_seen = true;
	}
	return true;
}

bool task_comm(struct task_table *t, const struct record_comm *r, uint64_t time_ns)
{
	struct sideband *s = t->sideband;
	task_id id;
	str_id comm;

	if (!task_find(t, r->pid, r->tid, time_ns, &id))
		return false;
	if (id.v == 0)
		return true;
	if (!intern_string(&s->names, r->comm, &comm) ||
	    !task_set_comm(t, id, time_ns, comm, r->exec))
		return false;
	if (!r->exec)
		return true;
	for (size_t i = 1; i < s->tasks.count; i++) {
		struct task *other = &s->tasks.items[i];

		if (i != id.v && other->pid == r->pid && other->end_ns == TIME_NONE)
			other->end_ns = time_ns;
	}
	return true;
}
