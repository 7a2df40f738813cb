/* Where the code of a source line begins: FILE:LINE to addresses, from a file's DWARF. */
#ifndef SYMBOLIZE_LINE_SEARCH_H
#define SYMBOLIZE_LINE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* The lowest address of the line in each compilation unit that has it, at most `max`. `file`
 * matches whole path parts from the end ("net/srv.c" matches "/src/net/srv.c"). A line
 * without code stands for the next one of that file that has some; *found_line says which.
 * ERR_NOT_FOUND: no such line; ERR_IO, ERR_FORMAT: no readable DWARF. */
MUST_CHECK enum err line_search(const char *object_path, const char *file, unsigned line,
				uint64_t *vaddrs, size_t max, size_t *count, unsigned *found_line);

#endif
