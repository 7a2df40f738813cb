/* A tar archive; packed here, since a mutation of packed bytes only meets zstd's checks.
 * Nothing may appear outside of the directory it is extracted into. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/bundle.h"
#include "common/fuzz/driver.h"
#include "common/tar_zst.h"

enum { BLOCK = 512, BYTES_MAX = 1 << 16, FILES_MAX = 16 };

static char dir[] = "/tmp/tar_zst_fuzz.XXXXXX";
static char archive[64], inner[64];

static void remove_dir(void)
{
	bundle_remove_tree(dir);
}

/* The directory above holds the archive and the directory, and nothing else. */
static void check_outside(void)
{
	struct stat st;

	if (unlink(archive) != 0)
		abort();
	bundle_remove_tree(inner);
	if (stat(dir, &st) != 0 || st.st_nlink != 2 || rmdir(dir) != 0 || mkdir(dir, 0700) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t room = ZSTD_compressBound(size);
	uint8_t *packed = malloc(room);

	if (!packed)
		abort();
	if (!archive[0]) {
		if (!mkdtemp(dir))
			abort();
		atexit(remove_dir);
		snprintf(archive, sizeof archive, "%s/a", dir);
		snprintf(inner, sizeof inner, "%s/d", dir);
	}
	size_t bytes = ZSTD_compress(packed, room, data, size, 1);
	FILE *file = fopen(archive, "wb");
	if (ZSTD_isError(bytes) || !file || fwrite(packed, 1, bytes, file) != bytes ||
	    fclose(file) != 0 || mkdir(inner, 0700) != 0)
		abort();
	free(packed);
	enum err err = tar_zst_extract(archive, inner, BYTES_MAX, FILES_MAX, NULL);
	(void)err; /* either way */
	check_outside();
	return 0;
}

static void put_entry(uint8_t *at, const char *name, char type, unsigned size)
{
	unsigned sum = 0;

	snprintf((char *)at, 100, "%s", name);
	snprintf((char *)at + 124, 12, "%011o", size);
	memset(at + 148, ' ', 8);
	at[156] = (uint8_t)type;
	memcpy(at + 257, "ustar\00000", 8);
	for (int i = 0; i < BLOCK; i++)
		sum += at[i];
	snprintf((char *)at + 148, 8, "%06o", sum);
}

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	static const char pax[] = "14 path=a/b/c\n15 size=000003\n";

	if (n > 1)
		return NULL;
	uint8_t *seed = calloc(10, BLOCK);
	if (!seed)
		return NULL;
	*size = 10 * BLOCK;
	put_entry(seed, "dir/", '5', 0);
	put_entry(seed + BLOCK, "dir/file", '0', 600);
	put_entry(seed + 4 * BLOCK, "next", n == 0 ? 'x' : 'L', n == 0 ? sizeof pax - 1 : 20);
	memcpy(seed + 5 * BLOCK, n == 0 ? pax : "a/long/name/indeed", n == 0 ? sizeof pax - 1 : 18);
	put_entry(seed + 6 * BLOCK, "short", '0', 3);
	return seed;
}
