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

#include "common/map64.h"
#include "testdata/sim_clock.h"
#include "testdata/truth.h"

enum {
	NO_CPU = -1,
	KEEP_CPU_EVENTS = 24, /* a call that is over within so many events does not block */
	FAULT_AROUND_SHIFT = 16,
	AUX_OVERWRITE = 2, /* PERF_AUX_FLAG_OVERWRITE */
};

#define FIRST_CYCLES (2800000000ull * 450000) /* a machine that is up for five days */

struct thread {
	int32_t pid, tid, parent_pid, parent_tid;
	int cpu, last_cpu;
	bool in_user, traced, known, exited;
	uint64_t ip; /* in_user: the next instruction */
	uint32_t depth;
	uint32_t image; /* distinguishes address spaces, for page faults */
};

/* One ring: its PT packets, and how far they were announced and saved. */
struct stream {
	struct tracer tracer;
	size_t psbs_told;
	uint64_t aux_at, saved_at;
	int32_t tid;
};

struct machine {
	const struct recording *r;
	const struct machine_options *o;
	struct container file;
	struct truth *truth;
	uint64_t now, random, next_irq, next_snapshot;
	uint32_t images;
	struct thread *threads;
	struct stream streams[CONTAINER_RINGS];
	struct thread *running[CONTAINER_RINGS]; /* per CPU */
	uint32_t cpus;
	uint32_t *next_same; /* per event: the thread's next one */
	struct map64 touched;
	struct error *e;
	bool failed;
};

static uint64_t chance(struct machine *m, uint64_t below)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random % below;
}

/* Between low and high cycles go by. */
static void spend(struct machine *m, uint64_t low, uint64_t high)
{
	m->now += low + chance(m, high - low);
}

static uint32_t ring_of(const struct machine *m, const struct thread *t)
{
	return m->o->cpus ? (uint32_t)t->cpu : 0;
}

static struct stream *stream_of(struct machine *m, const struct thread *t)
{
	return &m->streams[ring_of(m, t)];
}

static struct moment moment_of(const struct machine *m, const struct thread *t)
{
	return (struct moment){
		.ns = sim_ns(m->now),
		.ring = ring_of(m, t),
		.cpu = t->cpu < 0 ? 0 : (uint32_t)t->cpu,
		.pid = t->pid,
		.tid = t->tid,
	};
}

static void tell(struct machine *m, const struct thread *t, const char *kind, uint64_t from,
		 uint64_t to, const char *note)
{
	truth_write(m->truth, &(struct truth_event){
				      .tid = t->tid,
				      .ns = sim_ns(m->now),
				      .cpu = t->cpu < 0 ? 0 : (uint32_t)t->cpu,
				      .kind = kind,
				      .from = from,
				      .to = to,
				      .depth = t->depth,
				      .note = note,
			      });
}

static void tell_psbs(struct machine *m, struct stream *s)
{
	for (; s->psbs_told < s->tracer.psbs.count; s->psbs_told++) {
		const struct tracer_psb *psb = &s->tracer.psbs.items[s->psbs_told];

		truth_line(m->truth, "# psb idx %td tid %d pos %" PRIu64 " at %" PRIu64,
			   s - m->streams, m->o->cpus ? -1 : s->tid, psb->at, sim_ns(psb->cycles));
	}
}

/* User mode begins and ends. */

static void user_enter(struct machine *m, struct thread *t, uint64_t ip)
{
	struct stream *s = stream_of(m, t);

	t->in_user = true;
	t->ip = ip;
	tracer_enter(&s->tracer, m->now, ip);
	tell(m, t, "begin", 0, ip, NULL);
	tell_psbs(m, s);
}

static void user_leave_async(struct machine *m, struct thread *t, const char *why)
{
	struct stream *s = stream_of(m, t);

	t->in_user = false;
	tracer_leave_async(&s->tracer, m->now, t->ip);
	tell(m, t, "end", t->ip, 0, why);
	tell_psbs(m, s);
}

