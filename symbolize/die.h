/* Debugging information entries: reading their attributes, following their references. */
#ifndef SYMBOLIZE_DIE_H
#define SYMBOLIZE_DIE_H

#include "symbolize/debug_file.h"

/* Reads one attribute's value; b is the rest of the unit. Fails b on unknown forms. */
struct die_value die_read_form(const struct debug_unit *u, struct bytes *b, uint16_t form,
			       int64_t implicit);
void die_skip(const struct debug_unit *u, const struct abbrev_table *table, const struct abbrev *a,
	      struct bytes *b);
const struct abbrev *abbrev_find(const struct abbrev_table *table, uint64_t code);

/* An address or an index of one; false if it is neither. */
bool die_address(const struct debug_unit *u, const struct die_value *v, uint64_t *address);
/* NULL if it is no string. */
const char *die_string(const struct debug_unit *u, const struct die_value *v);

uint64_t die_uleb_long(struct bytes *b);
int64_t die_sleb(struct bytes *b);

/* Nearly all have one byte. */
static inline uint64_t die_uleb(struct bytes *b)
{
	return b->p < b->end && *b->p < 0x80 ? *b->p++ : die_uleb_long(b);
}

struct die_ranges {
	const struct debug_unit *unit;
	struct bytes list;
	uint64_t base;
	uint64_t start, end; /* of low_pc and high_pc; given out once */
	bool single;
};

void die_ranges_begin(struct die_ranges *r, const struct debug_unit *u,
		      const struct die_code *code);
bool die_ranges_next(struct die_ranges *r, uint64_t *start, uint64_t *end);

/* The linker's name of what a DIE stands for, else its plain one; NULL = none. Follows
 * DW_AT_abstract_origin and DW_AT_specification, across units and into the supplement. */
const char *die_name(struct debug_unit *u, uint64_t off);

#endif
