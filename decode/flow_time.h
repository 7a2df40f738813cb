/* When events happened: from TSC, TMA, MTC, CYC and CBR packets to perf-clock ns.
 *
 * Events wait in the walker's buffer with instruction ordinals in place of times. A packet
 * with a known time (TSC, MTC) is an anchor (time, ordinal): it settles all events since the
 * one before, along the cycles that CYC packets counted between, else along instructions.
 * While tracing was off no instruction counts: what an interval has left over beyond the
 * usual time of its instructions belongs there.
 *
 *      anchor      cyc    cyc  END        BEGIN   cyc     anchor
 *   ─────┼──────────┼──────┼────┤  (off)    ├──────┼────────┼────
 *
 * Source: SDM vol. 3, "Intel Processor Trace", section on tracing with time; the CTC
 * arithmetic follows its description of TMA and MTC. */
#ifndef DECODE_FLOW_TIME_H
#define DECODE_FLOW_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "decode/flow.h"
#include "decode/packet.h"
#include "decode/sideband.h"

/* A place in the stream whose cycle count is known. */
struct time_mark {
	size_t event; /* events before it: its index */
	uint64_t ordinal, cycles;
	uint32_t pauses;
};

struct flow_time {
	const struct sideband *sideband;
	uint64_t earliest_ns, latest_ns; /* what a TSC may say; 0, TIME_NONE = anything */
	/* of the piece */
	uint64_t reference_tsc, limit_ns;
	int64_t bias_ns, piece_bias_ns; /* to add to times: now; as the piece begins */
	bool have_tsc, have_tma, first_mtc;
	uint64_t tsc;                /* newest known */
	uint64_t ctc_tsc, ctc_ticks; /* TSC at the CTC's last TMA; CTC ticks since then */
	uint8_t last_mtc;
	uint64_t cycles;         /* counted by CYC packets since the piece began */
	double tsc_per_cycle;    /* by CBR; 0 = unknown, or no CYC is enabled */
	double ns_per_insn;      /* usual, learnt */
	struct time_mark anchor; /* the last one settled; its time: */
	uint64_t anchor_ns;
	bool have_anchor;
	uint32_t pauses; /* times that tracing stopped since the anchor */
	VEC(struct time_mark) marks;
	uint64_t bad_times;
};

void flow_time_init(struct flow_time *t, const struct sideband *sideband);
void flow_time_done(struct flow_time *t);
void flow_time_start(struct flow_time *t, const struct flow_piece *piece);

/* Takes a TSC, TMA, MTC, CBR or CYC. True when t->tsc is a new known time: then call
 * flow_time_settle(). */
bool flow_time_packet(struct flow_time *t, const struct packet *packet);
/* Gives times to events[..event): t->tsc is the time at `ordinal`. */
void flow_time_settle(struct flow_time *t, struct flow_event *events, size_t event,
		      uint64_t ordinal);
/* The same without a time packet: by what is usual, not beyond limit_ns. */
void flow_time_finish(struct flow_time *t, struct flow_event *events, size_t event,
		      uint64_t ordinal, uint64_t limit_ns);
/* The events before this index left the buffer. */
void flow_time_shift(struct flow_time *t, size_t event);

/* The packet before which t->cycles were counted is done: `event` events, `ordinal`. As frequent
 * as branches, where CYC packets are. Where none can be, damage looks like one. */
static inline void flow_time_mark(struct flow_time *t, size_t event, uint64_t ordinal)
{
	struct time_mark mark = {
		.event = event, .ordinal = ordinal, .cycles = t->cycles, .pauses = t->pauses};

	/* Without memory the interval is settled by instructions instead. */
	if (t->have_anchor && t->sideband->config.has_cyc)
		(void)!vec_push(&t->marks, mark);
}

/* The time now, as far as known (a lower bound); TIME_NONE = unknown. */
uint64_t flow_time_now(const struct flow_time *t);
/* A TSC packet's 56 bits, extended by the buffer's reference. */
uint64_t flow_time_extend(uint64_t reference_tsc, uint64_t low);

#endif
