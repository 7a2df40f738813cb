/* See recorder.h.
 *
 * A thread is READY (stopped, its next instruction is at regs.rip), RUNNING (in a system
 * call or on its way to its first stop) or DEAD. One READY thread at a time is stepped:
 *
 *     code_at(ip) -> PTRACE_SINGLESTEP -> stop -> finish_step() -> events
 *
 * A step over SYSCALL may take as long as it likes: other threads go on meanwhile. The
 * kernel stops a stepped thread at the first instruction of a signal handler, after the
 * signal-delivery-stop that precedes it, so no instruction is missed. */
#include "testdata/recorder.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/map64.h"
#include "testdata/callstack.h"
#include "testdata/insn.h"
#include "testdata/proc.h"
#include "testdata/symbol.h"

enum {
	BURST_DEFAULT = 300,
	SYSCALL_POLLS = 200, /* how long a call may take before another thread runs */
	POINT_EVERY = 97,    /* plain instructions per REC_POINT */
};

enum thread_state { RUNNING, READY, DEAD };

struct thread {
	pid_t pid, tid;
	enum thread_state state;
	bool announced; /* its parent reported it */
	bool outside;   /* in the kernel as far as the recording says */
	bool fresh;     /* READY, but ENTER is still to be recorded */
	bool stepping_syscall;
	uint32_t insns;
	int signal;         /* to be delivered with the next step */
	int handler_signal; /* the next stop is this signal's handler */
	long syscall;
	struct user_regs_struct regs;
	struct insn insn; /* the one being stepped */
	struct callstack stack;
};

struct recorder {
	const struct recorder_options *options;
	struct recording *r;
	struct error *e;
	enum err failed;
	VEC(struct thread) threads;
	struct map64 code; /* ip ^ pid -> index in insns */
	VEC(struct insn) insns;
	uint64_t total, points;
	pid_t program;
	int exit_status;
};

static void fail(struct recorder *rc, enum err code, const char *what)
{
	if (!rc->failed)
		rc->failed = error_set(rc->e, code, "recording: %s: %s", what,
				       code == ERR_NOMEM ? error_name(code) : strerror(errno));
}

static struct rec_event *emit(struct recorder *rc, struct thread *t, enum rec_kind kind)
{
	static struct rec_event nowhere;
	struct rec_event event = {
		.kind = (uint8_t)kind,
		.thread = (uint16_t)(t - rc->threads.items),
		.insns = t->insns,
		.depth = (uint32_t)t->stack.frames.count,
	};

	t->insns = 0;
	if (!vec_push(&rc->r->events, event)) {
		fail(rc, ERR_NOMEM, "events");
		return &nowhere;
	}
	return vec_last(&rc->r->events);
}

static struct thread *thread_find(struct recorder *rc, pid_t tid)
{
	for (size_t i = rc->threads.count; i > 0; i--) /* the newest: tids are reused */
		if (rc->threads.items[i - 1].tid == tid && rc->threads.items[i - 1].state != DEAD)
			return &rc->threads.items[i - 1];
	return NULL;
}

static struct thread *thread_add(struct recorder *rc, pid_t tid)
{
	struct thread t = {.pid = tid, .tid = tid, .outside = true};
	struct rec_thread rt = {.pid = tid, .tid = tid};

	if (rc->threads.count >= UINT16_MAX || !vec_push(&rc->threads, t) ||
	    !vec_push(&rc->r->threads, rt)) {
		fail(rc, ERR_NOMEM, "threads");
		return NULL;
	}
	return vec_last(&rc->threads);
}

static void code_forget(struct recorder *rc)
{
	map64_done(&rc->code);
	rc->insns.count = 0;
}

static struct insn code_at(struct recorder *rc, const struct thread *t)
{
	uint64_t key = t->regs.rip ^ (uint64_t)t->pid << 48;
	uint32_t found = map64_get(&rc->code, key);

