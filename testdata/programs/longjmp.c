/* setjmp and longjmp: over several frames, out of recursion, repeatedly, and never. */
#include <setjmp.h>
#include <stdio.h>

static jmp_buf outer, inner;

__attribute__((noinline)) static int dig(int depth, int target, jmp_buf *where)
{
	if (depth >= target)
		longjmp(*where, depth + 1);
	return depth > 99 ? 0 : dig(depth + 1, target, where) + 1;
}

__attribute__((noinline)) static int nested(int n)
{
	volatile int tries = 0;
	int code = setjmp(inner);

	if (code != 0)
		tries = tries + code;
	if (tries < n)
		return dig(0, 2, &inner);
	if (n == 9)
		longjmp(outer, 50); /* past our caller, too */
	return tries;
}

__attribute__((noinline)) static int middle(int n)
{
	return nested(n) * 3;
}

int main(void)
{
	volatile int sum = 0, round = 0;
	int code = setjmp(outer);

	sum += code;
	while (round++ < 12) {
		if (round % 3 == 0)
			dig(0, round, &outer);
		sum += middle(round);
	}
	printf("%d\n", sum);
	return 0;
}
