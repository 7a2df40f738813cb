/* See machine.h.
 *
 *     recording --event by event--> on_branch / on_syscall / ... --> tracer (packets)
 *                                         |                            of the CPU's stream
 *                                         +--> container (sideband), truth (text)
 *
 * A thread whose event comes up while it is on no CPU is switched in: on its last CPU,
 * else on a free one, else in place of the thread that is needed again last. In a
 * system call it keeps its CPU if it returns before much else happens. */
#include "testdata/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "testdata/loop.h"
#include "testdata/machine_private.h"
#include "testdata/sim_clock.h"

enum {
	KEEP_CPU_EVENTS = 24, /* a call that is over within so many events does not block */
	CHAIN_MAX = 127,      /* perf's default limit */
};

#define FIRST_CYCLES (2800000000ull * 450000) /* a machine that is up for five days */

/* The recording's events. */

static const struct {
	enum truth_kind kind;
	enum tracer_branch branch;
} branches[] = {
	[REC_CALL] = {TRUTH_CALL, TRACER_DIRECT},
	[REC_ICALL] = {TRUTH_ICALL, TRACER_INDIRECT},
	[REC_RET] = {TRUTH_RET, TRACER_RET},
	[REC_JMP] = {TRUTH_JMP, TRACER_DIRECT},
	[REC_IJMP] = {TRUTH_IJMP, TRACER_INDIRECT},
	[REC_JCC] = {TRUTH_JCC, TRACER_TAKEN},
	[REC_NOT_TAKEN] = {TRUTH_KINDS, TRACER_NOT_TAKEN},
};

/* Mostly 2 instructions a cycle; now and then a mispredicted branch or a cache miss. */
static void spend_insns(struct machine *m, uint32_t insns)
{
	m->now += insns / 2 + 1;
	uint64_t luck = machine_chance(m, 4000);
	if (luck < 100)
		m->now += 14 + luck % 7;
	else if (luck < 120)
		m->now += 80 + luck;
	else if (luck == 120)
		m->now += 320;
}

/* Keeps the return addresses, for call chains: the depth tells which are alive. */
static void note_call(struct machine *m, struct thread *t, uint64_t return_to)
{
	if (!m->o->container.callchains || t->depth == 0)
		return;
	if (t->depth > t->stack_capacity) {
		uint64_t *grown = realloc(t->stack, 2ull * t->depth * sizeof *grown);

		if (!grown) {
			m->failed = true;
			return;
		}
		t->stack = grown;
		t->stack_capacity = 2 * t->depth;
	}
	t->stack[t->depth - 1] = return_to;
}

static void sample_callchain(struct machine *m, struct thread *t)
{
	uint64_t ips[CHAIN_MAX];
	uint32_t count = 0;
	struct moment at = machine_moment(m, t);

	ips[count++] = t->ip;
	for (uint32_t d = t->depth; d > 0 && count < CHAIN_MAX && d <= t->stack_capacity; d--)
		if (t->stack[d - 1])
			ips[count++] = t->stack[d - 1];
	container_callchain(&m->file, &at, ips, count);
}

static void on_branch(struct machine *m, struct thread *t, const struct rec_event *ev, size_t at)
{
	struct stream *s = machine_stream(m, t);
	uint64_t next = ev->from + ev->length, return_to = 0;

	spend_insns(m, ev->insns);
	if (ev->kind == REC_ICALL || (ev->kind == REC_CALL && ev->to != next))
		return_to = next;
	t->ip = ev->to;
	t->depth = ev->depth;
	if (return_to)
		note_call(m, t, return_to);
	tracer_branch(&s->tracer, m->now, branches[ev->kind].branch, ev->to, return_to);
	if (ev->kind != REC_NOT_TAKEN)
		machine_tell(m, t, branches[ev->kind].kind, ev->from, ev->to, NULL);
	machine_tell_psbs(m, s);
	fault_at_branch(m, t, at);
	machine_touch(m, t);
	machine_watermark(m, t);
}