/* A fault or interrupt at the next instruction, and back again. */
static void interrupt(struct machine *m, struct thread *t, const char *why, uint64_t low,
		      uint64_t high)
{
	user_leave_async(m, t, why);
	spend(m, low, high);
	user_enter(m, t, t->ip);
	spend(m, 1, 4);
}

static void touch(struct machine *m, struct thread *t)
{
	uint64_t key = t->ip >> FAULT_AROUND_SHIFT ^ (uint64_t)t->image << 48;

	if (!m->o->page_faults || map64_get(&m->touched, key) != MAP64_NONE)
		return;
	if (!map64_set(&m->touched, key, 1))
		m->failed = true;
	interrupt(m, t, "pf", 900, 3000);
}

/* AUX records and what perf saves. */

static uint64_t ring_bytes(const struct machine *m)
{
	return m->o->aux_bytes;
}

static void aux_record(struct machine *m, struct thread *t)
{
	struct stream *s = stream_of(m, t);
	uint64_t head = s->tracer.out.bytes.count;
	struct moment at = moment_of(m, t);

	if (head == s->aux_at)
		return;
	if (m->o->snapshots)
		container_aux(&m->file, &at, head % ring_bytes(m), ring_bytes(m), AUX_OVERWRITE);
	else
		container_aux(&m->file, &at, s->aux_at, head - s->aux_at, 0);
	s->aux_at = head;
}

/* perf wakes up: everything so far goes to the file. */
static void save(struct machine *m)
{
	uint64_t reference = sim_tsc(m->now);

	container_drain(&m->file);
	for (uint32_t i = 0; i < m->file.config.rings; i++) {
		struct stream *s = &m->streams[i];
		uint64_t head = s->tracer.out.bytes.count, from = s->saved_at;
		uint64_t offset = from;

		if (m->o->snapshots) {
			from = head > ring_bytes(m) ? head - ring_bytes(m) : 0;
			offset = from % ring_bytes(m);
			truth_line(m->truth,
				   "# snapshot idx %u tid %d bytes %" PRIu64 " %" PRIu64
				   " at %" PRIu64,
				   i, m->o->cpus ? -1 : s->tid, from, head, sim_ns(m->now));
		}
		if (head > from)
			container_auxtrace(&m->file, i, s->tid, offset, reference,
					   s->tracer.out.bytes.items + from, head - from);
		s->saved_at = head;
	}
	container_round(&m->file);
}

/* On and off the CPU. */

static struct thread idle = {.cpu = 0};

static void switch_record(struct machine *m, const struct thread *who, int cpu, bool out,
			  bool preempt, const struct thread *other)
{
	struct moment at = moment_of(m, who);

	at.cpu = (uint32_t)cpu;
	at.ring = m->o->cpus ? (uint32_t)cpu : 0;
	container_switch(&m->file, &at, out, preempt, other->pid, other->tid);
}

static void switch_in(struct machine *m, struct thread *t, int cpu)
{
	bool wide = m->o->container.switches == SWITCHES_CPU_WIDE;

	t->cpu = t->last_cpu = cpu;
	m->running[cpu] = t;
	if (wide)
		switch_record(m, &idle, cpu, true, false, t);
	spend(m, 900, 2200);
	tracer_start(&stream_of(m, t)->tracer, m->now);
	tell(m, t, "switchin", 0, 0, NULL);
	tell_psbs(m, stream_of(m, t));
	if (!t->known) {
		struct moment at = moment_of(m, t);

		container_itrace_start(&m->file, &at);
		t->known = true;
	}
	switch_record(m, t, cpu, false, false, &idle);
}

