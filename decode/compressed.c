/* See compressed.h.
 *
 *     COMPRESSED    | header | zstd bytes |
 *     COMPRESSED2   | header | u64 data_size | zstd bytes (data_size) | padding to 8 |
 *
 * perf writes one endless zstd frame and flushes it at each record. When more than 64 KiB
 * come at once, perf 6.16 writes several COMPRESSED2 back to back, but overwrites the first
 * header with the sizes of the whole: header.size has wrapped, data_size spans all, nothing
 * is padded, and the later ones' data_size was never set. All but the last are full, which
 * is what tells the seams. */
#include "decode/compressed.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/bytes.h"
#include "common/vec.h"
#include "decode/perfdata.h"

enum {
	HEADER_BYTES = 8,
	HEADER2_BYTES = 16,
	PIECE_MAX = UINT16_MAX - HEADER2_BYTES, /* zstd bytes perf puts into one COMPRESSED2 */
};

struct compressed {
	VEC(struct compressed_chunk) chunks;
	ZSTD_DStream *stream;
	uint32_t file; /* that the stream belongs to */
	uint64_t in_bytes, out_bytes;
};

struct compressed *compressed_new(void)
{
	struct compressed *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->file = UINT32_MAX;
	c->stream = ZSTD_createDStream();
	if (!c->stream) {
		free(c);
		return NULL;
	}
	return c;
}

void compressed_free(struct compressed *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->chunks.count; i++)
		free(c->chunks.items[i].data);
	vec_done(&c->chunks);
	ZSTD_freeDStream(c->stream);
	free(c);
}

static uint16_t header_size(const uint8_t *record)
{
	return (uint16_t)load_le(record + 6, 2);
}

uint64_t compressed2_file_bytes(const uint8_t *record, size_t available)
{
	if (available < HEADER2_BYTES)
		return 0;
	uint64_t data_size = load_le(record + HEADER_BYTES, 8);
	if (data_size > SIZE_MAX - HEADER2_BYTES - 8)
		return 0;
	uint64_t all = HEADER2_BYTES + data_size;
	uint64_t padded = (all + 7) & ~(uint64_t)7;

	if (header_size(record) >= all)
		return header_size(record);
	return header_size(record) == (uint16_t)padded ? all : 0;
}

/* Room for more output; false at a ceiling or when memory is short. */
static bool output_grow(struct compressed *c, ZSTD_outBuffer *out, size_t old_tail, enum err *err)
{
	uint64_t limit = PERFDATA_DECOMPRESSED_FREE + c->in_bytes * PERFDATA_RATIO_MAX;

	if (limit > PERFDATA_DECOMPRESSED_MAX)
		limit = PERFDATA_DECOMPRESSED_MAX;
	uint64_t room = limit > c->out_bytes ? limit - c->out_bytes + old_tail : 0;
	if (out->size >= room) {
		*err = ERR_LIMIT;
		return false;
	}
	size_t size = out->size * 2 < room ? out->size * 2 : (size_t)room;
	void *grown = realloc(out->dst, size);
	if (!grown) {
		*err = ERR_NOMEM;
		return false;
	}
	out->dst = grown;
	out->size = size;
	return true;
}

/* Appends what in[0, bytes) decompresses to. */
static enum err piece_decompress(struct compressed *c, const uint8_t *data, size_t bytes,
				 ZSTD_outBuffer *out, size_t old_tail)
{
	ZSTD_inBuffer in = {.src = data, .size = bytes};
	enum err err = ERR_NONE;

	/* A full output buffer may mean that the stream holds back more. */
	while (in.pos < in.size || out->pos == out->size) {
		if (out->pos == out->size && !output_grow(c, out, old_tail, &err))
			return err;
		size_t in_before = in.pos, out_before = out->pos;
		size_t rc = ZSTD_decompressStream(c->stream, out, &in);

		if (ZSTD_isError(rc))
			return ERR_FORMAT;
		if (in.pos == in_before && out->pos == out_before)
			return in.pos < in.size ? ERR_FORMAT : ERR_NONE;
	}
	return ERR_NONE;
}

static enum err record_decompress(struct compressed *c, const uint8_t *record, size_t bytes,
				  ZSTD_outBuffer *out, size_t old_tail)
{
	if (load_le(record, 4) == RECORD_COMPRESSED)
		return piece_decompress(c, record + HEADER_BYTES, bytes - HEADER_BYTES, out,
					old_tail);

	struct bytes b = bytes_of(record + HEADER2_BYTES, load_le(record + HEADER_BYTES, 8));
	for (;;) {
		size_t piece = bytes_left(&b) < PIECE_MAX ? bytes_left(&b) : PIECE_MAX;
		enum err err = piece_decompress(c, bytes_take(&b, piece), piece, out, old_tail);

		if (err != ERR_NONE || bytes_left(&b) == 0)
			return err;
		const uint8_t *next = bytes_take(&b, HEADER2_BYTES);
		if (!next || load_le(next, 4) != RECORD_COMPRESSED2)
			return ERR_FORMAT;
	}
}

/* Splits the chunk behind its last complete record. */
static void chunk_split(struct compressed_chunk *chunk, size_t bytes)
{
	size_t at = 0;

	while (bytes - at >= HEADER_BYTES) {
		size_t size = header_size(chunk->data + at);

		if (size < HEADER_BYTES) {
			/* Nothing behind it can be found any more. */
			chunk->result = ERR_FORMAT;
			bytes = at;
			break;
		}
		if (size > bytes - at)
			break;
		at += size;
	}
	chunk->bytes = at;
	chunk->tail_bytes = bytes - at;
}

/* Decompresses the next record, behind what `before` (NULL: nothing) left over. */
static enum err chunk_fill(struct compressed *c, const struct compressed_chunk *before,
			   const uint8_t *record, size_t bytes, struct compressed_chunk *chunk)
{
	size_t tail = before ? before->tail_bytes : 0;
	ZSTD_outBuffer out = {.size = tail + 4 * bytes + HEADER_BYTES, .pos = tail};

	out.dst = malloc(out.size);
	if (!out.dst)
		return ERR_NOMEM;
	if (tail > 0)
		memcpy(out.dst, before->data + before->bytes, tail);
	c->in_bytes += bytes;
	chunk->result = record_decompress(c, record, bytes, &out, tail);
	if (chunk->result == ERR_NOMEM) {
		free(out.dst);
		return ERR_NOMEM;
	}
	c->out_bytes += out.pos - tail;
	void *shrunk = out.pos > 0 ? realloc(out.dst, out.pos) : NULL;
	chunk->data = shrunk ? shrunk : out.dst;
	chunk_split(chunk, out.pos);
	return ERR_NONE;
}

enum err compressed_get(struct compressed *c, size_t n, uint32_t file, const uint8_t *record,
			size_t bytes, const struct compressed_chunk **chunk)
{
	if (n >= c->chunks.count) {
		struct compressed_chunk next = {0};
		const struct compressed_chunk *before = NULL;

		if (!vec_reserve(&c->chunks, c->chunks.count + 1))
			return ERR_NOMEM;
		if (file != c->file) {
			ZSTD_DCtx_reset(c->stream, ZSTD_reset_session_only);
			c->file = file;
		} else if (c->chunks.count > 0) {
			before = vec_last(&c->chunks);
		}
		if (before && before->result != ERR_NONE) {
			next.result = before->result;
		} else {
			enum err err = chunk_fill(c, before, record, bytes, &next);

			if (err != ERR_NONE)
				return err;
		}
		c->chunks.items[c->chunks.count++] = next;
	}
	*chunk = &c->chunks.items[n];
	return ERR_NONE;
}
