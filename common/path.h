/* Questions about paths. */
#ifndef COMMON_PATH_H
#define COMMON_PATH_H

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Does the path end in `end`, as in ".tar.zst", with something before it? */
static inline bool path_ends_in(const char *path, const char *end)
{
	size_t length = strlen(path), end_length = strlen(end);

	return length > end_length && strcmp(path + length - end_length, end) == 0;
}

/* Does the path lead to the very file that was looked at? */
static inline bool path_is_file(const char *path, const struct stat *st)
{
	struct stat other;

	return stat(path, &other) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

#endif
