/* Which inlined calls are active at an address, and the source line: from a file's DWARF.
 *
 * Units are read on the first question about one of their addresses. Nodes are the
 * inlined instances (DW_TAG_inlined_subroutine): the same instance is the same node. */
#ifndef SYMBOLIZE_INLINE_TABLE_H
#define SYMBOLIZE_INLINE_TABLE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "symbolize/debug_file.h"
#include "symbolize/object.h"

struct inline_table;
struct search;

/* Node indices: 0 = none. */
struct inline_node {
	uint64_t die_off;              /* of its DIE in the file of its unit's DIEs */
	uint32_t unit;                 /* index in the table */
	uint32_t parent;               /* 0 = the physical function */
	uint32_t call_file, call_line; /* call_file counts in the unit's line table */
	uint32_t depth;                /* 1 = directly inside the physical function */
};
_Static_assert(sizeof(struct inline_node) == 32, "one per inlined call in the source");

/* `code` is the file that runs, `debug` (at debug_path) the one with DWARF: the same or its
 * debug file. What DWARF says about addresses outside `code` is left out. All must outlive
 * the table; `search` finds supplementary and split files. ERR_NOT_FOUND: no DWARF in there;
 * ERR_NOMEM. */
MUST_CHECK enum err inline_table_new(const struct object *debug, const char *debug_path,
				     const struct object *code, const struct search *search,
				     struct inline_table **result);
void inline_table_free(struct inline_table *t);

/* The innermost node at vaddr; `until` is where the answer may change. */
uint32_t inline_table_find(struct inline_table *t, uint64_t vaddr, uint64_t *until);
/* Valid until the next find. */
const struct inline_node *inline_table_node(const struct inline_table *t, uint32_t node);
/* The linker's name where DWARF has it, else the plain one; NULL = none. Lives as the table. */
const char *inline_table_name(struct inline_table *t, uint32_t node);
bool inline_table_call_file(struct inline_table *t, uint32_t node, char path[PATH_MAX]);
bool inline_table_line(struct inline_table *t, uint64_t vaddr, char path[PATH_MAX], uint32_t *line);

#endif
