/* Files by build id from the debuginfod servers of $DEBUGINFOD_URLS. Only when asked for:
 * a decode without it never touches a network. */
#ifndef SYMBOLIZE_REMOTE_H
#define SYMBOLIZE_REMOTE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum remote_kind { REMOTE_EXECUTABLE, REMOTE_DEBUG };

/* The path of the file in the local cache of downloads. false = none has it, or no library. */
bool remote_fetch(enum remote_kind kind, const uint8_t *build_id, size_t bytes,
		  char path[PATH_MAX]);

#endif
