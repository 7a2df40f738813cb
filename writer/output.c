/* See output.h. */
#include "writer/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMPORARIES_MAX = 16, NAME_ATTEMPTS = 100 };

/* What a signal handler must remove. A slot's text is complete before `used` is set. */
static struct temporary {
	atomic_int state; /* 0 free, 1 being filled, 2 to be removed */
	char path[PATH_MAX];
} temporaries[TEMPORARIES_MAX];

struct output {
	int fd;
	char *path;   /* for messages */
	char *target; /* what the temporary will be called; NULL = written in place */
	struct temporary *temporary; /* NULL = none */
	bool is_compressed;
	struct blocks *blocks;
	uint64_t bytes;
	struct buffer pending;     /* written to the stream, not yet a block to compress */
	struct error stream_error; /* of the stream's first failure */
};

void output_remove_temporaries(void)
{
	int saved = errno;

	for (int i = 0; i < TEMPORARIES_MAX; i++)
		if (atomic_load(&temporaries[i].state) == 2)
			unlink(temporaries[i].path);
	errno = saved;
}

static enum err output_write(void *context, const uint8_t *data, size_t bytes, struct error *error)
{
	struct output *o = context;

	while (bytes > 0) {
		ssize_t done = write(o->fd, data, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return error_set(error, ERR_IO, "%s: cannot write: %s", o->path,
					 strerror(errno));
		data += done;
		bytes -= (size_t)done;
		o->bytes += (uint64_t)done;
	}
	return ERR_NONE;
}

/* Creates ".NAME.PID-N.tmp" beside the target: a rename must stay on one file system. Not
 * mkstemp(), whose 0600 would have to be undone by a umask that only umask() itself tells. */
static enum err output_create_temporary(struct output *o, struct error *error)
{
	const char *slash = strrchr(o->target, '/');
	int dir_length = slash ? (int)(slash - o->target) + 1 : 0;
	const char *name = o->target + dir_length;
	struct temporary *t = temporaries;

	for (int unused = 0; !atomic_compare_exchange_strong(&t->state, &unused, 1); unused = 0)
		if (++t == temporaries + TEMPORARIES_MAX)
			return error_set(error, ERR_LIMIT, "%s: more than %d outputs at a time",
					 o->path, TEMPORARIES_MAX);
	o->temporary = t;
	for (int n = 0; n < NAME_ATTEMPTS; n++) {
		int length = snprintf(t->path, sizeof t->path, "%.*s.%.200s.%ld-%d.tmp", dir_length,
				      o->target, name, (long)getpid(), n);

		if (length < 0 || (size_t)length >= sizeof t->path)
			return error_set(error, ERR_LIMIT, "%s: name too long", o->path);
		o->fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (o->fd >= 0) {
			atomic_store(&t->state, 2);
			return ERR_NONE;
		}
		if (errno != EEXIST)
			break;
	}
	return error_set(error, ERR_IO, "%s: cannot create: %s", o->path, strerror(errno));
}

static enum err output_open_fd(struct output *o, bool is_stdout, struct error *error)
{
	struct stat st;

