/* See flow_state.h: what is neither a TNT bit nor a plain TIP.
 *
 *            PGE, PSB+ FUP, OVF FUP
 *      OFF ─────────────────────────► ON ──── loss ────► LOST
 *       ▲                             │ ▲                  │
 *       └───── TIP.PGD, TraceStop ────┘ └── FUP, PGE, TIP ─┘
 *
 * A FUP says how far execution came, the packets around it why: after MODE.TSX, PTW, EXSTOP,
 * BEP or CFE it belongs to those, after OVF it says where tracing goes on, and otherwise an
 * interrupt is on its way, whose TIP or TIP.PGD follows. */
#include "decode/flow_state.h"

#include <string.h>

/* The kind of the next packet that tells about the flow; PACKET_KIND_COUNT = none. */
uint8_t flow_peek_kind(const struct flow *f, const uint8_t *p)
{
	enum packet_context context = f->context;
	struct packet packet;
	int length;

	for (; p < f->end; p += length) {
		length = packet_decode(p, (size_t)(f->end - p), context, &packet);
		if (length <= 0)
			break;
		context = packet_next_context(context, &packet);
		if (!flow_is_time_packet(packet.kind) && packet.kind != PACKET_PAD &&
		    packet.kind != PACKET_PIP && packet.kind != PACKET_VMCS &&
		    packet.kind != PACKET_MNT && packet.kind != PACKET_MODE_EXEC)
			return packet.kind;
	}
	return PACKET_KIND_COUNT;
}

/* ---- losses ---- */

/* Execution is lost, which is told already. */
static void lose(struct flow *f, enum loss cause)
{
	f->lost_tnt = TNT_EMPTY;
	f->lost_bit_count = 0;
	flow_note_lost_bits(f, f->tnt);
	f->state = FLOW_STATE_LOST;
	f->gap = cause;
	f->lost_ns = flow_time_now(&f->time);
	f->tnt = TNT_EMPTY;
	f->async = false;
	f->bind = 0;
}

void flow_gap(struct flow *f, enum loss cause, node_id from, uint32_t lost_bytes)
{
	flow_emit(f, FLOW_GAP, cause, from, 0, lost_bytes);
	f->stats.losses[cause]++;
	lose(f, cause);
}

/* At the start of a piece: behind a cut, which the piece before has told of if there was one. */
static void lose_at_cut(struct flow *f)
{
	enum loss cause = f->piece->cut ? f->piece->cut : LOSS_BAD_PACKET;

	if (f->piece->cut_is_told)
		lose(f, cause);
	else
		flow_gap(f, cause, 0, 0);
}

void flow_no_code(struct flow *f)
{
	f->entered[f->entered_next++ % FLOW_ENTERED] = f->node;
	enum loss cause = LOSS_MISSING_CODE;

	if (f->hot[f->node].kind == NODE_BAD)
		cause = LOSS_MISMATCH;
	else if (!f->last_ip_certain && !f->cold[f->node].module.v)
		cause = LOSS_BAD_IP; /* rather a wrong ip than unknown code */
	flow_gap(f, cause, f->node, 0);
}

static void bad_packet(struct flow *f)
{
	flow_gap(f, LOSS_BAD_PACKET, f->state == FLOW_STATE_ON ? f->node : 0,
		 (uint32_t)(f->end - f->p));
	f->p = f->end;
}

static void overflow(struct flow *f)
{
	/* Returns across an overflow are not compressed. */
	f->depth = 0;
	f->bottom_unknown = false;
	if (f->state == FLOW_STATE_LOST) {
		f->gap = LOSS_OVERFLOW;
		return;
	}
	flow_gap(f, LOSS_OVERFLOW, f->state == FLOW_STATE_ON ? f->node : 0, 0);
}

enum { CFE_INTR = 1 }; /* type of an interrupt or exception: SDM vol. 3, event trace */

/* ---- packets ---- */

