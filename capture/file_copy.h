/* Copies into a bundle's directory: new files of mode 0600, directories of mode 0700, nothing
 * is ever replaced or followed. `name` is relative to dir and may have directories in it. */
#ifndef CAPTURE_FILE_COPY_H
#define CAPTURE_FILE_COPY_H

#include <stddef.h>

#include "common/error.h"

/* The whole file, wherever its descriptor stands. */
MUST_CHECK enum err file_copy_fd(int from, const char *dir, const char *name, struct error *error);
MUST_CHECK enum err file_copy_memory(const void *data, size_t bytes, const char *dir,
				     const char *name, struct error *error);
/* A file, or a directory of files at most three levels deep (perf's own). */
MUST_CHECK enum err file_copy_tree(const char *from, const char *dir, const char *name,
				   struct error *error);

#endif
