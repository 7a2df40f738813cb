/* The state of a flow decoder, shared by the walk (flow_walk.c), which runs from branch to branch
 * on TNT and TIP packets, and the handling of everything else (flow_packet.c): tracing on and
 * off, interrupts, losses and what comes after them. Internal to the flow_*.c files. */
#ifndef DECODE_FLOW_STATE_H
#define DECODE_FLOW_STATE_H

#include <stdatomic.h>

#include "common/vec.h"
#include "decode/flow.h"
#include "decode/flow_filter.h"
#include "decode/flow_time.h"
#include "decode/graph.h"
#include "decode/packet.h"

/* TNT bits wait in a word, the oldest on top, a 1 behind the youngest. */
#define TNT_EMPTY ((uint64_t)1 << 63)

enum {
	FLOW_STACK = 64,      /* of the CPU's own: returns are compressed within it */
	FLOW_LOST_BITS = 512, /* beyond it, what code was missing for is too long to guess */
	FLOW_ENTERED = 8,
	FLOW_TARGETS = 4096,       /* slots of the TIP target cache */
	FLOW_DIRECT_MAX = 4096,    /* direct branches without a packet: stuck in a loop */
	FLOW_BUFFER_FIRST = 16384, /* events */
	FLOW_BUFFER_MAX = 1 << 20, /* waiting for a time; then they get an estimate */
	FLOW_DELIVER_MIN = 1 << 16,
};

/* A return-stack entry: the call that waits, or, behind this bit, the node to return to. */
#define FLOW_STACK_RETURN_NODE 0x80000000u
/* Or: somebody in unknown code waits. */
#define FLOW_STACK_UNKNOWN 0u

enum flow_state {
	FLOW_STATE_OFF,  /* tracing is off: f->node means nothing */
	FLOW_STATE_ON,   /* execution is at f->node */
	FLOW_STATE_LOST, /* a FLOW_GAP was written, its end not yet found */
};

/* What the next FUP belongs to. */
enum {
	FLOW_BIND_TX = 1,
	FLOW_BIND_PTWRITE = 2,
	FLOW_BIND_POWER = 4,
	FLOW_BIND_BLOCK = 8,
	FLOW_BIND_EVENT = 16,
};

struct flow {
	struct graph *graph;
	const struct sideband *sideband;
	unsigned flags;
	bool has_stack_switch; /* __switch_to_asm is known */
	struct node *hot;
	struct node_cold *cold;
	struct flow_stats stats;
	struct flow_time time;
	struct flow_filter filter;
	VEC(uint64_t) payloads;
	enum err err; /* ERR_NOMEM: stop */

	struct flow_sink sink;
	struct flow_event *events;
	size_t event_count, event_capacity;
	size_t settled; /* events that have their times */

	/* the piece */
	const struct flow_piece *piece;
	const uint8_t *p, *end;
	uint64_t last_ip;
	bool last_ip_certain;
	bool cycles_pending; /* a CYC whose packet is not yet done */
	enum packet_context context;
	enum insn_mode mode;
	task_id task;
	space_id space;
	uint64_t space_until_ns;
	size_t next_switch;
	uint64_t switched_ns; /* of the last switch taken */

	/* where execution is */
	enum flow_state state;
	node_id node;
	uint64_t tnt;
	uint64_t ordinal; /* instructions run since the piece began */
	unsigned depth, top, stack_limit; /* 0 with DisRETC: a bit for a return is damage */
	bool bottom_unknown;       /* bytes were lost: more calls may wait than the stack holds */
	node_id stack[FLOW_STACK]; /* a ring: the newest at top */

	/* a FUP that waits for its TIP or TIP.PGD */
	bool async;
	unsigned bind; /* FLOW_BIND_* */
	uint8_t tx;    /* of the MODE.TSX that waits for its FUP: PACKET_TSX_*; */
	bool in_tx, tx_aborts;
	uint32_t bound_data;
	uint32_t interrupt; /* 1 + the vector of the one that a CFE has announced; 0 = none */

	/* in a gap */
	enum loss gap;
	uint64_t lost_ns;                  /* when it began */
	uint64_t lost_tnt;                 /* the last TNT seen in it */
	uint8_t lost_bits[FLOW_LOST_BITS]; /* TNT bits since the gap began or the last TIP in it */
	unsigned lost_bit_count;
	node_id entered[FLOW_ENTERED]; /* missing code that known code went to lately: a ring */
	unsigned entered_next;
	bool tried;   /* a TIP behind lost bytes was followed in this piece */
	bool guessed; /* resumed at a TIP, and no packet was used since */

	node_id targets[FLOW_TARGETS];
};

/* flow_walk.c: on at f->node by TNT bits and TIPs, to a packet of another kind, which is handled,
 * or to where bits and code disagree, which is a gap. */
void flow_walk(struct flow *f);

