/* Where GOT slots lead, by relocation, and what PLT stubs are called. */
#ifndef SYMBOLIZE_GOT_H
#define SYMBOLIZE_GOT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/vec.h"
#include "symbolize/object.h"

struct got_slot {
	uint64_t vaddr;
	const char *symbol; /* "" = the slot holds target */
	uint64_t target;    /* vaddr in the same file */
};

struct got {
	VEC(struct got_slot) slots; /* sorted by vaddr */
	VEC(uint64_t) plt_slots;    /* slot of .rela.plt[i]: lazy stubs push i */
};

/* false when memory is short. Names point into the object. */
bool got_load(struct got *g, const struct object *o);
const struct got_slot *got_find(const struct got *g, uint64_t vaddr);
void got_done(struct got *g);

struct plt_stub {
	uint64_t start, end;
	uint64_t slot; /* 0 = the header stub, or of a form not known */
	bool header;   /* PLT0: jumps to the lazy resolver */
};

/* The stub at vaddr; false if that is in no PLT section. */
bool plt_find(const struct got *g, const struct object *o, uint64_t vaddr, struct plt_stub *stub);

#endif
