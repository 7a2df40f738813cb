/* See flow_state.h.
 *
 * The walk keeps what it needs per branch in registers: the node, the TNT bits, the packet
 * pointer, the event pointer. It runs from node to node as long as bits last; only without
 * bits it looks at the next packet. So no direct branch is passed before it is certain that
 * no FUP stops execution in front of it. Whatever is neither TNT nor TIP (nor CYC) is left to
 * flow_packet.c, after which the walk goes on. */
#include "decode/flow_state.h"

#include "common/bytes.h"

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE      static inline __attribute__((always_inline))

/* Why the walk stopped; f->p stands at the packet that it could not use. */
enum stop {
	STOP_PACKET,     /* one for flow_packet(), or the end */
	STOP_TIP_NEEDED, /* bits are left, but the branch needs a TIP */
	STOP_NO_CODE,
	STOP_SWITCH, /* a direct branch that leaves __switch_to_asm */
	STOP_STUCK,
	STOP_NO_MEMORY,
};

struct walk {
	struct node *hot;
	const uint8_t *p;
	struct flow_event *e, *e_end;
	uint64_t tnt, ordinal;
	node_id n;
	unsigned fuel; /* direct branches until we are stuck */
};

static void walk_save(struct flow *f, const struct walk *w)
{
	f->p = w->p;
	f->event_count = (size_t)(w->e - f->events);
	f->tnt = w->tnt;
	f->ordinal = w->ordinal;
	f->node = w->n;
}

INLINE void put(struct flow *f, struct walk *w, enum flow_kind kind, unsigned flags, node_id from,
		node_id to)
{
	struct flow_event *e = w->e++;

	/* One by one: gcc clears a whole struct with a slow instruction first. */
	e->time_ns = w->ordinal;
	e->from = from;
	e->to = to;
	e->kind = (uint8_t)kind;
	e->cause = 0;
	e->flags = (uint16_t)flags;
	e->data = 0;
	if (UNLIKELY(w->e == w->e_end)) {
		f->p = w->p;
		f->ordinal = w->ordinal;
		f->event_count = (size_t)(w->e - f->events);
		flow_make_room(f);
		w->e = f->events + f->event_count;
		w->e_end = f->events + f->event_capacity;
	}
}

/* A branch that is more than that: into another function, or other inlined frames. */
static __attribute__((noinline)) enum flow_kind edge_kind(const struct node *from, int slot,
							  bool all)
{
	if (slot && from->flags & NODE_TAIL_JUMP)
		return FLOW_JUMP;
	return all ? FLOW_BRANCH : FLOW_STEP;
}

/* Follows an edge of a NODE_COND, NODE_JUMP or NODE_THROUGH. 0 = memory is short. */
INLINE node_id walk_edge(struct flow *f, struct walk *w, const struct node *hot, int slot, bool all)
{
	uint32_t edge = atomic_load_explicit(&hot->succ[slot], memory_order_acquire);

	w->ordinal += hot->insn_count;
	/* Not yet known, or with NODE_EDGE_EVENT. */
	if (UNLIKELY((int32_t)edge <= 0)) {
		if (!edge)
			edge = flow_edge(f, w->n, slot);
		if (!edge)
			return 0;
		bool has_event = edge & NODE_EDGE_EVENT;
		edge &= ~NODE_EDGE_EVENT;
		if (has_event || (all && slot))
			put(f, w, has_event ? edge_kind(hot, slot, all && slot) : FLOW_BRANCH, 0,
			    w->n, edge);
	} else if (all && slot) {
		put(f, w, FLOW_BRANCH, 0, w->n, edge);
	}
	return edge;
}

INLINE void push(struct flow *f, node_id call)
{
	unsigned top = (f->top + 1) % FLOW_STACK;

	f->top = top;
	f->stack[top] = call;
	if (LIKELY(f->depth < f->stack_limit))
		f->depth++;
}

/* A direct branch from w->n. Returns the next node. */
INLINE node_id walk_direct(struct flow *f, struct walk *w, const struct node *hot, bool all)
{
	if (UNLIKELY(hot->flags & NODE_STACK_SWITCH))
		return 0;
	if (hot->kind != NODE_CALL)
		return walk_edge(f, w, hot, hot->kind == NODE_JUMP, all);
	node_id to = atomic_load_explicit(&hot->succ[1], memory_order_acquire);
	if (UNLIKELY(!to)) {
		to = graph_successor(f->graph, w->n, 1);
		if (!to)
			return 0;
	}
	w->ordinal += hot->insn_count;
	if (LIKELY(!(hot->flags & NODE_CALL_NEXT)))
		push(f, w->n);
	put(f, w, FLOW_CALL, 0, w->n, to);
	return to;
}