	if (found != MAP64_NONE)
		return rc->insns.items[found];
	uint8_t code[15];
	struct iovec local = {code, sizeof code};
	struct iovec remote = {(void *)(uintptr_t)t->regs.rip, sizeof code};
	ssize_t n = process_vm_readv(t->pid, &local, 1, &remote, 1, 0);
	if (n < 0) { /* across the end of a mapping */
		local.iov_len = remote.iov_len = 4096 - (t->regs.rip & 4095);
		n = local.iov_len < sizeof code ? process_vm_readv(t->pid, &local, 1, &remote, 1, 0)
						: 0;
	}
	struct insn insn = insn_decode(t->regs.rip, code, n > 0 ? (size_t)n : 0);
	if (!map64_set(&rc->code, key, (uint32_t)rc->insns.count) || !vec_push(&rc->insns, insn))
		fail(rc, ERR_NOMEM, "code");
	return insn;
}

/* Records mappings [from, count) of r->maps. */
static void emit_maps(struct recorder *rc, struct thread *t, size_t from)
{
	for (size_t i = from; i < rc->r->maps.count; i++)
		emit(rc, t, REC_MMAP)->extra = (uint32_t)i;
}

static void save_vdso(struct recorder *rc, pid_t pid, size_t from)
{
	for (size_t i = from; rc->options->vdso && i < rc->r->maps.count; i++) {
		const struct rec_map *map = &rc->r->maps.items[i];

		if (strcmp(recording_string(rc->r, map->path), "[vdso]") == 0 &&
		    access(rc->options->vdso, F_OK) != 0) {
			enum err failed = proc_memory_save(pid, map->start, map->length,
							   rc->options->vdso, rc->e);
			if (failed && !rc->failed)
				rc->failed = failed;
		}
	}
}

static void read_maps(struct recorder *rc, pid_t pid, uint64_t only)
{
	enum err failed = proc_maps_read(pid, only, rc->r, rc->e);

	if (failed && !rc->failed)
		rc->failed = failed;
}

static uint32_t read_comm(struct recorder *rc, pid_t tid)
{
	char comm[32];

	proc_comm_read(tid, comm, sizeof comm);
	return recording_add_string(rc->r, comm);
}

/* What a finished system call changed that perf would have a record of. */
static void note_syscall(struct recorder *rc, struct thread *t, const struct user_regs_struct *args)
{
	uint64_t result = t->regs.rax;
	size_t from = rc->r->maps.count;

	if (result > (uint64_t)-4096)
		return;
	switch (t->syscall) {
	case SYS_mmap:
		if (!(args->rdx & PROT_EXEC))
			break;
		code_forget(rc);
		read_maps(rc, t->pid, result);
		/* The kernel may have merged it with its neighbours; perf saw the new one. */
		if (rc->r->maps.count > from) {
			struct rec_map *map = vec_last(&rc->r->maps);

			map->start = result;
			map->length = (args->rsi + 4095) & ~(uint64_t)4095;
			map->file_off = args->r10 & MAP_ANONYMOUS ? 0 : args->r9;
		}
		emit_maps(rc, t, from);
		break;
	case SYS_mprotect:
		if (!(args->rdx & PROT_EXEC))
			break;
		code_forget(rc);
		read_maps(rc, t->pid, args->rdi);
		emit_maps(rc, t, from);
		break;
	case SYS_munmap:
	case SYS_mremap: code_forget(rc); break;
	case SYS_prctl:
		if (args->rdi == 15) /* PR_SET_NAME */
			emit(rc, t, REC_COMM)->extra = read_comm(rc, t->tid);
		break;
	default: break;
	}
}

static void enter(struct recorder *rc, struct thread *t)
{
	if (t->handler_signal) {
		if (!callstack_signal(&t->stack, t->regs.rsp))
			fail(rc, ERR_NOMEM, "stack");
	} else if (t->syscall == SYS_rt_sigreturn) {
		callstack_sigreturn(&t->stack);
	}
	if (t->stack.base == 0)
		t->stack.base = t->regs.rsp;
	struct rec_event *event = emit(rc, t, REC_ENTER);
	event->to = t->regs.rip;
	event->extra = (uint32_t)t->handler_signal;
	t->outside = t->fresh = false;
	t->handler_signal = 0;
	t->syscall = -1;
}

