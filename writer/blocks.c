/* See blocks.h.
 *
 * A ring of jobs, filled by the caller, worked on by the threads and emptied by them, too:
 *
 *        emptied          taken             filled
 *           ▼               ▼                  ▼
 *     ──┬───────┬───────┬───────┬───────┬───────┬──
 *       │ done  │ busy  │ queued│ queued│ free  │
 *     ──┴───────┴───────┴───────┴───────┴───────┴──
 *
 * The three counters only grow; order of output = order of input. Whoever finishes the oldest
 * job writes it and those done behind it, while the others work on. Buffers stay with their
 * job, so memory is bounded by the ring and reused. */
#include "writer/blocks.h"

#include <libdeflate.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum {
	/* libdeflate's fastest: names and times repeat so much that higher levels cost several
	 * times more for little. */
	GZIP_LEVEL = 1,
};

struct job {
	struct buffer in, out;         /* out: compressed */
	const struct block_work *work; /* NULL = `in` is there already */
	void *context;
	bool even_if_empty;
	bool done;
};

struct blocks {
	struct block_sink sink;
	enum blocks_format format;
	struct libdeflate_compressor *own; /* the caller's, when there are no threads */
	bool any;                          /* something was written */
	unsigned threads_wanted, thread_count, job_count;
	bool stop, emptying;
	uint64_t filled, taken, emptied;
	struct error error; /* the first */
	pthread_mutex_t lock;
	pthread_cond_t work, room;
	pthread_t threads[BLOCKS_THREADS_MAX];
	struct job jobs[2 * BLOCKS_THREADS_MAX];
};

/* ---- one job ---- */

static void job_compress(struct libdeflate_compressor *compressor, struct job *job)
{
	job->out.bytes = 0;
	if (job->in.bytes == 0 && !job->even_if_empty)
		return;
	size_t bound = libdeflate_gzip_compress_bound(compressor, job->in.bytes);
	if (buffer_reserve(&job->out, bound))
		job->out.bytes = libdeflate_gzip_compress(compressor, job->in.data, job->in.bytes,
							  job->out.data, job->out.capacity);
	job->out.failed = job->out.bytes == 0;
}

static void job_make(struct libdeflate_compressor *compressor, struct job *job)
{
	if (job->work) {
		job->in.bytes = 0;
		job->work->make(job->context, &job->in);
	}
	if (compressor && !job->in.failed)
		job_compress(compressor, job);
}

static enum err job_write(struct blocks *b, struct libdeflate_compressor *compressor,
			  struct job *job, struct error *error)
{
	if (job->work && job->work->settle(job->context, &job->in) && compressor)
		job_compress(compressor, job);
	const struct buffer *bytes = b->format == BLOCKS_GZIP ? &job->out : &job->in;
	if (job->in.failed || job->out.failed || (b->format == BLOCKS_GZIP && !compressor))
		return error_set(error, ERR_NOMEM, "out of memory for a block of output");
	b->any = b->any || bytes->bytes;
	return bytes->bytes ? b->sink.write(b->sink.context, bytes->data, bytes->bytes, error)
			    : ERR_NONE;
}

static void job_done(struct job *job)
{
	if (job->work)
		job->work->done(job->context);
	job->work = NULL;
	job->in.bytes = job->out.bytes = 0;
	job->in.failed = job->out.failed = job->done = false;
}

/* ---- threads ---- */

/* Under the lock, which is let go while a job is written. */
static void blocks_empty(struct blocks *b, struct libdeflate_compressor *compressor)
{
	if (b->emptying)
		return; /* by another thread, which will come to the job just done */
	b->emptying = true;
	while (b->emptied < b->taken && b->jobs[b->emptied % b->job_count].done) {
		struct job *job = &b->jobs[b->emptied % b->job_count];
		struct error error = b->error;

		pthread_mutex_unlock(&b->lock);
		bool failed =
			error.code == ERR_NONE && job_write(b, compressor, job, &error) != ERR_NONE;
		job_done(job);
		pthread_mutex_lock(&b->lock);
		if (failed)
			b->error = error;
		b->emptied++;
		pthread_cond_signal(&b->room);
	}
	b->emptying = false;
}

static void *blocks_thread(void *context)
{
	struct blocks *b = context;
	struct libdeflate_compressor *compressor =
		b->format == BLOCKS_GZIP ? libdeflate_alloc_compressor(GZIP_LEVEL) : NULL;

	pthread_mutex_lock(&b->lock);
	while (!b->stop) {
		if (b->taken == b->filled) {
			pthread_cond_wait(&b->work, &b->lock);
			continue;
		}
		struct job *job = &b->jobs[b->taken++ % b->job_count];
		bool wanted = b->error.code == ERR_NONE;

		pthread_mutex_unlock(&b->lock);
		if (wanted)
			job_make(compressor, job);
		pthread_mutex_lock(&b->lock);
		job->done = true;
		blocks_empty(b, compressor);
	}
	pthread_mutex_unlock(&b->lock);
	libdeflate_free_compressor(compressor);
	return NULL;
}

