/* Intel PT packets, written byte by byte as the SDM's chapter on Intel PT draws them.
 *
 * Pure: a writer knows the bytes so far and the last IP, nothing of what they mean.
 * When memory is short `failed` stays set and writing goes nowhere. */
#ifndef TESTDATA_PACKET_H
#define TESTDATA_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"

enum packet_ip_kind { PACKET_TIP = 0x0d, PACKET_PGE = 0x11, PACKET_PGD = 0x01, PACKET_FUP = 0x1d };

struct packet_writer {
	VEC(uint8_t) bytes;
	uint64_t last_ip;
	bool ip_known; /* false: the next IP is written in full */
	bool failed;
};

void packet_raw(struct packet_writer *w, const void *bytes, size_t count);
void packet_pad(struct packet_writer *w);
/* Behind both, the next IP comes in full: CPUs compress against nothing in a PSB+. */
void packet_psb(struct packet_writer *w);
void packet_psbend(struct packet_writer *w);
/* `count` outcomes, the oldest in the highest bit; 1-6 short, 1-47 long. */
void packet_tnt_short(struct packet_writer *w, uint64_t taken, unsigned count);
void packet_tnt_long(struct packet_writer *w, uint64_t taken, unsigned count);
/* The shortest encoding against the last IP. */
void packet_ip(struct packet_writer *w, enum packet_ip_kind kind, uint64_t ip);
void packet_ip_suppressed(struct packet_writer *w, enum packet_ip_kind kind);
/* IPBytes as given: 1, 2, 3 (sign-extended), 4 or 6. */
void packet_ip_as(struct packet_writer *w, enum packet_ip_kind kind, unsigned ip_bytes,
		  uint64_t ip);
void packet_mode_exec(struct packet_writer *w, unsigned bits, bool interrupt_flag);
void packet_mode_tsx(struct packet_writer *w, bool in_tx, bool abort);
void packet_pip(struct packet_writer *w, uint64_t cr3, bool non_root);
void packet_vmcs(struct packet_writer *w, uint64_t base);
void packet_cbr(struct packet_writer *w, unsigned ratio);
void packet_tsc(struct packet_writer *w, uint64_t tsc);
void packet_tma(struct packet_writer *w, unsigned ctc, unsigned fast);
void packet_mtc(struct packet_writer *w, unsigned ctc);
void packet_cyc(struct packet_writer *w, uint64_t cycles);
void packet_ovf(struct packet_writer *w);
void packet_stop(struct packet_writer *w); /* TraceStop */
void packet_ptw(struct packet_writer *w, uint64_t value, unsigned bytes, bool fup_follows);
void packet_exstop(struct packet_writer *w, bool fup_follows);
void packet_mwait(struct packet_writer *w, unsigned hints, unsigned extensions);
void packet_pwre(struct packet_writer *w, unsigned state);
void packet_pwrx(struct packet_writer *w, unsigned last, unsigned deepest, unsigned reason);
void packet_mnt(struct packet_writer *w, uint64_t value);
void packet_cfe(struct packet_writer *w, unsigned type, unsigned vector, bool fup_follows);
void packet_evd(struct packet_writer *w, unsigned type, uint64_t value);

#endif