static const uint8_t branch_of[] = {
	[INSN_CALL] = REC_CALL, [INSN_ICALL] = REC_ICALL, [INSN_RET] = REC_RET,
	[INSN_JMP] = REC_JMP,   [INSN_IJMP] = REC_IJMP,   [INSN_JCC] = REC_JCC,
};

static void finish_branch(struct recorder *rc, struct thread *t, uint64_t from, uint64_t sp)
{
	struct insn insn = t->insn;
	uint64_t next = from + insn.length;
	enum rec_kind kind = branch_of[insn.kind];
	bool ok = true;

	if (insn.kind == INSN_JCC && t->regs.rip == next)
		kind = REC_NOT_TAKEN;
	else if ((insn.kind == INSN_CALL || insn.kind == INSN_ICALL) && t->regs.rip != next)
		ok = callstack_call(&t->stack, sp);
	else if (insn.kind == INSN_RET)
		callstack_ret(&t->stack, sp);
	else if (insn.kind == INSN_IJMP)
		callstack_jump(&t->stack, sp);
	if (!ok)
		fail(rc, ERR_NOMEM, "stack");
	struct rec_event *event = emit(rc, t, kind);
	event->from = from;
	event->to = t->regs.rip;
	event->length = insn.length;
}

/* The step from `before` is over; t->regs are the new ones. */
static void finish_step(struct recorder *rc, struct thread *t,
			const struct user_regs_struct *before)
{
	uint64_t from = before->rip;

	t->insns++;
	rc->total++;
	switch (t->insn.kind) {
	case INSN_CALL:
	case INSN_ICALL:
	case INSN_RET:
	case INSN_JMP:
	case INSN_IJMP:
	case INSN_JCC: finish_branch(rc, t, from, before->rsp); break;
	case INSN_SYSCALL: /* its REC_SYSCALL went out when it began */
		note_syscall(rc, t, before);
		t->stepping_syscall = false;
		break;
	default:
		if (++rc->points % POINT_EVERY == 0)
			emit(rc, t, REC_POINT)->from = t->regs.rip;
	}
}

static bool signal_is_ignored_by_default(int signal)
{
	return signal == SIGCHLD || signal == SIGWINCH || signal == SIGURG || signal == SIGCONT;
}

/* A signal-delivery-stop. The step under way may or may not have been executed. */
static void on_signal(struct recorder *rc, struct thread *t, int signal,
		      const struct user_regs_struct *before)
{
	int64_t rax = (int64_t)t->regs.rax;
	bool restarts = t->stepping_syscall && rax <= -512 && rax >= -516;
	bool caught = proc_signal_is_caught(t->pid, t->tid, signal);
	bool dropped = !caught && signal_is_ignored_by_default(signal);

	if ((t->regs.rip != before->rip && !t->outside) || (t->stepping_syscall && !restarts))
		finish_step(rc, t, before);
	if (dropped) {
		if (restarts) { /* the kernel repeats the call: it is not over */
			if (ptrace(PTRACE_SINGLESTEP, t->tid, 0, 0) < 0)
				fail(rc, ERR_IO, "ptrace");
			return;
		}
		t->state = READY;
		t->fresh = t->outside;
		return;
	}
	t->stepping_syscall = false;
	if (!t->outside) {
		struct rec_event *event = emit(rc, t, REC_ASYNC);
		event->from = t->regs.rip;
		event->extra = (uint32_t)signal;
		t->outside = true;
	}
	t->signal = signal;
	t->handler_signal = caught ? signal : 0;
	t->state = READY;
}

