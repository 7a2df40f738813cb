/* String interning: equal strings get equal ids (xxh3 over the bytes).
 *
 * Id 0 is the empty string and always present. Strings are copied, kept
 * NUL-terminated and live as long as the table. Not thread-safe for writers;
 * intern_text() of an id that the caller already holds is safe beside them only
 * under the caller's own lock. */
#ifndef COMMON_INTERN_H
#define COMMON_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/vec.h"

typedef struct {
	uint32_t v;
} str_id;

struct intern_entry {
	const char *text;
	uint32_t length;
	uint32_t hash;
};

struct intern {
	struct arena text;
	VEC(struct intern_entry) entries;
	uint32_t *slots; /* open addressing; 0 = empty, else id + 1 */
	size_t slot_count;
};

/* A zeroed table is valid. false when memory is short or at 2^32 - 2 strings. */
bool intern_bytes(struct intern *t, const char *text, size_t length, str_id *id);
bool intern_string(struct intern *t, const char *text, str_id *id);
const char *intern_text(const struct intern *t, str_id id);
size_t intern_length(const struct intern *t, str_id id);
void intern_done(struct intern *t);

#endif
