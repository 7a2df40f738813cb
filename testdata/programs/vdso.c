/* Calls into the vdso. */
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

int main(void)
{
	struct timespec now;
	struct timeval tv;
	long sum = 0;

	for (int i = 0; i < 20; i++) {
		clock_gettime(i & 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &now);
		gettimeofday(&tv, NULL);
		sum += now.tv_nsec % 10 + tv.tv_usec % 10 + time(NULL) % 10;
	}
	printf("%ld\n", sum);
	return 0;
}