	if (is_stdout) {
		o->fd = STDOUT_FILENO;
		return ERR_NONE;
	}
	bool exists = stat(o->path, &st) == 0;
	if (exists && S_ISDIR(st.st_mode))
		return error_set(error, ERR_IO, "%s: is a directory", o->path);
	if (exists && !S_ISREG(st.st_mode)) {
		o->fd = open(o->path, O_WRONLY | O_CLOEXEC);
		if (o->fd < 0)
			return error_set(error, ERR_IO, "%s: %s", o->path, strerror(errno));
		return ERR_NONE;
	}
	/* A rename would replace even what the user may not write, and a symlink itself. */
	if (exists && access(o->path, W_OK) != 0)
		return error_set(error, ERR_IO, "%s: %s", o->path, strerror(errno));
	o->target = exists ? realpath(o->path, NULL) : strdup(o->path);
	if (!o->target)
		return error_set(error, ERR_IO, "%s: %s", o->path, strerror(errno));
	enum err err = output_create_temporary(o, error);
	if (err == ERR_NONE && exists && fchmod(o->fd, st.st_mode & 0777) != 0)
		err = error_set(error, ERR_IO, "%s: cannot set its mode: %s", o->path,
				strerror(errno));
	return err;
}

static bool ends_with(const char *text, const char *suffix)
{
	size_t length = strlen(text), suffix_length = strlen(suffix);

	return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

enum err output_open(const char *path, enum output_kind kind, unsigned threads,
		     struct output **result, struct error *error)
{
	struct output *o = calloc(1, sizeof *o);
	bool is_stdout = strcmp(path, "-") == 0;
	enum err err = ERR_NONE;

	if (!o)
		return error_set(error, ERR_NOMEM, "%s: out of memory", path);
	o->fd = -1;
	o->path = strdup(is_stdout ? "standard output" : path);
	if (!o->path)
		err = error_set(error, ERR_NOMEM, "%s: out of memory", path);
	if (err == ERR_NONE)
		err = output_open_fd(o, is_stdout, error);
	if (err == ERR_NONE && kind == OUTPUT_BINARY && isatty(o->fd))
		err = error_set(error, ERR_USAGE,
				"%s: a trace is not for a terminal; redirect it or use -o FILE",
				o->path);
	o->is_compressed = ends_with(path, ".gz");
	if (err == ERR_NONE)
		err = blocks_new(threads, o->is_compressed ? BLOCKS_GZIP : BLOCKS_PLAIN,
				 (struct block_sink){output_write, o}, &o->blocks, error);
	if (err != ERR_NONE) {
		output_free(o);
		return err;
	}
	*result = o;
	return ERR_NONE;
}

enum err output_put(struct output *o, struct buffer *b, struct error *error)
{
	if (b->failed)
		return error_set(error, ERR_NOMEM, "%s: out of memory", o->path);
	return blocks_put(o->blocks, b, error);
}

enum err output_put_work(struct output *o, const struct block_work *work, void *context,
			 struct error *error)
{
	return blocks_put_work(o->blocks, work, context, error);
}

enum err output_drain(struct output *o, struct error *error)
{
	return blocks_drain(o->blocks, error);
}

static enum err output_stream_take(struct output *o, const char *data, size_t bytes)
{
	if (!o->is_compressed)
		return output_write(o, (const uint8_t *)data, bytes, &o->stream_error);
	if (!buffer_reserve(&o->pending, bytes))
		return error_set(&o->stream_error, ERR_NOMEM, "%s: out of memory", o->path);
	memcpy(o->pending.data + o->pending.bytes, data, bytes);
	o->pending.bytes += bytes;
	if (o->pending.bytes < BUFFER_BLOCK_BYTES)
		return ERR_NONE;
	return output_put(o, &o->pending, &o->stream_error);
}

static ssize_t output_stream_write(void *context, const char *data, size_t bytes)
{
	struct output *o = context;

	if (o->stream_error.code == ERR_NONE && output_stream_take(o, data, bytes) == ERR_NONE)
		return (ssize_t)bytes;
	errno = EIO;
	return 0; /* stdio's word for failure here */
}

enum err output_stream(struct output *o, FILE **stream, struct error *error)
{
	cookie_io_functions_t functions = {.write = output_stream_write};
	FILE *opened = fopencookie(o, "w", functions);

	if (!opened)
		return error_set(error, ERR_NOMEM, "%s: out of memory", o->path);
	/* Should the large buffer fail, stdio has its own. */
	(void)setvbuf(opened, NULL, _IOFBF, BUFFER_BLOCK_BYTES);
	*stream = opened;
	return ERR_NONE;
}

static void output_forget_temporary(struct output *o)
{
	if (o->temporary)
		atomic_store(&o->temporary->state, 0);
	o->temporary = NULL;
}

enum err output_finish(struct output *o, struct error *error)
{
	if (o->fd < 0)
		return ERR_NONE;
	if (o->stream_error.code != ERR_NONE)
		return error_set(error, o->stream_error.code, "%s", o->stream_error.message);
	enum err err = o->pending.bytes ? output_put(o, &o->pending, error) : ERR_NONE;
	if (err == ERR_NONE)
		err = blocks_finish(o->blocks, error);
	if (err != ERR_NONE)
		return err;
	/* Late errors (disk full over NFS, quota) come with close(). */
	int fd = o->fd;
	o->fd = -1;
	if (fd != STDOUT_FILENO && close(fd) != 0)
		return error_set(error, ERR_IO, "%s: cannot write: %s", o->path, strerror(errno));
	return ERR_NONE;
}

enum err output_commit(struct output *o, struct error *error)
{
	enum err err = output_finish(o, error);

	if (err != ERR_NONE)
		return err;
	if (o->temporary && rename(o->temporary->path, o->target) != 0)
		return error_set(error, ERR_IO, "%s: cannot rename the finished file: %s", o->path,
				 strerror(errno));
	output_forget_temporary(o);
	return ERR_NONE;
}

void output_free(struct output *o)
{
	if (!o)
		return;
	blocks_free(o->blocks);
	if (o->fd >= 0 && o->fd != STDOUT_FILENO)
		close(o->fd);
	if (o->temporary && atomic_load(&o->temporary->state) == 2)
		unlink(o->temporary->path);
	output_forget_temporary(o);
	buffer_done(&o->pending);
	free(o->target);
	free(o->path);
	free(o);
}

uint64_t output_bytes(const struct output *o)
{
	return o->bytes;
}

const char *output_path(const struct output *o)
{
	return o->path;
}
