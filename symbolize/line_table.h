/* The line program of one unit: which source line an address belongs to. */
#ifndef SYMBOLIZE_LINE_TABLE_H
#define SYMBOLIZE_LINE_TABLE_H

#include <limits.h>

#include "symbolize/debug_file.h"

struct line_row {
	uint64_t vaddr;
	uint32_t file, line;
	uint32_t order; /* in the program; of rows at one address the last counts */
	bool end;       /* vaddr is the end of a stretch of code */
	bool statement; /* a good place for a breakpoint */
};

struct line_file {
	const char *name;
	uint64_t directory;
};

struct line_table {
	const struct debug_unit *unit;
	uint64_t first_file, first_directory; /* the number of [0]: 1 before DWARF 5 */
	VEC(const char *) directories;
	VEC(struct line_file) files;
	VEC(struct line_row) rows; /* sorted by vaddr */
};

/* Reads the unit's header and program as far as they make sense. false when memory is short. */
bool line_table_read(struct line_table *t, const struct debug_unit *u);
void line_table_done(struct line_table *t);

/* NULL = no line for that address. */
const struct line_row *line_table_find(const struct line_table *t, uint64_t vaddr);
/* The path of a file number, as absolute as DWARF has it. */
bool line_table_path(const struct line_table *t, uint64_t file, char path[PATH_MAX]);

#endif
