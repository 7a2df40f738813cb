/* Hash map from uint64_t to uint32_t, for "have I seen this address" questions.
 *
 * A zeroed map is empty and valid. Keys may be any value; values any but
 * MAP64_NONE. Nothing is ever removed. Iteration order is not defined: never let
 * it reach an output. */
#ifndef COMMON_MAP64_H
#define COMMON_MAP64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP64_NONE UINT32_MAX

struct map64_slot {
	uint64_t key;
	uint32_t value; /* MAP64_NONE = slot empty */
};

struct map64 {
	struct map64_slot *slots;
	size_t count, slot_count;
};

static inline uint64_t map64_hash(uint64_t key)
{
	key ^= key >> 32;
	key *= 0x9e3779b97f4a7c15u;
	return key ^ key >> 29;
}

/* The value, or MAP64_NONE. */
static inline uint32_t map64_get(const struct map64 *m, uint64_t key)
{
	if (m->slot_count == 0)
		return MAP64_NONE;
	for (size_t at = map64_hash(key) & (m->slot_count - 1);; at = (at + 1) & (m->slot_count - 1)) {
		if (m->slots[at].value == MAP64_NONE)
			return MAP64_NONE;
		if (m->slots[at].key == key)
			return m->slots[at].value;
	}
}

/* Sets or replaces; false when memory is short. */
bool map64_set(struct map64 *m, uint64_t key, uint32_t value);
void map64_done(struct map64 *m);

#endif
