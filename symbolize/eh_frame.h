/* What .eh_frame and the tables it points to say: where functions begin and end, and where
 * an exception that passes through a call lands. (LSB core, "Exception Frames"; the Itanium
 * C++ ABI's exception handling level II for the call-site tables.)
 *
 * Nothing is trusted: entries that contradict themselves are left out. */
#ifndef SYMBOLIZE_EH_FRAME_H
#define SYMBOLIZE_EH_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"
#include "symbolize/object.h"

struct eh_range {
	uint64_t start, end;
	uint64_t lsda; /* vaddr of its language-specific data; 0 = none */
	bool headless; /* begins with a frame already set up: an outlined (.cold) piece */
};

struct eh_frame {
	VEC(struct eh_range) ranges; /* sorted by start */
};

/* false when memory is short. A file without .eh_frame gives no ranges. */
bool eh_frame_load(struct eh_frame *eh, const struct object *o);
/* The same from bare bytes of a section at vaddr. */
bool eh_frame_read(struct eh_frame *eh, struct bytes section, uint64_t vaddr);
void eh_frame_done(struct eh_frame *eh);

/* The range that holds vaddr; else NULL, and the gap [*start, *end) is narrowed to what lies
 * between its neighbours. */
const struct eh_range *eh_frame_find(const struct eh_frame *eh, uint64_t vaddr, uint64_t *start,
				     uint64_t *end);

/* The landing pad for a call in `range` that returns to return_vaddr. */
bool eh_frame_landing_pad(const struct object *o, const struct eh_range *range,
			  uint64_t return_vaddr, uint64_t *pad);
/* The same from the bare bytes of the language-specific data. */
bool lsda_landing_pad(struct bytes lsda, const struct eh_range *range, uint64_t return_vaddr,
		      uint64_t *pad);

#endif