static bool blocks(const struct machine *m, const struct thread *t, size_t event)
{
	const struct rec_event *events = m->r->events.items;
	uint32_t number = events[event].extra;
	uint16_t index = (uint16_t)(t - m->threads);
	size_t at = event + 1;

	if (number == 35 || number == 230) /* nanosleep, clock_nanosleep */
		return true;
	while (at < m->r->events.count && at - event < KEEP_CPU_EVENTS &&
	       (events[at].thread != index || events[at].kind > REC_ENTER))
		at++;
	return at - event >= KEEP_CPU_EVENTS;
}

static void on_syscall(struct machine *m, struct thread *t, const struct rec_event *ev, size_t at)
{
	struct stream *s = machine_stream(m, t);

	spend_insns(m, ev->insns);
	t->in_user = false;
	tracer_leave(&s->tracer, m->now);
	machine_tell(m, t, TRUTH_SYSCALL, ev->from, 0, NULL);
	machine_tell_psbs(m, s);
	if (ev->extra == 15)
		machine_tell(m, t, TRUTH_SIGRET, 0, 0, NULL);
	if (m->o->cpus && blocks(m, t, at))
		machine_switch_out(m, t, false);
}

static void on_exec(struct machine *m, struct thread *t)
{
	t->image = ++m->images;
	t->depth = 0;
	machine_tell(m, t, TRUTH_EXEC, 0, 0, NULL);
}

static void on_map(struct machine *m, struct thread *t, const struct rec_map *map)
{
	struct moment at = machine_moment(m, t);
	const char *path = recording_string(m->r, map->path);

	if (map->existed)
		at.ns = 0;
	if (!m->o->no_map || !strstr(path, m->o->no_map))
		container_mmap(&m->file, &at, map);
	truth_map(m->truth, map->existed ? t->pid : t->tid, at.ns, map->existed ? -1 : (int)at.cpu,
		  map->start, map->length, path[0] == '[' ? 0 : map->file_off, path);
}

static void on_thread_exit(struct machine *m, struct thread *t)
{
	struct moment at;

	if (t->in_user)
		machine_leave_async(m, t, "killed");
	machine_spend(m, 1000, 4000);
	at = machine_moment(m, t);
	container_exit(&m->file, &at, t->parent_pid, t->parent_tid);
	machine_tell(m, t, TRUTH_EXIT, 0, 0, NULL);
	t->exited = true;
	machine_switch_out(m, t, false);
}

static void on_start(struct machine *m, struct thread *t, const struct rec_event *ev)
{
	const struct rec_thread *rt = &m->r->threads.items[ev->thread];
	bool first = ev->extra == 0;

	*t = (struct thread){
		.pid = rt->pid,
		.tid = rt->tid,
		.parent_pid = rt->parent_pid,
		.parent_tid = rt->parent_tid,
		.cpu = NO_CPU,
		.last_cpu = NO_CPU,
		.traced = m->o->cpus || first,
		.depth = ev->depth,
		.comm = first ? m->r->comm : m->threads[ev->extra - 1].comm,
	};
	if (first || m->threads[ev->extra - 1].pid != t->pid)
		t->image = ++m->images;
	else
		t->image = m->threads[ev->extra - 1].image;
	m->streams[0].tid = m->r->threads.items[0].tid;
	if (first) {
		struct moment before = {.pid = t->pid, .tid = t->tid};

		container_comm(&m->file, &before, recording_string(m->r, m->r->comm), false);
	}
}

static void on_kernel_event(struct machine *m, struct thread *t, const struct rec_event *ev,
			    size_t event)
{
	struct moment at;

	if (ev->kind == REC_MMAP && m->r->maps.items[ev->extra].existed) {
		on_map(m, t, &m->r->maps.items[ev->extra]);
		return;
	}
	machine_ensure_on_cpu(m, t, event);
	machine_spend(m, 100, 400);
	at = machine_moment(m, t);
	switch (ev->kind) {
	case REC_FORK: {
		const struct rec_thread *child = &m->r->threads.items[ev->extra];

		container_fork(&m->file, &at, child->pid, child->tid);
		break;
	}
	case REC_EXEC: on_exec(m, t); break;
	case REC_COMM: {
		bool exec = event > 0 && m->r->events.items[event - 1].kind == REC_EXEC;

		t->comm = ev->extra;
		container_comm(&m->file, &at, recording_string(m->r, ev->extra), exec);
		break;
	}
	case REC_MMAP: on_map(m, t, &m->r->maps.items[ev->extra]); break;
	default: break;
	}
}

