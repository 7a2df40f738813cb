/* A block of output: runs of calls, of one thread or of several small ones, encoded by any
 * thread (blocks.h). */
#ifndef WRITER_SLICE_BLOCK_H
#define WRITER_SLICE_BLOCK_H

#include "writer/slice_encode.h"

struct slice_block;

struct slice_block *slice_block_new(struct slices *s);
/* Before it was given away. */
void slice_block_free(struct slice_block *b);
/* False when memory is short. */
bool slice_block_add(struct slice_block *b, const struct slice_run *run);
size_t slice_block_runs(const struct slice_block *b);
/* Gives it to the output, behind `head`, whose content is taken. */
MUST_CHECK enum err slice_block_put(struct slice_block *b, struct buffer *head,
				    struct error *error);

#endif