static void switch_out(struct machine *m, struct thread *t, bool preempt)
{
	int cpu = t->cpu;

	spend(m, 200, 700);
	tracer_stop(&stream_of(m, t)->tracer, m->now);
	tell(m, t, "switchout", 0, 0, NULL);
	tell_psbs(m, stream_of(m, t));
	switch_record(m, t, cpu, true, preempt, &idle);
	aux_record(m, t);
	if (m->o->container.switches == SWITCHES_CPU_WIDE) {
		m->now += 800;
		switch_record(m, &idle, cpu, false, false, t);
	}
	m->running[cpu] = NULL;
	t->cpu = NO_CPU;
}

static int cpu_choose(struct machine *m, const struct thread *t, size_t event)
{
	uint32_t from = (uint32_t)chance(m, m->cpus);
	size_t farthest = 0;
	int victim = 0;

	if (t->last_cpu >= 0 && !m->running[t->last_cpu] && chance(m, 4) > 0)
		return t->last_cpu;
	for (uint32_t i = 0; i < m->cpus; i++)
		if (!m->running[(from + i) % m->cpus])
			return (int)((from + i) % m->cpus);
	for (uint32_t i = 0; i < m->cpus; i++) { /* whose next event is the farthest away? */
		uint16_t index = (uint16_t)(m->running[i] - m->threads);
		size_t next = event;

		while (next < m->r->events.count && m->r->events.items[next].thread != index &&
		       next < event + 4096)
			next++;
		if (next > farthest) {
			farthest = next;
			victim = (int)i;
		}
	}
	return victim;
}

static void preempt(struct machine *m, struct thread *t)
{
	bool was_in_user = t->in_user;

	if (was_in_user)
		user_leave_async(m, t, "preempt");
	switch_out(m, t, was_in_user);
	t->in_user = was_in_user; /* to be resumed at t->ip */
}

static void ensure_on_cpu(struct machine *m, struct thread *t, size_t event)
{
	if (t->cpu != NO_CPU)
		return;
	int cpu = cpu_choose(m, t, event);
	if (m->running[cpu])
		preempt(m, m->running[cpu]);
	spend(m, 300, 2500);
	switch_in(m, t, cpu);
	if (t->in_user) {
		spend(m, 300, 900);
		user_enter(m, t, t->ip);
	}
}

/* The kernel stops and restarts PT around each AUX record it writes on the way. */
static void pause_tracing(struct machine *m, struct thread *t, const char *why)
{
	bool was_in_user = t->in_user;

	if (was_in_user)
		user_leave_async(m, t, why);
	spend(m, 500, 1500);
	tracer_stop(&stream_of(m, t)->tracer, m->now);
	tell_psbs(m, stream_of(m, t));
	aux_record(m, t);
	t->in_user = was_in_user;
}

static void resume_tracing(struct machine *m, struct thread *t)
{
	spend(m, 500, 1500);
	tracer_start(&stream_of(m, t)->tracer, m->now);
	tell_psbs(m, stream_of(m, t));
	spend(m, 500, 1500);
	if (t->in_user)
		user_enter(m, t, t->ip);
}

static void take_snapshot(struct machine *m)
{
	for (uint32_t i = 0; i < m->cpus; i++)
		if (m->running[i])
			pause_tracing(m, m->running[i], "snapshot");
	save(m);
	spend(m, 20000, 40000);
	for (uint32_t i = 0; i < m->cpus; i++)
		if (m->running[i])
			resume_tracing(m, m->running[i]);
}

static void aux_watermark(struct machine *m, struct thread *t)
{
	struct stream *s = stream_of(m, t);

	if (!m->o->aux_bytes || m->o->snapshots ||
	    s->tracer.out.bytes.count - s->aux_at < m->o->aux_bytes / 4)
		return;
	pause_tracing(m, t, "pmi");
	if (s->aux_at - s->saved_at >= m->o->aux_bytes / 2)
		save(m);
	resume_tracing(m, t);
}

/* The recording's events. */

