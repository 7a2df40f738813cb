/* See tar_zst.h.
 *
 * Blocks of 512 bytes: a header, the content padded to a block, ..., two zero blocks. Sizes
 * of 8 GiB and more are written in base 256, as GNU tar does (octal has 11 digits). */
#include "common/tar_zst.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
	BLOCK = 512,
	CHUNK = 128 << 10,
	NAME_MAX_BYTES = 1024,
	PAX_MAX_BYTES = 64 << 10,
	DEPTH_MAX = 16,
	ZSTD_LEVEL = 3,
	WINDOW_LOG_MAX = 27, /* 128 MiB: what a bundle may make us allocate */
};

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100],
		magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155],
		padding[12];
};
_Static_assert(sizeof(struct tar_header) == BLOCK, "POSIX ustar");

/* ---- packing ---- */

struct packer {
	ZSTD_CCtx *zstd;
	FILE *out;
	const char *path;
	char *compressed, *chunk;
	struct error *error;
};

static enum err pack_bytes(struct packer *p, const void *data, size_t bytes, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = {data, bytes, 0};

	for (;;) {
		ZSTD_outBuffer out = {p->compressed, CHUNK, 0};
		size_t left = ZSTD_compressStream2(p->zstd, &out, &in, end);

		if (ZSTD_isError(left))
			return error_set(p->error, ERR_NOMEM, "%s: zstd: %s", p->path,
					 ZSTD_getErrorName(left));
		if (out.pos && fwrite(p->compressed, 1, out.pos, p->out) != out.pos)
			return error_set(p->error, ERR_IO, "%s: %s", p->path, strerror(errno));
		if (end == ZSTD_e_end ? left == 0 : in.pos == in.size)
			return ERR_NONE;
	}
}

static void put_size(char *field, uint64_t size)
{
	if (size < (uint64_t)1 << 33) {
		char octal[24];

		snprintf(octal, sizeof octal, "%011llo", (unsigned long long)size);
		memcpy(field, octal, 12);
		return;
	}
	for (int i = 11; i >= 0; i--, size >>= 8)
		field[i] = (char)(size & 0xff);
	field[0] = (char)0x80;
}

static enum err pack_header(struct packer *p, const char *name, uint64_t size, bool directory)
{
	struct tar_header h = {.magic = "ustar", .version = {'0', '0'}};
	size_t length = strlen(name), cut = 0;
	unsigned sum = 0;

	if (length >= sizeof h.name) {
		const char *slash = strchr(name + length - sizeof h.name, '/');

		if (!slash || (size_t)(slash - name) > sizeof h.prefix)
			return error_set(p->error, ERR_LIMIT, "%s: name too long for an archive",
					 name);
		memcpy(h.prefix, name, (size_t)(slash - name));
		cut = (size_t)(slash - name) + 1;
	}
	memcpy(h.name, name + cut, length - cut);
	memcpy(h.mode, directory ? "0000700" : "0000600", 8);
	memcpy(h.uid, "0000000", 8);
	memcpy(h.gid, "0000000", 8);
	memcpy(h.mtime, "00000000000", 12);
	put_size(h.size, size);
	h.type = directory ? '5' : '0';
	memset(h.checksum, ' ', sizeof h.checksum);
	for (size_t i = 0; i < sizeof h; i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.checksum, sizeof h.checksum, "%06o", sum & 0777777);
	return pack_bytes(p, &h, sizeof h, ZSTD_e_continue);
}

static enum err pack_file(struct packer *p, int fd, const char *name)
{
	static const char zeros[BLOCK];
	struct stat st;

	if (fstat(fd, &st) != 0)
		return error_set(p->error, ERR_IO, "%s: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(p->error, ERR_UNSUPPORTED, "%s: not a regular file", name);
	uint64_t left = (uint64_t)st.st_size;
	enum err err = pack_header(p, name, left, false);
	while (err == ERR_NONE && left > 0) {
		ssize_t n = read(fd, p->chunk, left < CHUNK ? (size_t)left : CHUNK);

		if (n <= 0)
			return error_set(p->error, ERR_IO, "%s: %s", name,
					 n == 0 ? "shrank while it was packed" : strerror(errno));
		err = pack_bytes(p, p->chunk, (size_t)n, ZSTD_e_continue);
		left -= (uint64_t)n;
	}
	size_t odd = (size_t)(st.st_size % BLOCK);
	if (err == ERR_NONE && odd)
		err = pack_bytes(p, zeros, BLOCK - odd, ZSTD_e_continue);
	return err;
}

static enum err pack_directory(struct packer *p, int fd, const char *prefix, int depth)
{
	enum err err = ERR_NONE;
	struct dirent *entry;
	DIR *dir = depth < DEPTH_MAX ? fdopendir(fd) : NULL;

