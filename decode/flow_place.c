/* See flow_state.h: the way to a place that a packet names, and branches whose packet does not
 * stand where it should. */
#include "decode/flow_state.h"

bool flow_walk_to(struct flow *f, uint64_t ip)
{
	for (unsigned i = 0; i < FLOW_DIRECT_MAX && f->err == ERR_NONE; i++) {
		node_id n = f->node;
		bool is_here = graph_node_has_instruction(f->graph, n, ip);

		/* Goldmont names the next instruction instead of the indirect branch. */
		if (!is_here && !flow_node_is_direct(f, n) && f->hot[n].kind != NODE_COND &&
		    ip == f->cold[n].end_ip) {
			ip = f->cold[n].branch_ip;
			is_here = flow_has_code(f, n);
		}
		if (is_here) {
			if (ip != f->hot[n].ip)
				f->node = flow_target(f, ip);
			return f->node != 0;
		}
		if (!flow_node_is_direct(f, n) || !flow_step(f))
			break;
	}
	return false;
}

static bool is_filtered_out(const struct flow *f, uint64_t ip)
{
	return !flow_filter_passes(&f->filter, f->sideband, f->space, ip);
}

/* Does the branch at n leave traced code for *ip? Without an ip of the packet's the filter says
 * where that is. */
static bool leaves(const struct flow *f, node_id n, bool has_ip, uint64_t *ip)
{
	const struct node_cold *cold = &f->cold[n];
	uint8_t kind = f->hot[n].kind;
	bool is_cond = kind == NODE_COND;

	if (!is_cond && kind != NODE_JUMP && kind != NODE_CALL)
		return false;
	if (has_ip)
		return cold->target_ip == *ip || (is_cond && cold->end_ip == *ip);
	if (is_filtered_out(f, cold->target_ip)) {
		*ip = cold->target_ip;
		return true;
	}
	*ip = cold->end_ip;
	return is_cond && is_filtered_out(f, cold->end_ip);
}

void flow_walk_out(struct flow *f, bool has_ip, uint64_t ip)
{
	for (unsigned i = 0; i < FLOW_DIRECT_MAX && f->err == ERR_NONE; i++) {
		node_id n = f->node, to = 0;
		uint8_t kind = f->hot[n].kind;

		if (!flow_has_code(f, n)) {
			flow_no_code(f);
			return;
		}
		if (leaves(f, n, has_ip, &ip)) {
			to = flow_target(f, ip);
		} else if (flow_node_is_direct(f, n)) {
			if (!flow_step(f))
				break;
			continue;
		} else if (kind == NODE_COND) {
			break;
		} else if (has_ip) {
			to = flow_target(f, ip);
		}
		if (kind == NODE_RETURN)
			flow_pop(f);
		else if (kind == NODE_CALL || kind == NODE_CALL_INDIRECT)
			flow_push(f, n);
		f->ordinal += f->hot[n].insn_count;
		flow_emit(f, FLOW_END, kind == NODE_SYSCALL ? FLOW_END_SYSCALL : FLOW_END_BRANCH, n,
			  to, 0);
		f->state = FLOW_STATE_OFF;
		f->node = 0;
		return;
	}
	flow_gap(f, LOSS_MISMATCH, f->node, 0);
}

bool flow_return_unknown(struct flow *f)
{
	bool is_entry = f->depth && f->stack[f->top] == FLOW_STACK_UNKNOWN;

	if (f->hot[f->node].kind != NODE_RETURN || !(f->tnt >> 63) ||
	    (!is_entry && (f->depth || !f->bottom_unknown)))
		return false;
	flow_pop(f);
	flow_gap(f, is_entry ? LOSS_MISSING_CODE : LOSS_MISMATCH, f->node, 0);
	return true;
}

bool flow_deferred_tip(struct flow *f)
{
	struct packet packet;

	if (flow_node_is_direct(f, f->node) || f->hot[f->node].kind == NODE_COND)
		return false;
	while (f->p < f->end) {
		int length = packet_decode(f->p, (size_t)(f->end - f->p), f->context, &packet);

		if (length <= 0)
			return false;
		if (packet.kind == PACKET_TIP && packet.count) {
			f->last_ip = packet_ip(f->last_ip, packet.count, packet.payload);
			f->p += length;
			f->stats.packets++;
			f->stats.tips++;
			return flow_take_tip(f, f->last_ip);
		}
		if (packet.kind == PACKET_TNT) {
			unsigned used = 63 - (unsigned)__builtin_ctzll(f->tnt);

			if (used + packet.count > 63)
				return false;
			f->tnt &= f->tnt - 1;
			f->tnt |= packet.payload >> used | (uint64_t)1
								   << (63 - used - packet.count);
			f->stats.tnt_bits += packet.count;
		} else if (flow_is_time_packet(packet.kind)) {
			if (flow_time_packet(&f->time, &packet))
				flow_anchor(f);
		} else if (packet.kind != PACKET_PAD) {
			return false;
		}
		f->p += length;
		f->stats.packets++;
	}
	return false;
}
