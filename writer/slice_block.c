/* See slice_block.h. A block that begins within a thread does not wait for the one before: it
 * guesses the path that leads to its first call. When its turn comes to be written it is known
 * where the one before has ended; after a wrong guess, or none, it is encoded again from there.
 * Right guesses are the rule: only a trace that contradicts itself makes wrong ones. */
#include "writer/slice_block.h"

#include <stdlib.h>
#include <string.h>

struct slice_block {
	struct slices *s;
	struct buffer head;
	VEC(struct slice_run) runs;
	bool is_guessed;
	struct slice_path start, end; /* of the first run; of the last */
	struct fxt_counts counts;
};

struct slice_block *slice_block_new(struct slices *s)
{
	struct slice_block *b = calloc(1, sizeof *b);

	if (b)
		b->s = s;
	return b;
}

void slice_block_free(struct slice_block *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->runs.count; i++)
		if (b->runs.items[i].is_last)
			slice_marks_free(b->runs.items[i].marks);
	vec_done(&b->runs);
	buffer_done(&b->head);
	free(b);
}

bool slice_block_add(struct slice_block *b, const struct slice_run *run)
{
	return vec_push(&b->runs, *run);
}

size_t slice_block_runs(const struct slice_block *b)
{
	return b->runs.count;
}

static bool block_continues(const struct slice_block *b)
{
	return b->runs.items[0].before != CALL_NONE;
}

static void block_encode(struct slice_block *b, struct buffer *out)
{
	out->bytes = 0;
	b->counts = (struct fxt_counts){0};
	if (!buffer_reserve(out, b->head.bytes)) {
		out->failed = true;
		return;
	}
	if (b->head.bytes)
		memcpy(out->data, b->head.data, b->head.bytes);
	out->bytes = b->head.bytes;
	b->end = b->start;
	for (size_t i = 0; i < b->runs.count && !out->failed; i++) {
		const struct slice_run *run = &b->runs.items[i];

		if (run->before == CALL_NONE)
			path_start(&b->end, b->s->trace);
		slice_run_encode(b->s, run, &b->end, out, &b->counts);
	}
}

static void block_make(void *context, struct buffer *out)
{
	struct slice_block *b = context;

	b->is_guessed = !block_continues(b) || slice_run_guess(b->s, &b->runs.items[0], &b->start);
	if (b->is_guessed)
		block_encode(b, out);
}

static bool block_settle(void *context, struct buffer *out)
{
	struct slice_block *b = context;
	struct fxt_counts *sum = b->s->counts;
	bool again = block_continues(b) && !(b->is_guessed && path_equal(&b->start, b->s->reached));

	if (again) {
		b->start = *b->s->reached;
		block_encode(b, out);
	}
	*b->s->reached = b->end;
	sum->calls += b->counts.calls;
	sum->slices += b->counts.slices;
	sum->zero_length += b->counts.zero_length;
	sum->too_short += b->counts.too_short;
	sum->too_deep += b->counts.too_deep;
	sum->clamped += b->counts.clamped;
	sum->flows += b->counts.flows;
	sum->instants += b->counts.instants;
	sum->bytes += out->bytes;
	sum->blocks++;
	sum->blocks_again += again;
	return again;
}

static void block_done(void *context)
{
	slice_block_free(context);
}

enum err slice_block_put(struct slice_block *b, struct buffer *head, struct error *error)
{
	static const struct block_work work = {
		.make = block_make, .settle = block_settle, .done = block_done};

	b->head = *head;
	*head = (struct buffer){0};
	return output_put_work(b->s->output, &work, b, error);
}
