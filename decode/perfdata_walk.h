/* One step of the walk over a file's own records: what perfdata_walk() and the scan of a
 * pipe's header have in common. */
#ifndef DECODE_PERFDATA_WALK_H
#define DECODE_PERFDATA_WALK_H

#include "decode/perfdata.h"

enum step { STEP_RECORD, STEP_END, STEP_DAMAGE };

struct cursor {
	uint64_t pos;     /* in the file, at most its data_end */
	uint64_t missing; /* bytes that should stand behind data_end */
};

/* Reads the record at the cursor and moves on; contents of COMPRESSED records are not looked
 * into, event and id not set. A payload that the file's end cuts is given as far as it goes;
 * the next step then is the damage, after which there is no other. */
enum step perfdata_step(const struct perfdata_file *f, struct cursor *c, struct record *r,
			struct perfdata_damage *damage);

#endif
