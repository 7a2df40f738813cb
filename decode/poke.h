/* Pokes: kernel code that was rewritten while it ran, out of TEXT_POKE records.
 *
 * A record has the bytes before and after, so they are known at any time, whichever state the
 * kernel's file was saved in; that tells only of what was never poked.
 *
 *     file | old            | new of the 1st          | new of the 2nd
 *     ─────┼────────────────┼─────────────────────────┼───────────────► time
 *        never            1st poke                 2nd poke
 *
 * Source: Linux arch/x86/kernel/alternative.c, text_poke_bp_batch(): before the record's time
 * the old code runs or a breakpoint, behind it the new code or a breakpoint; a breakpoint has
 * packets of its own. */
#ifndef DECODE_POKE_H
#define DECODE_POKE_H

#include "decode/sideband.h"

/* A stretch of addresses whose pokes overlap, and these in order of time. */
struct poke_region {
	uint64_t start, end;
	const struct text_poke **pokes;
	size_t count;
};

struct pokes {
	const struct text_poke **order;
	VEC(struct poke_region) regions; /* by address */
};

/* What stands from an ip on. */
struct poked {
	const uint8_t *bytes; /* NULL = what the file says */
	uint64_t count;       /* the answer holds for so many */
	bool is_poked;        /* at some time: at another one the answer may differ */
	/* Meanwhile it is the same; 0 and TIME_NONE = since and for ever. */
	uint64_t from_ns, until_ns;
};

/* False when memory is short. The sideband must outlive it. */
bool pokes_init(struct pokes *p, const struct sideband *sideband);
void pokes_done(struct pokes *p);
/* time_ns: TIME_NONE = at the end. */
struct poked pokes_at(const struct pokes *p, uint64_t ip, uint64_t time_ns);

#endif