static void on_event(struct machine *m, size_t at)
{
	const struct rec_event *ev = &m->r->events.items[at];
	struct thread *t = &m->threads[ev->thread];

	if (ev->kind == REC_START) {
		on_start(m, t, ev);
		return;
	}
	if (!t->traced || t->exited)
		return;
	switch (ev->kind) {
	case REC_POINT:
		if (t->cpu == NO_CPU || m->now < m->next_irq)
			break;
		spend_insns(m, ev->insns);
		t->ip = ev->from;
		if (m->o->container.callchains)
			sample_callchain(m, t);
		if (m->o->container.aux_sample_bytes)
			machine_aux_sample(m, t);
		else
			machine_interrupt(m, t, "irq", 2000, 9000);
		m->next_irq =
			m->now + sim_cycles_of_ns(500 + machine_chance(m, 2000ull * m->o->irq_us));
		break;
	case REC_SYSCALL:
		machine_ensure_on_cpu(m, t, at);
		on_syscall(m, t, ev, at);
		break;
	case REC_ASYNC:
		machine_ensure_on_cpu(m, t, at);
		spend_insns(m, ev->insns);
		t->ip = ev->from;
		machine_leave_async(m, t, "signal");
		break;
	case REC_ENTER:
		machine_ensure_on_cpu(m, t, at);
		machine_spend(m, 250, 2000);
		t->depth = ev->depth;
		if (ev->extra)
			note_call(m, t, 0);
		if (ev->extra)
			machine_tell(m, t, TRUTH_SIGNAL, t->ip, ev->to, NULL);
		machine_enter(m, t, ev->to);
		machine_spend(m, 1, 4);
		machine_touch(m, t);
		break;
	case REC_EXIT:
		machine_ensure_on_cpu(m, t, at);
		on_thread_exit(m, t);
		break;
	case REC_FORK:
	case REC_EXEC:
	case REC_COMM:
	case REC_MMAP: on_kernel_event(m, t, ev, at); break;
	default: machine_ensure_on_cpu(m, t, at); on_branch(m, t, ev, at);
	}
}

static void finish(struct machine *m)
{
	for (uint32_t i = 0; i < m->cpus; i++)
		if (m->running[i] || m->o->container.system_wide)
			machine_stop_cpu(m, i);
	machine_save(m);
}

static enum err start_file(struct machine *m, const char *path, struct error *e)
{
	struct container_config config = m->o->container;
	int32_t tid = m->r->threads.items[0].tid;

	config.per_cpu = m->o->cpus > 0;
	config.rings = m->o->cpus ? m->o->cpus : 1;
	config.snapshot = m->o->snapshots > 0;
	config.attached = m->r->attached;
	config.no_compression = m->o->tracer.no_compression;
	config.mtc = m->o->tracer.mtc;
	config.tsc = m->o->tracer.tsc;
	config.cyc = m->o->tracer.cyc;
	config.mtc_shift = m->o->tracer.mtc_shift;
	for (config.psb_shift = 0; 2048u << config.psb_shift < m->o->tracer.psb_bytes;)
		config.psb_shift++;
	enum err failed = container_open(&m->file, path, &config, m->r, e);
	if (!failed)
		container_start(&m->file, &tid, m->r->threads.items[0].pid);
	return failed;
}

/* What existed before recording began. Returns the number of the event after it. */
static size_t replay_preamble(struct machine *m)
{
	size_t at = 0;

	while (at < m->r->events.count) {
		const struct rec_event *ev = &m->r->events.items[at];

		if (!(ev->kind == REC_START && ev->extra == 0) &&
		    !(ev->kind == REC_MMAP && m->r->maps.items[ev->extra].existed))
			break;
		on_event(m, at++);
	}
	container_init_done(&m->file);
	return at;
}

