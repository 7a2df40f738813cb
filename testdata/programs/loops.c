/* Loop-heavy: long runs of conditional branches, hardly a call. For benchmarks. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static unsigned sieve(unsigned char *composite, unsigned n)
{
	unsigned primes = 0;

	for (unsigned i = 2; i < n; i++) {
		if (composite[i])
			continue;
		primes++;
		for (unsigned k = i * 2; k < n; k += i)
			composite[k] = 1;
	}
	return primes;
}

__attribute__((noinline)) static unsigned bubble(int *values, int n)
{
	unsigned swaps = 0;

	for (int i = 0; i < n; i++)
		for (int k = 0; k + 1 < n - i; k++)
			if (values[k] > values[k + 1]) {
				int t = values[k];

				values[k] = values[k + 1];
				values[k + 1] = t;
				swaps++;
			}
	return swaps;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 2;
	unsigned sum = 0;

	for (int r = 0; r < rounds; r++) {
		static unsigned char composite[3000];
		int values[70];

		for (int i = 0; i < 70; i++)
			values[i] = i * 7919 % 101;
		sum += sieve(composite, sizeof composite) + bubble(values, 70);
	}
	printf("%u\n", sum);
	return 0;
}