static void on_fork(struct recorder *rc, pid_t parent_tid, int event)
{
	unsigned long message = 0;

	ptrace(PTRACE_GETEVENTMSG, parent_tid, 0, &message);
	struct thread *child = thread_find(rc, (pid_t)message);
	if (!child)
		child = thread_add(rc, (pid_t)message);
	struct thread *t = thread_find(rc, parent_tid); /* thread_add moved them */
	if (!child || !t)
		return;
	child = thread_find(rc, (pid_t)message);
	child->pid = event == PTRACE_EVENT_CLONE ? t->pid : (pid_t)message;
	child->announced = true;
	struct rec_thread *rt = &rc->r->threads.items[child - rc->threads.items];
	*rt = (struct rec_thread){child->pid, child->tid, t->pid, t->tid};
	if (event != PTRACE_EVENT_CLONE && !callstack_copy(&child->stack, &t->stack))
		fail(rc, ERR_NOMEM, "stack");
	emit(rc, t, REC_FORK)->extra = (uint32_t)(child - rc->threads.items);
	emit(rc, child, REC_START)->extra = (uint32_t)(t - rc->threads.items) + 1;
}

static void on_exec(struct recorder *rc, struct thread *t)
{
	char name[64], path[4096] = "";
	size_t from = rc->r->maps.count;

	snprintf(name, sizeof name, "/proc/%d/exe", t->pid);
	if (readlink(name, path, sizeof path - 1) < 0)
		fail(rc, ERR_IO, name);
	code_forget(rc);
	t->stack.frames.count = 0;
	t->stack.base = 0;
	for (size_t i = 0; i < rc->threads.count; i++) { /* exec ends the siblings */
		struct thread *other = &rc->threads.items[i];

		if (other != t && other->pid == t->pid && other->state != DEAD) {
			emit(rc, other, REC_EXIT);
			other->state = DEAD;
		}
	}
	emit(rc, t, REC_EXEC)->extra = recording_add_string(rc->r, path);
	emit(rc, t, REC_COMM)->extra = read_comm(rc, t->tid);
	read_maps(rc, t->pid, 0);
	emit_maps(rc, t, from);
	save_vdso(rc, t->pid, from);
	t->stepping_syscall = false;
	t->outside = true;
}

static void on_exit_status(struct recorder *rc, struct thread *t, int status)
{
	emit(rc, t, REC_EXIT);
	t->state = DEAD;
	if (t->tid == rc->program)
		rc->exit_status = status;
}

static void on_stop(struct recorder *rc, pid_t tid, int status)
{
	struct thread *t = thread_find(rc, tid);

	if (!t && !(WIFSTOPPED(status) && (t = thread_add(rc, tid))))
		return;
	if (!WIFSTOPPED(status)) {
		on_exit_status(rc, t, status);
		return;
	}
	struct user_regs_struct before = t->regs;
	int event = status >> 16;

	if (ptrace(PTRACE_GETREGS, tid, 0, &t->regs) < 0)
		return; /* killed meanwhile: its exit is reported next */
	switch (event) {
	case PTRACE_EVENT_STOP: /* a new thread before its first instruction */
		t->state = READY;
		t->fresh = true;
		return;
	case PTRACE_EVENT_CLONE:
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
		on_fork(rc, tid, event);
		t = thread_find(rc, tid);
		break;
	case PTRACE_EVENT_EXEC: on_exec(rc, t); break;
	case 0:
		if (WSTOPSIG(status) != SIGTRAP) {
			t->state = READY;
			on_signal(rc, t, WSTOPSIG(status), &before);
			return;
		}
		if (!t->outside || t->stepping_syscall)
			finish_step(rc, t, &before);
		if (t->outside)
			enter(rc, t);
		t->state = READY;
		return;
	default: break;
	}
	if (event != PTRACE_EVENT_EXEC)
		t->regs = before; /* still inside the system call */
	if (ptrace(PTRACE_SINGLESTEP, tid, 0, 0) < 0 && errno != ESRCH)
		fail(rc, ERR_IO, "ptrace");
}

static bool another_is_ready(const struct recorder *rc, const struct thread *t)
{
	for (size_t i = 0; i < rc->threads.count; i++) {
		const struct thread *other = &rc->threads.items[i];

		if (other != t && other->state == READY && other->announced)
			return true;
	}
	return false;
}