static void replay_range(struct machine *m, size_t from, size_t to)
{
	size_t every = m->o->snapshots ? (m->end - m->first) / m->o->snapshots + 1 : m->end + 1;

	for (size_t at = from; at < to && !m->failed; at++) {
		on_event(m, at);
		if ((at - m->first) % every == every - 1)
			machine_snapshot(m);
	}
}

/* The loop [from, to) again and again: system calls stay, their consequences do not. */
static void replay_loop(struct machine *m, size_t from, size_t to)
{
	truth_quiet(m->truth, true);
	for (uint32_t n = 1; n < m->o->repeat && !m->failed; n++) {
		for (size_t at = from; at < to; at++) {
			uint8_t kind = m->r->events.items[at].kind;

			if (kind <= REC_POINT)
				on_event(m, at);
		}
	}
	truth_quiet(m->truth, false);
}

static enum err replay(struct machine *m, struct error *e)
{
	size_t from = 0, to = 0;

	m->first = replay_preamble(m);
	if (m->o->container.system_wide)
		machine_start_cpus(m);
	m->end = m->r->events.count;
	if (m->o->repeat > 1 && !loop_find(m->r, m->first, &from, &to))
		return error_set(e, ERR_NOT_FOUND,
				 "no loop to repeat in a recording of one thread");
	if (to > from) {
		replay_range(m, m->first, to);
		machine_tell(m, &m->threads[0], TRUTH_REPEAT, 0, 0, NULL);
		replay_loop(m, from, to);
		m->first = to;
	}
	replay_range(m, m->first, m->end);
	finish(m);
	return ERR_NONE;
}

static void machine_free(struct machine *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < CONTAINER_RINGS; i++)
		tracer_done(&m->streams[i].tracer);
	map64_done(&m->touched);
	for (size_t i = 0; m->threads && i < m->r->threads.count; i++)
		free(m->threads[i].stack);
	free(m->threads);
	free(m);
}

enum err machine_run(const struct recording *r, const struct machine_options *options,
		     const char *dir, struct error *e)
{
	struct machine *m = calloc(1, sizeof *m);
	char truth[4096], data[4096];

	snprintf(truth, sizeof truth, "%s/truth.txt", dir);
	snprintf(data, sizeof data, "%s/perf.data", dir);
	if (m)
		m->threads = calloc(r->threads.count + 1, sizeof *m->threads);
	if (!m || !m->threads || r->threads.count == 0) {
		machine_free(m);
		return error_set(e, ERR_NOMEM, "%s: nothing to replay, or out of memory", dir);
	}
	m->r = r;
	m->o = options;
	m->cpus = options->cpus ? options->cpus : 1;
	m->random = options->seed * 0x9e3779b97f4a7c15u | 1;
	m->now = FIRST_CYCLES + machine_chance(m, 1ull << 32);
	m->next_irq = options->irq_us ? 0 : UINT64_MAX;
	for (uint32_t i = 0; i < CONTAINER_RINGS; i++)
		m->streams[i].tracer.config = options->tracer;
	enum err failed = truth_open(truth, &m->truth, e);
	if (!failed)
		failed = start_file(m, data, e);
	if (!failed) {
		truth_line(m->truth, "# mode %s", options->cpus ? "cpu" : "thread");
		failed = replay(m, e);
	}
	for (uint32_t i = 0; i < CONTAINER_RINGS; i++)
		m->failed |= tracer_failed(&m->streams[i].tracer);
	enum err closed = container_close(&m->file, failed ? NULL : e);
	enum err told = truth_close(m->truth, failed || closed ? NULL : e);
	if (!failed)
		failed = closed ? closed : told;
	if (!failed && m->failed)
		failed = error_set(e, ERR_NOMEM, "%s: out of memory", dir);
	machine_free(m);
	return failed;
}
