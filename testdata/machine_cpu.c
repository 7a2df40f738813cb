/* What CPUs and the kernel do: user mode begins and ends, threads come and go, perf's
 * buffers are announced and saved. See machine.h. */
#include <inttypes.h>

#include "testdata/machine_private.h"
#include "testdata/sim_clock.h"

enum {
	FAULT_AROUND_SHIFT = 16,
	AUX_TRUNCATED = 1, /* PERF_AUX_FLAG_ */
	AUX_OVERWRITE = 2,
};

uint64_t machine_chance(struct machine *m, uint64_t below)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random % below;
}

/* Between low and high cycles go by. */
void machine_spend(struct machine *m, uint64_t low, uint64_t high)
{
	m->now += low + machine_chance(m, high - low);
}

static uint32_t ring_of(const struct machine *m, const struct thread *t)
{
	return m->o->cpus ? (uint32_t)t->cpu : 0;
}

struct stream *machine_stream(struct machine *m, const struct thread *t)
{
	return &m->streams[ring_of(m, t)];
}

struct moment machine_moment(const struct machine *m, const struct thread *t)
{
	return (struct moment){
		.ns = sim_ns(m->now),
		.ring = ring_of(m, t),
		.cpu = t->cpu < 0 ? 0 : (uint32_t)t->cpu,
		.pid = t->pid,
		.tid = t->tid,
	};
}

void machine_tell(struct machine *m, const struct thread *t, enum truth_kind kind, uint64_t from,
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

void machine_tell_psbs(struct machine *m, struct stream *s)
{
	if (fault_holds_bytes(m, s))
		return;
	for (; s->psbs_told < s->tracer.psbs.count; s->psbs_told++) {
		const struct tracer_psb *psb = &s->tracer.psbs.items[s->psbs_told];

		truth_line(m->truth, "# psb idx %td tid %d pos %" PRIu64 " at %" PRIu64,
			   s - m->streams, m->o->cpus ? -1 : s->tid, psb->at, sim_ns(psb->cycles));
	}
}

/* User mode begins and ends. */

void machine_enter(struct machine *m, struct thread *t, uint64_t ip)
{
	struct stream *s = machine_stream(m, t);

	t->in_user = true;
	t->ip = ip;
	fault_before_enter(m, t);
	tracer_advance(&s->tracer, m->now);
	machine_tell_psbs(m, s); /* those in front of the TIP.PGE */
	tracer_enter(&s->tracer, m->now, ip);
	machine_tell(m, t, TRUTH_BEGIN, 0, ip, NULL);
	fault_after_enter(m, t);
	machine_tell_psbs(m, s);
}

void machine_leave_async(struct machine *m, struct thread *t, const char *why)
{
	struct stream *s = machine_stream(m, t);

	t->in_user = false;
	tracer_leave_async(&s->tracer, m->now, t->ip);
	machine_tell(m, t, TRUTH_END, t->ip, 0, why);
	machine_tell_psbs(m, s);
}

/* A fault or interrupt at the next instruction, and back again. */
void machine_interrupt(struct machine *m, struct thread *t, const char *why, uint64_t low,
		       uint64_t high)
{
	machine_leave_async(m, t, why);
	machine_spend(m, low, high);
	machine_enter(m, t, t->ip);
	machine_spend(m, 1, 4);
}

void machine_touch(struct machine *m, struct thread *t)
{
	uint64_t key = t->ip >> FAULT_AROUND_SHIFT ^ (uint64_t)t->image << 48;

	if (!m->o->page_faults || map64_get(&m->touched, key) != MAP64_NONE)
		return;
	if (!map64_set(&m->touched, key, 1))
		m->failed = true;
	machine_interrupt(m, t, "pf", 900, 3000);
}

/* AUX records and what perf saves. */

static uint64_t ring_bytes(const struct machine *m)
{
	return m->o->aux_bytes;
}

void machine_aux_record(struct machine *m, struct thread *t, uint64_t head, bool truncated)
{
	struct stream *s = machine_stream(m, t);
	struct moment at = machine_moment(m, t);

	if ((head <= s->aux_at && !truncated) || m->o->container.aux_sample_bytes)
		return;
	if (m->o->snapshots)
		container_aux(&m->file, &at, head % ring_bytes(m), ring_bytes(m), AUX_OVERWRITE);
	else
		container_aux(&m->file, &at, s->aux_at, head - s->aux_at,
			      truncated ? AUX_TRUNCATED : 0);
	s->aux_at = head;
}

/* All of the stream so far, unless its end is still to change. */
static void announce(struct machine *m, struct thread *t)
{
	struct stream *s = machine_stream(m, t);

	if (!fault_holds_bytes(m, s))
		machine_aux_record(m, t, tracer_head(&s->tracer), false);
}

/* perf wakes up: everything so far goes to the file. */
void machine_save(struct machine *m)
{
	uint64_t reference = sim_tsc(m->now);

	container_drain(&m->file);
	for (uint32_t i = 0; i < m->file.config.rings && !m->o->container.aux_sample_bytes; i++) {
		struct stream *s = &m->streams[i];
		uint64_t head = tracer_head(&s->tracer), from = s->saved_at;
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
					   s->tracer.out.bytes.items + (from - s->tracer.taken),
					   head - from);
		if (!m->o->snapshots)
			tracer_forget(&s->tracer, head);
		s->saved_at = head;
	}
	container_round(&m->file);
}

