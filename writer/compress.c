/* See compress.h.
 *
 * A ring of jobs, filled by the caller, worked on by the threads, emptied by the caller:
 *
 *        emptied          taken             filled
 *           ▼               ▼                  ▼
 *     ──┬───────┬───────┬───────┬───────┬───────┬──
 *       │ done  │ busy  │ queued│ queued│ free  │
 *     ──┴───────┴───────┴───────┴───────┴───────┴──
 *
 * The three counters only grow; order of output = order of input. Buffers stay with their
 * job, so memory is bounded by the ring and reused. */
#include "writer/compress.h"

#include <libdeflate.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct job {
	struct buffer in, out;
	bool done;
	enum err err;
};

struct compress {
	struct compress_sink sink;
	int level;
	struct libdeflate_compressor *own; /* the caller's, when there are no threads */
	bool any;                          /* something was put */
	unsigned thread_count, job_count;
	bool stop, has_locks;
	uint64_t filled, taken, emptied;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	pthread_t threads[COMPRESS_THREADS_MAX];
	struct job jobs[2 * COMPRESS_THREADS_MAX];
};

static enum err job_compress(struct libdeflate_compressor *compressor, struct job *job)
{
	size_t bound = libdeflate_gzip_compress_bound(compressor, job->in.bytes);

	job->out.bytes = 0;
	if (!buffer_reserve(&job->out, bound))
		return ERR_NOMEM;
	job->out.bytes = libdeflate_gzip_compress(compressor, job->in.data, job->in.bytes,
						  job->out.data, job->out.capacity);
	job->in.bytes = 0;
	return job->out.bytes ? ERR_NONE : ERR_NOMEM;
}

static void *compress_thread(void *context)
{
	struct compress *c = context;
	struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(c->level);

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		if (c->taken == c->filled) {
			pthread_cond_wait(&c->work, &c->lock);
			continue;
		}
		struct job *job = &c->jobs[c->taken++ % c->job_count];

		pthread_mutex_unlock(&c->lock);
		enum err err = compressor ? job_compress(compressor, job) : ERR_NOMEM;
		pthread_mutex_lock(&c->lock);
		job->err = err;
		job->done = true;
		pthread_cond_signal(&c->done);
	}
	pthread_mutex_unlock(&c->lock);
	libdeflate_free_compressor(compressor);
	return NULL;
}

/* As many threads as can be had; none at all is no failure, the caller then compresses. */
static void compress_start_threads(struct compress *c, unsigned threads)
{
	sigset_t all, before;

	if (pthread_mutex_init(&c->lock, NULL) != 0)
		return;
	pthread_cond_init(&c->work, NULL);
	pthread_cond_init(&c->done, NULL);
	c->has_locks = true;
	if (threads > COMPRESS_THREADS_MAX)
		threads = COMPRESS_THREADS_MAX;
	c->job_count = 2 * threads;
	/* Signals are for the main thread, which knows how to clean up. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (c->thread_count < threads &&
	       pthread_create(&c->threads[c->thread_count], NULL, compress_thread, c) == 0)
		c->thread_count++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

enum err compress_new(unsigned threads, int level, struct compress_sink sink,
		      struct compress **result, struct error *error)
{
	struct compress *c = calloc(1, sizeof *c);

	if (!c)
		return error_set(error, ERR_NOMEM, "out of memory for the compressor");
	c->sink = sink;
	c->level = level;
	if (threads > 1)
		compress_start_threads(c, threads);
	if (c->thread_count == 0) {
		c->own = libdeflate_alloc_compressor(level);
		if (!c->own) {
			compress_free(c);
			return error_set(error, ERR_NOMEM, "out of memory for the compressor");
		}
	}
	*result = c;
	return ERR_NONE;
}

static enum err compress_emit(struct compress *c, struct job *job, struct error *error)
{
	if (job->err != ERR_NONE)
		return error_set(error, job->err, "out of memory for a compressed block");
	return c->sink.write(c->sink.context, job->out.data, job->out.bytes, error);
}

/* Sends finished jobs on, in order; waits until at most `left` are in the ring. */
static enum err compress_empty(struct compress *c, uint64_t left, struct error *error)
{
	enum err err = ERR_NONE;

	pthread_mutex_lock(&c->lock);
	while (err == ERR_NONE && c->emptied < c->filled) {
		struct job *job = &c->jobs[c->emptied % c->job_count];

		if (!job->done) {
			if (c->filled - c->emptied <= left)
				break;
			pthread_cond_wait(&c->done, &c->lock);
			continue;
		}
		pthread_mutex_unlock(&c->lock);
		err = compress_emit(c, job, error);
		pthread_mutex_lock(&c->lock);
		job->done = false;
		c->emptied++;
	}
	pthread_mutex_unlock(&c->lock);
	return err;
}

static enum err compress_member(struct compress *c, struct buffer *b, struct error *error)
{
	struct job *job = &c->jobs[0];

	c->any = true;
	if (c->thread_count > 0) {
		enum err err = compress_empty(c, c->job_count - 1, error);
		if (err != ERR_NONE)
			return err;
		job = &c->jobs[c->filled % c->job_count];
	}
	struct buffer empty = job->in;
	job->in = *b;
	*b = empty;
	if (c->thread_count == 0) {
		job->err = job_compress(c->own, job);
		return compress_emit(c, job, error);
	}
	pthread_mutex_lock(&c->lock);
	c->filled++;
	pthread_cond_signal(&c->work);
	pthread_mutex_unlock(&c->lock);
	return ERR_NONE;
}

enum err compress_put(struct compress *c, struct buffer *b, struct error *error)
{
	return b->bytes ? compress_member(c, b, error) : ERR_NONE;
}

enum err compress_finish(struct compress *c, struct error *error)
{
	enum err err = ERR_NONE;

	if (!c->any) {
		struct buffer nothing = {0};

		err = compress_member(c, &nothing, error);
		buffer_done(&nothing);
	}
	if (err == ERR_NONE && c->thread_count > 0)
		err = compress_empty(c, 0, error);
	return err;
}

void compress_free(struct compress *c)
{
	if (!c)
		return;
	if (c->has_locks) {
		pthread_mutex_lock(&c->lock);
		c->stop = true;
		pthread_cond_broadcast(&c->work);
		pthread_mutex_unlock(&c->lock);
		for (unsigned i = 0; i < c->thread_count; i++)
			pthread_join(c->threads[i], NULL);
		pthread_cond_destroy(&c->work);
		pthread_cond_destroy(&c->done);
		pthread_mutex_destroy(&c->lock);
	}
	libdeflate_free_compressor(c->own);
	for (size_t i = 0; i < sizeof c->jobs / sizeof c->jobs[0]; i++) {
		buffer_done(&c->jobs[i].in);
		buffer_done(&c->jobs[i].out);
	}
	free(c);
}