static void take_time(struct flow *f, const struct packet *p)
{
	if (p->kind == PACKET_CYC)
		f->cycles_pending = true;
	if (p->kind == PACKET_CBR)
		flow_emit(f, FLOW_FREQUENCY, 0, 0, f->state == FLOW_STATE_ON ? f->node : 0,
			  (uint32_t)p->payload);
	if (p->kind == PACKET_MTC && flow_mtc_is_false(f, (uint8_t)p->payload))
		return;
	if (flow_time_packet(&f->time, p))
		flow_anchor(f);
}

static bool take_ip(struct flow *f, const struct packet *p)
{
	if (p->count == 0)
		return false;
	f->last_ip = packet_ip(f->last_ip, p->count, p->payload);
	if (p->count == 3 || p->count == 6)
		f->last_ip_certain = true;
	return true;
}

static void interrupted(struct flow *f, uint64_t ip)
{
	node_id to = flow_target(f, ip), from = f->node;

	f->async = false;
	if (!to)
		return;
	flow_emit(f, f->tx_aborts ? FLOW_TX_ABORT : FLOW_INTERRUPT, 0, from, to, 0);
	f->tx_aborts = false;
	f->interrupt = 0;
	f->node = to;
}

static void take_tip(struct flow *f, const struct packet *p)
{
	f->stats.tips++;
	if (!take_ip(f, p)) {
		/* Without an ip the target is outside of what is traced. */
		if (f->state == FLOW_STATE_ON)
			flow_gap(f, LOSS_MISMATCH, f->node, 0);
		return;
	}
	if (f->state == FLOW_STATE_OFF)
		flow_gap(f, LOSS_MISMATCH, 0, 0);
	if (f->state == FLOW_STATE_LOST) {
		if (flow_retrace(f, f->last_ip))
			flow_take_tip(f, f->last_ip);
		else
			flow_resume(f, f->last_ip, FLOW_RESUME_TIP);
		f->lost_bit_count = 0;
		return;
	}
	if (f->async) {
		interrupted(f, f->last_ip);
		return;
	}
	if (!flow_step_to_branch(f))
		return;
	if (f->guessed) {
		f->guessed = false;
		flow_resume_agree(f, f->last_ip);
	}
	if (flow_take_tip(f, f->last_ip))
		return;
	if (flow_has_code(f, f->node))
		flow_gap(f, LOSS_MISMATCH, f->node, 0);
	else
		flow_no_code(f);
	flow_resume(f, f->last_ip, FLOW_RESUME_TIP);
}

static void take_pge(struct flow *f, const struct packet *p)
{
	bool was_lost = f->state == FLOW_STATE_LOST;
	task_id before = f->task;

	if (!take_ip(f, p) || !f->last_ip_certain)
		return;
	f->async = false;
	flow_context_begin(f, f->last_ip);
	if (was_lost && f->task.v == before.v) {
		flow_resume(f, f->last_ip, FLOW_RESUME_CERTAIN);
		return;
	}
	node_id n = flow_target(f, f->last_ip);
	if (!n)
		return;
	if (f->state == FLOW_STATE_ON)
		flow_emit(f, FLOW_END, FLOW_END_BRANCH, f->node, 0, 0);
	f->state = FLOW_STATE_ON;
	f->node = n;
	flow_emit(f, FLOW_BEGIN, 0, 0, n, 0);
	if (!flow_has_code(f, n))
		flow_no_code(f);
}

static void take_pgd(struct flow *f, const struct packet *p)
{
	bool has_ip = take_ip(f, p);

	f->guessed = false;
	if (f->state != FLOW_STATE_ON)
		return;
	if (f->async) {
		f->async = f->tx_aborts = false;
		flow_emit(f, FLOW_END, FLOW_END_ASYNC, f->node, 0, f->interrupt);
		f->interrupt = 0;
		f->state = FLOW_STATE_OFF;
		return;
	}
	flow_walk_out(f, has_ip, f->last_ip);
}

