/* See buffer.h. */
#include "writer/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/vec.h"

bool buffer_reserve(struct buffer *b, size_t more)
{
	if (more <= b->capacity - b->bytes)
		return true;
	if (more > SIZE_MAX - b->bytes)
		return false;
	uint8_t *grown = vec_grown(b->data, &b->capacity, b->bytes + more, 1);
	if (grown)
		b->data = grown;
	return grown;
}

void buffer_text(struct buffer *b, const char *text)
{
	size_t length = strlen(text);

	if (!buffer_reserve(b, length)) {
		b->failed = true;
		return;
	}
	if (length)
		memcpy(b->data + b->bytes, text, length);
	b->bytes += length;
}

void buffer_printf(struct buffer *b, const char *format, ...)
{
	va_list ap, again;

	va_start(ap, format);
	va_copy(again, ap);
	int length = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	/* The NUL that vsnprintf() adds needs room, but is not part of the content. */
	if (length < 0 || !buffer_reserve(b, (size_t)length + 1)) {
		b->failed = true;
	} else {
		vsnprintf((char *)b->data + b->bytes, (size_t)length + 1, format, again);
		b->bytes += (size_t)length;
	}
	va_end(again);
}

void buffer_done(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){0};
}