static const struct {
	const char *kind;
	enum tracer_branch branch;
} branches[] = {
	[REC_CALL] = {"call", TRACER_DIRECT},
	[REC_ICALL] = {"icall", TRACER_INDIRECT},
	[REC_RET] = {"ret", TRACER_RET},
	[REC_JMP] = {"jmp", TRACER_DIRECT},
	[REC_IJMP] = {"ijmp", TRACER_INDIRECT},
	[REC_JCC] = {"jcc", TRACER_TAKEN},
	[REC_NOT_TAKEN] = {NULL, TRACER_NOT_TAKEN},
};

/* Mostly 2 instructions a cycle; now and then a mispredicted branch or a cache miss. */
static void spend_insns(struct machine *m, uint32_t insns)
{
	m->now += insns / 2 + 1;
	uint64_t luck = chance(m, 4000);
	if (luck < 100)
		m->now += 14 + luck % 7;
	else if (luck < 120)
		m->now += 80 + luck;
	else if (luck == 120)
		m->now += 320;
}

static void on_branch(struct machine *m, struct thread *t, const struct rec_event *ev)
{
	struct stream *s = stream_of(m, t);
	uint64_t next = ev->from + ev->length, return_to = 0;

	spend_insns(m, ev->insns);
	if (ev->kind == REC_ICALL || (ev->kind == REC_CALL && ev->to != next))
		return_to = next;
	t->ip = ev->to;
	t->depth = ev->depth;
	tracer_branch(&s->tracer, m->now, branches[ev->kind].branch, ev->to, return_to);
	if (branches[ev->kind].kind)
		tell(m, t, branches[ev->kind].kind, ev->from, ev->to, NULL);
	tell_psbs(m, s);
	touch(m, t);
	aux_watermark(m, t);
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
	struct stream *s = stream_of(m, t);

	spend_insns(m, ev->insns);
	t->in_user = false;
	tracer_leave(&s->tracer, m->now);
	tell(m, t, "syscall", ev->from, 0, NULL);
	tell_psbs(m, s);
	if (ev->extra == 15)
		tell(m, t, "sigret", 0, 0, NULL);
	if (m->o->cpus && blocks(m, t, at))
		switch_out(m, t, false);
}

static void on_exec(struct machine *m, struct thread *t)
{
	t->image = ++m->images;
	t->depth = 0;
	tell(m, t, "exec", 0, 0, NULL);
}

static void on_map(struct machine *m, struct thread *t, const struct rec_map *map)
{
	struct moment at = moment_of(m, t);
	const char *path = recording_string(m->r, map->path);

	if (map->existed)
		at.ns = 0;
	container_mmap(&m->file, &at, map);
	truth_map(m->truth, map->existed ? t->pid : t->tid, at.ns, map->existed ? -1 : (int)at.cpu,
		  map->start, map->length, path[0] == '[' ? 0 : map->file_off, path);
}

