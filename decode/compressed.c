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
	OUTPUT_STEP = 1 << 16,
	PIECE_MAX = UINT16_MAX - HEADER2_BYTES, /* zstd bytes perf puts into one COMPRESSED2 */
};

struct compressed {
	VEC(struct compressed_chunk) chunks;
	ZSTD_DStream *stream;
	VEC(uint8_t) pending; /* decompressed, not yet in a chunk: at last the start of a record */
	uint32_t file;        /* that stream and pending belong to */
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
	vec_done(&c->pending);
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

/* Room for more output, up to the ceilings. */
static enum err pending_reserve(struct compressed *c)
{
	uint64_t limit = PERFDATA_DECOMPRESSED_FREE + c->in_bytes * PERFDATA_RATIO_MAX;

	if (limit > PERFDATA_DECOMPRESSED_MAX)
		limit = PERFDATA_DECOMPRESSED_MAX;
	if (c->out_bytes >= limit)
		return ERR_LIMIT;
	return vec_reserve(&c->pending, c->pending.count + OUTPUT_STEP) ? ERR_NONE : ERR_NOMEM;
}

/* Appends what data[0, bytes) decompresses to. */
static enum err piece_decompress(struct compressed *c, const uint8_t *data, size_t bytes)
{
	ZSTD_inBuffer in = {.src = data, .size = bytes};
	bool is_full = false;

	/* A full output buffer may mean that the stream holds back more. */
	while (in.pos < in.size || is_full) {
		enum err err = pending_reserve(c);

		if (err != ERR_NONE)
			return err;
		ZSTD_outBuffer out = {.dst = c->pending.items + c->pending.count,
				      .size = c->pending.capacity - c->pending.count};
		size_t in_before = in.pos;
		size_t rc = ZSTD_decompressStream(c->stream, &out, &in);

		c->pending.count += out.pos;
		c->out_bytes += out.pos;
		is_full = out.pos == out.size;
		if (ZSTD_isError(rc) || (in.pos == in_before && out.pos == 0 && in.pos < in.size))
			return ERR_FORMAT;
	}
	return ERR_NONE;
}

static enum err record_decompress(struct compressed *c, const uint8_t *record, size_t bytes)
{
	if (load_le(record, 4) == RECORD_COMPRESSED)
		return piece_decompress(c, record + HEADER_BYTES, bytes - HEADER_BYTES);

	struct bytes b = bytes_of(record + HEADER2_BYTES, load_le(record + HEADER_BYTES, 8));
	for (;;) {
		size_t piece = bytes_left(&b) < PIECE_MAX ? bytes_left(&b) : PIECE_MAX;
		enum err err = piece_decompress(c, bytes_take(&b, piece), piece);

		if (err != ERR_NONE || bytes_left(&b) == 0)
			return err;
		const uint8_t *next = bytes_take(&b, HEADER2_BYTES);
		if (!next || load_le(next, 4) != RECORD_COMPRESSED2)
			return ERR_FORMAT;
	}
}

/* How far complete records reach. False: a size that cannot be; nothing behind it can be
 * found any more. */
static bool records_end(const uint8_t *data, size_t bytes, size_t *end)
{
	size_t at = 0, size = HEADER_BYTES;

	while (size >= HEADER_BYTES && bytes - at >= HEADER_BYTES) {
		size = header_size(data + at);
		if (size < HEADER_BYTES || size > bytes - at)
			break;
		at += size;
	}
	*end = at;
	return size >= HEADER_BYTES;
}

/* Decompresses a record and moves what is complete then into its chunk. */
static enum err chunk_fill(struct compressed *c, const uint8_t *record, size_t bytes,
			   struct compressed_chunk *chunk)
{
	size_t end = 0;

	c->in_bytes += bytes;
	chunk->result = record_decompress(c, record, bytes);
	if (chunk->result == ERR_NOMEM)
		return ERR_NOMEM;
	if (!records_end(c->pending.items, c->pending.count, &end))
		chunk->result = ERR_FORMAT;
	if (end > 0) {
		chunk->data = malloc(end);
		if (!chunk->data)
			return ERR_NOMEM;
		memcpy(chunk->data, c->pending.items, end);
		chunk->bytes = end;
		c->pending.count -= end;
		memmove(c->pending.items, c->pending.items + end, c->pending.count);
	}
	chunk->tail_bytes = chunk->result == ERR_NONE ? c->pending.count : 0;
	return ERR_NONE;
}

enum err compressed_get(struct compressed *c, size_t n, uint32_t file, const uint8_t *record,
			size_t bytes, const struct compressed_chunk **chunk)
{
	if (n >= c->chunks.count) {
		struct compressed_chunk next = {0};

		if (!vec_reserve(&c->chunks, c->chunks.count + 1))
			return ERR_NOMEM;
		if (file != c->file) {
			ZSTD_DCtx_reset(c->stream, ZSTD_reset_session_only);
			c->pending.count = 0;
			c->file = file;
		} else if (c->chunks.count > 0) {
			next.result = vec_last(&c->chunks)->result;
		}
		if (next.result == ERR_NONE) {
			enum err err = chunk_fill(c, record, bytes, &next);

			if (err != ERR_NONE)
				return err;
		}
		c->chunks.items[c->chunks.count++] = next;
	}
	*chunk = &c->chunks.items[n];
	return ERR_NONE;
}
