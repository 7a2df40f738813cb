/* A directory tree as one .tar.zst (POSIX ustar inside of zstd), and back.
 *
 * Only regular files and directories exist here. Extraction trusts nothing: names that are
 * absolute or contain "..", links and devices are refused, and total size, file count and
 * name lengths have ceilings. Archives by GNU tar and bsdtar (long names, pax) are read. */
#ifndef COMMON_TAR_ZST_H
#define COMMON_TAR_ZST_H

#include <stdint.h>

#include "common/error.h"

/* Packs everything below dir (names relative to it) into a new file of mode 0600.
 * Symlinks and special files in dir are ERR_UNSUPPORTED. On failure no file is left. */
MUST_CHECK enum err tar_zst_pack(const char *dir, const char *path, struct error *error);

/* Extracts into the existing directory dir; files get mode 0600, directories 0700. On
 * failure what was extracted so far stays: the caller removes dir. */
MUST_CHECK enum err tar_zst_extract(const char *path, const char *dir, uint64_t bytes_max,
				    uint32_t files_max, struct error *error);

#endif
