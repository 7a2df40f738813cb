/* Lines: the code that a node of the graph stands for, read from the address space. Internal to
 * the graph; the callers hold its lock. */
#ifndef DECODE_LINE_H
#define DECODE_LINE_H

#include "decode/graph.h"

/* What tells code. */
struct code_map {
	const struct sideband *sideband;
	struct symbolizer *symbolizer;
	unsigned flags; /* GRAPH_* */
};

/* Where code comes from: bytes[0, count) stand at ip and vaddr of the module. */
struct code {
	module_id module;
	uint64_t ip, vaddr;
	const uint8_t *bytes;
	size_t count; /* 0 = none known */
	bool is_generated;
	uint64_t until_ns;
};

struct code code_at(const struct code_map *map, space_id space, uint64_t ip, uint64_t time_ns);

/* Fills both halves of a new node, zeroed but for space, mode and ip in the cold one. */
void line_discover(const struct code_map *map, struct node *hot, struct node_cold *cold,
		   uint64_t time_ns);
/* Does an instruction that ends exactly at end_ip call? */
bool line_is_call_preceded(const struct code_map *map, space_id space, enum insn_mode mode,
			   uint64_t end_ip, uint64_t time_ns);
/* Is ip the address of an instruction on the line of this node? */
bool line_has_instruction(const struct code_map *map, const struct node *hot,
			  const struct node_cold *cold, uint64_t ip);

#endif
