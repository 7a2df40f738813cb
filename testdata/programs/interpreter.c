/* Call-heavy and full of indirect branches: a bytecode interpreter with a hash table and
 * a sort, as scripting engines are. For benchmarks. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PUSH, ADD, MUL, STORE, LOAD, LESS, JUMP_IF, CALL, RETURN, SORT, HALT, OPS };

struct vm {
	const int *code;
	int at, sp, calls;
	int stack[256], frames[256];
	uint32_t keys[256];
	int values[256];
};

__attribute__((noinline)) static uint32_t hash(uint32_t key)
{
	key ^= key >> 16;
	key *= 0x7feb352du;
	return key ^ key >> 15;
}

__attribute__((noinline)) static int *slot(struct vm *vm, uint32_t key)
{
	uint32_t at = hash(key) & 255;

	while (vm->keys[at] != key && vm->keys[at] != 0)
		at = (at + 1) & 255;
	vm->keys[at] = key;
	return &vm->values[at];
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void push(struct vm *vm, int value)
{
	vm->stack[vm->sp++ & 255] = value;
}

static int pop(struct vm *vm)
{
	return vm->stack[--vm->sp & 255];
}

static void op_push(struct vm *vm)
{
	push(vm, vm->code[vm->at++]);
}
static void op_add(struct vm *vm)
{
	push(vm, pop(vm) + pop(vm));
}
static void op_mul(struct vm *vm)
{
	push(vm, pop(vm) * 3 + pop(vm));
}
static void op_store(struct vm *vm)
{
	*slot(vm, (uint32_t)vm->code[vm->at++]) = pop(vm);
}
static void op_load(struct vm *vm)
{
	push(vm, *slot(vm, (uint32_t)vm->code[vm->at++]));
}
static void op_less(struct vm *vm)
{
	push(vm, pop(vm) > pop(vm));
}
static void op_jump_if(struct vm *vm)
{
	int to = vm->code[vm->at++];

	if (pop(vm))
		vm->at = to;
}
static void op_call(struct vm *vm)
{
	int to = vm->code[vm->at++];

	vm->frames[vm->calls++ & 255] = vm->at;
	vm->at = to;
}
static void op_return(struct vm *vm)
{
	vm->at = vm->frames[--vm->calls & 255];
}
static void op_sort(struct vm *vm)
{
	qsort(vm->values, 32, sizeof *vm->values, compare);
}

static void (*const ops[])(struct vm *) = {op_push, op_add,     op_mul,  op_store,  op_load,
					   op_less, op_jump_if, op_call, op_return, op_sort};

/* for (i = 0; i < n; i++) sum = f(sum, i); */
static const int program[] = {
	PUSH,           0,    STORE, 1,      PUSH,  1,       STORE, 2,
	/* 8: */ LOAD,  1,    LOAD,  2,      CALL,  40,      STORE, 2,
	LOAD,           1,    PUSH,  1,      ADD,   STORE,   1,
	/* 23: */ PUSH, 60,   LOAD,  1,      LESS,  JUMP_IF, 8,     SORT,
	HALT,           HALT, HALT,  HALT,   HALT,  HALT,    HALT,  HALT,
	HALT,
	/* 40: */ MUL,  LOAD, 3,     ADD,    STORE, 3,       LOAD,  3,
	PUSH,           7,    ADD,   RETURN,
};

__attribute__((noinline)) static int run(struct vm *vm)
{
	vm->at = vm->sp = vm->calls = 0;
	while (vm->code[vm->at] != HALT)
		ops[vm->code[vm->at++]](vm);
	return *slot(vm, 2);
}

int main(int argc, char **argv)
{
	static struct vm vm = {.code = program};
	int rounds = argc > 1 ? atoi(argv[1]) : 8, sum = 0;

	for (int i = 0; i < rounds; i++)
		sum += run(&vm);
	printf("%d\n", sum);
	return 0;
}
