#include "capture/siphash.h"

#include <criterion/criterion.h>

/* Key 00 01 .. 0f, input 00 01 .. of the given length: the vectors of the paper's authors. */
Test(siphash, reference_vectors)
{
	static const struct {
		size_t bytes;
		uint64_t expected;
	} vectors[] = {
		{0, 0x726fdb47dd0e0e31}, {1, 0x74f839c593dc67fd},  {7, 0xab0200f58b01d137},
		{8, 0x93f5f5799a932462}, {15, 0xa129ca6149be45e5},
	};
	const struct siphash_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
	uint8_t input[16];

	for (size_t i = 0; i < sizeof input; i++)
		input[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
		cr_expect_eq(siphash(&key, input, vectors[i].bytes), vectors[i].expected,
			     "%zu bytes: %016lx", vectors[i].bytes,
			     siphash(&key, input, vectors[i].bytes));
}