/* The packet in front of a FUP decides what happens there. */
static void take_bound(struct flow *f)
{
	unsigned bind = f->bind;
	node_id n = f->node;

	f->bind = 0;
	if (bind & FLOW_BIND_PTWRITE)
		flow_emit(f, FLOW_PTWRITE, 0, n, 0, f->bound_data);
	if (bind & FLOW_BIND_POWER)
		flow_emit(f, FLOW_POWER, 0, n, 0, f->bound_data);
	if (bind & FLOW_BIND_EVENT)
		flow_emit(f, FLOW_EVENT, 0, n, 0, f->bound_data);
	if (!(bind & FLOW_BIND_TX))
		return;
	if (f->tx & PACKET_TSX_ABORT) {
		f->async = f->tx_aborts = true;
		f->in_tx = false;
	} else if (f->in_tx != (f->tx & PACKET_TSX_IN)) {
		f->in_tx = f->tx & PACKET_TSX_IN;
		flow_emit(f, f->in_tx ? FLOW_TX_BEGIN : FLOW_TX_COMMIT, 0, 0, n, 0);
	}
}

static void take_fup(struct flow *f, const struct packet *p, const uint8_t *after)
{
	f->guessed = false;
	bool after_overflow = f->state == FLOW_STATE_LOST && f->gap == LOSS_OVERFLOW;

	if (!take_ip(f, p)) {
		f->bind = 0;
		return;
	}
	if (f->piece->after_overflow && f->ordinal == 0 && f->bind == 0 &&
	    f->state == FLOW_STATE_ON && f->hot[f->node].ip == f->last_ip)
		return; /* the overflow's, which the PSB+ has told */
	if (f->state == FLOW_STATE_OFF) {
		f->node = flow_target(f, f->last_ip);
		if (f->bind == 0 && f->node && flow_has_code(f, f->node)) {
			/* Behind OVF and PSB+: tracing had gone on. */
			f->state = FLOW_STATE_ON;
			flow_emit(f, FLOW_RESUME, FLOW_RESUME_CERTAIN, 0, f->node, 0);
			return;
		}
		take_bound(f);
		f->async = false;
		return;
	}
	if (f->state == FLOW_STATE_LOST) {
		bool resumed = flow_resume(f, f->last_ip, FLOW_RESUME_CERTAIN);

		if (!resumed || after_overflow) {
			f->bind = 0;
			return;
		}
	} else if (!flow_walk_to(f, f->last_ip)) {
		if (f->err != ERR_NONE)
			return;
		if (flow_has_code(f, f->node))
			flow_gap(f, LOSS_MISMATCH, f->node, 0);
		else
			flow_no_code(f);
		if (!flow_resume(f, f->last_ip, FLOW_RESUME_CERTAIN))
			return;
	}
	if (f->bind) {
		take_bound(f);
		return;
	}
	uint8_t next = flow_peek_kind(f, after);
	f->async = next == PACKET_TIP || next == PACKET_TIP_PGD;
}

/* A packet whose FUP may follow: waits for it, or happens here. */
static void take_binding(struct flow *f, unsigned bind, bool has_fup, const uint8_t *after)
{
	f->bind |= bind;
	if (has_fup && flow_peek_kind(f, after) == PACKET_FUP)
		return;
	if (f->state != FLOW_STATE_ON)
		f->node = 0;
	take_bound(f);
}

static void take_tsx(struct flow *f, const struct packet *p, const uint8_t *after)
{
	f->tx = (uint8_t)p->payload;
	if (f->state == FLOW_STATE_ON && flow_peek_kind(f, after) == PACKET_FUP)
		f->bind |= FLOW_BIND_TX;
	else
		f->in_tx = p->payload & PACKET_TSX_IN;
}

static void keep_payload(struct flow *f, const struct packet *p)
{
	f->bound_data = (uint32_t)f->payloads.count;
	if (!vec_push(&f->payloads, p->payload))
		f->err = ERR_NOMEM;
}

static void take_other(struct flow *f, const struct packet *p, const uint8_t *after)
{
	switch (p->kind) {
	case PACKET_PTW:
		keep_payload(f, p);
		take_binding(f, FLOW_BIND_PTWRITE, p->flag, after);
		break;
	case PACKET_MWAIT:
	case PACKET_PWRE:
	case PACKET_PWRX:
	case PACKET_EXSTOP:
		f->bound_data = p->kind;
		take_binding(f, FLOW_BIND_POWER, p->flag || p->kind == PACKET_MWAIT, after);
		break;
	case PACKET_BEP: take_binding(f, FLOW_BIND_BLOCK, p->flag, after); break;
	case PACKET_CFE:
		/* Without its own FUP it only announces the interrupt that follows. */
		f->bound_data = p->extra << 8 | (uint32_t)p->payload;
		f->interrupt = p->extra == CFE_INTR ? (uint32_t)p->payload + 1 : 0;
		if (p->flag)
			take_binding(f, FLOW_BIND_EVENT, true, after);
		else
			flow_emit(f, FLOW_EVENT, 0, 0, 0, f->bound_data);
		break;
	case PACKET_EVD: break;
	}
}

