/* See driver.h. A mutation changes one to eight places: a bit, a byte, an aligned word to a
 * value at some bound, a run copied elsewhere, or the length. */
#include "common/fuzz/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MUTATIONS = 500 };

static uint64_t random_state = 88172645463325252;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void mutate(uint8_t *data, size_t *size)
{
	static const uint64_t bounds[] = {0,          1,         7,          8,
					  0xff,       0x7fff,    0xffff,     0x7fffffff,
					  0xffffffff, INT64_MAX, UINT64_MAX, UINT64_MAX - 7};

	for (uint64_t left = random_next() % 8 + 1; left > 0 && *size > 0; left--) {
		size_t at = random_next() % *size, room = *size - at;

		switch (random_next() % 8) {
		case 0: *size = at; break;
		case 1: data[at] ^= (uint8_t)(1u << random_next() % 8); break;
		case 2: data[at] = (uint8_t)random_next(); break;
		case 3: {
			size_t from = random_next() % *size, length = random_next() % 64;

			if (length > room)
				length = room;
			if (length > *size - from)
				length = *size - from;
			memmove(data + at, data + from, length);
			break;
		}
		default: {
			size_t bytes = (size_t)1 << random_next() % 4;
			uint64_t value = bounds[random_next() % (sizeof bounds / sizeof *bounds)];

			at -= at % bytes;
			if (bytes <= *size - at)
				memcpy(data + at, &value, bytes);
			break;
		}
		}
	}
}

/* The bytes alone in memory of their own, so that AddressSanitizer sees a read past them. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static int run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL;
	size_t size = 0, got;

	if (!file) {
		perror(path);
		return 1;
	}
	do {
		uint8_t *grown = realloc(data, size + 65536);

		if (!grown)
			abort();
		data = grown;
		got = fread(data + size, 1, 65536, file);
		size += got;
	} while (got > 0);
	fclose(file);
	run(data, size);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	const char *wanted = getenv("FUZZ_MUTATIONS");
	unsigned long mutations = wanted ? strtoul(wanted, NULL, 10) : MUTATIONS;
	int status = 0;

	for (int i = 1; i < argc; i++)
		status |= run_file(argv[i]);
	if (argc > 1)
		return status;

	uint8_t *seed;
	size_t size;
	unsigned count = 0;
	for (; (seed = fuzz_seed(count, &size)); count++) {
		uint8_t *mutant = malloc(size > 0 ? size : 1);

		if (!mutant)
			abort();
		run(seed, size);
		for (unsigned long i = 0; i < mutations; i++) {
			size_t length = size;

			memcpy(mutant, seed, size);
			mutate(mutant, &length);
			run(mutant, length);
		}
		free(mutant);
		free(seed);
		printf("ok %u - seed %u, %lu mutations\n", count + 1, count, mutations);
	}
	printf("1..%u\n", count);
	return count == 0;
}