	if (!dir) {
		close(fd);
		return error_set(p->error, ERR_LIMIT, "%s: cannot be listed", prefix);
	}
	while (err == ERR_NONE && (entry = readdir(dir))) {
		char name[NAME_MAX_BYTES];

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] ? "/" : "",
			     entry->d_name) >= (int)sizeof name) {
			err = error_set(p->error, ERR_LIMIT, "%s: name too long", prefix);
			break;
		}
		int child = openat(dirfd(dir), entry->d_name,
				   O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		struct stat st;
		if (child < 0 || fstat(child, &st) != 0) {
			err = error_set(p->error, errno == ELOOP ? ERR_UNSUPPORTED : ERR_IO,
					"%s: %s", name, strerror(errno));
			if (child >= 0)
				close(child);
		} else if (S_ISDIR(st.st_mode)) {
			err = pack_header(p, name, 0, true);
			if (err == ERR_NONE)
				err = pack_directory(p, child, name, depth + 1);
			else
				close(child);
		} else {
			err = pack_file(p, child, name);
			close(child);
		}
	}
	closedir(dir);
	return err;
}

enum err tar_zst_pack(const char *dir, const char *path, struct error *error)
{
	static const char end[2 * BLOCK];
	int from = open(dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
	struct packer p = {.path = path, .error = error};

	if (from < 0)
		return error_set(error, ERR_IO, "%s: %s", dir, strerror(errno));
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0) {
		close(from);
		return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	}
	enum err err = ERR_NONE;
	p.out = fdopen(to, "w");
	p.zstd = ZSTD_createCCtx();
	p.compressed = malloc(CHUNK);
	p.chunk = malloc(CHUNK);
	if (!p.out || !p.zstd || !p.compressed || !p.chunk) {
		close(from);
		err = error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	} else {
		ZSTD_CCtx_setParameter(p.zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
		ZSTD_CCtx_setParameter(p.zstd, ZSTD_c_checksumFlag, 1);
		err = pack_directory(&p, from, "", 0);
	}
	if (err == ERR_NONE)
		err = pack_bytes(&p, end, sizeof end, ZSTD_e_end);
	if (p.out && fclose(p.out) != 0 && err == ERR_NONE)
		err = error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	if (!p.out)
		close(to);
	ZSTD_freeCCtx(p.zstd);
	free(p.compressed);
	free(p.chunk);
	if (err != ERR_NONE)
		unlink(path);
	return err;
}

/* ---- extracting ---- */

struct extractor {
	ZSTD_DCtx *zstd;
	FILE *in;
	const char *path;
	int dir;
	uint64_t bytes_left;
	uint32_t files_left;
	ZSTD_inBuffer input;
	char *compressed, *chunk;
	bool input_ended;
	struct error *error;
};

/* Exactly `bytes` of the archive. */
static enum err take(struct extractor *x, void *data, size_t bytes)
{
	ZSTD_outBuffer out = {data, bytes, 0};

