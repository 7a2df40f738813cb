/* Strand: one thread while its stack is being rebuilt.
 *
 * The stack holds physical frames with the inlined frames that are open in each on top of it:
 *
 *     [main] [f] (inl a) (inl b) [g]        top = g, the topmost physical frame
 *
 * A frame waits for its return at node `ret` (0: not known, the bottom of a segment). Open
 * frames are rows of thread.calls; a row's parent is the row beneath it, so a whole stack
 * is named by its top row and nothing needs copying when a segment ends.
 *
 * Frames left without their return (longjmp, stack switch) are parked: see parked.h. */
#ifndef DECODE_STRAND_H
#define DECODE_STRAND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/map64.h"
#include "common/vec.h"
#include "decode/facts.h"
#include "decode/trace.h"

enum frame_kind {
	FRAME_PHYSICAL,
	FRAME_INLINED,
	FRAME_TRANSPARENT, /* PLT stub or thunk: waits, but is not drawn */
	FRAME_MISSING,     /* code without bytes (or filtered out): drawn as a bracket */
	FRAME_SIGNAL,      /* handler; ret = where the kernel interrupted */
	FRAME_SIGRETURN,   /* handler has returned, sigreturn not yet done; not drawn */
	FRAME_KERNEL,      /* kernel entry; ret = user node to resume */
};

struct frame {
	uint32_t call; /* row in thread.calls; CALL_NONE = not drawn */
	node_id ret;
	uint32_t func; /* func_id.v, or inline_id.v of an inlined frame */
	node_id site;  /* node of the waiting call */
	uint8_t kind;  /* enum frame_kind */
	uint8_t role;  /* enum func_role it was entered as, though another may return for it */
};

/* A stack that was left (parked.h). */
struct parked {
	uint64_t order;        /* the lower the earlier it was left */
	node_id key;           /* the topmost pending return node */
	uint32_t first, count; /* in strand.parked_frames */
};

/* The running stack is one of several that fitted. */
struct guess {
	struct frame *frames; /* as they were parked; count 0 = no guess */
	size_t frame_count;
	uint64_t order;
	uint32_t first_row, row_count; /* of the rows opened for them */
};

/* A setjmp that returned once: longjmp comes back to its node and frame. */
struct jump_buffer {
	node_id node;
	uint32_t call; /* row of the frame that called setjmp */
};

/* What all strands of a decode share. */
struct weave {
	const struct sideband *sideband;
	struct symbolizer *symbolizer;
	struct graph *graph;
	struct graph_tables tables;
	struct facts facts;
	struct trace *trace;
	struct map64 landings;    /* (unwinder, place) -> how many frames out: unwind.h */
	struct map64 bracket_ids; /* (kind, node) -> index in trace->brackets */
	struct cpu_losses *cpus;  /* indexed by CPU: see away.h */
	size_t cpu_count;
	bool timeless;
	bool out_of_memory; /* sticky: an append failed, the result is not usable */
};

/* The stack as it was before something unusual: see doubt.h. */
struct doubt {
	bool set, switched;
	size_t segment; /* count of segments then */
	size_t calls, roots, top;
	uint64_t edges, now_ns;
	VEC(struct frame) stack;
	VEC(uint32_t) bases;
};

enum strand_state {
	STRAND_NEW,  /* nothing seen yet */
	STRAND_ON,   /* in step with the trace */
	STRAND_OFF,  /* tracing is off: syscall, interrupt, filter */
	STRAND_LOST, /* after a gap, before the resume */
};

