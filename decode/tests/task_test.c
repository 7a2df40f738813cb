#include "decode/task.h"

#include <criterion/criterion.h>
#include <string.h>

static struct sideband s;
static struct task_table t;

static void start(void)
{
	memset(&s, 0, sizeof s);
	cr_assert(task_table_init(&t, &s));
}

static void stop(void)
{
	task_table_done(&t);
	sideband_done(&s);
}

TestSuite(task, .init = start, .fini = stop);

static uint32_t find(int32_t pid, int32_t tid, uint64_t time_ns)
{
	task_id id;

	cr_assert(task_find(&t, pid, tid, time_ns, &id));
	return id.v;
}

static void fork_at(int32_t parent_pid, int32_t parent_tid, int32_t pid, int32_t tid, uint64_t ns)
{
	struct record_task r = {pid, parent_pid, tid, parent_tid, ns};

	cr_assert(task_fork(&t, &r, ns));
}

static void exit_at(int32_t pid, int32_t tid, uint64_t ns)
{
	struct record_task r = {.pid = pid, .tid = tid, .time = ns};

	cr_assert(task_exit(&t, &r, ns));
}

static void comm_at(int32_t pid, int32_t tid, const char *comm, bool exec, uint64_t ns)
{
	struct record_comm r = {pid, tid, comm, exec};

	cr_assert(task_comm(&t, &r, ns));
}

static const char *comm_of(uint32_t task)
{
	return intern_text(&s.names, t.comms.items[task]);
}

Test(task, idle_and_unknown_are_nobody)
{
	cr_expect_eq(find(0, 0, 5), 0);
	cr_expect_eq(find(-1, -1, 5), 0);
	cr_expect_eq(s.tasks.count, 1);
}

Test(task, a_thread_and_a_process_are_told_apart)
{
	uint32_t main_task = find(10, 10, 1);

	fork_at(10, 10, 10, 11, 20);
	fork_at(10, 10, 12, 12, 30);
	const struct task *thread = &s.tasks.items[find(10, 11, 21)];
	const struct task *process = &s.tasks.items[find(12, 12, 31)];
	cr_expect_eq(thread->forked_from.v, main_task);
	cr_expect_not(thread->is_new_process);
	cr_expect(process->is_new_process);
	cr_expect_eq(process->start_ns, 30);
	cr_expect_eq(process->end_ns, TIME_NONE);
}

Test(task, a_tid_is_reused_after_exit)
{
	fork_at(10, 10, 10, 11, 20);
	uint32_t first = find(10, 11, 25);
	exit_at(10, 11, 30);
	cr_expect_eq(find(10, 11, 31), first, "its last switch comes after its exit");
	fork_at(10, 10, 10, 11, 40);
	uint32_t second = find(10, 11, 41);
	cr_expect_neq(first, second);
	cr_expect_eq(s.tasks.items[first].end_ns, 30);
	cr_expect(s.tasks.items[first].exit_seen);
	cr_expect_eq(s.tasks.items[second].start_ns, 40);
	cr_expect_eq(sideband_task_of_tid(&s, 11, 35).v, first);
	cr_expect_eq(sideband_task_of_tid(&s, 11, 45).v, second);
	cr_expect_eq(sideband_task_of_tid(&s, 11, 0).v, first);
}

Test(task, a_lost_exit_ends_at_the_next_fork)
{
	fork_at(10, 10, 10, 11, 20);
	uint32_t first = find(10, 11, 25);
	fork_at(10, 10, 20, 11, 40);
	cr_expect_neq(find(20, 11, 41), first);
	cr_expect_eq(s.tasks.items[first].end_ns, 40);
	cr_expect_not(s.tasks.items[first].exit_seen);
}

Test(task, synthesized_and_forked_at_once_is_one)
{
	comm_at(10, 11, "main", false, 0);
	uint32_t task = find(10, 11, 0);
	fork_at(10, 10, 10, 11, 20);
	cr_expect_eq(find(10, 11, 21), task);
	cr_expect_eq(s.tasks.items[task].start_ns, 20);
}

Test(task, names_are_inherited_and_changed)
{
	comm_at(10, 10, "server", false, 0);
	fork_at(10, 10, 10, 11, 20);
	uint32_t worker = find(10, 11, 21);
	cr_expect_str_eq(comm_of(worker), "server");
	comm_at(10, 11, "server", false, 22);
	cr_expect_eq(s.task_names.count, 2, "the same again is no change");
	comm_at(10, 11, "worker", false, 30);
	cr_expect_str_eq(comm_of(worker), "worker");
	cr_expect_str_eq(intern_text(&s.names, sideband_comm_at(&s, (task_id){worker}, 30)),
			 "worker");
}

Test(task, exec_ends_the_other_threads)
{
	find(10, 10, 1);
	fork_at(10, 10, 10, 11, 20);
	fork_at(10, 10, 12, 12, 25);
	comm_at(10, 10, "next", true, 40);
	cr_expect_eq(s.tasks.items[find(10, 11, 30)].end_ns, 40);
	cr_expect_eq(s.tasks.items[find(12, 12, 30)].end_ns, TIME_NONE);
	cr_expect_eq(s.tasks.items[find(10, 10, 30)].end_ns, TIME_NONE);
	cr_expect(vec_last(&s.task_names)->exec);
}

Test(task, a_tid_known_first_gets_its_pid_later)
{
	uint32_t task = find(-1, 77, 5);

	cr_expect_eq(s.tasks.items[task].pid, -1);
	cr_expect_eq(find(70, 77, 6), task);
	cr_expect_eq(s.tasks.items[task].pid, 70);
}
