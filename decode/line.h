/* Lines: the code that a node of the graph stands for, read from the address space. Internal to
 * the graph; the callers hold its lock. */
#ifndef DECODE_LINE_H
#define DECODE_LINE_H

#include "decode/graph.h"
#include "decode/poke.h"

/* What tells code. */
struct code_map {
	const struct sideband *sideband;
	struct symbolizer *symbolizer;
	unsigned flags; /* GRAPH_* */
	struct pokes pokes;
};

/* Where code comes from: bytes[0, count) stand at ip and vaddr of the module. */
struct code {
	module_id module;
	uint64_t ip, vaddr;
	const uint8_t *bytes;
	size_t count; /* 0 = none known */
	bool is_generated, is_poked;
	uint64_t from_ns, until_ns; /* from_ns: since when it is so by pokes */
};

struct code code_at(const struct code_map *map, space_id space, uint64_t ip, uint64_t time_ns);

/* Fills both halves of a new node, zeroed but for space, mode and ip in the cold one. True: some
 * of its bytes were poked, then or at another time; from_ns and until_ns say when it is so. */
bool line_discover(const struct code_map *map, struct node *hot, struct node_cold *cold,
		   uint64_t time_ns);
/* Then this fills the node that stands for the ip at any time: it is the same whatever the time
 * at which the ip was found. */
void line_discover_poked(const struct code_map *map, struct node *hot, struct node_cold *cold);
/* Does an instruction that ends exactly at end_ip call, then or before or after a poke? */
bool line_is_call_preceded(const struct code_map *map, space_id space, enum insn_mode mode,
			   uint64_t end_ip, uint64_t time_ns);
/* A time at which this node's code was there, where that matters; else TIME_NONE. */
uint64_t line_time(const struct node_cold *cold);
/* Is ip the address of an instruction on the line of this node? */
bool line_has_instruction(const struct code_map *map, const struct node *hot,
			  const struct node_cold *cold, uint64_t ip);

#endif
