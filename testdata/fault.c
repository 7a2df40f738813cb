/* Faults of a recording, at places that the seed chooses, spread over the recording.
 *
 * ovf, ovf-pge   the hardware's buffer overflows for a while; resolved in user mode (OVF,
 *                FUP) or in the kernel (OVF, later a TIP.PGE, maybe in another thread)
 * auxgap         the AUX buffer is full: tracing stops, an AUX record says TRUNCATED,
 *                tracing goes on later
 * drop           bytes of the stream are missing, from a packet's end to anywhere
 * drop-flagged   the same, and an AUX record that ends there says TRUNCATED
 * corrupt        bytes are random
 * lostswitch     context-switch records are missing for a while
 * tscback        TSC packets show a time too small for a while
 *
 * The first six write `lost` and `found` into the truth. Size: ns for ovf, ovf-pge, auxgap,
 * lostswitch and tscback, else bytes. */
#include "testdata/machine_private.h"
#include "testdata/sim_clock.h"

enum { LATER_EVENTS = 6000, TSC_BACK_TICKS = 1050000 /* 500 us */ };

static const char *note_of(enum fault_kind kind)
{
	switch (kind) {
	case FAULT_OVF:
	case FAULT_OVF_PGE: return "ovf";
	case FAULT_AUXGAP: return "auxgap";
	case FAULT_CORRUPT: return "corrupt";
	default: return "drop";
	}
}

static bool cuts_bytes(enum fault_kind kind)
{
	return kind == FAULT_DROP || kind == FAULT_DROP_FLAGGED || kind == FAULT_CORRUPT;
}

bool fault_holds_bytes(const struct machine *m, const struct stream *s)
{
	return m->fault.stream == s && cuts_bytes(m->o->fault.kind);
}

static uint64_t size(struct machine *m)
{
	uint64_t low = m->o->fault.low, high = m->o->fault.high;

	return low + (high > low ? machine_chance(m, high - low) : 0);
}

static void begin(struct machine *m, struct thread *t)
{
	struct stream *s = machine_stream(m, t);
	enum fault_kind kind = m->o->fault.kind;

	m->fault.begun++;
	tracer_flush(&s->tracer, m->now);
	machine_tell_psbs(m, s);
	m->fault.stream = s;
	m->fault.place = tracer_head(&s->tracer);
	if (cuts_bytes(kind))
		m->fault.bytes = size(m);
	else
		m->fault.end_cycles = m->now + sim_cycles_of_ns(size(m));
	if (kind == FAULT_LOSTSWITCH) {
		m->switches_lost = true;
	} else if (kind == FAULT_TSCBACK) {
		s->tracer.tsc_offset = -TSC_BACK_TICKS;
	} else {
		machine_tell(m, t, TRUTH_LOST, t->ip, 0, note_of(kind));
		if (kind == FAULT_AUXGAP)
			machine_aux_record(m, t, m->fault.place, true);
		if (!cuts_bytes(kind))
			tracer_lose(&s->tracer, true);
	}
}

static void found(struct machine *m, struct thread *t)
{
	machine_tell(m, t, TRUTH_FOUND, t->ip, 0, note_of(m->o->fault.kind));
	machine_tell_psbs(m, m->fault.stream ? m->fault.stream : machine_stream(m, t));
}

/* The stream goes on after an AUX buffer was emptied. */
static void end_auxgap(struct machine *m, struct thread *t)
{
	struct stream *s = m->fault.stream;

	m->fault.stream = NULL;
	tracer_lose(&s->tracer, false);
	machine_tell(m, t, TRUTH_END, t->ip, 0, "auxgap-resume");
	found(m, t);
	tracer_start(&s->tracer, m->now);
	machine_tell_psbs(m, s);
	machine_spend(m, 500, 1500);
	machine_enter(m, t, t->ip);
}

