/* Plain calls, a jump table, function pointers, loops. */
#include <stdio.h>

typedef int (*op)(int, int);

__attribute__((noinline)) static int add(int a, int b)
{
	return a + b;
}

__attribute__((noinline)) static int subtract(int a, int b)
{
	return a - b;
}

__attribute__((noinline)) static int multiply(int a, int b)
{
	int sum = 0;

	for (int i = 0; i < b; i++)
		sum = add(sum, a);
	return sum;
}

static const op ops[] = {add, subtract, multiply};

__attribute__((noinline)) static int choose(int what, int a)
{
	switch (what) {
	case 0: return ops[0](a, 3);
	case 1: return a & 1 ? a : -a;
	case 2: return ops[2](a, 4) + 1;
	case 3: return a >> 2;
	case 4: return ops[1](a, 9);
	case 5: return a ^ 0x55;
	case 6: return multiply(a, what) % 1000;
	default: return 0;
	}
}

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 60; i++)
		sum += choose(i % 8, sum + i);
	printf("%d\n", sum);
	return 0;
}
