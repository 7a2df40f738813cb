/* See tracer.h.
 *
 * TNT outcomes gather until six (or 47) are there or another packet has to keep its
 * place behind them. MTC and other timing packets do not: they overtake the gathered
 * outcomes, as on hardware.
 *
 * Return compression: CALLs push where they return to; a RET that goes to the top is
 * one taken outcome. PSB and OVF empty the stack, and so does a RET that goes
 * elsewhere (what the hardware does then is not documented; both perf's and libipt's
 * models of it agree with this one). */
#include "testdata/tracer.h"

#include <string.h>

#include "testdata/sim_clock.h"

uint64_t tracer_head(const struct tracer *t)
{
	return t->taken + t->out.bytes.count;
}

void tracer_forget(struct tracer *t, uint64_t place)
{
	size_t count = (size_t)(place - t->taken);

	if (count == 0)
		return;
	t->out.bytes.count -= count;
	memmove(t->out.bytes.items, t->out.bytes.items + count, t->out.bytes.count);
	t->taken = place;
}

void tracer_cut(struct tracer *t, uint64_t place, uint64_t count)
{
	uint8_t *from = t->out.bytes.items + (place - t->taken);
	size_t kept = 0;

	memmove(from, from + count, (size_t)(tracer_head(t) - place - count));
	t->out.bytes.count -= count;
	for (size_t i = 0; i < t->psbs.count; i++) {
		struct tracer_psb psb = t->psbs.items[i];

		if (psb.at >= place && psb.at < place + count)
			continue;
		if (psb.at >= place)
			psb.at -= count;
		t->psbs.items[kept++] = psb;
	}
	t->psbs.count = kept;
	if (t->psb_at >= place)
		t->psb_at = t->psb_at - place > count ? t->psb_at - count : place;
}

static struct packet_writer *out(struct tracer *t)
{
	static struct packet_writer nowhere; /* an overflow swallows everything */

	if (!t->losing)
		return &t->out;
	nowhere.bytes.count = 0;
	nowhere.ip_known = false;
	return &nowhere;
}

static void cyc(struct tracer *t, uint64_t cycles)
{
	if (!t->config.cyc || cycles == t->cyc_cycles)
		return;
	packet_cyc(out(t), cycles - t->cyc_cycles);
	t->cyc_cycles = cycles;
}

void tracer_flush(struct tracer *t, uint64_t cycles)
{
	if (t->tnt_count > 0) {
		cyc(t, cycles);
		if (t->tnt_count > 6)
			packet_tnt_long(out(t), t->tnt, t->tnt_count);
		else
			packet_tnt_short(out(t), t->tnt, t->tnt_count);
	}
	for (unsigned i = 0; i < t->tip_count; i++) {
		cyc(t, cycles);
		packet_ip(out(t), PACKET_TIP, t->tips[i]);
	}
	t->tnt = t->tnt_count = t->tip_count = 0;
}

static void timestamp(struct tracer *t, uint64_t cycles)
{
	uint64_t tsc = sim_tsc(cycles);

	if (!t->config.tsc)
		return;
	packet_tsc(out(t), tsc + (uint64_t)t->tsc_offset);
	if (t->config.mtc) {
		uint64_t ctc = tsc / SIM_TSC_PER_CTC;

		packet_tma(out(t), (unsigned)ctc & 0xffff, (unsigned)(tsc % SIM_TSC_PER_CTC));
		t->mtc_tick = ctc >> t->config.mtc_shift;
	}
}

static void psb(struct tracer *t, uint64_t cycles)
{
	tracer_flush(t, cycles);
	cyc(t, cycles);
	if (!vec_push(&t->psbs, ((struct tracer_psb){tracer_head(t), cycles})))
		t->out.failed = true;
	t->psb_at = tracer_head(t);
	t->psb_seen = true;
	t->return_count = 0;
	packet_psb(out(t));
	timestamp(t, cycles);
	packet_cbr(out(t), SIM_CBR);
	t->mode_told = t->in_user;
	if (t->in_user) {
		packet_mode_exec(out(t), 64, false);
		packet_ip(out(t), PACKET_FUP, t->ip);
	}
	packet_psbend(out(t));
}

static void psb_if_due(struct tracer *t, uint64_t cycles)
{
	if (!t->losing && tracer_head(t) - t->psb_at >= t->config.psb_bytes)
		psb(t, cycles);
}

void tracer_advance(struct tracer *t, uint64_t cycles)
{
	if (!t->running || !t->config.mtc)
		return;
	uint64_t tick = sim_tsc(cycles) / SIM_TSC_PER_CTC >> t->config.mtc_shift;
	while (t->mtc_tick < tick) {
		t->mtc_tick++;
		/* The cycle at which the tick fell: CYC must not run ahead of it. */
		uint64_t at = ((t->mtc_tick << t->config.mtc_shift) * SIM_TSC_PER_CTC * 4 + 2) / 3;
		if (at > t->cyc_cycles)
			cyc(t, at);
		packet_mtc(out(t), (unsigned)(t->mtc_tick & 0xff));
		if (!t->in_user)
			psb_if_due(t, cycles);
	}
}

