/* See flow.h: the frame of decoding a piece, and single steps along the graph, for whatever is
 * not as frequent as flow_walk.c has it. */
#include "decode/flow.h"

#include <stdlib.h>
#include <string.h>

#include "common/map64.h"
#include "decode/flow_state.h"

enum err flow_new(struct graph *graph, const struct sideband *sideband, unsigned flags,
		  struct flow **result, struct error *error)
{
	struct flow *f = calloc(1, sizeof *f);

	if (f)
		f->events = malloc(FLOW_BUFFER_FIRST * sizeof *f->events);
	if (!f || !f->events) {
		flow_free(f);
		return error_set(error, ERR_NOMEM, "out of memory");
	}
	f->event_capacity = FLOW_BUFFER_FIRST;
	f->graph = graph;
	f->sideband = sideband;
	f->stack_limit = sideband->config.no_return_compression ? 0 : FLOW_STACK;
	f->flags = flags;
	f->hot = graph_tables(graph).hot;
	f->cold = graph_tables(graph).cold;
	flow_time_init(&f->time, sideband);
	if (sideband->config.kernel) {
		func_id id;

		graph_lock(graph);
		f->has_stack_switch = symbolizer_func_find(graph_symbolizer(graph),
							   "__switch_to_asm", &id, 1) > 0;
		graph_unlock(graph);
	}
	if (!flow_filter_parse(&f->filter,
			       intern_text(&sideband->names, sideband->config.filter))) {
		flow_free(f);
		return error_set(error, ERR_NOMEM, "out of memory");
	}
	*result = f;
	return ERR_NONE;
}

void flow_free(struct flow *f)
{
	if (!f)
		return;
	flow_time_done(&f->time);
	flow_filter_done(&f->filter);
	vec_done(&f->payloads);
	free(f->events);
	free(f);
}

const uint64_t *flow_payloads(const struct flow *f)
{
	return f->payloads.items;
}

size_t flow_payload_count(const struct flow *f)
{
	return f->payloads.count;
}

const struct flow_stats *flow_stats(const struct flow *f)
{
	return &f->stats;
}

static void deliver(struct flow *f)
{
	const struct flow_event *events = f->events;

	if (f->settled == 0)
		return;
	f->event_count -= f->settled;
	size_t need = f->event_count > FLOW_BUFFER_FIRST ? f->event_count : FLOW_BUFFER_FIRST;
	if (!f->sink.take ||
	    !f->sink.take(f->sink.context, &f->events, &f->event_capacity, f->settled, need))
		f->sink.events(f->sink.context, events, f->settled);
	memmove(f->events, events + f->settled, f->event_count * sizeof *f->events);
	if (f->event_capacity > FLOW_BUFFER_MAX)
		f->event_capacity = FLOW_BUFFER_MAX; /* when it is full is seen in the times */
	flow_time_shift(&f->time, f->settled);
	f->settled = 0;
}

void flow_anchor(struct flow *f)
{
	flow_time_settle(&f->time, f->events, f->event_count, f->ordinal);
	f->settled = f->event_count;
	if (f->settled >= FLOW_DELIVER_MIN)
		deliver(f);
	flow_context_tick(f);
}

void flow_make_room(struct flow *f)
{
	if (f->event_capacity < FLOW_BUFFER_MAX) {
		size_t capacity = f->event_capacity < FLOW_BUFFER_MAX / 2 ? f->event_capacity * 2
									  : FLOW_BUFFER_MAX;
		struct flow_event *grown = realloc(f->events, capacity * sizeof *f->events);

		if (grown) {
			f->events = grown;
			f->event_capacity = capacity;
			return;
		}
	}
	flow_time_finish(&f->time, f->events, f->event_count, f->ordinal, flow_time_ahead(f));
	f->settled = f->event_count;
	deliver(f);
}

