/* See file_copy.h. */
#include "capture/file_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err make_parents(const char *dir, const char *name, struct error *error)
{
	char path[PATH_MAX];
	size_t base = strlen(dir) + 1;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	for (char *slash = path + base; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	}
	return ERR_NONE;
}

static enum err write_all(int fd, const void *data, size_t bytes, const char *path,
			  struct error *error)
{
	for (const char *at = data; bytes > 0;) {
		ssize_t n = write(fd, at, bytes);

		if (n <= 0)
			return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
		at += n;
		bytes -= (size_t)n;
	}
	return ERR_NONE;
}

static enum err copy_content(int from, int to, const char *path, struct error *error)
{
	static char buffer[256 << 10]; /* one copy at a time */
	bool in_kernel = true;
	off_t at = 0;

	for (;;) {
		/* shares blocks or copies without passing through us, where it can */
		ssize_t n = in_kernel ? copy_file_range(from, &at, to, NULL, 1 << 30, 0) : -1;

		if (n > 0)
			continue;
		in_kernel = false; /* also after 0: some file systems say 0 instead of refusing */
		n = pread(from, buffer, sizeof buffer, at);
		if (n == 0)
			return ERR_NONE;
		if (n < 0)
			return error_set(error, ERR_IO, "%s: reading its source: %s", path,
					 strerror(errno));
		enum err err = write_all(to, buffer, (size_t)n, path, error);
		if (err != ERR_NONE)
			return err;
		at += n;
	}
}

/* Makes the file and its directories; the descriptor, or -1. */
static int create(const char *dir, const char *name, char path[PATH_MAX], struct error *error)
{
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX) {
		error_set(error, ERR_LIMIT, "%s: name too long", dir);
		return -1;
	}
	if (make_parents(dir, name, error) != ERR_NONE)
		return -1;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	return fd;
}

static enum err finish(int fd, const char *path, enum err err, struct error *error)
{
	if (close(fd) != 0 && err == ERR_NONE)
		err = error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	return err;
}

enum err file_copy_fd(int from, const char *dir, const char *name, struct error *error)
{
	char path[PATH_MAX];
	int to = create(dir, name, path, error);

	return to < 0 ? ERR_IO : finish(to, path, copy_content(from, to, path, error), error);
}

enum err file_copy_memory(const void *data, size_t bytes, const char *dir, const char *name,
			  struct error *error)
{
	char path[PATH_MAX];
	int to = create(dir, name, path, error);

	return to < 0 ? ERR_IO : finish(to, path, write_all(to, data, bytes, path, error), error);
}

static enum err copy_file(const char *from, const char *dir, const char *name, struct error *error)
{
	int fd = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return error_set(error, ERR_IO, "%s: %s", from, strerror(errno));
	enum err err = fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
			       ? file_copy_fd(fd, dir, name, error)
			       : error_set(error, ERR_UNSUPPORTED, "%s: not a regular file", from);
	close(fd);
	return err;
}

static enum err copy_tree(const char *from, const char *dir, const char *name, int depth,
			  struct error *error)
{
	struct stat st;
	struct dirent *entry;
	enum err err = ERR_NONE;

	if (stat(from, &st) != 0)
		return error_set(error, ERR_IO, "%s: %s", from, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return copy_file(from, dir, name, error);
	DIR *listing = depth < 3 ? opendir(from) : NULL;
	if (!listing)
		return error_set(error, ERR_IO, "%s: cannot be listed", from);
	while (err == ERR_NONE && (entry = readdir(listing))) {
		char child_from[PATH_MAX], child_name[PATH_MAX];

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (snprintf(child_from, sizeof child_from, "%s/%s", from, entry->d_name) >=
			    (int)sizeof child_from ||
		    snprintf(child_name, sizeof child_name, "%s/%s", name, entry->d_name) >=
			    (int)sizeof child_name)
			err = error_set(error, ERR_LIMIT, "%s: name too long", from);
		else
			err = copy_tree(child_from, dir, child_name, depth + 1, error);
	}
	closedir(listing);
	return err;
}

enum err file_copy_tree(const char *from, const char *dir, const char *name, struct error *error)
{
	return copy_tree(from, dir, name, 0, error);
}