void tracer_start(struct tracer *t, uint64_t cycles)
{
	t->running = true;
	t->in_user = false;
	t->cyc_cycles = cycles;
	if (!t->psb_seen) {
		psb(t, cycles);
	} else {
		timestamp(t, cycles);
		packet_cbr(out(t), SIM_CBR);
	}
}

void tracer_stop(struct tracer *t, uint64_t cycles)
{
	tracer_advance(t, cycles);
	tracer_flush(t, cycles);
	t->running = false;
}

void tracer_enter(struct tracer *t, uint64_t cycles, uint64_t ip)
{
	tracer_advance(t, cycles);
	if (!t->mode_told)
		packet_mode_exec(out(t), 64, false);
	t->mode_told = !t->losing;
	cyc(t, cycles);
	packet_ip(out(t), PACKET_PGE, ip);
	t->in_user = true;
	t->ip = ip;
	psb_if_due(t, cycles);
}

void tracer_leave(struct tracer *t, uint64_t cycles)
{
	tracer_advance(t, cycles);
	tracer_flush(t, cycles);
	cyc(t, cycles);
	packet_ip_suppressed(out(t), PACKET_PGD);
	t->in_user = false;
}

void tracer_leave_async(struct tracer *t, uint64_t cycles, uint64_t ip)
{
	tracer_advance(t, cycles);
	tracer_flush(t, cycles);
	cyc(t, cycles);
	packet_ip(out(t), PACKET_FUP, ip);
	packet_ip_suppressed(out(t), PACKET_PGD);
	t->in_user = false;
}

static void outcome(struct tracer *t, uint64_t cycles, bool taken)
{
	t->tnt = t->tnt << 1 | taken;
	if (++t->tnt_count == (t->config.long_tnt ? 47u : 6u))
		tracer_flush(t, cycles);
}

static void target(struct tracer *t, uint64_t cycles, uint64_t to, bool may_wait)
{
	if (!t->config.defer_tips || !may_wait || t->tnt_count == 0) {
		tracer_flush(t, cycles);
		cyc(t, cycles);
		packet_ip(out(t), PACKET_TIP, to);
		return;
	}
	t->tips[t->tip_count++] = to;
	if (t->tip_count == TRACER_TIPS)
		tracer_flush(t, cycles);
}

static bool returns_pop(struct tracer *t, uint64_t to)
{
	if (t->return_count == 0 || t->config.no_compression)
		return false;
	if (t->returns[t->return_top % TRACER_RETURNS] != to) {
		t->return_count = 0;
		return false;
	}
	t->return_top--;
	t->return_count--;
	return true;
}

static void returns_push(struct tracer *t, uint64_t return_to)
{
	t->returns[++t->return_top % TRACER_RETURNS] = return_to;
	if (t->return_count < TRACER_RETURNS)
		t->return_count++;
}

void tracer_branch(struct tracer *t, uint64_t cycles, enum tracer_branch kind, uint64_t to,
		   uint64_t return_to)
{
	tracer_advance(t, cycles);
	t->ip = to;
	if (return_to && !t->losing)
		returns_push(t, return_to);
	switch (kind) {
	case TRACER_DIRECT: break;
	case TRACER_INDIRECT: target(t, cycles, to, true); break;
	case TRACER_RET:
		if (returns_pop(t, to))
			outcome(t, cycles, true);
		else
			target(t, cycles, to, false);
		break;
	case TRACER_TAKEN: outcome(t, cycles, true); break;
	case TRACER_NOT_TAKEN: outcome(t, cycles, false); break;
	}
	psb_if_due(t, cycles);
}

void tracer_lose(struct tracer *t, bool losing)
{
	t->losing = losing;
	t->tnt = t->tnt_count = t->tip_count = 0;
	t->return_count = 0;
}

void tracer_overflow_end(struct tracer *t, uint64_t cycles)
{
	tracer_lose(t, false);
	t->mtc_tick = sim_tsc(cycles) / SIM_TSC_PER_CTC >> t->config.mtc_shift;
	cyc(t, cycles); /* the counter went on: this is how long it lasted */
	packet_ovf(out(t));
	if (t->config.ovf_psb) {
		psb(t, cycles);
	} else {
		timestamp(t, cycles);
		packet_cbr(out(t), SIM_CBR);
	}
	if (t->in_user)
		packet_ip(out(t), PACKET_FUP, t->ip);
}

bool tracer_failed(const struct tracer *t)
{
	return t->out.failed;
}

void tracer_done(struct tracer *t)
{
	vec_done(&t->out.bytes);
	vec_done(&t->psbs);
}