/* Bits although tracing is off: code ran, so the TIP.PGE is missing. Seen on real CPUs behind an
 * interrupt, in the last bytes before tracing was stopped; like perf, go on where the
 * interrupt hit. */
static bool unannounced(struct flow *f)
{
	if (!f->node || !flow_has_code(f, f->node)) {
		flow_gap(f, LOSS_MISMATCH, 0, 0);
		return false;
	}
	f->state = FLOW_STATE_ON;
	if (!flow_step_to_branch(f))
		return false;
	task_id before = f->task;
	flow_context_begin(f, f->hot[f->node].ip);
	if (f->task.v != before.v)
		f->node = flow_target(f, f->hot[f->node].ip);
	return true;
}

static void take_tnt(struct flow *f, const struct packet *p)
{
	if (p->count == 0)
		return;
	uint64_t tnt = p->payload | (uint64_t)1 << (63 - p->count);

	f->stats.tnt_bits += p->count;
	if (f->state == FLOW_STATE_OFF && !unannounced(f))
		return;
	if (f->state == FLOW_STATE_LOST) {
		f->lost_tnt = tnt;
		flow_note_lost_bits(f, tnt);
		return;
	}
	f->async = f->guessed = false;
	f->bind = 0;
	f->tnt = tnt;
}

void flow_packet(struct flow *f)
{
	struct packet p;
	int length = packet_decode(f->p, (size_t)(f->end - f->p), f->context, &p);

	if (length == PACKET_BAD || (length == PACKET_CUT_SHORT && f->piece->next_sync_ip)) {
		bad_packet(f);
		return;
	}
	if (length == PACKET_CUT_SHORT) {
		f->p = f->end;
		return;
	}
	f->context = packet_next_context(f->context, &p);
	f->p += length;
	f->stats.packets++;
	switch (p.kind) {
	case PACKET_TSC:
	case PACKET_TMA:
	case PACKET_MTC:
	case PACKET_CYC:
	case PACKET_CBR: take_time(f, &p); break;
	case PACKET_TNT: take_tnt(f, &p); break;
	case PACKET_TIP: take_tip(f, &p); break;
	case PACKET_TIP_PGE: take_pge(f, &p); break;
	case PACKET_TIP_PGD: take_pgd(f, &p); break;
	case PACKET_FUP: take_fup(f, &p, f->p); break;
	case PACKET_MODE_EXEC: f->mode = p.payload == 64 ? INSN_64 : INSN_32; break;
	case PACKET_MODE_TSX: take_tsx(f, &p, f->p); break;
	case PACKET_OVF: overflow(f); break;
	case PACKET_TRACE_STOP:
		if (f->state == FLOW_STATE_ON)
			flow_emit(f, FLOW_END, FLOW_END_BRANCH, f->node, 0, 0);
		if (f->state == FLOW_STATE_ON)
			f->state = FLOW_STATE_OFF;
		break;
	default: take_other(f, &p, f->p); break;
	}
}

/* ---- pieces ---- */

/* Behind a cut: the time is that of the cut, and no ip can be trusted that is not whole. */
static void start_without_psb(struct flow *f)
{
	f->last_ip_certain = false;
	flow_context_start(f);
	lose_at_cut(f);
}

/* What a PSB+ says of tracing. */
enum header { HEADER_OFF, HEADER_ON, HEADER_OVERFLOW };

static enum header read_header(struct flow *f)
{
	enum header header = HEADER_OFF;
	struct packet p;
	int length;

