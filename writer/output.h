/* Where results go: a file that appears only when it is complete, or standard output.
 *
 *     output_open -> output_put ... -> output_commit -> output_free
 *
 * A regular file is written under a temporary name in the same directory and renamed by
 * output_commit(); an existing file is replaced only then. output_free() without commit
 * removes the temporary. "-" is standard output; so are devices and FIFOs written in place.
 * A name that ends in .gz is compressed (blocks.h), binary is never sent to a terminal. */
#ifndef WRITER_OUTPUT_H
#define WRITER_OUTPUT_H

#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "writer/blocks.h"
#include "writer/buffer.h"

enum output_kind { OUTPUT_BINARY, OUTPUT_TEXT };

struct output;

/* `threads` = how many make, compress and write; 0 and 1: the caller does it. The bytes are the
 * same for any number. ERR_USAGE: binary to a terminal; ERR_IO: the path cannot be written. */
MUST_CHECK enum err output_open(const char *path, enum output_kind kind, unsigned threads,
				struct output **result, struct error *error);
/* Takes the content of b, which comes back empty (perhaps with other memory). It may fail for
 * what was put before. */
MUST_CHECK enum err output_put(struct output *o, struct buffer *b, struct error *error);
/* A block that other threads may make while the caller goes on; see blocks.h. */
MUST_CHECK enum err output_put_work(struct output *o, const struct block_work *work, void *context,
				    struct error *error);
/* All that was put is written, no work is under way. */
MUST_CHECK enum err output_drain(struct output *o, struct error *error);
/* A stream whose bytes go to the output, for code that prints. The caller closes it before
 * output_commit(), which tells what failed in it. Not together with output_put(). */
MUST_CHECK enum err output_stream(struct output *o, FILE **stream, struct error *error);
/* Everything is on its way to the disk, output_bytes() is final; the file has no name yet. */
MUST_CHECK enum err output_finish(struct output *o, struct error *error);
/* The same, and the file has its name. */
MUST_CHECK enum err output_commit(struct output *o, struct error *error);
void output_free(struct output *o);
/* Bytes written so far (compressed, where it is). */
uint64_t output_bytes(const struct output *o);
const char *output_path(const struct output *o);

/* For signal handlers: removes the temporaries of all open outputs. Async-signal-safe. */
void output_remove_temporaries(void);

#endif
