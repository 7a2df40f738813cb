/* Flow: PT packets + code graph -> a stream of events in execution order.
 *
 * The unit is a piece: the bytes of one AUX buffer from one PSB to the next (or to a cut).
 * Pieces are independent, so they decode in parallel; the exact join of segments puts them
 * together. An event has the node whose branch was executed (`from`) and the node that runs
 * next (`to`); plain branches inside a function are not events, except FLOW_STEP.
 *
 * Two engines stand behind this header: ours (flow.c, fast) and libipt's block decoder
 * (flow_libipt.c, the reference). Both feed the same sink.
 *
 * Time: perf-clock ns, never decreasing within a piece; spread between the known times of
 * the packets by instruction counts. Without any time: instruction ordinals. */
#ifndef DECODE_FLOW_H
#define DECODE_FLOW_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "decode/graph.h"
#include "decode/sideband.h"

enum flow_kind {
	FLOW_SYNC,      /* piece start at a PSB with tracing on: execution is at `to` */
	FLOW_TASK,      /* the CPU runs another task from here: data = task_id.v */
	FLOW_BEGIN,     /* tracing on at `to` (TIP.PGE) */
	FLOW_END,       /* tracing off; `from` = node whose branch left (cause FLOW_END_BRANCH,
	                   _SYSCALL), or node at the interrupted ip (_ASYNC); cause = enum flow_end;
	                   data = 1 + the vector of the interrupt if the event trace told it */
	FLOW_CALL,      /* direct or indirect call from -> to */
	FLOW_RETURN,    /* return from -> to */
	FLOW_JUMP,      /* direct or indirect jump into another function, from -> to */
	FLOW_BRANCH,    /* other taken branch (only with FLOW_ALL_BRANCHES): jcc or jump by from's kind */
	FLOW_STEP,      /* `to` runs in the same function, under other inlined frames than before,
	                   or with NODE_INLINE_CHANGES */
	FLOW_ENTRY,     /* into the kernel by instruction: from (NODE_SYSCALL) -> to */
	FLOW_INTERRUPT, /* asynchronous: from = node at the interrupted ip -> to */
	FLOW_EXIT,      /* back from the kernel or a handler: from (NODE_SYSRET) -> to */
	FLOW_GAP,       /* trace lost: cause = enum loss; from = node where it was lost (0 = unknown);
	                   data = lost bytes if known. What follows starts with FLOW_RESUME,
	                   FLOW_SYNC (at the next PSB) or FLOW_BEGIN (another task). A NODE_RETURN
	                   as `from` of missing code returns into it: unknown code called */
	FLOW_RESUME,    /* after a gap: execution is at `to`; cause = enum flow_resume */
	FLOW_TX_BEGIN, FLOW_TX_COMMIT, FLOW_TX_ABORT,
	FLOW_PTWRITE,   /* payload at data (index into the piece's payloads) */
	FLOW_FREQUENCY, /* CBR: data = core:bus ratio */
	FLOW_POWER,     /* MWAIT, PWRE, PWRX, EXSTOP: data = packet kind */
	FLOW_EVENT,     /* CFE/EVD */
	FLOW_STILL_LOST,/* the trace ends behind a gap whose end was not found: lost up to here */
	FLOW_KIND_COUNT
};

enum flow_end { FLOW_END_SYSCALL, FLOW_END_ASYNC, FLOW_END_BRANCH /* filter or TraceStop */ };

/* How sure the resume point is: PGE, PSB+ and OVF FUPs are certain, a plain TIP is a guess. */
enum flow_resume { FLOW_RESUME_CERTAIN, FLOW_RESUME_TIP };

struct flow_event {
	uint64_t time_ns;
	node_id from, to;
	uint8_t kind;  /* enum flow_kind */
	uint8_t cause;
	uint16_t flags; /* FLOW_* below */
	uint32_t data;
};
_Static_assert(sizeof(struct flow_event) == 24, "events are buffered by the thousand");

enum {
	FLOW_TIME_EXACT = 1,  /* a packet gave this time; otherwise interpolated */
	FLOW_UNCOMPRESSED = 2 /* FLOW_RETURN by an explicit TIP */
};

/* Receives events in order, some thousand at a time. */
struct flow_sink {
	void (*events)(void *context, const struct flow_event *events, size_t count);
	void *context;
	/* NULL, or asked first: takes the array of `count` events itself and leaves one, of malloc(),
	 * with room for `need`. False: did nothing. */
	bool (*take)(void *context, struct flow_event **events, size_t *capacity, size_t count,
		     size_t need);
};

enum { FLOW_ALL_BRANCHES = 1 }; /* needs a graph with GRAPH_SPLIT_JUMPS */

/* A piece to decode. `bytes` begins with a PSB, or lies behind a cut without one. */
struct flow_piece {
	const uint8_t *bytes;
	size_t count;
	uint64_t stream_off;          /* of bytes[0] in its buffer */
	const struct aux_buffer *buffer;
	uint64_t next_sync_ip;        /* ip of the FUP in the next piece's PSB+: where this one ends;
	                                 0 = none or tracing off there */
	uint64_t start_time_ns;       /* of the cut, where no PSB follows it, or the earliest, where
	                                 its PSB+ has an impossible time; TIME_NONE = unknown */
	uint64_t header_time_ns;      /* as its PSB+ says it; TIME_NONE = unknown or impossible */
	int64_t time_bias_ns;         /* to add to its times, so that they fit those around */
	uint64_t next_time_ns;        /* first known time of the next piece; TIME_NONE = none */
	uint8_t cut;                  /* enum loss before bytes[0]; LOSS_NONE = continuous */
	uint8_t cut_behind;           /* enum loss behind the last byte: where the gap is told */
	bool cut_is_told;             /* by the piece before */
	/* Cuts inside, behind which the packets go on in step with TIP.PGE: buffer->cuts. */
	size_t first_cut, end_cut;
	bool after_overflow;          /* an OVF stands right before: its FUP may follow the PSB+ */
	bool first;                   /* first piece of its buffer or snapshot */
};

struct flow_stats {
	uint64_t packets, tips, tnt_bits, instructions, losses[LOSS_COUNT];
	uint64_t bad_times; /* TSC values rejected */
	uint64_t bytes;
};

struct flow; /* one per thread: scratch buffers and counters; the graph is shared */

MUST_CHECK enum err flow_new(struct graph *graph, const struct sideband *sideband, unsigned flags,
			     struct flow **result, struct error *error);
void flow_free(struct flow *f);
/* Damage in the bytes becomes FLOW_GAP events; the return value is for memory only. */
MUST_CHECK enum err flow_decode(struct flow *f, const struct flow_piece *piece,
				struct flow_sink sink);
const uint64_t *flow_payloads(const struct flow *f); /* of the piece decoded last */
size_t flow_payload_count(const struct flow *f);
const struct flow_stats *flow_stats(const struct flow *f);

/* The same by libipt's block decoder. */
struct flow_libipt;
MUST_CHECK enum err flow_libipt_new(struct graph *graph, const struct sideband *sideband,
				    unsigned flags, struct flow_libipt **result,
				    struct error *error);
void flow_libipt_free(struct flow_libipt *f);
MUST_CHECK enum err flow_libipt_decode(struct flow_libipt *f, const struct flow_piece *piece,
				       struct flow_sink sink);
/* For payloads and statistics. */
const struct flow *flow_libipt_flow(const struct flow_libipt *f);

#endif
