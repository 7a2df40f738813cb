/* Arena: many small allocations that live and die together.
 *
 * Memory is zeroed and aligned to 16 bytes. Nothing is freed singly; arena_done()
 * frees all. Under AddressSanitizer the unused rest of each block is poisoned. */
#ifndef COMMON_ARENA_H
#define COMMON_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *blocks;
	size_t used, capacity; /* of the newest block */
	size_t total_bytes;    /* held from malloc */
};

/* NULL when memory is short. bytes may be 0. */
void *arena_alloc(struct arena *a, size_t bytes);
/* A NUL-terminated copy of length bytes. */
char *arena_copy_string(struct arena *a, const char *text, size_t length);
void arena_done(struct arena *a);

#endif
