/* gzip by blocks: every block becomes a gzip member of its own, so blocks compress in
 * parallel and the bytes do not depend on how many threads did it. Readers (RFC 1952,
 * zlib, Perfetto) see one stream. */
#ifndef WRITER_COMPRESS_H
#define WRITER_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "writer/buffer.h"

enum {
	COMPRESS_THREADS_MAX = 64,
	COMPRESS_LEVEL_FAST = 1, /* libdeflate's; the default: names and times repeat so much that
				    higher levels cost several times more for little */
};

/* Receives compressed bytes in order, always in the thread that calls compress_put/finish. */
struct compress_sink {
	enum err (*write)(void *context, const uint8_t *data, size_t bytes, struct error *error);
	void *context;
};

struct compress;

/* threads 0 and 1: compress_put() does the work itself. */
MUST_CHECK enum err compress_new(unsigned threads, int level, struct compress_sink sink,
				 struct compress **result, struct error *error);
/* Takes the content of b, which comes back empty with other memory. An empty b is nothing. */
MUST_CHECK enum err compress_put(struct compress *c, struct buffer *b, struct error *error);
/* All that was put has reached the sink. Nothing put at all = one empty member. */
MUST_CHECK enum err compress_finish(struct compress *c, struct error *error);
/* Stops the threads; what has not reached the sink is dropped. */
void compress_free(struct compress *c);

#endif
