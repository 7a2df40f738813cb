/* The contents of COMPRESSED and COMPRESSED2 records (perf record -z): zstd, one stream per
 * file, records may straddle the pieces.
 *
 * What was decompressed is kept until compressed_free(), so that records may point into it
 * and a second walk costs nothing.
 *
 * Source: Linux tools/perf/util/session.c and builtin-record.c, perf/event.h. */
#ifndef DECODE_COMPRESSED_H
#define DECODE_COMPRESSED_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct compressed;

/* The complete records that one COMPRESSED record brings, the first of which may have begun
 * in those before it. */
struct compressed_chunk {
	uint8_t *data;
	size_t bytes;
	size_t tail_bytes; /* of a record that goes on in the next chunk */
	/* ERR_FORMAT: the stream breaks off here, ERR_LIMIT: a ceiling. Later records of the
	 * same file have the same result and no data. */
	enum err result;
};

/* NULL when memory is short. */
struct compressed *compressed_new(void);
void compressed_free(struct compressed *c);

/* The chunk of the nth COMPRESSED* record (by all files of the walk, from 0): `record` with its
 * header, `bytes` in all. Records must be first asked for in order. ERR_NOMEM only;
 * whatever else is wrong stands in the chunk. *chunk is valid until the next call, its data
 * until compressed_free(). */
MUST_CHECK enum err compressed_get(struct compressed *c, size_t n, uint32_t file,
				   const uint8_t *record, size_t bytes,
				   const struct compressed_chunk **chunk);

/* How many bytes a COMPRESSED2 record takes in the file. Its 16-bit header.size wraps when
 * perf 6.16 writes more than 64 KiB at once; its own 64-bit data_size does not. 0 = the two
 * contradict each other. */
uint64_t compressed2_file_bytes(const uint8_t *record, size_t available);

#endif
