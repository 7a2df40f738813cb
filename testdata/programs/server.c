/* A "server": serves requests of three kinds, one of them much slower than the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
	int kind;
	unsigned seed;
	int size;
};

static unsigned next_random(unsigned *state)
{
	*state = *state * 1103515245u + 12345u;
	return *state >> 16;
}

static int compare_ints(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) int parse(const char *text, struct request *r)
{
	return sscanf(text, "GET /%d?seed=%u&size=%d", &r->kind, &r->seed, &r->size);
}

__attribute__((noinline)) unsigned serve_hash(const struct request *r)
{
	unsigned hash = 5381, state = r->seed;

	for (int i = 0; i < r->size; i++)
		hash = hash * 33 ^ (next_random(&state) & 0xff);
	return hash;
}

__attribute__((noinline)) unsigned serve_sort(const struct request *r)
{
	int values[512];
	unsigned state = r->seed;

	for (int i = 0; i < r->size && i < 512; i++)
		values[i] = (int)next_random(&state);
	qsort(values, (size_t)r->size, sizeof *values, compare_ints);
	return (unsigned)values[r->size / 2];
}

__attribute__((noinline)) unsigned fill(char *buffer, int size, unsigned seed)
{
	for (int i = 0; i < size; i++)
		buffer[i] = (char)('a' + next_random(&seed) % 26);
	buffer[size] = '\0';
	return seed;
}

__attribute__((noinline)) unsigned serve_search(const struct request *r)
{
	char *text = malloc((size_t)r->size + 1);
	unsigned found = 0;

	fill(text, r->size, r->seed);
	for (const char *p = text; (p = strstr(p, "ab")); p++)
		found++;
	free(text);
	return found;
}

typedef unsigned (*server)(const struct request *);
static const server servers[] = {serve_hash, serve_sort, serve_search};

__attribute__((noinline)) unsigned handle(int number)
{
	char text[80];
	struct request r;
	int slow = number == 7; /* the cache was cold: ten times the work */

	snprintf(text, sizeof text, "GET /%d?seed=%d&size=%d", number % 3, number * 7919,
		 slow ? 400 : 40);
	if (parse(text, &r) != 3)
		return 0;
	return servers[r.kind](&r);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 12;
	unsigned sum = 0;

	for (int i = 0; i < count; i++)
		sum += handle(i);
	printf("%u\n", sum);
	return 0;
}
