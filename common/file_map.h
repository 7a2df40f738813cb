/* A whole file, mapped read-only.
 *
 * Only regular files are mapped (a FIFO or device is refused with ERR_UNSUPPORTED).
 * If another process truncates the file meanwhile, touching the lost pages raises
 * SIGBUS; the programs' signal handling turns that into a failure without output. */
#ifndef COMMON_FILE_MAP_H
#define COMMON_FILE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct file_map {
	const uint8_t *data; /* NULL for an empty file */
	size_t bytes;
};

MUST_CHECK enum err file_map_open(const char *path, struct file_map *map, struct error *error);
void file_map_done(struct file_map *map);

#endif