/* With every block one more, up to what is wanted: a small output is not worth many. None at
 * all is no failure, the caller then works. */
static void blocks_start_thread(struct blocks *b)
{
	sigset_t all, before;

	if (b->thread_count == b->threads_wanted)
		return;
	/* Signals are for the main thread, which knows how to clean up. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&b->threads[b->thread_count], NULL, blocks_thread, b) == 0)
		b->thread_count++;
	else
		b->threads_wanted = b->thread_count;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

enum err blocks_new(unsigned threads, enum blocks_format format, struct block_sink sink,
		    struct blocks **result, struct error *error)
{
	struct blocks *b = calloc(1, sizeof *b);

	if (!b)
		return error_set(error, ERR_NOMEM, "out of memory for the output");
	b->sink = sink;
	b->format = format;
	b->threads_wanted = threads <= 1                   ? 0
			    : threads > BLOCKS_THREADS_MAX ? BLOCKS_THREADS_MAX
							   : threads;
	b->job_count = 2 * b->threads_wanted;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->work, NULL);
	pthread_cond_init(&b->room, NULL);
	*result = b;
	return ERR_NONE;
}

/* ---- the caller's side ---- */

/* Its error; waits until at most `left` jobs are in the ring. */
static enum err blocks_wait(struct blocks *b, uint64_t left, struct error *error)
{
	pthread_mutex_lock(&b->lock);
	while (b->filled - b->emptied > left)
		pthread_cond_wait(&b->room, &b->lock);
	struct error first = b->error;
	pthread_mutex_unlock(&b->lock);
	return first.code == ERR_NONE ? ERR_NONE
				      : error_set(error, first.code, "%s", first.message);
}

/* Where the next job goes. */
static enum err blocks_next(struct blocks *b, struct job **job, struct error *error)
{
	enum err err = ERR_NONE;

	blocks_start_thread(b);
	if (b->thread_count > 0)
		err = blocks_wait(b, b->job_count - 1, error);
	*job = b->thread_count > 0 ? &b->jobs[b->filled % b->job_count] : &b->jobs[0];
	return err;
}

static enum err blocks_work_here(struct blocks *b, struct job *job, struct error *error)
{
	if (b->format == BLOCKS_GZIP && !b->own)
		b->own = libdeflate_alloc_compressor(GZIP_LEVEL);
	job_make(b->own, job);
	enum err err = job_write(b, b->own, job, error);
	job_done(job);
	return err;
}

static enum err blocks_go(struct blocks *b, struct job *job, struct error *error)
{
	if (b->thread_count == 0)
		return blocks_work_here(b, job, error);
	pthread_mutex_lock(&b->lock);
	b->filled++;
	pthread_cond_signal(&b->work);
	pthread_mutex_unlock(&b->lock);
	return ERR_NONE;
}

enum err blocks_put(struct blocks *b, struct buffer *content, struct error *error)
{
	struct job *job;

	if (content->bytes == 0)
		return ERR_NONE;
	enum err err = blocks_next(b, &job, error);
	if (err != ERR_NONE)
		return err;
	struct buffer empty = job->in;
	job->in = *content;
	*content = empty;
	return blocks_go(b, job, error);
}

enum err blocks_put_work(struct blocks *b, const struct block_work *work, void *context,
			 struct error *error)
{
	struct job *job;
	enum err err = blocks_next(b, &job, error);

	if (err != ERR_NONE) {
		blocks_wait(b, 0, NULL); /* in order, also now */
		work->done(context);
		return err;
	}
	job->work = work;
	job->context = context;
	return blocks_go(b, job, error);
}

enum err blocks_drain(struct blocks *b, struct error *error)
{
	return blocks_wait(b, 0, error);
}

enum err blocks_finish(struct blocks *b, struct error *error)
{
	struct job *job;
	enum err err = blocks_drain(b, error);

	if (err != ERR_NONE || b->any || b->format == BLOCKS_PLAIN)
		return err;
	err = blocks_next(b, &job, error);
	if (err != ERR_NONE)
		return err;
	job->even_if_empty = true;
	err = blocks_go(b, job, error);
	return err == ERR_NONE ? blocks_drain(b, error) : err;
}

void blocks_free(struct blocks *b)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_cond_broadcast(&b->work);
	pthread_mutex_unlock(&b->lock);
	for (unsigned i = 0; i < b->thread_count; i++)
		pthread_join(b->threads[i], NULL);
	for (; b->emptied < b->filled; b->emptied++)
		job_done(&b->jobs[b->emptied % b->job_count]);
	pthread_cond_destroy(&b->work);
	pthread_cond_destroy(&b->room);
	pthread_mutex_destroy(&b->lock);
	libdeflate_free_compressor(b->own);
	for (size_t i = 0; i < sizeof b->jobs / sizeof b->jobs[0]; i++) {
		buffer_done(&b->jobs[i].in);
		buffer_done(&b->jobs[i].out);
	}
	free(b);
}
