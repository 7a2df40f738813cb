/* Blocks of output: made and compressed by several threads, written in order.
 *
 *     blocks_new -> blocks_put / blocks_put_work ... -> blocks_finish -> blocks_free
 *
 * With gzip every block becomes a member of its own; readers (RFC 1952, zlib, Perfetto) see
 * one stream. The bytes do not depend on how many threads did it. */
#ifndef WRITER_BLOCKS_H
#define WRITER_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "writer/buffer.h"

enum { BLOCKS_THREADS_MAX = 64 };

enum blocks_format { BLOCKS_PLAIN, BLOCKS_GZIP };

/* Receives the bytes in order, in any thread, one call at a time. */
struct block_sink {
	enum err (*write)(void *context, const uint8_t *data, size_t bytes, struct error *error);
	void *context;
};

/* How the content of a block is made. No memory: out->failed. */
struct block_work {
	/* Fills `out`, which is empty. In any thread, beside other blocks. */
	void (*make)(void *context, struct buffer *out);
	/* Block by block, in their order: true = the content was made anew. */
	bool (*settle)(void *context, struct buffer *out);
	/* The last call, in order, also where what comes before is no more wanted. */
	void (*done)(void *context);
};

struct blocks;

/* threads 0 and 1: blocks_put() does the work itself. */
MUST_CHECK enum err blocks_new(unsigned threads, enum blocks_format format, struct block_sink sink,
			       struct blocks **result, struct error *error);
/* Takes the content of b, which comes back empty with other memory. An empty b is nothing.
 * Errors, here as below, may be those of earlier blocks. */
MUST_CHECK enum err blocks_put(struct blocks *b, struct buffer *content, struct error *error);
/* A block that is still to be made. The context is taken also on failure. */
MUST_CHECK enum err blocks_put_work(struct blocks *b, const struct block_work *work, void *context,
				    struct error *error);
/* All blocks have reached the sink: no work is under way. */
MUST_CHECK enum err blocks_drain(struct blocks *b, struct error *error);
/* The same, at the end: gzip of nothing at all is one empty member. */
MUST_CHECK enum err blocks_finish(struct blocks *b, struct error *error);
/* Stops the threads; what has not reached the sink is dropped. */
void blocks_free(struct blocks *b);

#endif