/* On and off the CPU. */

static struct thread idle = {.cpu = 0};

static const char *comm_of(const struct machine *m, const struct thread *t)
{
	return t == &idle ? "swapper" : recording_string(m->r, t->comm);
}

static void switch_record(struct machine *m, const struct thread *who, int cpu, bool out,
			  bool preempt, const struct thread *other)
{
	struct moment at = machine_moment(m, who);

	at.cpu = (uint32_t)cpu;
	at.ring = m->o->cpus ? (uint32_t)cpu : 0;
	if (m->switches_lost)
		return;
	if (m->o->container.switches == SWITCHES_TRACEPOINT) {
		if (out)
			container_sched_switch(&m->file, &at, comm_of(m, who), comm_of(m, other),
					       other->tid);
		return;
	}
	container_switch(&m->file, &at, out, preempt, other->pid, other->tid);
}

static void switch_in(struct machine *m, struct thread *t, int cpu)
{
	bool wide = m->o->container.switches != SWITCHES_OWN;

	t->cpu = t->last_cpu = cpu;
	m->running[cpu] = t;
	if (wide)
		switch_record(m, &idle, cpu, true, false, t);
	machine_spend(m, 900, 2200);
	if (!m->o->container.system_wide)
		tracer_start(&machine_stream(m, t)->tracer, m->now);
	machine_tell(m, t, TRUTH_SWITCHIN, 0, 0, NULL);
	machine_tell_psbs(m, machine_stream(m, t));
	if (!t->known && !m->o->container.system_wide) {
		struct moment at = machine_moment(m, t);

		container_itrace_start(&m->file, &at);
		t->known = true;
	}
	switch_record(m, t, cpu, false, false, &idle);
}

void machine_switch_out(struct machine *m, struct thread *t, bool preempt)
{
	int cpu = t->cpu;

	machine_spend(m, 200, 700);
	if (!m->o->container.system_wide)
		tracer_stop(&machine_stream(m, t)->tracer, m->now);
	machine_tell(m, t, TRUTH_SWITCHOUT, 0, 0, NULL);
	machine_tell_psbs(m, machine_stream(m, t));
	switch_record(m, t, cpu, true, preempt, &idle);
	if (!m->o->container.system_wide)
		announce(m, t);
	if (m->o->container.switches == SWITCHES_CPU_WIDE) {
		m->now += 800;
		switch_record(m, &idle, cpu, false, false, t);
	}
	m->running[cpu] = NULL;
	t->cpu = NO_CPU;
}

void machine_start_cpus(struct machine *m)
{
	for (uint32_t i = 0; i < m->cpus; i++) {
		struct thread swapper = {.cpu = (int)i};
		struct moment at = machine_moment(m, &swapper);

		tracer_start(&m->streams[i].tracer, m->now);
		machine_tell_psbs(m, &m->streams[i]);
		container_itrace_start(&m->file, &at);
		m->now += 5000;
	}
}

