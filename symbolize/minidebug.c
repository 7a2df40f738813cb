/* See minidebug.h. */
#include "symbolize/minidebug.h"

#include <lzma.h>
#include <stdlib.h>

#define MINIDEBUG_MAX_BYTES  (256u << 20)
#define MINIDEBUG_MAX_MEMORY (256u << 20) /* of the decoder's dictionary */

/* Unpacks into memory that grows; *heap is the caller's to free, also on failure. */
static enum err minidebug_unpack(lzma_stream *stream, uint8_t **heap, size_t *bytes)
{
	size_t capacity = 1 << 16;
	lzma_ret ret = LZMA_OK;

	while (ret == LZMA_OK) {
		size_t used = (size_t)stream->total_out;

		if (used == capacity || !*heap) {
			uint8_t *grown;

			if (*heap)
				capacity *= 2;
			if (capacity > MINIDEBUG_MAX_BYTES)
				return ERR_LIMIT;
			grown = realloc(*heap, capacity);
			if (!grown)
				return ERR_NOMEM;
			*heap = grown;
		}
		stream->next_out = *heap + used;
		stream->avail_out = capacity - used;
		ret = lzma_code(stream, LZMA_FINISH);
	}
	*bytes = (size_t)stream->total_out;
	return ret == LZMA_STREAM_END ? ERR_NONE : ret == LZMA_MEM_ERROR ? ERR_NOMEM : ERR_FORMAT;
}

enum err minidebug_open(const struct object *o, struct object **result)
{
	const struct object_section *section = object_find_section(o, ".gnu_debugdata");
	struct bytes packed = section ? object_section_bytes(o, section) : (struct bytes){0};
	lzma_stream stream = LZMA_STREAM_INIT;
	uint8_t *heap = NULL;
	size_t bytes = 0;

	if (!bytes_left(&packed))
		return ERR_NOT_FOUND;
	if (lzma_stream_decoder(&stream, MINIDEBUG_MAX_MEMORY, 0) != LZMA_OK)
		return ERR_NOMEM;
	stream.next_in = packed.p;
	stream.avail_in = bytes_left(&packed);
	enum err err = minidebug_unpack(&stream, &heap, &bytes);
	lzma_end(&stream);
	if (err == ERR_NONE)
		return object_from_heap(".gnu_debugdata", heap, bytes, result, NULL);
	free(heap);
	return err;
}
