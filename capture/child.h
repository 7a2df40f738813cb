/* Child processes: started from an argument vector (never a shell), waited for with a limit. */
#ifndef CAPTURE_CHILD_H
#define CAPTURE_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#include "common/error.h"

/* Runs argv[0] (found in $PATH if it has no slash), both outputs into text (NUL-terminated,
 * cut at bytes), stdin empty, for at most timeout_ms; then it is killed. Its exit status is
 * not an error. ERR_NOT_FOUND / ERR_IO when it cannot be run. */
MUST_CHECK enum err child_output(char *const *argv, int timeout_ms, char *text, size_t bytes,
				 struct error *error);

/* Where $PATH (or the name itself, if it has a slash) finds an executable regular file.
 * ERR_NOT_FOUND: nowhere; ERR_IO: found, but not executable. */
MUST_CHECK enum err child_find(const char *name, char *path, size_t bytes, struct error *error);

#endif
