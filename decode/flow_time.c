/* See flow_time.h. */
#include "decode/flow_time.h"

enum {
	CTC_BITS = 16,
	CTC_TICKS_MAX_SHIFT = 16,
	SIDEBAND_SLACK_NS =
		1000000000, /* PT may begin before the first and end after the last record */
	INSNS_TO_LEARN = 64,
	CLOCK_JUMP_NS = 50000, /* clocks of real CPUs have stepped back by some 10 us */
	CYCLES_SLACK = 2,      /* what the frequency may have changed by since the last CBR */
};

static const double NS_PER_INSN = 0.25; /* until the piece tells */

void flow_time_init(struct flow_time *t, const struct sideband *sideband)
{
	*t = (struct flow_time){.sideband = sideband, .latest_ns = TIME_NONE};
	if (sideband->clock.valid && sideband->last_ns) {
		uint64_t first = sideband->first_ns, last = sideband->last_ns;

		t->earliest_ns = first > SIDEBAND_SLACK_NS ? first - SIDEBAND_SLACK_NS : 0;
		t->latest_ns = last + SIDEBAND_SLACK_NS;
	}
}

void flow_time_done(struct flow_time *t)
{
	vec_done(&t->marks);
}

void flow_time_start(struct flow_time *t, const struct flow_piece *piece)
{
	t->reference_tsc = piece->buffer->reference_tsc;
	t->bias_ns = t->piece_bias_ns = piece->time_bias_ns;
	t->limit_ns = piece->next_time_ns;
	/* Nothing is kept of the piece before: which one that was depends on the threads. */
	t->ns_per_insn = NS_PER_INSN;
	t->tsc_per_cycle = 0;
	t->have_tsc = t->have_tma = false;
	t->cycles = 0;
	t->pauses = 0;
	t->anchor = (struct time_mark){0};
	t->have_anchor = piece->start_time_ns != TIME_NONE;
	t->anchor_ns = t->have_anchor ? piece->start_time_ns : 0;
	t->marks.count = 0;
}

uint64_t flow_time_extend(uint64_t reference_tsc, uint64_t low)
{
	const uint64_t span = (uint64_t)1 << 56;
	uint64_t tsc = (reference_tsc & ~(span - 1)) | low;

	if (tsc > reference_tsc && tsc - reference_tsc > span / 2 && tsc >= span)
		return tsc - span;
	if (tsc < reference_tsc && reference_tsc - tsc > span / 2)
		return tsc + span;
	return tsc;
}

static uint64_t ns_of(const struct flow_time *t, uint64_t tsc)
{
	return clock_ns(&t->sideband->clock, tsc) + (uint64_t)t->bias_ns;
}

/* A time beyond the next piece's first is damage; one that steps back a little is not. */
static bool is_beyond(const struct flow_time *t, uint64_t ns)
{
	return ns > t->latest_ns ||
	       (t->limit_ns != TIME_NONE && ns > t->limit_ns && t->have_anchor);
}

/* What to add to the times of a TSC so that it fits what was before and what comes: as a rule
 * nothing or what its piece is off; where the clock jumped inside the piece, that. False: it is
 * damage. */
static bool fit_tsc(struct flow_time *t, uint64_t tsc)
{
	uint64_t raw_ns = clock_ns(&t->sideband->clock, tsc);
	uint64_t last_ns = t->have_tsc ? ns_of(t, t->tsc) : 0;
	const int64_t biases[] = {0, t->piece_bias_ns, t->bias_ns, (int64_t)(last_ns - raw_ns)};

	/* The first of the piece is what the piece was moved by. */
	for (size_t i = !t->have_tsc; i < (t->have_tsc ? 4 : 2); i++) {
		uint64_t ns = raw_ns + (uint64_t)biases[i];

		if (ns < t->earliest_ns || is_beyond(t, ns) || ns + CLOCK_JUMP_NS < last_ns)
			continue;
		t->bias_ns = biases[i];
		return true;
	}
	return false;
}

static bool take_tsc(struct flow_time *t, uint64_t low)
{
	uint64_t tsc = flow_time_extend(t->reference_tsc, low);

	t->have_tma = false;
	if (!fit_tsc(t, tsc)) {
		t->bad_times++;
		return false;
	}
	t->have_tsc = true;
	t->tsc = tsc;
	return true;
}

