/* The functions of one module, as sorted ranges made from its symbols.
 *
 * Order: symtab_add() per object (the file itself, its debug file), symtab_finish() once,
 * then lookups. Names point into the objects, which must outlive the table.
 *
 * What a function is: all symbols of one address are one function, named by the ELF rules
 * (sized before unsized, global before weak before local; then the plainest name). An
 * unsized function reaches to the next one; an address in two ranges belongs to the one
 * that starts later; labels (STT_NOTYPE) only make a function where no other is. `f.cold`,
 * `f.warm` and `f.__part.1` are pieces of f; other suffixes are functions of their own. */
#ifndef SYMBOLIZE_SYMTAB_H
#define SYMBOLIZE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "symbolize/object.h"

#define SYMTAB_NONE UINT32_MAX

struct symtab_symbol {
	uint64_t start, bytes;
	uint64_t limit; /* end of its section: nothing reaches beyond */
	const char *name;
	uint32_t file; /* ordinal of the STT_FILE before it; 0 = none */
	uint32_t func; /* set by symtab_finish() */
	uint8_t rank;  /* lower is better */
	bool label, local;
};

struct symtab_func {
	uint64_t start, end; /* half-open; of the main piece */
	const char *name;
	uint32_t piece_of; /* its parent when it is a .cold piece, else itself */
	uint8_t role;      /* enum func_role */
};

struct symtab_piece {
	uint64_t start, end;
	uint32_t func;
};

struct symtab {
	VEC(struct symtab_symbol) symbols; /* until symtab_finish() */
	VEC(struct symtab_func) funcs;
	VEC(struct symtab_piece) pieces; /* sorted, disjoint */
};

/* All return false when memory is short. Zeroed is valid. */
bool symtab_add(struct symtab *t, const struct object *o);
/* One symbol that is not of an ELF file; bytes 0 = up to the next, at most to limit. */
bool symtab_add_name(struct symtab *t, uint64_t start, uint64_t bytes, uint64_t limit,
		     const char *name);
bool symtab_finish(struct symtab *t);
void symtab_done(struct symtab *t);

/* The function that holds vaddr, or SYMTAB_NONE and the gap around it. */
uint32_t symtab_find(const struct symtab *t, uint64_t vaddr, uint64_t *gap_start,
		     uint64_t *gap_end);

/* The value of a symbol of that name, of any kind. */
bool symtab_value(const struct object *o, const char *name, uint64_t *value);

/* The length of the name of which `name` is an outlined piece ("f" of "f.cold.1"), or 0. */
size_t symtab_piece_parent_length(const char *name);

#endif
