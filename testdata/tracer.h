/* A model of one logical CPU's PT hardware: branches and a clock go in, packets come out.
 *
 *     tracer_start            TraceEn 0 -> 1 (the kernel starts the event)
 *       tracer_enter          user mode begins (TIP.PGE)
 *         tracer_branch ...
 *       tracer_leave_*        user mode ends (TIP.PGD, after a FUP if asynchronous)
 *     tracer_stop             TraceEn 1 -> 0
 *
 * Only user mode is traced. Every call takes the time, in cycles (sim_clock.h), that
 * never steps back. */
#ifndef TESTDATA_TRACER_H
#define TESTDATA_TRACER_H

#include "testdata/packet.h"

struct tracer_config {
	uint32_t psb_bytes; /* a PSB after so many bytes of packets */
	uint32_t mtc_shift; /* an MTC every 2^n CTC ticks */
	bool mtc, tsc, cyc;
	bool no_compression; /* every RET is a TIP */
	bool long_tnt;       /* collect 47 outcomes instead of 6 */
	bool defer_tips;     /* TNTs may be sent before TIPs that precede them */
	bool ovf_psb;        /* a PSB+ follows every OVF */
};

enum tracer_branch {
	TRACER_DIRECT,   /* CALL, JMP: no packet */
	TRACER_INDIRECT, /* ICALL, IJMP */
	TRACER_RET,
	TRACER_TAKEN,
	TRACER_NOT_TAKEN,
};

enum { TRACER_RETURNS = 64, TRACER_TIPS = 16 };

struct tracer_psb {
	uint64_t at, cycles; /* place in the packets, time */
};

struct tracer {
	struct tracer_config config;
	struct packet_writer out;
	uint64_t taken; /* bytes of the stream before those in `out` */
	VEC(struct tracer_psb) psbs;
	bool running, in_user, losing;
	uint64_t ip; /* while in_user: the next instruction */
	uint64_t tnt;
	unsigned tnt_count;
	uint64_t tips[TRACER_TIPS]; /* deferred, behind the TNT */
	unsigned tip_count;
	uint64_t returns[TRACER_RETURNS];
	unsigned return_count, return_top;
	uint64_t psb_at;
	bool psb_seen, mode_told; /* a MODE.Exec came since the last PSB */
	uint64_t cyc_cycles;      /* of the last CYC */
	uint64_t mtc_tick;        /* of the last MTC or TMA */
	int64_t tsc_offset;       /* added to TSC packets: a clock that steps back */
};

void tracer_start(struct tracer *t, uint64_t cycles);
void tracer_stop(struct tracer *t, uint64_t cycles);
void tracer_enter(struct tracer *t, uint64_t cycles, uint64_t ip);
/* A SYSCALL: the decoder finds it by walking there. */
void tracer_leave(struct tracer *t, uint64_t cycles);
/* A fault, interrupt ...: ip has not been executed. */
void tracer_leave_async(struct tracer *t, uint64_t cycles, uint64_t ip);
/* return_to: the address behind a CALL; 0 for other branches and for calls to there. */
void tracer_branch(struct tracer *t, uint64_t cycles, enum tracer_branch kind, uint64_t to,
		   uint64_t return_to);
/* Sends what has gathered. */
void tracer_flush(struct tracer *t, uint64_t cycles);
/* Lets time pass: MTCs. */
void tracer_advance(struct tracer *t, uint64_t cycles);
/* From here on nothing gets out (true), or it does again (false). */
void tracer_lose(struct tracer *t, bool losing);
/* Ends the loss with an OVF packet and what follows it. */
void tracer_overflow_end(struct tracer *t, uint64_t cycles);
/* Bytes of the stream so far; all places in it count from its beginning. */
uint64_t tracer_head(const struct tracer *t);
/* Forgets the stream's bytes before `place`: they were saved. */
void tracer_forget(struct tracer *t, uint64_t place);
/* Takes `count` bytes at `place` out of the stream, as if they had been lost on the way. */
void tracer_cut(struct tracer *t, uint64_t place, uint64_t count);
bool tracer_failed(const struct tracer *t);
void tracer_done(struct tracer *t);

#endif
