/* Bounds-checked little-endian reading from bytes that nobody vouches for.
 *
 * A reader is a [p, end) window. Reads advance p; a read past the end sets
 * `failed`, returns 0 and leaves p at end, so a run of reads needs one check. */
#ifndef COMMON_BYTES_H
#define COMMON_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const uint8_t *p, *end;
	bool failed;
};

static inline struct bytes bytes_of(const void *p, size_t length)
{
	/* NULL + 0 is undefined in C, and an empty window often is NULL. */
	return (struct bytes){.p = p, .end = length ? (const uint8_t *)p + length : p};
}

static inline size_t bytes_left(const struct bytes *b)
{
	return (size_t)(b->end - b->p);
}

/* The next n bytes, or NULL. */
static inline const uint8_t *bytes_take(struct bytes *b, size_t n)
{
	if (n > bytes_left(b)) {
		b->failed = true;
		b->p = b->end;
		return NULL;
	}
	const uint8_t *p = b->p;
	if (n)
		b->p += n;
	return p;
}

/* The next `count` items, or NULL. */
static inline const uint8_t *bytes_array(struct bytes *b, uint64_t count, size_t item_bytes)
{
	if (count > bytes_left(b) / item_bytes) {
		b->failed = true;
		b->p = b->end;
		return NULL;
	}
	return bytes_take(b, (size_t)count * item_bytes);
}

static inline uint64_t load_le(const uint8_t *p, size_t n)
{
	uint64_t value = 0;

	memcpy(&value, p, n); /* x86-64 only: host order is little-endian */
	return value;
}

static inline uint64_t bytes_le(struct bytes *b, size_t n)
{
	const uint8_t *p = bytes_take(b, n);

	return p ? load_le(p, n) : 0;
}

static inline uint8_t bytes_u8(struct bytes *b)
{
	return (uint8_t)bytes_le(b, 1);
}

static inline uint16_t bytes_u16(struct bytes *b)
{
	return (uint16_t)bytes_le(b, 2);
}

static inline uint32_t bytes_u32(struct bytes *b)
{
	return (uint32_t)bytes_le(b, 4);
}

static inline uint64_t bytes_u64(struct bytes *b)
{
	return bytes_le(b, 8);
}

/* A NUL-terminated string that ends inside the window; NULL if it does not. */
static inline const char *bytes_string(struct bytes *b)
{
	const uint8_t *nul = bytes_left(b) ? memchr(b->p, 0, bytes_left(b)) : NULL;

	if (!nul) {
		b->failed = true;
		b->p = b->end;
		return NULL;
	}
	const char *text = (const char *)b->p;
	b->p = nul + 1;
	return text;
}

#endif