	while (out.pos < bytes) {
		size_t before = out.pos;

		if (x->input.pos == x->input.size && !x->input_ended) {
			size_t n = fread(x->compressed, 1, CHUNK, x->in);

			x->input = (ZSTD_inBuffer){x->compressed, n, 0};
			x->input_ended = n == 0;
		}
		size_t status = ZSTD_decompressStream(x->zstd, &out, &x->input);
		if (ZSTD_isError(status))
			return error_set(x->error, ERR_FORMAT, "%s: damaged: %s", x->path,
					 ZSTD_getErrorName(status));
		if (x->input_ended && out.pos == before)
			return error_set(x->error, ERR_FORMAT, "%s: ends in the middle", x->path);
	}
	return ERR_NONE;
}

static bool read_size(const char *field, uint64_t *size)
{
	uint64_t value = 0;

	if ((unsigned char)field[0] == 0x80) {
		for (int i = 1; i < 12; i++) {
			if (value >> 55)
				return false;
			value = value << 8 | (unsigned char)field[i];
		}
		*size = value;
		return true;
	}
	int i = 0;
	while (i < 12 && field[i] == ' ')
		i++;
	for (; i < 12 && field[i] >= '0' && field[i] <= '7'; i++)
		value = value * 8 + (uint64_t)(field[i] - '0');
	*size = value;
	return i == 12 || field[i] == '\0' || field[i] == ' ';
}

/* A relative name without empty, "." and ".." parts; leading "./" and final '/' removed. */
static bool clean_name(char *name)
{
	char *from = name;

	while (strncmp(from, "./", 2) == 0)
		from += 2;
	if (strcmp(from, ".") == 0)
		from++;
	memmove(name, from, strlen(from) + 1);
	size_t length = strlen(name);
	if (length && name[length - 1] == '/')
		name[length - 1] = '\0';
	for (const char *part = name; *name;) {
		size_t n = strcspn(part, "/");

		if (n == 0 || n > 255 || strncmp(part, ".", n) == 0 ||
		    (n == 2 && memcmp(part, "..", 2) == 0))
			return false;
		if (!part[n])
			break;
		part += n + 1;
	}
	return true;
}

/* Opens the directory that holds `name` below x->dir, making what is missing; *base is the
 * last part. Every step refuses symlinks. -1 with errno. */
static int open_parent(struct extractor *x, char *name, const char **base)
{
	int fd = dup(x->dir);

	*base = name;
	for (char *slash; fd >= 0 && (slash = strchr(name, '/')); *base = name = slash + 1) {
		*slash = '\0';
		if (mkdirat(fd, name, 0700) != 0 && errno != EEXIST) {
			close(fd);
			return -1;
		}
		int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	return fd;
}

static enum err extract_file(struct extractor *x, char *name, uint64_t size)
{
	char shown[NAME_MAX_BYTES];
	const char *base;

	snprintf(shown, sizeof shown, "%s", name);
	int parent = open_parent(x, name, &base);
	int fd = parent < 0 ? -1
			    : openat(parent, base,
				     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (parent >= 0)
		close(parent);
	if (fd < 0)
		return error_set(x->error, ERR_IO, "%s: %s: %s", x->path, shown, strerror(errno));
	enum err err = ERR_NONE;
	for (uint64_t left = size; err == ERR_NONE && left > 0;) {
		size_t n = left < CHUNK ? (size_t)left : CHUNK;

		err = take(x, x->chunk, n);
		left -= n;
		for (size_t at = 0; err == ERR_NONE && at < n;) {
			ssize_t done = write(fd, x->chunk + at, n - at);

			if (done <= 0)
				err = error_set(x->error, ERR_IO, "%s: %s: %s", x->path, shown,
						strerror(errno));
			else
				at += (size_t)done;
		}
	}
	if (close(fd) != 0 && err == ERR_NONE)
		err = error_set(x->error, ERR_IO, "%s: %s: %s", x->path, shown, strerror(errno));
	return err;
}

static enum err extract_directory(struct extractor *x, char *name)
{
	const char *base;

	if (!name[0])
		return ERR_NONE;
	int parent = open_parent(x, name, &base);
	int done = parent < 0 ? -1 : mkdirat(parent, base, 0700);
	int why = errno;
	if (parent >= 0)
		close(parent);
	return done == 0 || (parent >= 0 && why == EEXIST)
		       ? ERR_NONE
		       : error_set(x->error, ERR_IO, "%s: %s: %s", x->path, base, strerror(why));
}

/* "LENGTH KEY=VALUE\n" records; only path and size matter here. */
static bool read_pax(const char *text, size_t bytes, char *name, bool *has_name, uint64_t *size,
		     bool *has_size)
{
	for (size_t at = 0; at < bytes;) {
		char *end;
		unsigned long length = strtoul(text + at, &end, 10);
		const char *last = text + at + length;

		if (length == 0 || length > bytes - at || *end != ' ' || last[-1] != '\n' ||
		    end >= last)
			return false;
		const char *key = end + 1;
		if (last - key > 5 && strncmp(key, "path=", 5) == 0) {
			size_t n = (size_t)(last - key) - 6;

			if (n >= NAME_MAX_BYTES)
				return false;
			memcpy(name, key + 5, n);
			name[n] = '\0';
			*has_name = true;
		} else if (last - key > 5 && strncmp(key, "size=", 5) == 0) {
			*size = strtoull(key + 5, NULL, 10);
			*has_size = true;
		}
		at += length;
	}
	return true;
}

/* What 'x' (pax), 'g' and 'L' (GNU) entries say about the next one. */
struct next_entry {
	char name[NAME_MAX_BYTES];
	bool has_name, has_size;
	uint64_t size;
};

static enum err read_extension(struct extractor *x, char type, uint64_t size,
			       struct next_entry *next)
{
	char *text = size <= PAX_MAX_BYTES ? calloc(1, (size_t)size + BLOCK) : NULL;

	if (!text)
		return error_set(x->error, ERR_LIMIT, "%s: an extended header of %llu bytes",
				 x->path, (unsigned long long)size);
	enum err err = take(x, text, ((size_t)size + BLOCK - 1) / BLOCK * BLOCK);
	bool good = true;
	if (err == ERR_NONE && type == 'x') {
		good = read_pax(text, (size_t)size, next->name, &next->has_name, &next->size,
				&next->has_size);
	} else if (err == ERR_NONE && type == 'L') {
		size_t length = strnlen(text, (size_t)size);

		good = length < NAME_MAX_BYTES;
		if (good)
			memcpy(next->name, text, length + 1);
		next->has_name = true;
	}
	free(text);
	if (err == ERR_NONE && !good)
		err = error_set(x->error, ERR_FORMAT, "%s: bad extended header", x->path);
	return err;
}

static bool checksum_is_right(const struct tar_header *h)
{
	const unsigned char *bytes = (const unsigned char *)h;
	unsigned long sum = 0, stated;
	char text[9] = {0};

	memcpy(text, h->checksum, sizeof h->checksum);
	stated = strtoul(text, NULL, 8);
	for (size_t i = 0; i < sizeof *h; i++)
		sum += i >= offsetof(struct tar_header, checksum) &&
				       i < offsetof(struct tar_header, type)
			       ? ' '
			       : bytes[i];
	return sum == stated;
}

static void header_name(const struct tar_header *h, char *name)
{
	bool prefixed = memcmp(h->magic, "ustar", 6) == 0 && h->prefix[0];

	snprintf(name, NAME_MAX_BYTES, "%.155s%s%.100s", prefixed ? h->prefix : "",
		 prefixed ? "/" : "", h->name);
}

static enum err extract_entry(struct extractor *x, char type, char *name, uint64_t size)
{
	char shown[128];

	snprintf(shown, sizeof shown, "%.100s", name);
	if (!clean_name(name))
		return error_set(x->error, ERR_FORMAT, "%s: refused: the name \"%s\"", x->path,
				 shown);
	if (type == '5')
		return extract_directory(x, name);
	if (type != '0' && type != '\0')
		return error_set(x->error, ERR_UNSUPPORTED,
				 "%s: refused: \"%s\" is neither file nor directory", x->path,
				 shown);
	if (x->files_left-- == 0 || size > x->bytes_left)
		return error_set(x->error, ERR_LIMIT, "%s: too large when extracted", x->path);
	x->bytes_left -= size;
	enum err err = extract_file(x, name, size);
	size_t odd = (size_t)(size % BLOCK);
	return err == ERR_NONE && odd ? take(x, x->chunk, BLOCK - odd) : err;
}

static enum err extract_all(struct extractor *x)
{
	struct next_entry next = {0};

	for (;;) {
		struct tar_header h;
		uint64_t size;
		enum err err = take(x, &h, sizeof h);

		if (err != ERR_NONE)
			return err;
		if (h.name[0] == '\0' && h.checksum[0] == '\0')
			return ERR_NONE; /* the zero blocks at the end */
		if (!checksum_is_right(&h) || !read_size(h.size, &size))
			return error_set(x->error, ERR_FORMAT, "%s: not a tar archive", x->path);
		if (h.type == 'x' || h.type == 'g' || h.type == 'L') {
			err = read_extension(x, h.type, size, &next);
		} else {
			if (!next.has_name)
				header_name(&h, next.name);
			err = extract_entry(x, h.type, next.name, next.has_size ? next.size : size);
			next = (struct next_entry){0};
		}
		if (err != ERR_NONE)
			return err;
	}
}

enum err tar_zst_extract(const char *path, const char *dir, uint64_t bytes_max, uint32_t files_max,
			 struct error *error)
{
	struct extractor x = {
		.path = path, .bytes_left = bytes_max, .files_left = files_max, .error = error};
	enum err err = ERR_NONE;

	x.in = fopen(path, "re");
	if (!x.in)
		return error_set(error, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %s", path,
				 strerror(errno));
	x.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	x.zstd = ZSTD_createDCtx();
	x.compressed = malloc(CHUNK);
	x.chunk = malloc(CHUNK);
	if (x.dir < 0) {
		err = error_set(error, ERR_IO, "%s: %s", dir, strerror(errno));
	} else if (!x.zstd || !x.compressed || !x.chunk) {
		err = error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	} else {
		ZSTD_DCtx_setParameter(x.zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
		err = extract_all(&x);
	}
	ZSTD_freeDCtx(x.zstd);
	free(x.compressed);
	free(x.chunk);
	if (x.dir >= 0)
		close(x.dir);
	fclose(x.in);
	return err;
}
