/* The C library calls back: qsort (in recursion, too), bsearch, twalk, atexit. */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>

static int visited;

static int by_value(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

/* Sorts a few numbers of its own while it compares. */
static int by_median(const void *a, const void *b)
{
	int x[3], y[3];

	for (int i = 0; i < 3; i++) {
		x[i] = *(const int *)a >> i * 3 & 31;
		y[i] = *(const int *)b >> i * 2 & 31;
	}
	qsort(x, 3, sizeof *x, by_value);
	qsort(y, 3, sizeof *y, by_value);
	return x[1] - y[1];
}

static void on_node(const void *node, VISIT which, int depth)
{
	if (which == leaf || which == postorder)
		visited += **(int *const *)node * depth;
}

static void last(void)
{
	visited++;
}

int main(void)
{
	int values[40];
	void *tree = NULL;

	atexit(last);
	for (int i = 0; i < 40; i++)
		values[i] = i * 7919 % 1009;
	qsort(values, 12, sizeof *values, by_median);
	qsort(values, 40, sizeof *values, by_value);
	for (int i = 0; i < 40; i += 3)
		tsearch(&values[i], &tree, by_value);
	twalk(tree, on_node);
	int *found = bsearch(&values[17], values, 40, sizeof *values, by_value);
	printf("%d %td\n", visited, found - values);
	return 0;
}
