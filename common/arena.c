/* See arena.h. Blocks double up to 1 MiB; a larger request gets a block of its own. */
#include "common/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct arena_block {
	struct arena_block *older;
	size_t bytes;
	alignas(ALIGN) unsigned char data[];
};

static int arena_add_block(struct arena *a, size_t need)
{
	size_t bytes = a->capacity * 2;

	if (bytes < FIRST_BLOCK)
		bytes = FIRST_BLOCK;
	if (bytes > LARGEST_BLOCK)
		bytes = LARGEST_BLOCK;
	if (bytes < need)
		bytes = need;
	if (bytes > SIZE_MAX - sizeof(struct arena_block))
		return 0;
	struct arena_block *block = calloc(1, sizeof *block + bytes);
	if (!block)
		return 0;
	block->older = a->blocks;
	block->bytes = bytes;
	a->blocks = block;
	a->used = 0;
	a->capacity = bytes;
	a->total_bytes += sizeof *block + bytes;
	ASAN_POISON_MEMORY_REGION(block->data, bytes);
	return 1;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	if (bytes > SIZE_MAX - 2 * ALIGN)
		return NULL;
	size_t rounded = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (rounded == 0)
		rounded = ALIGN;
	if (a->capacity - a->used < rounded && !arena_add_block(a, rounded))
		return NULL;
	void *p = a->blocks->data + a->used;
	a->used += rounded;
	ASAN_UNPOISON_MEMORY_REGION(p, bytes);
	return p;
}

char *arena_copy_string(struct arena *a, const char *text, size_t length)
{
	char *copy = length < SIZE_MAX ? arena_alloc(a, length + 1) : NULL;

	if (copy) {
		memcpy(copy, text, length);
		copy[length] = '\0';
	}
	return copy;
}

void arena_done(struct arena *a)
{
	while (a->blocks) {
		struct arena_block *older = a->blocks->older;

		ASAN_UNPOISON_MEMORY_REGION(a->blocks->data, a->blocks->bytes);
		free(a->blocks);
		a->blocks = older;
	}
	memset(a, 0, sizeof *a);
}