/* A compressed return. 0 = the bit or the stack says otherwise. */
INLINE node_id walk_return(struct flow *f, struct walk *w, const struct node *hot)
{
	if (UNLIKELY(!(w->tnt >> 63) || f->depth == 0 || hot->flags & NODE_STACK_SWITCH))
		return 0;
	node_id entry = f->stack[f->top], to = 0;
	if (LIKELY(!(entry & FLOW_STACK_RETURN_NODE)))
		to = atomic_load_explicit(&w->hot[entry].succ[0], memory_order_acquire);
	if (UNLIKELY(!to)) {
		to = flow_return_node(f, entry);
		if (!to)
			return 0;
	}
	f->top = (f->top + FLOW_STACK - 1) % FLOW_STACK;
	f->depth--;
	w->tnt <<= 1;
	w->ordinal += hot->insn_count;
	put(f, w, FLOW_RETURN, 0, w->n, to);
	return to;
}

INLINE bool is_direct(uint8_t kind)
{
	return 1u << kind & (1u << NODE_JUMP | 1u << NODE_CALL | 1u << NODE_THROUGH);
}

/* The frequent kinds of those that a TIP is for. */
INLINE bool is_indirect(uint8_t kind)
{
	return kind == NODE_CALL_INDIRECT || kind == NODE_JUMP_INDIRECT || kind == NODE_RETURN;
}

/* From w->n to the branch that consumes a TIP, and through it. 0 = the branch is another, or none
 * that takes a TIP. */
INLINE node_id walk_tip(struct flow *f, struct walk *w, uint64_t ip, bool all)
{
	const struct node *hot = &w->hot[w->n];

	while (UNLIKELY(!is_indirect(hot->kind))) {
		node_id to = is_direct(hot->kind) ? walk_direct(f, w, hot, all) : 0;
		if (UNLIKELY(!to || --w->fuel == 0))
			return 0;
		w->n = to;
		hot = &w->hot[to];
	}
	if (UNLIKELY(hot->flags & NODE_STACK_SWITCH))
		return 0;
	node_id to = atomic_load_explicit(&hot->succ[1], memory_order_acquire);
	if (UNLIKELY(!to || w->hot[to].ip != ip || f->mode != INSN_64)) {
		to = flow_target(f, ip);
		if (!to)
			return 0;
		/* Other pieces take it for the target of that ip: of 64-bit code, as most is, and,
		 * as kernel code is common to all spaces, of the same privilege. */
		if (!f->cold[to].is_generated && f->mode == INSN_64 &&
		    f->cold[w->n].mode == INSN_64 &&
		    !((w->hot[to].flags ^ hot->flags) & NODE_KERNEL))
			atomic_store_explicit(&w->hot[w->n].succ[1], to, memory_order_release);
	}
	w->ordinal += hot->insn_count;
	if (hot->kind == NODE_RETURN) {
		if (f->depth) {
			f->top = (f->top + FLOW_STACK - 1) % FLOW_STACK;
			f->depth--;
		}
		put(f, w, FLOW_RETURN, FLOW_UNCOMPRESSED, w->n, to);
	} else if (hot->kind == NODE_CALL_INDIRECT) {
		push(f, w->n);
		put(f, w, FLOW_CALL, 0, w->n, to);
	} else if (w->hot[to].func != hot->func || !hot->func) {
		put(f, w, FLOW_JUMP, 0, w->n, to);
	} else if (all) {
		put(f, w, FLOW_BRANCH, 0, w->n, to);
	} else if (w->hot[to].start_inline != hot->end_inline ||
		   w->hot[to].flags & NODE_INLINE_CHANGES) {
		put(f, w, FLOW_STEP, 0, w->n, to);
	}
	return to;
}

static inline bool is_short_tnt(uint8_t byte)
{
	return !(byte & 1) && byte > 2;
}

/* Takes a CYC of one or two bytes. 0 = it is none, or not for sure (packet.c). */
INLINE size_t walk_cyc(struct flow *f, const uint8_t *p)
{
	if ((*p & 3) != 3)
		return 0;
	if (LIKELY(!(*p & 4))) {
		f->time.cycles += *p >> 3;
		return 1;
	}
	if (f->end - p < 2 || p[1] & 1 || p[1] == 0x02)
		return 0;
	f->time.cycles += (uint64_t)(*p >> 3 | p[1] >> 1 << 5);
	return 2;
}

