/* The code as a graph of nodes, discovered while it runs.
 *
 * A node is the straight line of code from an ip, through direct jumps inside its function,
 * up to the next instruction that asks the trace a question (conditional, indirect, return,
 * far transfer) or that matters to a call stack (call, jump into another function):
 *
 *        ip ──────────────► branch_ip [branch] end_ip
 *        first instruction   last instruction   (return address, for a call)
 *
 * It is found once, from the bytes of the address space, then reused: the flow walker goes
 * from node to node by successor ids and never sees code again. Nodes may start anywhere
 * (a trace may resume at any ip), so nodes can overlap.
 *
 * The hot half (what a walk touches per branch) and the cold half are separate arrays at
 * stable addresses. Node ids differ from run to run when several threads discover code: no
 * output may depend on their order.
 *
 * Threads: graph_node() takes a lock; reading nodes whose id one has is free, successors are
 * relaxed atomics that only ever go from 0 to one value (direct) or between valid ids
 * (indirect: the last target seen). */
#ifndef DECODE_GRAPH_H
#define DECODE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "decode/insn.h"
#include "decode/sideband.h"
#include "symbolize/symbolize.h"

typedef uint32_t node_id; /* 0 = none */

enum node_kind {
	NODE_COND,          /* one TNT bit; succ[1] if taken, succ[0] if not */
	NODE_JUMP,          /* direct jump out of the function (tail call), or any direct jump
	                       when the graph was asked to split at jumps; succ[1] */
	NODE_CALL,          /* direct call; succ[1] = callee, succ[0] = return point */
	NODE_CALL_INDIRECT, /* TIP; succ[1] = last target, succ[0] = return point */
	NODE_JUMP_INDIRECT, /* TIP; succ[1] = last target */
	NODE_RETURN,        /* TNT bit (compressed) or TIP */
	NODE_SYSCALL,       /* SYSCALL, SYSENTER, INT n, INT3, INTO: succ[0] = after it */
	NODE_SYSRET,        /* SYSRET, SYSEXIT, IRET, UIRET, far RET, VMLAUNCH/VMRESUME */
	NODE_FAR,           /* far call/jump */
	NODE_THROUGH,       /* ends without a branch (length limit, XBEGIN, PTWRITE, page of other
	                       module): goes on at succ[0] */
	NODE_MISSING,       /* no code bytes at ip */
	NODE_BAD,           /* bytes that are no instruction, at end of the line */
};

enum {
	NODE_INTO_FUNCTION = 1, /* ip is the first byte of its function */
	NODE_TAIL_JUMP = 2,     /* NODE_JUMP or NODE_COND whose target is in another function */
	NODE_CALL_NEXT = 4,     /* call to the next instruction: get-pc, no call */
	NODE_INLINE_CHANGES = 8,/* the inline chain changes between ip and branch_ip */
	NODE_PTWRITE = 16,      /* ends after a PTWRITE */
	NODE_STACK_SWITCH = 32, /* leaves __switch_to_asm: another task's stack from here */
	NODE_KERNEL = 64,
	NODE_CALL_PRECEDED = 128, /* the bytes before ip end in a call instruction */
};

/* In a successor slot of a NODE_COND, NODE_JUMP or NODE_THROUGH, beside the id: to go there is
 * more than a branch (another function, or other inlined frames than before). */
#define NODE_EDGE_EVENT 0x80000000u

struct node {
	_Atomic uint32_t succ[2]; /* ids with NODE_EDGE_EVENT; read them by graph_successor() */
	uint64_t ip;
	uint32_t func;         /* func_id.v of ip; 0 = unknown */
	uint32_t start_inline; /* inline_id.v at ip */
	uint32_t end_inline;   /* inline_id.v at branch_ip */
	uint16_t insn_count;
	uint8_t kind;          /* enum node_kind */
	uint8_t flags;         /* NODE_* */
};
_Static_assert(sizeof(struct node) == 32, "two nodes a cache line");

struct node_cold {
	uint64_t ip, branch_ip, end_ip;
	uint64_t target_ip;   /* of a direct branch; 0 otherwise */
	uint64_t vaddr;       /* of ip in its module */
	space_id space;
	module_id module;     /* 0 = outside every mapping */
	uint8_t mode;         /* enum insn_mode */
	uint8_t branch;       /* enum insn_kind of the instruction at branch_ip */
	/* Code made at run time may be replaced: then other nodes stand for the same ip. Of code
	 * that was poked the node of the ip, is_poked, stands for them all: it is empty, of
	 * NODE_THROUGH, and graph_version() says what it goes on as. */
	bool is_generated : 1, is_later_version : 1, is_poked : 1;
	_Atomic uint32_t next_version; /* node_id, 0 = none */
	_Atomic uint64_t from_ns;      /* seen there since; 0 for other code */
	uint64_t until_ns;             /* TIME_NONE = not replaced */
};

struct graph;

enum {
	GRAPH_SPLIT_JUMPS = 1, /* end nodes at every direct jump (for --dump edges) */
	GRAPH_NO_INLINE = 2,
};

MUST_CHECK enum err graph_new(const struct sideband *sideband, struct symbolizer *symbolizer,
			      unsigned flags, struct graph **result, struct error *error);
void graph_free(struct graph *g);

/* The node at ip in a space; discovers it if new. Kernel ips are looked up in SPACE_KERNEL
 * whatever the space. 0 only when memory is short or at the ceiling of node ids. */
node_id graph_node(struct graph *g, space_id space, uint64_t ip);
/* The same for code of either mode. time_ns: JIT code is read as of then. */
node_id graph_node_at(struct graph *g, space_id space, enum insn_mode mode, uint64_t ip,
		      uint64_t time_ns);
/* The node at a successor slot (0 or 1) of a direct kind, discovered on first use. */
node_id graph_successor(struct graph *g, node_id node, int slot);

/* The same with NODE_EDGE_EVENT, for the walk. */
uint32_t graph_edge(struct graph *g, node_id node, int slot);
/* What a node that is_poked goes on as at a time (TIME_NONE: at the end), likewise. */
uint32_t graph_version(struct graph *g, node_id node, uint64_t time_ns);

struct graph_tables {
	struct node *hot;       /* indexed by node_id */
	struct node_cold *cold;
};
/* The arrays: constant for the life of the graph. */
struct graph_tables graph_tables(struct graph *g);
uint32_t graph_node_count(const struct graph *g);

struct symbolizer *graph_symbolizer(const struct graph *g);
/* The lock under which code is discovered: hold it to ask the symbolizer while others decode. */
void graph_lock(struct graph *g);
void graph_unlock(struct graph *g);

/* Does an instruction that ends exactly at `end_ip` in this space call? (rule 3) */
bool graph_is_call_preceded(struct graph *g, space_id space, uint64_t end_ip);
/* Raw code bytes at ip, for the evidence that needs to look at instructions. */
size_t graph_code(struct graph *g, space_id space, uint64_t ip, const uint8_t **bytes);
/* The same as of a time. */
size_t graph_code_at(struct graph *g, space_id space, uint64_t ip, uint64_t time_ns,
		     const uint8_t **bytes);
/* The linker's name (perhaps "f@plt") of what a call calls through a PLT stub, or through the GOT by
 * a relocation. False = it does not, or nobody knows. */
bool graph_callee_name(struct graph *g, node_id call, str_id *name);
/* Is ip the address of an instruction on the line of this node (ip .. branch_ip)? */
bool graph_node_has_instruction(struct graph *g, node_id node, uint64_t ip);

#endif
