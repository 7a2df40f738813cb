/* A code graph and a symbolizer without code: tests say what stands where. Links in place of
 * graph.c and symbolize/. Code of which nothing is said leads nowhere. Function i lies at i *
 * FUNC_BYTES (kernel: + KERNEL_BASE). */
#ifndef DECODE_TESTS_FAKE_CODE_H
#define DECODE_TESTS_FAKE_CODE_H

#include "decode/graph.h"
#include "decode/trace.h"

enum {
	NODES_MAX = 4096,
	FUNCS_MAX = 256,
	INLINES_MAX = 32,
	FUNC_BYTES = 0x1000,
	CALL_BYTES = 5,
	SYSCALL_BYTES = 2,
	MOV_BYTES = 5
};

#define KERNEL_BASE    (1ull << 63)
#define MODULE_MISSING 99

struct graph {
	struct node hot[NODES_MAX];
	struct node_cold cold[NODES_MAX];
	uint32_t count;
};

struct symbolizer {
	struct func funcs[FUNCS_MAX];
	char names[FUNCS_MAX][64];
	uint32_t count;
	uint64_t pads[64][2], called[256];
	size_t pad_count, called_count;
	struct {
		uint64_t ip;
		uint8_t bytes[16];
		size_t count;
	} code[64];
	size_t code_count;
	struct {
		char name[64];
		uint64_t start, end;
		struct inline_frame frame;
	} inlines[INLINES_MAX];
	uint32_t inline_count;
	struct {
		uint64_t ip, branch_ip;
	} lines[64];
	size_t line_count;
	struct {
		uint64_t ip, target_ip; /* 0 = none */
		uint8_t kind;           /* enum node_kind */
	} branches[128];                /* what is there, whether it runs or not */
	size_t branch_count;
};

extern struct graph graph;
extern struct symbolizer symbols;
/* Starts anew with functions 1 .. count. */
void fake_reset(uint32_t count);
uint64_t fake_ip(uint32_t func, uint64_t off);
node_id fake_node(uint32_t func, uint64_t off);
/* A branch that is there, whether it runs or not; to be said before its node is asked for. */
void fake_branch(enum node_kind kind, uint64_t ip, uint64_t target_ip);
/* Adds a call of a function, made at a site (0 = unknown); its row. */
uint32_t fake_call(struct thread *thread, uint32_t func, node_id site, uint32_t parent,
		   uint64_t start_ns, uint64_t end_ns);

#endif
