/* The result of decoding: per thread, every call with its times, as plain data.
 *
 *     thread ─ segments ─ calls          a segment is a lossless stretch; segments of a thread
 *                  └──── roots           are joined where the evidence allows
 *
 * Order of a thread's slices (parents always before their children, starts never go back):
 *
 *     for each segment: its roots (outermost first), then calls [first_call, end_call)
 *
 * skipping calls with CALL_HIDDEN, and in the second part those with CALL_ROOT. A root is a
 * frame found by a return past the bottom of what was known; it exists since its segment's
 * start. A root that joining found to be a frame of an earlier segment is hidden, and the
 * earlier frame goes on until the root's end.
 *
 * Times are perf-clock ns; start <= end; children lie inside their parent, one behind the other. */
#ifndef DECODE_TRACE_H
#define DECODE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/memory.h"
#include "common/vec.h"
#include "decode/graph.h"
#include "decode/sideband.h"

#define CALL_NONE UINT32_MAX

enum call_kind {
	CALL_FRAME,   /* a physical frame: what = node_id of the first node seen in it */
	CALL_INLINED, /* what = inline_id.v */
	CALL_BRACKET, /* untraced or lost time: what = index into trace.brackets */
};

enum {
	CALL_ROOT = 1,           /* found by a return past the bottom */
	CALL_HIDDEN = 2,         /* not drawn: merged into an earlier call, `site` = that call;
	                            CALL_NONE = not wanted */
	CALL_STITCHED = 4,       /* goes on across at least one loss */
	CALL_START_INFERRED = 8, /* began before it was first seen, drawn from its segment's start */
	CALL_END_INFERRED = 16,  /* its return was not seen */
	CALL_TAIL = 32,          /* entered by a jump out of the frame it replaced (see arrows) */
	CALL_AMBIGUOUS = 64,     /* another reading of the evidence was possible */
	CALL_SIGNAL = 128,       /* signal handler, pushed by the kernel */
	CALL_ABORTED = 256,      /* ran in a transaction that was rolled back */
	CALL_SWITCHED = 512,     /* part of a stack that was left and entered again (coroutine) */
	CALL_UNWOUND = 1024,     /* ended by longjmp or an exception, not by its return */
	CALL_INTERRUPT = 2048,   /* kernel entry by interrupt or fault: `site` = node at the
	                            interrupted ip, where it goes on (so for CALL_SIGNAL) */
};

struct call {
	uint64_t start_ns, end_ns;
	uint32_t what;   /* see enum call_kind */
	node_id site;    /* node of the call that waits for its return (for a tail call that of the
	                    frame it replaced); 0 = unknown */
	uint32_t parent; /* call index in its thread; CALL_NONE = none */
	uint16_t flags;  /* CALL_* */
	uint8_t kind;    /* enum call_kind */
	bool expected;   /* nothing of it was seen: its function is the usual one there, or for a
	                    frame that an exception passed that of the usual caller */
};
_Static_assert(sizeof(struct call) == 32, "memory per call held: 32 bytes");

enum bracket_kind {
	BRACKET_SYSCALL,     /* number = syscall number or -1 */
	BRACKET_INTERRUPTED, /* interrupt or fault */
	BRACKET_PAGE_FAULT,
	BRACKET_DESCHEDULED,
	BRACKET_LOST,        /* cause */
	BRACKET_MISSING_CODE,/* module: how it was entered is not known */
	BRACKET_FILTERED,    /* outside an address filter, or TraceStop */
	BRACKET_MISSING_FRAME,/* a frame that was called, jumped or returned to, in missing code */
};

struct bracket {
	uint8_t kind;  /* enum bracket_kind */
	uint8_t cause; /* enum loss, for BRACKET_LOST */
	int32_t number;
	module_id module;
	node_id node;  /* where the trace stopped; 0 = unknown */
	uint64_t lost_bytes;
};

enum join_evidence {
	JOIN_RETURNS,     /* pending return addresses against returns past the bottom */
	JOIN_RESUME_POINT,/* went on exactly where it stopped */
	JOIN_PATH,        /* the way through the code leaves this stack; if ambiguous the shortest */
	JOIN_FUNCTION,    /* starts in the function of a waiting frame */
	JOIN_PRECEDENT,   /* as it went on in a like situation */
	JOIN_CONTEXT,     /* same thread, nothing else known */
	JOIN_BARRIER,     /* exec, exit, thread start: never joined */
	JOIN_NONE,        /* no evidence: not joined */
	JOIN_EVIDENCE_COUNT
};
const char *join_evidence_name(enum join_evidence evidence);

