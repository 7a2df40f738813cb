/* See siphash.h. */
#include "capture/siphash.h"

#include <stdbool.h>
#include <string.h>

static uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t bytes)
{
	uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d,
			 key->k[0] ^ 0x6c7967656e657261, key->k[1] ^ 0x7465646279746573};
	const uint8_t *p = data;

	for (size_t left = bytes;; left -= 8, p += 8) {
		uint64_t word = 0;
		bool last = left < 8;

		memcpy(&word, p, last ? left : 8);
		if (last)
			word |= (uint64_t)bytes << 56;
		v[3] ^= word;
		sip_round(v);
		sip_round(v);
		v[0] ^= word;
		if (last)
			break;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