static void on_thread_exit(struct machine *m, struct thread *t)
{
	struct moment at;

	if (t->in_user)
		user_leave_async(m, t, "killed");
	spend(m, 1000, 4000);
	at = moment_of(m, t);
	container_exit(&m->file, &at, t->parent_pid, t->parent_tid);
	tell(m, t, "exit", 0, 0, NULL);
	t->exited = true;
	switch_out(m, t, false);
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
	ensure_on_cpu(m, t, event);
	spend(m, 100, 400);
	at = moment_of(m, t);
	switch (ev->kind) {
	case REC_FORK: {
		const struct rec_thread *child = &m->r->threads.items[ev->extra];

		container_fork(&m->file, &at, child->pid, child->tid);
		break;
	}
	case REC_EXEC: on_exec(m, t); break;
	case REC_COMM: {
		bool exec = event > 0 && m->r->events.items[event - 1].kind == REC_EXEC;

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
		interrupt(m, t, "irq", 2000, 9000);
		m->next_irq = m->now + sim_cycles_of_ns(500 + chance(m, 2000ull * m->o->irq_us));
		break;
	case REC_SYSCALL:
		ensure_on_cpu(m, t, at);
		on_syscall(m, t, ev, at);
		break;
	case REC_ASYNC:
		ensure_on_cpu(m, t, at);
		spend_insns(m, ev->insns);
		t->ip = ev->from;
		user_leave_async(m, t, "signal");
		break;
	case REC_ENTER:
		ensure_on_cpu(m, t, at);
		spend(m, 250, 2000);
		t->depth = ev->depth;
		if (ev->extra)
			tell(m, t, "signal", 0, 0, NULL);
		user_enter(m, t, ev->to);
		spend(m, 1, 4);
		touch(m, t);
		break;
	case REC_EXIT:
		ensure_on_cpu(m, t, at);
		on_thread_exit(m, t);
		break;
	case REC_FORK:
	case REC_EXEC:
	case REC_COMM:
	case REC_MMAP: on_kernel_event(m, t, ev, at); break;
	default: ensure_on_cpu(m, t, at); on_branch(m, t, ev);
	}
}

static void finish(struct machine *m)
{
	for (uint32_t i = 0; i < m->cpus; i++) {
		struct thread *t = m->running[i];

		if (!t)
			continue;
		if (t->in_user)
			user_leave_async(m, t, "stop");
		spend(m, 500, 1500);
		tracer_stop(&stream_of(m, t)->tracer, m->now);
		tell_psbs(m, stream_of(m, t));
		aux_record(m, t);
	}
	save(m);
}

static void start_file(struct machine *m)
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
	container_init(&m->file, &config, m->r);
	container_start(&m->file, &tid, m->r->threads.items[0].pid);
}

/* The index of the first event that is not part of what existed before recording. */
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

static void replay(struct machine *m)
{
	size_t count = m->r->events.count;
	size_t every = m->o->snapshots ? count / m->o->snapshots + 1 : count + 1;

	if (m->o->count && m->o->count < count)
		count = m->o->count;
	for (size_t at = replay_preamble(m); at < count && !m->failed; at++) {
		on_event(m, at);
		if (at % every == every - 1)
			take_snapshot(m);
	}
	finish(m);
}

enum err machine_run(const struct recording *r, const struct machine_options *options,
		     const char *dir, struct error *e)
{
	struct machine *m = calloc(1, sizeof *m);
	char path[4096];
	enum err failed = ERR_NOMEM;

	if (!m || r->threads.count == 0)
		goto done;
	m->r = r;
	m->o = options;
	m->e = e;
	m->cpus = options->cpus ? options->cpus : 1;
	m->random = options->seed * 0x9e3779b97f4a7c15u | 1;
	m->now = FIRST_CYCLES + chance(m, 1ull << 32);
	m->next_irq = options->irq_us ? 0 : UINT64_MAX;
	m->threads = calloc(r->threads.count, sizeof *m->threads);
	if (!m->threads)
		goto done;
	for (uint32_t i = 0; i < CONTAINER_RINGS; i++)
		m->streams[i].tracer.config = options->tracer;
	snprintf(path, sizeof path, "%s/truth.txt", dir);
	failed = truth_open(path, &m->truth, e);
	if (failed)
		goto done;
	truth_line(m->truth, "# mode %s", options->cpus ? "cpu" : "thread");
	start_file(m);
	replay(m);
	failed = truth_close(m->truth, e);
	for (uint32_t i = 0; i < CONTAINER_RINGS; i++)
		m->failed |= tracer_failed(&m->streams[i].tracer);
	if (!failed && m->failed)
		failed = error_set(e, ERR_NOMEM, "%s: out of memory", dir);
	snprintf(path, sizeof path, "%s/perf.data", dir);
	if (!failed)
		failed = container_write(&m->file, path, e);
	container_done(&m->file);
done:
	if (m) {
		for (uint32_t i = 0; i < CONTAINER_RINGS; i++)
			tracer_done(&m->streams[i].tracer);
		map64_done(&m->touched);
		free(m->threads);
	}
	free(m);
	return failed;
}
