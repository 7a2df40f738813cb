/* See map64.h. Open addressing with linear probing, at most 2/3 full. */
#include "common/map64.h"

#include <stdlib.h>
#include <string.h>

static struct map64_slot *map64_slot_for(struct map64_slot *slots, size_t slot_count, uint64_t key)
{
	size_t at = map64_hash(key) & (slot_count - 1);

	while (slots[at].value != MAP64_NONE && slots[at].key != key)
		at = (at + 1) & (slot_count - 1);
	return &slots[at];
}

static bool map64_grow(struct map64 *m)
{
	size_t slot_count = m->slot_count ? m->slot_count * 2 : 32;
	struct map64_slot *slots = malloc(slot_count * sizeof *slots);

	if (!slots)
		return false;
	for (size_t i = 0; i < slot_count; i++)
		slots[i] = (struct map64_slot){.value = MAP64_NONE};
	for (size_t i = 0; i < m->slot_count; i++)
		if (m->slots[i].value != MAP64_NONE)
			*map64_slot_for(slots, slot_count, m->slots[i].key) = m->slots[i];
	free(m->slots);
	m->slots = slots;
	m->slot_count = slot_count;
	return true;
}

bool map64_set(struct map64 *m, uint64_t key, uint32_t value)
{
	if ((m->count + 1) * 3 > m->slot_count * 2 && !map64_grow(m))
		return false;
	struct map64_slot *slot = map64_slot_for(m->slots, m->slot_count, key);
	m->count += slot->value == MAP64_NONE;
	*slot = (struct map64_slot){.key = key, .value = value};
	return true;
}

void map64_done(struct map64 *m)
{
	free(m->slots);
	memset(m, 0, sizeof *m);
}