struct strand {
	struct weave *weave;
	struct thread *thread;
	task_id task;
	enum strand_state state;
	VEC(struct frame) stack;
	size_t top; /* index of the topmost non-inlined frame, if stack.count > 0 */
	VEC(struct frame) parked_frames;
	VEC(struct parked) parked;
	uint64_t parked_order;
	struct guess guess;
	struct doubt doubt;
	VEC(struct jump_buffer) jump_buffers;
	VEC(struct frame) transaction; /* copy of the stack at TX begin */
	/* The last time known code began as called by unknown code: that one's row, first row on
	 * it. */
	struct {
		uint32_t missing, row;
	} reentered;
	bool in_transaction;
	bool at_stack_switch;     /* has come to __switch_to_asm: what follows is another task's */
	bool switched;            /* this segment has left its first stack: no more roots for it */
	uint64_t now_ns, last_ns; /* of this event and the one before */
	uint64_t since_ns;        /* when `state` began */
	uint64_t unwound_rows;    /* looked at to count the frames of exceptions */
	bool guessed;             /* the open segment began at a place that may be wrong */
	uint64_t off_ns;          /* since when tracing is off or lost */
	node_id off_node;         /* where it stopped */
	uint8_t off_cause;        /* enum flow_end, or enum loss */
	bool off_page_fault;      /* it is known to be one */
	uint8_t cut;              /* enum loss of the CPU while off, maybe not of the thread */
	size_t next_switch;       /* cursor into sideband.task_switches: its own */
	size_t next_exec;         /* cursor into sideband.task_names */
	size_t first_root, first_base; /* of the open segment, in thread->roots and ->bases */
};

static inline const struct node *strand_node(const struct strand *s, node_id node)
{
	return &s->weave->tables.hot[node];
}

static inline const struct node_cold *strand_cold(const struct strand *s, node_id node)
{
	return &s->weave->tables.cold[node];
}

/* The same ip: equal nodes, or nodes of the ip in two versions of the address space. */
static inline bool strand_same_ip(const struct strand *s, node_id a, node_id b)
{
	return a == b || (a && b && strand_cold(s, a)->ip == strand_cold(s, b)->ip);
}

static inline enum func_role weave_role(struct weave *w, uint32_t func)
{
	return facts_role(&w->facts, func);
}
/* The bracket for (kind, node, cause), made on first use. */
uint32_t weave_bracket(struct weave *w, enum bracket_kind kind, node_id node, unsigned cause);
void weave_done(struct weave *w);

void strand_init(struct strand *s, struct weave *w, struct thread *thread, task_id task);
void strand_done(struct strand *s);

/* The topmost row of the stack; CALL_NONE = nothing of it is drawn. */
static inline uint32_t strand_top_row(const struct strand *s)
{
	for (size_t i = s->stack.count; i-- > 0;)
		if (s->stack.items[i].call != CALL_NONE)
			return s->stack.items[i].call;
	return CALL_NONE;
}
/* The innermost open inlined frame of the top frame, which there is; 0 = none. */
static inline uint32_t strand_innermost(const struct strand *s)
{
	const struct frame *last = vec_last(&s->stack);

	return last->kind == FRAME_INLINED ? last->func : 0;
}
/* Opens a row on top of the stack's topmost row. */
uint32_t strand_open_call(struct strand *s, enum call_kind kind, uint32_t what, node_id site,
			  unsigned flags);
/* Pushes a physical frame that runs `node`, drawn unless its function is transparent. */
void strand_push(struct strand *s, node_id node, node_id ret, node_id site, unsigned flags);
/* Pushes a frame of another kind; `call` may be CALL_NONE. */
void strand_push_frame(struct strand *s, struct frame frame);
/* Ends all frames from stack index `first` on, now; flags are added to their rows. */
void strand_pop_to(struct strand *s, size_t first, unsigned flags);
/* Replaces the top frame by `node`'s function: a tail call. */
void strand_replace_top(struct strand *s, node_id node);
/* Puts a newly found outer frame that runs `node` beneath the (ending) bottom frame; on a
 * stack that was switched to, the outer frame is drawn from now on only. */
void strand_add_root(struct strand *s, node_id node);
/* Opens and closes inlined frames so that the top frame's chain is that of `node`. */
void strand_inline_to(struct strand *s, node_id node);
/* Starts a segment whose first frame runs `node`; join = index of its join or CALL_NONE. */
void strand_start_segment(struct strand *s, node_id node, uint32_t join);
/* Ends the open segment; frames stay open rows, the stack is emptied. */
void strand_end_segment(struct strand *s);
/* A closed bracket slice under the current top, from start to now. */
void strand_bracket(struct strand *s, uint32_t bracket, uint64_t start_ns);

/* Lowest stack index that user/kernel matching may reach from the top. */
size_t strand_floor(const struct strand *s);

#endif
