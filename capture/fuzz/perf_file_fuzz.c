/* A perf.data: summarized, and its names replaced. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "capture/perf_file.h"
#include "common/fuzz/driver.h"

static char path[] = "/tmp/perf_file_fuzz.XXXXXX";

static void remove_file(void)
{
	unlink(path);
}

/* Uses all the room it was promised. */
static void rename_all(void *context, char *name, size_t room)
{
	(void)context;
	memset(name, 'x', room - 1);
	name[room - 1] = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct perf_summary summary;

	if (fd < 0) {
		fd = mkstemp(path);
		if (fd < 0)
			abort();
		atexit(remove_file);
	}
	if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		abort();
	if (perf_file_summarize(path, &summary, NULL) == ERR_NONE)
		perf_summary_done(&summary);
	if (perf_file_rename(path, rename_all, NULL, NULL) == ERR_NONE &&
	    perf_file_summarize(path, &summary, NULL) == ERR_NONE)
		perf_summary_done(&summary);
	return 0;
}

static void put(uint8_t *seed, size_t *at, uint64_t value, size_t bytes)
{
	memcpy(seed + *at, &value, bytes);
	*at += bytes;
}

/* The records of a pipe-mode file in one compressed record. */
static uint8_t *compressed_seed(size_t *size)
{
	size_t plain_bytes;
	uint8_t *plain = fuzz_seed(1, &plain_bytes), *seed = calloc(1, 1024);

	if (plain && seed) {
		size_t room = ZSTD_compressBound(plain_bytes), at = 16;
		uint8_t *packed = malloc(room);

		if (!packed)
			abort();
		size_t bytes = ZSTD_compress(packed, room, plain + 16, 120, 1); /* no AUXTRACE */
		memcpy(seed, plain, 16);
		put(seed, &at, 81 | (uint64_t)(8 + bytes) << 48, 8);
		memcpy(seed + at, packed, bytes);
		*size = at + bytes;
		free(packed);
	}
	free(plain);
	return seed;
}

/* Seed 0 a file, seed 1 in pipe mode; a COMM, an MMAP2, an AUXTRACE, two features. */
uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	if (n == 2)
		return compressed_seed(size);
	uint8_t *seed = n < 2 ? calloc(1, 1024) : NULL;
	size_t at = 8;

	if (!seed)
		return NULL;
	memcpy(seed, "PERFILE2", 8);
	put(seed, &at, n == 0 ? 104 : 16, 8);
	if (n == 0) {
		at = 40;
		put(seed, &at, 104, 8);
		put(seed, &at, 32 + 88 + 48 + 64, 8);
		at = 72;
		put(seed, &at, 1 << 3 | 1 << 11, 8); /* host name, command line */
		at = 104;
	}
	size_t start = at;
	put(seed, &at, PERF_RECORD_COMM | (uint64_t)32 << 48, 8);
	put(seed, &at, 1, 8);
	memcpy(seed + at, "comm", 4);
	at = start + 32;
	put(seed, &at,
	    PERF_RECORD_MMAP2 | (uint64_t)PERF_RECORD_MISC_MMAP_BUILD_ID << 32 | (uint64_t)88 << 48,
	    8);
	at = start + 32 + 40;
	put(seed, &at, 20, 8);
	at = start + 32 + 72;
	memcpy(seed + at, "/usr/lib/x.so", 13);
	at = start + 32 + 88;
	put(seed, &at, 71 | (uint64_t)48 << 48, 8);
	put(seed, &at, 64, 8);
	at = start + 32 + 88 + 48 + 64;
	if (n == 0) {
		size_t features = at + 32;

		put(seed, &at, features, 8);
		put(seed, &at, 12, 8);
		put(seed, &at, features + 12, 8);
		put(seed, &at, 20, 8);
		put(seed, &at, 8, 4);
		memcpy(seed + at, "host", 4);
		at += 8;
		put(seed, &at, 1, 4);
		put(seed, &at, 12, 4);
		memcpy(seed + at, "perf", 4);
		at += 12;
	}
	*size = at;
	return seed;
}