static uint64_t ctc_to_tsc(const struct trace_config *c, uint64_t ticks)
{
	uint64_t n = c->tsc_ctc_numerator, d = c->tsc_ctc_denominator;

	return ticks / d * n + ticks % d * n / d;
}

static void take_tma(struct flow_time *t, uint64_t ctc, uint32_t fast)
{
	const struct trace_config *c = &t->sideband->config;

	if (!c->tsc_ctc_denominator || !c->tsc_ctc_numerator || !t->have_tsc ||
	    c->mtc_period > CTC_TICKS_MAX_SHIFT)
		return;
	uint64_t rest = ctc & (((uint64_t)1 << c->mtc_period) - 1);
	t->last_mtc = (uint8_t)(ctc >> c->mtc_period);
	t->ctc_tsc = t->tsc - fast - ctc_to_tsc(c, rest);
	t->ctc_ticks = 0;
	t->have_tma = true;
	t->first_mtc = true;
}

static bool take_mtc(struct flow_time *t, uint8_t mtc)
{
	const struct trace_config *c = &t->sideband->config;

	if (!t->have_tma)
		return false;
	if (t->first_mtc && c->mtc_period > CTC_BITS - 8) {
		/* TMA has too few CTC bits for all of MTC's: take the upper ones from here. */
		uint8_t known = (uint8_t)(0xff >> (c->mtc_period - (CTC_BITS - 8)));
		uint8_t last = (uint8_t)((mtc & ~known) | (t->last_mtc & known));

		t->last_mtc = last > mtc ? (uint8_t)(last - known - 1) : last;
	}
	t->first_mtc = false;
	t->ctc_ticks += (uint64_t)(uint8_t)(mtc - t->last_mtc) << c->mtc_period;
	t->last_mtc = mtc;
	uint64_t tsc = t->ctc_tsc + ctc_to_tsc(c, t->ctc_ticks);
	if (tsc <= t->tsc)
		return false;
	if (is_beyond(t, ns_of(t, tsc))) {
		/* Bytes that look like an MTC, or are behind missing ones: ticks were counted that
		 * never were. The next TSC and TMA tell. */
		t->have_tma = false;
		return false;
	}
	t->tsc = tsc;
	return true;
}

bool flow_time_packet(struct flow_time *t, const struct packet *packet)
{
	const struct trace_config *c = &t->sideband->config;
	double max = c->has_cyc ? c->max_non_turbo_ratio : 0;

	switch (packet->kind) {
	case PACKET_TSC: return take_tsc(t, packet->payload);
	case PACKET_TMA: take_tma(t, packet->payload, packet->extra); return false;
	case PACKET_MTC: return take_mtc(t, (uint8_t)packet->payload);
	case PACKET_CYC: t->cycles += packet->payload; return false;
	case PACKET_CBR:
		t->tsc_per_cycle = packet->payload ? max / (double)packet->payload : 0;
		return false;
	}
	return false;
}

uint64_t flow_time_now(const struct flow_time *t)
{
	if (!t->have_tsc)
		return t->have_anchor ? t->anchor_ns : TIME_NONE;
	double cycles = (double)(t->cycles - t->anchor.cycles);

	return ns_of(t, t->tsc + (uint64_t)(cycles * t->tsc_per_cycle));
}

