/* SipHash-2-4: a keyed hash of 64 bits, a pseudo-random function of its input.
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012. */
#ifndef CAPTURE_SIPHASH_H
#define CAPTURE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t k[2];
};

uint64_t siphash(const struct siphash_key *key, const void *data, size_t bytes);

#endif