void flow_emit(struct flow *f, enum flow_kind kind, unsigned cause, node_id from, node_id to,
	       uint32_t data)
{
	if (f->event_count == f->event_capacity)
		flow_make_room(f);
	if (kind == FLOW_END || kind == FLOW_GAP)
		f->time.pauses++;
	f->events[f->event_count++] = (struct flow_event){.time_ns = f->ordinal,
							  .from = from,
							  .to = to,
							  .kind = (uint8_t)kind,
							  .cause = (uint8_t)cause,
							  .data = data};
}

node_id flow_target(struct flow *f, uint64_t ip)
{
	node_id *slot = &f->targets[map64_hash(ip) % FLOW_TARGETS];
	space_id space = ip_is_kernel(ip) ? SPACE_KERNEL : f->space;
	node_id n = *slot;

	if (n && f->hot[n].ip == ip && f->cold[n].space.v == space.v &&
	    f->cold[n].mode == f->mode && !f->cold[n].is_generated)
		return n;
	n = graph_node_at(f->graph, space, f->mode, ip, flow_time_now(&f->time));
	if (!n)
		f->err = ERR_NOMEM;
	*slot = n;
	return n;
}

void flow_push(struct flow *f, node_id call)
{
	f->top = (f->top + 1) % FLOW_STACK;
	f->stack[f->top] = call;
	f->depth += f->depth < f->stack_limit;
}

node_id flow_return_node(struct flow *f, node_id entry)
{
	if (entry & FLOW_STACK_RETURN_NODE)
		return entry & ~FLOW_STACK_RETURN_NODE;
	return entry == FLOW_STACK_UNKNOWN ? 0 : graph_successor(f->graph, entry, 0);
}

node_id flow_pop(struct flow *f)
{
	if (f->depth == 0)
		return 0;
	node_id entry = f->stack[f->top];
	f->top = (f->top + FLOW_STACK - 1) % FLOW_STACK;
	f->depth--;
	return flow_return_node(f, entry);
}

bool flow_node_is_direct(const struct flow *f, node_id n)
{
	uint8_t kind = f->hot[n].kind;

	return kind == NODE_JUMP || kind == NODE_CALL || kind == NODE_THROUGH;
}

/* Emits FLOW_STEP where the inlined frames change between two nodes of a function. */
static void step_event(struct flow *f, node_id from, node_id to)
{
	if (f->hot[to].start_inline != f->hot[from].end_inline ||
	    f->hot[to].flags & NODE_INLINE_CHANGES)
		flow_emit(f, FLOW_STEP, 0, from, to, 0);
}

static void branch_event(struct flow *f, node_id from, node_id to)
{
	if (f->hot[from].flags & NODE_TAIL_JUMP)
		flow_emit(f, FLOW_JUMP, 0, from, to, 0);
	else if (f->flags & FLOW_ALL_BRANCHES)
		flow_emit(f, FLOW_BRANCH, 0, from, to, 0);
	else
		step_event(f, from, to);
}

uint32_t flow_edge(struct flow *f, node_id n, int slot)
{
	return f->cold[n].is_poked ? graph_version(f->graph, n, flow_time_now(&f->time))
				   : graph_edge(f->graph, n, slot);
}

bool flow_step(struct flow *f)
{
	node_id from = f->node;
	const struct node *hot = &f->hot[from];
	node_id to = flow_edge(f, from, hot->kind != NODE_THROUGH) & ~NODE_EDGE_EVENT;

	if (!to) {
		f->err = ERR_NOMEM;
		return false;
	}
	f->ordinal += hot->insn_count;
	if (hot->kind == NODE_CALL) {
		if (!(hot->flags & NODE_CALL_NEXT))
			flow_push(f, from);
		flow_emit(f, FLOW_CALL, 0, from, to, 0);
	} else if (hot->kind == NODE_JUMP) {
		branch_event(f, from, to);
		if (hot->flags & NODE_STACK_SWITCH)
			flow_context_switch(f);
	} else {
		step_event(f, from, to);
	}
	f->node = to;
	return true;
}

bool flow_step_to_branch(struct flow *f)
{
	for (unsigned i = 0; i < FLOW_DIRECT_MAX && flow_node_is_direct(f, f->node); i++)
		if (!flow_step(f))
			return false;
	return true;
}

