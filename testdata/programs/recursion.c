/* Recursion: doubly, mutual, deeper than any return stack, and through a function that
 * the compiler split (visit -> visit.part.0 -> visit). */
#include <stdio.h>
#include <stdlib.h>

struct node {
	struct node *left, *right;
	int key, weight;
};

__attribute__((noinline)) static int fib(int n)
{
	if (n < 2)
		return n;
	int a = fib(n - 1);
	return a + fib(n - 2);
}

int is_odd(int n);

__attribute__((noinline)) int is_even(int n)
{
	return n == 0 ? 1 : 1 - is_odd(n - 1) * 1;
}

__attribute__((noinline)) int is_odd(int n)
{
	return n == 0 ? 0 : 1 - is_even(n - 1) * 1;
}

static struct node *insert(struct node *root, int key)
{
	if (!root) {
		root = calloc(1, sizeof *root);
		root->key = key;
		return root;
	}
	if (key < root->key)
		root->left = insert(root->left, key);
	else
		root->right = insert(root->right, key);
	return root;
}

/* The compiler splits it: the test at the top stays in visit, the rest is visit.part.0.
 * The right subtree goes through a pointer, so that both take part in the recursion. */
int visit(struct node *n, int depth);
static int (*volatile visit_any)(struct node *, int) = visit;

int visit(struct node *n, int depth)
{
	int sum = 0;

	if (!n)
		return 0;
	for (int i = 0; i < n->key % 3; i++)
		n->weight = n->weight * 31 + i;
	sum += n->weight + abs(n->key - depth);
	sum += visit(n->left, depth + 1);
	n->weight ^= sum;
	sum ^= visit_any(n->right, depth + 1);
	return sum;
}

__attribute__((noinline)) static long deep(int n, volatile long *out)
{
	if (n == 0)
		return *out;
	*out += n;
	return deep(n - 1, out) + 1;
}

int main(int argc, char **argv)
{
	struct node *root = NULL;
	volatile long out = 0;
	unsigned state = 1;
	int rounds = argc > 1 ? atoi(argv[1]) : 1, sum = 0;

	for (int r = 0; r < rounds; r++) {
		for (int i = 0; i < 60; i++) {
			state = state * 1103515245u + 12345u;
			root = insert(root, (int)(state >> 16 & 1023));
		}
		sum += visit(root, 0) + visit(root->left, 1) + fib(13 - r % 3);
		sum += is_even(40 + r) + is_odd(31 + r);
		sum += (int)deep(300, &out);
	}
	printf("%d\n", sum);
	return 0;
}