/* Reads on at w->p until there are TNT bits (true) or something else (false). */
INLINE bool walk_refill(struct flow *f, struct walk *w)
{
	if (f->cycles_pending) {
		flow_time_mark(&f->time, (size_t)(w->e - f->events), w->ordinal);
		f->cycles_pending = false;
	}
	w->fuel = FLOW_DIRECT_MAX;
	while (LIKELY(w->p < f->end)) {
		uint8_t byte = *w->p;

		if (LIKELY(is_short_tnt(byte))) {
			unsigned stop = 31 - (unsigned)__builtin_clz(byte);

			/* The header bit becomes the 1 behind the last bit. */
			w->tnt = (uint64_t)(byte | 1) << (64 - stop);
			w->p++;
			f->stats.packets++;
			f->stats.tnt_bits += stop - 1;
			return true;
		}
		size_t length = walk_cyc(f, w->p);
		if (!length)
			return false;
		f->cycles_pending = true;
		w->p += length;
		f->stats.packets++;
	}
	return false;
}

/* The ip of a TIP at p, when it is whole and has one. */
INLINE const uint8_t *read_tip(const struct flow *f, const uint8_t *p, uint64_t *ip)
{
	if (UNLIKELY(f->end - p < 9))
		return NULL;
	uint64_t payload = load_le(p + 1, 8);
	if (LIKELY(*p >> 5 == 1)) {
		*ip = (f->last_ip & ~(uint64_t)0xffff) | (payload & 0xffff);
		return p + 3;
	}
	if (LIKELY(*p >> 5 == 3)) {
		*ip = (uint64_t)((int64_t)(payload << 16) >> 16);
		return p + 7;
	}
	switch (*p >> 5) {
	case 2: *ip = (f->last_ip & ~(uint64_t)0xffffffff) | (payload & 0xffffffff); return p + 5;
	case 4: *ip = (f->last_ip & (uint64_t)0xffff << 48) | (payload << 16 >> 16); return p + 7;
	case 6: *ip = payload; return p + 9;
	}
	return NULL;
}

INLINE enum stop walk_nodes(struct flow *f, struct walk *w, bool all)
{
	for (;;) {
		const struct node *hot = &w->hot[w->n];
		node_id to;

		if (UNLIKELY(w->tnt == TNT_EMPTY) && !walk_refill(f, w)) {
			const uint8_t *after;
			uint64_t ip;

			if (w->p >= f->end || (*w->p & 0x1f) != 0x0d)
				return STOP_PACKET;
			after = read_tip(f, w->p, &ip);
			to = after ? walk_tip(f, w, ip, all) : 0;
			if (UNLIKELY(!to))
				return STOP_PACKET;
			f->last_ip = ip;
			f->stats.packets++;
			f->stats.tips++;
			w->p = after;
			w->n = to;
			continue;
		}
		if (LIKELY(hot->kind == NODE_COND)) {
			to = walk_edge(f, w, hot, w->tnt >> 63, all);
			w->tnt <<= 1;
			if (UNLIKELY(!to))
				return STOP_NO_MEMORY;
		} else if (hot->kind == NODE_RETURN) {
			to = walk_return(f, w, hot);
			if (UNLIKELY(!to))
				return STOP_TIP_NEEDED;
		} else if (is_direct(hot->kind)) {
			to = walk_direct(f, w, hot, all);
			if (UNLIKELY(!to))
				return hot->flags & NODE_STACK_SWITCH ? STOP_SWITCH
								      : STOP_NO_MEMORY;
			if (UNLIKELY(--w->fuel == 0))
				return STOP_STUCK;
		} else {
			return hot->kind == NODE_MISSING || hot->kind == NODE_BAD ? STOP_NO_CODE
										  : STOP_TIP_NEEDED;
		}
		w->n = to;
	}
}

static enum stop walk(struct flow *f)
{
	if (f->event_count == f->event_capacity)
		flow_make_room(f);
	struct walk w = {.hot = f->hot,
			 .p = f->p,
			 .fuel = FLOW_DIRECT_MAX,
			 .e = f->events + f->event_count,
			 .e_end = f->events + f->event_capacity,
			 .tnt = f->tnt,
			 .ordinal = f->ordinal,
			 .n = f->node};
	enum stop stop =
		f->flags & FLOW_ALL_BRANCHES ? walk_nodes(f, &w, true) : walk_nodes(f, &w, false);

	walk_save(f, &w);
	return stop;
}

void flow_walk(struct flow *f)
{
	switch (walk(f)) {
	case STOP_PACKET:
		if (f->p < f->end)
			flow_packet(f);
		break;
	case STOP_SWITCH: flow_step(f); break;
	case STOP_TIP_NEEDED:
		if (f->hot[f->node].flags & NODE_STACK_SWITCH && flow_take_bit(f, f->tnt >> 63))
			f->tnt <<= 1;
		else if (!flow_return_unknown(f) && !flow_deferred_tip(f))
			flow_gap(f, LOSS_MISMATCH, f->node, 0);
		break;
	case STOP_NO_CODE: flow_no_code(f); break;
	case STOP_STUCK: flow_gap(f, LOSS_MISMATCH, f->node, 0); break;
	case STOP_NO_MEMORY: f->err = ERR_NOMEM; break;
	}
}