void machine_stop_cpu(struct machine *m, uint32_t cpu)
{
	struct thread swapper = {.cpu = (int)cpu};
	struct thread *t = m->running[cpu] ? m->running[cpu] : &swapper;

	if (t->in_user)
		machine_leave_async(m, t, "stop");
	machine_spend(m, 500, 1500);
	tracer_stop(&m->streams[cpu].tracer, m->now);
	machine_tell_psbs(m, &m->streams[cpu]);
	announce(m, t);
}

static int cpu_choose(struct machine *m, const struct thread *t, size_t event)
{
	uint32_t from = (uint32_t)machine_chance(m, m->cpus);
	size_t farthest = 0;
	int victim = 0;

	if (t->last_cpu >= 0 && !m->running[t->last_cpu] && machine_chance(m, 4) > 0)
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
		machine_leave_async(m, t, "preempt");
	machine_switch_out(m, t, was_in_user);
	t->in_user = was_in_user; /* to be resumed at t->ip */
}

void machine_ensure_on_cpu(struct machine *m, struct thread *t, size_t event)
{
	if (t->cpu != NO_CPU)
		return;
	int cpu = cpu_choose(m, t, event);
	if (m->running[cpu])
		preempt(m, m->running[cpu]);
	machine_spend(m, 300, 2500);
	switch_in(m, t, cpu);
	if (t->in_user) {
		machine_spend(m, 300, 900);
		machine_enter(m, t, t->ip);
	}
}

/* The kernel stops and restarts PT around each AUX record it writes on the way. */
static void pause_tracing(struct machine *m, struct thread *t, const char *why)
{
	bool was_in_user = t->in_user;

	if (was_in_user)
		machine_leave_async(m, t, why);
	machine_spend(m, 500, 1500);
	tracer_stop(&machine_stream(m, t)->tracer, m->now);
	machine_tell_psbs(m, machine_stream(m, t));
	announce(m, t);
	t->in_user = was_in_user;
}

static void resume_tracing(struct machine *m, struct thread *t)
{
	machine_spend(m, 500, 1500);
	tracer_start(&machine_stream(m, t)->tracer, m->now);
	machine_tell_psbs(m, machine_stream(m, t));
	machine_spend(m, 500, 1500);
	if (t->in_user)
		machine_enter(m, t, t->ip);
}

void machine_aux_sample(struct machine *m, struct thread *t)
{
	struct stream *s = machine_stream(m, t);
	struct moment at = machine_moment(m, t);
	uint64_t most = m->o->container.aux_sample_bytes, ip = t->ip;

	pause_tracing(m, t, "irq");
	uint64_t head = tracer_head(&s->tracer), from = head > most ? head - most : 0;
	container_aux_sample(&m->file, &at, ip, s->tracer.out.bytes.items + from, head - from);
	truth_line(m->truth, "# snapshot idx %u tid %d bytes %" PRIu64 " %" PRIu64 " at %" PRIu64,
		   at.ring, m->o->cpus ? -1 : s->tid, from, head, at.ns);
	resume_tracing(m, t);
}

void machine_snapshot(struct machine *m)
{
	for (uint32_t i = 0; i < m->cpus; i++)
		if (m->running[i])
			pause_tracing(m, m->running[i], "snapshot");
	machine_save(m);
	machine_spend(m, 20000, 40000);
	for (uint32_t i = 0; i < m->cpus; i++)
		if (m->running[i])
			resume_tracing(m, m->running[i]);
}

void machine_watermark(struct machine *m, struct thread *t)
{
	struct stream *s = machine_stream(m, t);

	if (!m->o->aux_bytes || m->o->snapshots || m->fault.stream == s ||
	    tracer_head(&s->tracer) - s->aux_at < m->o->aux_bytes / 4)
		return;
	pause_tracing(m, t, "pmi");
	if (s->aux_at - s->saved_at >= m->o->aux_bytes / 2)
		machine_save(m);
	resume_tracing(m, t);
}
