/* See intern.h. */
#include "common/intern.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static bool intern_rehash(struct intern *t)
{
	size_t count = t->slot_count ? t->slot_count * 2 : 64;
	uint32_t *slots = calloc(count, sizeof *slots);

	if (!slots)
		return false;
	for (size_t i = 0; i < t->entries.count; i++) {
		size_t at = t->entries.items[i].hash & (count - 1);

		while (slots[at])
			at = (at + 1) & (count - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->slot_count = count;
	return true;
}

bool intern_bytes(struct intern *t, const char *text, size_t length, str_id *id)
{
	if (t->entries.count == 0 && length > 0) {
		str_id empty;

		if (!intern_bytes(t, "", 0, &empty))
			return false;
	}
	if (length >= UINT32_MAX || t->entries.count >= UINT32_MAX - 1)
		return false;
	if ((t->entries.count + 1) * 4 > t->slot_count * 3 && !intern_rehash(t))
		return false;

	uint32_t hash = (uint32_t)XXH3_64bits(text, length);
	size_t at = hash & (t->slot_count - 1);

	for (; t->slots[at]; at = (at + 1) & (t->slot_count - 1)) {
		const struct intern_entry *e = &t->entries.items[t->slots[at] - 1];

		if (e->hash == hash && e->length == length && memcmp(e->text, text, length) == 0) {
			id->v = t->slots[at] - 1;
			return true;
		}
	}
	char *copy = arena_copy_string(&t->text, text, length);
	if (!copy)
		return false;
	struct intern_entry entry = {.text = copy, .length = (uint32_t)length, .hash = hash};
	if (!vec_push(&t->entries, entry))
		return false;
	t->slots[at] = (uint32_t)t->entries.count;
	id->v = (uint32_t)t->entries.count - 1;
	return true;
}

bool intern_string(struct intern *t, const char *text, str_id *id)
{
	return intern_bytes(t, text, strlen(text), id);
}

const char *intern_text(const struct intern *t, str_id id)
{
	return id.v < t->entries.count ? t->entries.items[id.v].text : "";
}

size_t intern_length(const struct intern *t, str_id id)
{
	return id.v < t->entries.count ? t->entries.items[id.v].length : 0;
}

void intern_done(struct intern *t)
{
	arena_done(&t->text);
	vec_done(&t->entries);
	free(t->slots);
	memset(t, 0, sizeof *t);
}
