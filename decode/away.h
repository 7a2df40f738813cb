/* Away: what a thread did while its trace was off, as far as switch records tell.
 *
 *     trace      on ─┤ off                                  ├─ on
 *     stays    ══════╡      ╞═══ CPU 3 ═══╡             ╞═════ CPU 1
 *                    descheduled       descheduled
 *     losses              CPU 3: ├──────────────┤           user code may have run unseen
 *
 * Drawn as brackets: the syscall or interruption, and the time off the CPUs in it. If a stay
 * on a CPU overlaps a loss of that CPU's buffer (overflow, overwritten part of a snapshot
 * ring, the time before its first byte), the thread has lost trace, too, though no gap says
 * so in its own events. */
#ifndef DECODE_AWAY_H
#define DECODE_AWAY_H

#include "decode/flow.h"
#include "decode/strand.h"

/* A span of time for which a CPU's buffer holds nothing. */
struct lost_span {
	uint64_t start_ns, end_ns; /* end TIME_NONE: still open */
	uint8_t cause;             /* enum loss */
};

struct cpu_losses {
	VEC(struct lost_span) spans;
	bool open; /* the last one */
};

enum err weave_init_losses(struct weave *w);
/* The losses of a CPU's buffer; NULL for a thread's. */
struct cpu_losses *weave_losses(struct weave *w, const struct aux_buffer *buffer);
/* To be called before the event acts if it is a gap or `losses->open`. */
void weave_note_loss(struct weave *w, struct cpu_losses *losses, const struct flow_event *event);

/* Did the thread lose trace since strand.off_ns, in an earlier stay (or in this one, too)?
 * When and why that began. */
bool strand_lost_while_off(const struct strand *s, bool this_stay, uint64_t *lost_ns,
			   unsigned *cause);
/* Is or was the thread switched out since strand.off_ns (until `until_ns`)? */
bool strand_switched_out(const struct strand *s, uint64_t until_ns);
/* When the thread left its last CPU, if between strand.off_ns and `until_ns`; else until_ns. */
uint64_t strand_ran_until(const struct strand *s, uint64_t until_ns);
/* Had the thread a whole stay on a CPU since strand.off_ns? Of that there is no trace. Its start. */
bool strand_had_silent_stay(const struct strand *s, uint64_t *since_ns);
/* Tracing of the thread begins though it was on: was the thread switched out meanwhile, so that
 * trace was lost since the event before? And why. */
bool strand_lost_before_off(const struct strand *s, unsigned *cause);
/* Draws the time since strand.off_ns. */
void strand_draw_off(struct strand *s);

#endif