/* One loss in one thread and what was made of it. */
struct join {
	uint64_t lost_ns, resumed_ns;
	node_id lost_at, resumed_at;
	uint8_t cause;     /* enum loss */
	uint8_t evidence;  /* enum join_evidence */
	uint8_t ambiguous;
	uint8_t unwound;   /* that many of the innermost frames cannot go on: an exception passed */
	uint32_t waiting;  /* frames open at the loss, as far as is known when joined */
	uint32_t kept;     /* of those, how many go on */
	uint32_t inferred; /* frames entered unseen, between kept ones and the resume point */
	uint32_t agreeing; /* returns that confirm it */
	uint32_t candidates;
	uint32_t proven;   /* frames that can only have gone on, by the code */
	uint32_t returned; /* frames that cannot, though nothing else speaks against it */
	uint32_t excluded; /* candidates that the code does not allow */
	uint32_t like;     /* of JOIN_PRECEDENT: like situations that it rests on */
};

struct segment {
	uint64_t start_ns, end_ns;
	uint32_t first_call, end_call; /* in thread.calls */
	uint32_t first_root, end_root; /* in thread.roots, outermost first */
	uint32_t first_base, end_base; /* in thread.bases: its outermost calls, until joined */
	uint32_t top_call;             /* innermost open call at its end; CALL_NONE = none */
	uint32_t bracket;              /* the loss before it, a row of the segment before; or CALL_NONE */
	node_id first_node;            /* where it starts */
	uint32_t join;                 /* how it is tied to the one before; index, CALL_NONE = first */
	bool barrier;                  /* never joined to the one before: exec, thread start */
	bool bottom;                   /* its first frame is the first of the thread, or since exec */
	uint64_t edges;                /* flow events in it */
};

enum arrow_kind { ARROW_TAIL_CALL, ARROW_SWITCH };

/* An arrow between two calls of a thread: tail call or stack switch. */
struct arrow {
	uint32_t from, to; /* call indices */
	uint8_t kind;      /* enum arrow_kind */
};

enum calls_place { CALLS_IN_HEAP, CALLS_MAPPED, CALLS_IN_FILE };

struct thread {
	task_id task;
	VEC(struct call) calls;
	enum calls_place calls_place; /* see call_store.h */
	int calls_fd;                 /* of CALLS_IN_FILE */
	bool has_hidden;              /* some calls have had CALL_HIDDEN */
	VEC(struct segment) segments;
	VEC(uint32_t) roots;
	VEC(uint32_t) bases;
	VEC(struct join) joins;
	VEC(struct arrow) arrows;
	uint64_t traced_ns, lost_ns; /* time with trace; time known to be lost */
	uint64_t losses[LOSS_COUNT]; /* how often */
	uint64_t clamped_times;      /* times that went back and were held */
};

struct frequency {
	uint64_t time_ns;
	int32_t cpu;
	uint32_t ratio; /* core:bus ratio (CBR) */
};

struct trace_mark { /* PTWRITE and power events */
	uint64_t time_ns, payload;
	task_id task;
	int32_t cpu;
	node_id node;
	uint8_t kind; /* enum flow_kind */
};

struct trace {
	VEC(struct thread) threads; /* sorted by (pid, tid, start) */
	VEC(struct bracket) brackets;
	VEC(struct frequency) frequencies;
	VEC(struct trace_mark) marks;
	uint64_t from_ns, until_ns; /* only what is within is counted; until 0 = all */
	uint64_t start_ns, end_ns; /* of everything drawn */
	uint64_t spill_bytes;      /* calls beyond this much memory go to a file; 0 = never */
	uint64_t mapped_bytes;     /* of all threads' CALLS_MAPPED */
	struct memory_limit *memory; /* looked at where more is taken than calls; NULL = no limit */
};

/* How much of a time counts. */
static inline uint64_t trace_counted_ns(const struct trace *t, uint64_t start_ns, uint64_t end_ns)
{
	if (start_ns < t->from_ns)
		start_ns = t->from_ns;
	if (t->until_ns && end_ns > t->until_ns)
		end_ns = t->until_ns;
	return end_ns > start_ns ? end_ns - start_ns : 0;
}
/* Does what began and ended then count, which may have taken no time? */
static inline bool trace_counts(const struct trace *t, uint64_t start_ns, uint64_t end_ns)
{
	return end_ns >= t->from_ns && (!t->until_ns || start_ns < t->until_ns);
}

void thread_done(struct thread *t);
/* The row as which a row is drawn: of a hidden one that which it was merged into, or that outside
 * it if nothing is known of it. CALL_NONE = none. */
uint32_t thread_drawn(const struct thread *t, uint32_t row);
/* Fills start_ns and end_ns, by the order of what is drawn: not every call is looked at. */
void trace_measure(struct trace *t);
void trace_done(struct trace *t);

/* What a writer needs beside the trace to name things. */
struct trace_names {
	const struct sideband *sideband;
	struct symbolizer *symbolizer;
	struct graph_tables graph;
};

#endif