/* flow.c */
/* The buffer is full of events that wait for a time: more room, or an estimate. */
void flow_make_room(struct flow *f);
/* The node that a stack entry returns to; 0 = unknown. */
node_id flow_return_node(struct flow *f, node_id entry);
void flow_emit(struct flow *f, enum flow_kind kind, unsigned cause, node_id from, node_id to,
	       uint32_t data);
node_id flow_target(struct flow *f, uint64_t ip);
void flow_push(struct flow *f, node_id call);
node_id flow_pop(struct flow *f); /* where the newest call returns; 0 = empty or unknown */
/* The successor of a node, with NODE_EDGE_EVENT. Of poked code: what it is now. */
uint32_t flow_edge(struct flow *f, node_id n, int slot);
/* One direct branch (or none) further from f->node, with its event. */
bool flow_step(struct flow *f);
bool flow_node_is_direct(const struct flow *f, node_id n);
/* The branch at f->node, which needs a TIP, goes to ip. False: it needs none. */
bool flow_take_tip(struct flow *f, uint64_t ip);
/* Packet boundary: settles what an anchor makes known, hands out events. */
void flow_anchor(struct flow *f);

/* The frame of flow_decode(), for both engines. */
void flow_begin(struct flow *f, const struct flow_piece *piece, struct flow_sink sink);
enum err flow_finish(struct flow *f);
/* Along direct branches to one that needs a packet. False when memory is short. */
bool flow_step_to_branch(struct flow *f);
static inline bool flow_has_code(const struct flow *f, node_id n)
{
	return f->hot[n].kind != NODE_MISSING && f->hot[n].kind != NODE_BAD;
}

/* Known code may have been entered again by a return in the bits before this TIP: follows
 * them. True when they lead to a branch that may go to ip; execution is there. */
bool flow_retrace(struct flow *f, uint64_t ip);
/* More bits that unknown code has run. */
void flow_note_lost_bits(struct flow *f, uint64_t tnt);

/* flow_packet.c: one packet at f->p, which the walk cannot use. */
void flow_packet(struct flow *f);
void flow_gap(struct flow *f, enum loss cause, node_id from, uint32_t lost_bytes);
/* f->node has no code: a gap. */
void flow_no_code(struct flow *f);
/* The PSB+ at the start of the piece. */
void flow_start_piece(struct flow *f);
/* Its end: up to where the next one starts. */
void flow_end_piece(struct flow *f);

static inline bool flow_is_time_packet(uint8_t kind)
{
	return kind == PACKET_TSC || kind == PACKET_TMA || kind == PACKET_MTC ||
	       kind == PACKET_CYC || kind == PACKET_CBR;
}

/* The kind of the next packet from p on that tells about the flow; PACKET_KIND_COUNT = none. */
uint8_t flow_peek_kind(const struct flow *f, const uint8_t *p);

/* flow_place.c */
/* Along direct branches to the line that holds ip; then f->node starts there. */
bool flow_walk_to(struct flow *f, uint64_t ip);
/* Along direct branches to the one that left traced code, where the packet says it went or, if it
 * does not say, the address filter ends. */
void flow_walk_out(struct flow *f, bool has_ip, uint64_t ip);
/* f->node is a return to unknown code, by its bit: a gap. */
bool flow_return_unknown(struct flow *f);
/* A TNT bit is at hand, but the branch at f->node needs a TIP: looks for it further on. */
bool flow_deferred_tip(struct flow *f);

/* flow_resume.c */
/* A branch at f->node that consumes one bit. False: it consumes none, or not this one. */
bool flow_take_bit(struct flow *f, bool taken);
/* Ends the gap at ip, if there is code and nothing speaks against it. */
bool flow_resume(struct flow *f, uint64_t ip, enum flow_resume how);
/* Execution went on from a guessed resume point to f->node, whose branch is said to go to ip:
 * looks for bits of the gap's last TNT that make both agree. */
void flow_resume_agree(struct flow *f, uint64_t ip);

/* flow_context.c: which task runs, in which space. Both emit FLOW_TASK. */
/* At the start of a piece, by its first time. */
void flow_context_start(struct flow *f);
/* The next time that packets from f->p on tell. */
uint64_t flow_time_ahead(const struct flow *f);
/* Is this MTC, in front of f->p, damaged bytes? */
bool flow_mtc_is_false(const struct flow *f, uint8_t mtc);
/* Behind a loss, in which another task may have come to the CPU. */
void flow_context_resume(struct flow *f);
/* Time went on: in kernel code another task may run. */
void flow_context_tick(struct flow *f);
/* The kernel switches stacks here: the next switch record is about this. */
void flow_context_switch(struct flow *f);
/* User code begins to run at ip: another task, or another space, may run from here. */
void flow_context_begin(struct flow *f, uint64_t ip);

#endif
