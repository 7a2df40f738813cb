/* Threads that take turns by a lock and a condition, hand work over a queue, sleep. */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

enum { WORKERS = 3, JOBS = 30 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int queue[JOBS], head, tail, done;
static long results[WORKERS];

__attribute__((noinline)) static int take(void)
{
	int job = -1;

	pthread_mutex_lock(&lock);
	while (head == tail && !done)
		pthread_cond_wait(&changed, &lock);
	if (head < tail)
		job = queue[head++];
	pthread_mutex_unlock(&lock);
	return job;
}

__attribute__((noinline)) static long collatz(long n)
{
	long steps = 0;

	for (; n != 1; steps++)
		n = n & 1 ? 3 * n + 1 : n / 2;
	return steps;
}

static void *worker(void *arg)
{
	long index = (long)arg;
	char name[16];
	int job;

	snprintf(name, sizeof name, "worker-%ld", index);
	prctl(PR_SET_NAME, name);
	while ((job = take()) >= 0)
		results[index] += collatz(job + 27);
	return NULL;
}

int main(void)
{
	pthread_t threads[WORKERS];
	long sum = 0;

	for (long i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, worker, (void *)i);
	for (int i = 0; i < JOBS; i++) {
		pthread_mutex_lock(&lock);
		queue[tail++] = i;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
		if (i % 10 == 9)
			nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	}
	pthread_mutex_lock(&lock);
	done = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		sum += results[i];
	}
	printf("%ld\n", sum);
	return 0;
}