/* Steps one instruction. false: the thread is not READY any more. */
static bool step(struct recorder *rc, struct thread *t)
{
	pid_t tid = t->tid;
	int status = 0, signal = t->signal;

	if (t->fresh)
		enter(rc, t);
	t->insn = code_at(rc, t);
	if (!t->outside && t->insn.kind == INSN_SYSCALL) {
		struct rec_event *event = emit(rc, t, REC_SYSCALL);

		event->from = t->regs.rip;
		event->insns++;
		event->extra = (uint32_t)t->regs.rax;
		t->syscall = (long)t->regs.rax;
		t->stepping_syscall = t->outside = true;
	}
	t->signal = 0;
	t->state = RUNNING;
	if (ptrace(PTRACE_SINGLESTEP, tid, 0, signal) < 0)
		return false;
	if (t->stepping_syscall) {
		if (!another_is_ready(rc, t))
			return false;
		for (int i = 0; i < SYSCALL_POLLS; i++) {
			if (waitpid(tid, &status, __WALL | WNOHANG) == tid)
				break;
			if (i == SYSCALL_POLLS - 1)
				return false;
			sched_yield();
		}
	} else if (waitpid(tid, &status, __WALL) != tid) {
		return false;
	}
	on_stop(rc, tid, status);
	t = thread_find(rc, tid);
	return t && t->state == READY;
}

static uint64_t symbol_address(struct recorder *rc, const struct thread *t)
{
	char exe[64], path[4096] = "";

	snprintf(exe, sizeof exe, "/proc/%d/exe", t->pid);
	if (readlink(exe, path, sizeof path - 1) < 0)
		return 0;
	uint64_t off = symbol_place(exe, rc->options->attach);
	for (size_t i = 0; off && i < rc->r->maps.count; i++) {
		const struct rec_map *map = &rc->r->maps.items[i];

		if (strcmp(recording_string(rc->r, map->path), path) == 0 &&
		    off - map->file_off < map->length)
			return map->start + off - map->file_off;
	}
	return 0;
}

/* Runs freely until the symbol is reached. Threads born meanwhile are not followed. */
static void run_to_symbol(struct recorder *rc)
{
	struct thread *t = &rc->threads.items[0];
	uint64_t at = symbol_address(rc, t);
	int status;

	if (!at) {
		rc->failed = error_set(rc->e, ERR_NOT_FOUND, "%s: no function \"%s\" there",
				       rc->options->argv[0], rc->options->attach);
		return;
	}
	long word = ptrace(PTRACE_PEEKTEXT, t->tid, at, 0);
	ptrace(PTRACE_SETOPTIONS, t->tid, 0, PTRACE_O_EXITKILL);
	ptrace(PTRACE_POKETEXT, t->tid, at, (word & ~0xffl) | 0xcc);
	ptrace(PTRACE_CONT, t->tid, 0, 0);
	for (;;) {
		if (waitpid(t->tid, &status, __WALL) < 0 || !WIFSTOPPED(status)) {
			rc->failed = error_set(rc->e, ERR_NOT_FOUND, "%s: ended before \"%s\"",
					       rc->options->argv[0], rc->options->attach);
			t->state = DEAD;
			return;
		}
		ptrace(PTRACE_GETREGS, t->tid, 0, &t->regs);
		if (WSTOPSIG(status) == SIGTRAP && t->regs.rip == at + 1)
			break;
		ptrace(PTRACE_CONT, t->tid, 0, WSTOPSIG(status));
	}
	ptrace(PTRACE_POKETEXT, t->tid, at, word);
	t->regs.rip = at;
	ptrace(PTRACE_SETREGS, t->tid, 0, &t->regs);
	/* What is mapped now existed before recording began. */
	rc->r->maps.count = rc->r->events.count = 0;
	read_maps(rc, t->pid, 0);
	for (size_t i = 0; i < rc->r->maps.count; i++)
		rc->r->maps.items[i].existed = 1;
	rc->r->attached = 1;
	rc->r->comm = read_comm(rc, t->tid);
	emit(rc, t, REC_START);
	emit_maps(rc, t, 0);
	t->state = READY;
	t->fresh = true;
}

static enum err launch(struct recorder *rc)
{
	const long trace = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
			   PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
	cpu_set_t here;
	int status;

