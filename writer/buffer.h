/* A growing run of bytes: what the encoders write into and the outputs take away.
 *
 * A zeroed buffer is empty and valid. Growing moves the data. Text helpers note a failed
 * allocation in `failed` and go on, so that a run of them needs one check. */
#ifndef WRITER_BUFFER_H
#define WRITER_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* Encoders hand over a buffer when it holds this much: large enough for good compression
 * and few system calls, small enough that many are in flight. */
enum { BUFFER_BLOCK_BYTES = 1 << 20 };

struct buffer {
	uint8_t *data;
	size_t bytes, capacity;
	bool failed;
};

/* Room for `more` bytes behind the present ones; false when memory is short. */
MUST_CHECK bool buffer_reserve(struct buffer *b, size_t more);
void buffer_text(struct buffer *b, const char *text);
void buffer_printf(struct buffer *b, const char *format, ...) PRINTF_LIKE(2, 3);
void buffer_done(struct buffer *b);

#endif