static void indirect_jump_event(struct flow *f, node_id from, node_id to)
{
	if (f->hot[to].func != f->hot[from].func || !f->hot[to].func)
		flow_emit(f, FLOW_JUMP, 0, from, to, 0);
	else if (f->flags & FLOW_ALL_BRANCHES)
		flow_emit(f, FLOW_BRANCH, 0, from, to, 0);
	else
		step_event(f, from, to);
}

bool flow_take_tip(struct flow *f, uint64_t ip)
{
	node_id from = f->node;
	const struct node *hot = &f->hot[from];

	if (flow_node_is_direct(f, from) || hot->kind == NODE_COND || hot->kind >= NODE_THROUGH)
		return false;
	if (hot->kind == NODE_SYSRET && hot->flags & NODE_KERNEL && !ip_is_kernel(ip))
		flow_context_begin(f, ip);
	node_id to = flow_target(f, ip);
	if (!to)
		return true; /* f->err says why */
	f->ordinal += hot->insn_count;
	f->node = to;
	switch (hot->kind) {
	case NODE_RETURN:
		if (hot->flags & NODE_STACK_SWITCH)
			flow_context_switch(f);
		flow_pop(f);
		flow_emit(f, FLOW_RETURN, 0, from, to, 0);
		f->events[f->event_count - 1].flags |= FLOW_UNCOMPRESSED;
		break;
	case NODE_CALL_INDIRECT:
		flow_push(f, from);
		flow_emit(f, FLOW_CALL, 0, from, to, 0);
		break;
	case NODE_FAR:
		flow_emit(f, f->cold[from].branch == INSN_FAR_CALL ? FLOW_CALL : FLOW_JUMP, 0, from,
			  to, 0);
		break;
	case NODE_SYSCALL: flow_emit(f, FLOW_ENTRY, 0, from, to, 0); break;
	case NODE_SYSRET: flow_emit(f, FLOW_EXIT, 0, from, to, 0); break;
	default: indirect_jump_event(f, from, to); break;
	}
	return true;
}

void flow_begin(struct flow *f, const struct flow_piece *piece, struct flow_sink sink)
{
	f->piece = piece;
	f->sink = sink;
	f->err = ERR_NONE;
	f->event_count = f->settled = 0;
	f->payloads.count = 0;
	f->stats.bytes += piece->count;
	flow_start_piece(f);
}

enum err flow_finish(struct flow *f)
{
	flow_end_piece(f);
	f->settled = f->event_count;
	deliver(f);
	f->stats.instructions += f->ordinal;
	f->stats.bad_times = f->time.bad_times;
	return f->err;
}

/* Between the packets of a block what looks like TNT is BIP. */
static bool may_walk(const struct flow *f)
{
	return f->state == FLOW_STATE_ON && !f->async && !f->guessed && f->bind == 0 &&
	       (f->context == PACKET_NO_BLOCK || f->tnt != TNT_EMPTY);
}

/* Decodes the packets up to `end`. */
static void walk_packets(struct flow *f, const uint8_t *end)
{
	f->end = end;
	while (f->err == ERR_NONE && (f->p < f->end || f->tnt != TNT_EMPTY)) {
		if (may_walk(f))
			flow_walk(f);
		else if (f->p < f->end)
			flow_packet(f);
		else
			break;
	}
}

enum err flow_decode(struct flow *f, const struct flow_piece *piece, struct flow_sink sink)
{
	const uint8_t *end = piece->bytes + piece->count;

	flow_begin(f, piece, sink);
	for (size_t i = piece->first_cut; i < piece->end_cut && f->p < end; i++) {
		const struct aux_cut *cut = &piece->buffer->cuts.items[i];

		walk_packets(f, piece->bytes + (cut->stream_off - piece->stream_off));
		flow_gap(f, cut->cause, f->state == FLOW_STATE_ON ? f->node : 0, 0);
	}
	walk_packets(f, end);
	return flow_finish(f);
}
