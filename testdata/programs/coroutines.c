/* Stack switches: two fibres that park at the same call, a generator, and one that ends. */
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

struct fibre {
	ucontext_t context, caller;
	int value, finished;
	char stack[32768];
};

static struct fibre *current;

__attribute__((noinline)) static void yield(int value)
{
	struct fibre *f = current;

	f->value = value;
	swapcontext(&f->context, &f->caller);
}

__attribute__((noinline)) static int resume(struct fibre *f)
{
	current = f;
	swapcontext(&f->caller, &f->context);
	return f->value;
}

__attribute__((noinline)) static void visit(int depth, int base)
{
	if (depth == 0) {
		yield(base);
		return;
	}
	visit(depth - 1, base * 2);
	visit(depth - 1, base * 2 + 1);
}

static void run(int depth, int base)
{
	visit(depth, base);
	current->finished = 1;
	for (;;)
		yield(-1);
}

static struct fibre *start(int depth, int base)
{
	struct fibre *f = calloc(1, sizeof *f);

	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = sizeof f->stack;
	makecontext(&f->context, (void (*)(void))run, 2, depth, base);
	return f;
}

int main(void)
{
	struct fibre *a = start(3, 1), *b = start(3, 100), *c = start(1, 7);
	long sum = 0;

	while (!a->finished || !b->finished || !c->finished) {
		sum += resume(a);
		sum += resume(b) * 3;
		if (!c->finished)
			sum += resume(c) * 5;
	}
	printf("%ld\n", sum);
	return 0;
}