/* Times of the events between two places: along their instructions. */
static void spread(struct flow_time *t, struct flow_event *events, const struct time_mark *from,
		   uint64_t from_ns, const struct time_mark *to, uint64_t to_ns)
{
	/* Signed numbers, which convert to and from double at a fraction of the cost. */
	int64_t insns = (int64_t)(to->ordinal - from->ordinal);
	int64_t ns = to_ns - from_ns > INT64_MAX ? INT64_MAX : (int64_t)(to_ns - from_ns);
	uint32_t pauses = to->pauses - from->pauses;
	double each_ns = insns ? (double)ns / (double)insns : 0, pause_ns = 0;

	if (pauses) {
		double usual = t->ns_per_insn * (double)insns;

		if (usual < (double)ns) {
			each_ns = t->ns_per_insn;
			pause_ns = ((double)ns - usual) / pauses;
		}
	} else if (insns >= INSNS_TO_LEARN) {
		t->ns_per_insn += (each_ns - t->ns_per_insn) / 4;
	}
	double base = 0; /* offsets from from_ns stay small: exact in a double */
	for (size_t i = from->event; i < to->event; i++) {
		struct flow_event *e = &events[i];
		double offset = base + each_ns * (double)(int64_t)(e->time_ns - from->ordinal);

		if (e->time_ns == to->ordinal)
			e->flags |= FLOW_TIME_EXACT;
		e->time_ns = offset >= (double)ns ? to_ns : from_ns + (uint64_t)(int64_t)offset;
		if (e->kind == FLOW_END || e->kind == FLOW_GAP)
			base += pause_ns;
	}
}

static void settle_until(struct flow_time *t, struct flow_event *events, const struct time_mark *to,
			 uint64_t to_ns)
{
	struct time_mark from = t->anchor;
	uint64_t cycles = to->cycles - from.cycles, from_ns = t->anchor_ns;
	double ns_per_cycle = cycles ? (double)(to_ns - from_ns) / (double)cycles : 0;

	for (size_t i = 0; i < t->marks.count; i++) {
		const struct time_mark *m = &t->marks.items[i];
		uint64_t ns = t->anchor_ns +
			      (uint64_t)((double)(m->cycles - t->anchor.cycles) * ns_per_cycle);

		if (ns > to_ns)
			ns = to_ns;
		spread(t, events, &from, from_ns, m, ns);
		from = *m;
		from_ns = ns;
	}
	spread(t, events, &from, from_ns, to, to_ns);
	t->anchor = *to;
	t->anchor.pauses = t->pauses = 0;
	t->anchor_ns = to_ns;
	t->have_anchor = true;
	t->marks.count = 0;
}

void flow_time_settle(struct flow_time *t, struct flow_event *events, size_t event,
		      uint64_t ordinal)
{
	struct time_mark to = {
		.event = event, .ordinal = ordinal, .cycles = t->cycles, .pauses = t->pauses};
	uint64_t ns = ns_of(t, t->tsc);

	if (!t->have_anchor || ns < t->anchor_ns) {
		/* Nothing before to count from, or a clock that stepped back. */
		if (!t->have_anchor)
			t->anchor_ns = ns;
		ns = t->anchor_ns;
	}
	settle_until(t, events, &to, ns);
}

void flow_time_finish(struct flow_time *t, struct flow_event *events, size_t event,
		      uint64_t ordinal, uint64_t limit_ns)
{
	struct time_mark to = {
		.event = event, .ordinal = ordinal, .cycles = t->cycles, .pauses = t->pauses};
	uint64_t cycles = to.cycles - t->anchor.cycles;
	double ns = (double)(ordinal - t->anchor.ordinal) * t->ns_per_insn;

	if (!t->have_anchor) {
		if (!t->have_tsc)
			return; /* ordinals are the times */
		t->anchor_ns = ns_of(t, t->tsc);
	}
	if (cycles && t->tsc_per_cycle > 0) {
		uint64_t tsc = t->tsc + (uint64_t)((double)cycles * t->tsc_per_cycle);
		uint64_t at = ns_of(t, tsc);
		uint64_t passed = at > t->anchor_ns ? at - t->anchor_ns : 0;

		if (at > t->latest_ns || (limit_ns != TIME_NONE && limit_ns > t->anchor_ns &&
					  passed / CYCLES_SLACK > limit_ns - t->anchor_ns)) {
			to.cycles = t->anchor.cycles; /* some were counted that never were */
			t->marks.count = 0;
		} else {
			ns = (double)passed;
		}
	}
	uint64_t to_ns = t->anchor_ns + (uint64_t)ns;
	if (limit_ns != TIME_NONE && to_ns > limit_ns)
		to_ns = limit_ns;
	if (to_ns < t->anchor_ns)
		to_ns = t->anchor_ns;
	settle_until(t, events, &to, to_ns);
}

void flow_time_shift(struct flow_time *t, size_t event)
{
	t->anchor.event -= event;
}