	for (; f->p < f->end; f->p += length, f->stats.packets++) {
		length = packet_decode(f->p, (size_t)(f->end - f->p), f->context, &p);
		if (length <= 0)
			return header;
		if (flow_is_time_packet(p.kind))
			take_time(f, &p);
		switch (p.kind) {
		case PACKET_TSC:
		case PACKET_TMA:
		case PACKET_MTC:
		case PACKET_CYC:
		case PACKET_CBR:
		case PACKET_PAD:
		case PACKET_PIP:
		case PACKET_VMCS:
		case PACKET_MNT:
		case PACKET_PSB: break;
		case PACKET_MODE_EXEC: f->mode = p.payload == 64 ? INSN_64 : INSN_32; break;
		case PACKET_MODE_TSX: f->in_tx = p.payload & PACKET_TSX_IN; break;
		case PACKET_FUP: header = take_ip(f, &p) ? HEADER_ON : HEADER_OFF; break;
		case PACKET_OVF: /* instead of a PSBEND */
		case PACKET_PSBEND:
			f->p += length;
			return p.kind == PACKET_OVF ? HEADER_OVERFLOW : header;
		default: return header;
		}
	}
	return header;
}

static void reset(struct flow *f)
{
	const struct flow_piece *piece = f->piece;

	f->p = piece->bytes;
	f->end = piece->bytes + piece->count;
	f->last_ip = 0;
	f->last_ip_certain = true;
	f->cycles_pending = false;
	f->context = PACKET_NO_BLOCK;
	f->mode = INSN_64;
	f->state = FLOW_STATE_OFF;
	f->node = 0;
	f->tnt = f->lost_tnt = TNT_EMPTY;
	f->ordinal = 0;
	f->depth = f->top = 0;
	f->async = f->in_tx = f->tx_aborts = f->guessed = false;
	f->tried = f->bottom_unknown = false;
	memset(f->entered, 0, sizeof f->entered);
	f->bind = 0;
	f->interrupt = 0;
	f->task = (task_id){0};
	f->space = (space_id){0};
	f->next_switch = piece->buffer->first_switch;
	flow_time_start(&f->time, piece);
}

void flow_start_piece(struct flow *f)
{
	const struct flow_piece *piece = f->piece;

	reset(f);
	if (packet_find_psb(piece->bytes, piece->count < PSB_BYTES ? piece->count : PSB_BYTES) ==
	    NULL) {
		start_without_psb(f);
		return;
	}
	enum header header = read_header(f);
	flow_context_start(f);
	if (piece->cut)
		lose_at_cut(f);
	f->state = FLOW_STATE_OFF;
	if (header == HEADER_OVERFLOW) {
		overflow(f);
	} else if (header == HEADER_ON && flow_peek_kind(f, f->p) != PACKET_TIP_PGE) {
		/* Some CPUs (BDM70) write the FUP also when tracing is about to begin there. */
		f->node = flow_target(f, f->last_ip);
		f->state = FLOW_STATE_ON;
		flow_emit(f, piece->after_overflow ? FLOW_RESUME : FLOW_SYNC, 0, 0, f->node, 0);
	}
}

/* No later piece tells for how long execution was lost. */
static void tell_still_lost(struct flow *f)
{
	uint64_t now = flow_time_now(&f->time);

	if (f->state == FLOW_STATE_LOST && f->piece->next_time_ns == TIME_NONE &&
	    now != TIME_NONE && now > f->lost_ns)
		flow_emit(f, FLOW_STILL_LOST, 0, 0, 0, 0);
}

void flow_end_piece(struct flow *f)
{
	if (f->err == ERR_NONE && f->state == FLOW_STATE_ON && !f->async &&
	    f->piece->next_sync_ip && !flow_walk_to(f, f->piece->next_sync_ip)) {
		if (flow_has_code(f, f->node))
			flow_gap(f, LOSS_MISMATCH, f->node, 0);
		else
			flow_no_code(f);
	}
	if (f->err == ERR_NONE && f->piece->cut_behind)
		flow_gap(f, f->piece->cut_behind, f->state == FLOW_STATE_ON ? f->node : 0, 0);
	tell_still_lost(f);
	flow_time_finish(&f->time, f->events, f->event_count, f->ordinal, f->piece->next_time_ns);
}