	/* Tracer and program take turns: on one CPU that is twice as fast. */
	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	sched_setaffinity(0, sizeof here, &here);
	pid_t pid = fork();
	if (pid == 0) {
		raise(SIGSTOP);
		execvp(rc->options->argv[0], rc->options->argv);
		_exit(127);
	}
	if (pid < 0)
		return error_set(rc->e, ERR_IO, "fork: %s", strerror(errno));
	rc->program = pid;
	if (waitpid(pid, &status, WUNTRACED) != pid || ptrace(PTRACE_SEIZE, pid, 0, trace) < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return error_set(rc->e, ERR_UNSUPPORTED, "ptrace: %s", strerror(errno));
	}
	struct thread *t = thread_add(rc, pid);
	if (!t)
		return ERR_NOMEM;
	t->announced = true;
	rc->r->comm = recording_add_string(rc->r, "perf-exec");
	kill(pid, SIGCONT);
	for (;;) { /* free until its exec */
		if (waitpid(pid, &status, __WALL) < 0 || !WIFSTOPPED(status)) {
			t->state = DEAD;
			return error_set(rc->e, ERR_IO, "%s: cannot run", rc->options->argv[0]);
		}
		if (status >> 16 == PTRACE_EVENT_EXEC)
			break;
		int signal = status >> 16 ? 0 : WSTOPSIG(status);
		ptrace(PTRACE_CONT, pid, 0, signal == SIGCONT || signal == SIGSTOP ? 0 : signal);
	}
	emit(rc, t, REC_START);
	on_stop(rc, pid, status); /* ends with a step: it goes on at the new image's entry */
	if (rc->options->attach && !rc->failed) {
		waitpid(pid, &status, __WALL);
		run_to_symbol(rc);
		ptrace(PTRACE_SETOPTIONS, pid, 0, trace);
	}
	return rc->failed;
}

static struct thread *pick(struct recorder *rc, size_t *last)
{
	for (size_t i = 1; i <= rc->threads.count; i++) {
		size_t at = (*last + i) % rc->threads.count;

		if (rc->threads.items[at].state == READY && rc->threads.items[at].announced) {
			*last = at;
			return &rc->threads.items[at];
		}
	}
	return NULL;
}

static void record_all(struct recorder *rc)
{
	uint32_t burst = rc->options->burst ? rc->options->burst : BURST_DEFAULT;
	size_t last = 0;
	int status;

	while (!rc->failed && (!rc->options->max_insns || rc->total < rc->options->max_insns)) {
		struct thread *t = pick(rc, &last);

		if (t) {
			for (uint32_t i = 0; i < burst && step(rc, &rc->threads.items[last]); i++)
				;
		}
		/* Whoever has come back from the kernel joins; wait only if nobody can run. */
		bool idle = !t;
		pid_t tid;
		while ((tid = waitpid(-1, &status, __WALL | (idle ? 0 : WNOHANG))) > 0) {
			on_stop(rc, tid, status);
			idle = false;
		}
		if (tid < 0 && errno == ECHILD)
			break;
	}
}

enum err recorder_run(const struct recorder_options *options, struct recording *r, int *exit_status,
		      struct error *e)
{
	struct recorder rc = {.options = options, .r = r, .e = e};
	enum err failed = launch(&rc);
	int status;

	if (!failed) {
		record_all(&rc);
		failed = rc.failed;
	}
	for (size_t i = 0; i < rc.threads.count; i++)
		if (rc.threads.items[i].state != DEAD)
			kill(rc.threads.items[i].pid, SIGKILL);
	while (waitpid(-1, &status, __WALL) > 0)
		;
	if (!failed && options->symfs)
		failed = proc_maps_copy_files(r, options->symfs, e);
	*exit_status = rc.exit_status;
	for (size_t i = 0; i < rc.threads.count; i++)
		callstack_done(&rc.threads.items[i].stack);
	vec_done(&rc.threads);
	vec_done(&rc.insns);
	map64_done(&rc.code);
	return failed;
}
