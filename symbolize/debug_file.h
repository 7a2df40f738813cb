/* The DWARF sections of one object file, and the units in them.
 *
 * Sections are unpacked when first asked for: most are never needed. Reading is ours, not
 * libdw's: opening libc's debug file there costs 50 ms, most of it for sections nobody asks
 * for, and it looks for split and supplementary files on the host, symfs or not.
 * (DWARF 5 and 4; GNU extensions for split units and supplementary files of DWARF 4.) */
#ifndef SYMBOLIZE_DEBUG_FILE_H
#define SYMBOLIZE_DEBUG_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/map64.h"
#include "common/vec.h"
#include "symbolize/object.h"

enum debug_section {
	DEBUG_INFO,
	DEBUG_ABBREV,
	DEBUG_STR,
	DEBUG_LINE_STR,
	DEBUG_STR_OFFSETS,
	DEBUG_ADDR,
	DEBUG_RANGES,
	DEBUG_RNGLISTS,
	DEBUG_LINE,
	DEBUG_SECTION_COUNT,
};

struct abbrev_spec {
	uint16_t name, form; /* DW_AT_*, DW_FORM_* */
	int64_t implicit;    /* of DW_FORM_implicit_const */
};

struct abbrev {
	uint64_t code;
	uint32_t first_spec, spec_count;
	int32_t fixed_bytes; /* of all attributes with 4-byte offsets; -1 = varies */
	uint16_t tag;        /* DW_TAG_* */
	bool has_children;
};

struct abbrev_table {
	VEC(struct abbrev) abbrevs; /* sorted by code */
	VEC(struct abbrev_spec) specs;
};

/* The value of an attribute, as it stands there (die.h reads it). */
struct die_value {
	uint16_t form;
	uint64_t number;     /* constant, address, offset, index or reference, as the form says */
	const uint8_t *text; /* DW_FORM_string: where it stands */
};

/* The code of a DIE: DW_AT_low_pc with DW_AT_high_pc, or DW_AT_ranges. */
struct die_code {
	struct die_value low, high, ranges; /* form 0 = attribute missing */
};

struct debug_file;

struct debug_unit {
	struct debug_file *file;   /* where its DIEs are */
	struct debug_file *shared; /* where its addresses are: of a split unit the main file */
	const struct abbrev_table *abbrevs; /* NULL = not read yet */
	uint64_t off, end, first_die;       /* offsets in .debug_info */
	uint64_t abbrev_off;
	uint64_t low_pc, addr_base, str_offsets_base, rnglists_base, ranges_base;
	uint64_t str_offsets_off; /* where a split unit's own part begins, in a .dwp */
	uint64_t line_off;        /* of its line program; UINT64_MAX = none */
	uint64_t dwo_id;
	struct die_code code;                /* of the whole unit */
	const char *comp_dir, *dwo_name;     /* NULL = none */
	uint8_t version, type, offset_bytes; /* type: DW_UT_* */
	bool split;                          /* its DIEs are in a .dwo or .dwp */
};

struct debug_file {
	const struct object *object;
	bool split; /* section names end in .dwo */
	struct bytes sections[DEBUG_SECTION_COUNT];
	uint8_t *heap[DEBUG_SECTION_COUNT]; /* of those that were packed */
	bool loaded[DEBUG_SECTION_COUNT];
	struct debug_file *supplement; /* dwz's common file; NULL = none */
	VEC(struct debug_unit) units;  /* sorted by off */
	VEC(struct abbrev_table *) tables;
	struct map64 table_at; /* offset in .debug_abbrev -> index in tables */
};

void debug_file_init(struct debug_file *f, const struct object *o, bool split);
void debug_file_done(struct debug_file *f);

/* Does the object have units at all? Reads nothing. */
bool debug_file_has_units(const struct object *o);
/* Empty if there is none, if it is broken, or too large for its packed size. */
struct bytes debug_file_section(struct debug_file *f, enum debug_section which);

/* Fills units. Broken ones end the list. false when memory is short. */
bool debug_file_read_units(struct debug_file *f);
/* The unit whose DIEs hold that offset of .debug_info, or NULL. */
struct debug_unit *debug_file_unit_at(struct debug_file *f, uint64_t off);
/* Reads the header at off and the attributes of the unit's own DIE. */
bool debug_unit_read(struct debug_file *f, uint64_t off, struct debug_unit *u);
/* The unit's abbreviations; NULL when they are broken or memory is short. */
const struct abbrev_table *debug_unit_abbrevs(struct debug_unit *u);

#endif
