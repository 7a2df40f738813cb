/* Runs a fuzz target without libFuzzer, for `make check`.
 *
 * A target file defines both functions below. Linked with driver.c it is a program that
 * replays the files given as arguments, or, without arguments, all seeds and a fixed
 * number of mutations of each (always the same ones), and speaks TAP. Compiled with clang's
 * -fsanitize=fuzzer instead of driver.c it is a libFuzzer target.
 *
 * FUZZ_MUTATIONS in the environment is the number of mutations per seed. */
#ifndef COMMON_FUZZ_DRIVER_H
#define COMMON_FUZZ_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* Must not crash, hang, leak or trip a sanitizer, whatever the bytes. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The nth valid input, in malloc'ed memory for the caller to free; NULL behind the last. */
uint8_t *fuzz_seed(unsigned n, size_t *size);

#endif