static void scramble(struct machine *m, struct stream *s)
{
	struct tracer *tracer = &s->tracer;
	size_t kept = 0;

	for (uint64_t i = 0; i < m->fault.bytes; i++)
		tracer->out.bytes.items[m->fault.place - tracer->taken + i] =
			(uint8_t)machine_chance(m, 256);
	for (size_t i = 0; i < tracer->psbs.count; i++) { /* those it hit are none any more */
		struct tracer_psb psb = tracer->psbs.items[i];

		if (psb.at < m->fault.place || psb.at >= m->fault.place + m->fault.bytes)
			tracer->psbs.items[kept++] = psb;
	}
	tracer->psbs.count = kept;
}

static void end_cut(struct machine *m, struct thread *t)
{
	struct stream *s = m->fault.stream;

	if (m->o->fault.kind == FAULT_CORRUPT)
		scramble(m, s);
	else
		tracer_cut(&s->tracer, m->fault.place, m->fault.bytes);
	m->fault.stream = NULL;
	if (m->o->fault.kind == FAULT_DROP_FLAGGED)
		machine_aux_record(m, t, m->fault.place, true);
	found(m, t);
}

static void end_if_over(struct machine *m, struct thread *t)
{
	struct stream *s = m->fault.stream;
	enum fault_kind kind = m->o->fault.kind;

	if (cuts_bytes(kind)) {
		if (s == machine_stream(m, t) &&
		    tracer_head(&s->tracer) >= m->fault.place + m->fault.bytes)
			end_cut(m, t);
		return;
	}
	if (m->now < m->fault.end_cycles || kind == FAULT_OVF_PGE)
		return;
	if (kind == FAULT_LOSTSWITCH) {
		m->switches_lost = false;
		m->fault.stream = NULL;
	} else if (kind == FAULT_TSCBACK) {
		s->tracer.tsc_offset = 0;
		m->fault.stream = NULL;
	} else if (s != machine_stream(m, t)) {
		return; /* another CPU's */
	} else if (kind == FAULT_AUXGAP) {
		end_auxgap(m, t);
	} else {
		tracer_overflow_end(&s->tracer, m->now);
		found(m, t);
		m->fault.stream = NULL;
	}
}

/* The event at which fault number n begins: one in each of `count` equal parts. */
static size_t place_of(struct machine *m, uint32_t n)
{
	size_t span = m->end - m->first, count = m->o->fault.count;

	span -= span > 3ull * LATER_EVENTS ? LATER_EVENTS : span / 3;
	uint64_t scatter = (m->o->seed + n) * 0x9e3779b97f4a7c15u >> 40; /* 24 bits */
	size_t part = span / count;
	return m->first + part / 16 + part * n + (part * 3 / 4 * scatter >> 24);
}

/* A branch that needs no packet just before the fault would be unknown to any decoder. */
static bool is_told(const struct rec_event *ev)
{
	return ev->kind != REC_CALL && ev->kind != REC_JMP;
}

void fault_at_branch(struct machine *m, struct thread *t, size_t event)
{
	if (m->o->fault.kind == FAULT_NONE)
		return;
	if (m->fault.stream)
		end_if_over(m, t);
	else if (is_told(&m->r->events.items[event]) && m->fault.begun < m->o->fault.count &&
		 event >= place_of(m, m->fault.begun))
		begin(m, t);
}

void fault_before_enter(struct machine *m, struct thread *t)
{
	struct stream *s = machine_stream(m, t);

	if (m->o->fault.kind == FAULT_OVF_PGE && m->fault.stream == s &&
	    m->now >= m->fault.end_cycles)
		tracer_overflow_end(&s->tracer, m->now);
}

void fault_after_enter(struct machine *m, struct thread *t)
{
	struct stream *s = machine_stream(m, t);

	if (m->o->fault.kind == FAULT_OVF_PGE && m->fault.stream == s && !s->tracer.losing) {
		found(m, t);
		m->fault.stream = NULL;
	}
}
