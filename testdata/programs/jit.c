/* A tiny JIT: three functions in anonymous memory that call each other and a C function,
 * described by /tmp/perf-PID.map and by a jitdump file (argv[1]: its directory). */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*function)(int);
static uint8_t *code;
static FILE *map, *dump;
static uint64_t indexes;

__attribute__((noinline)) int helper(int value)
{
	return value * 3 + 1;
}

/* Any clock will do that is before every time of the trace, which is made later. */
static uint64_t now(void)
{
	return indexes + 1;
}

static void dump_header(void)
{
	struct {
		uint32_t magic, version, bytes, machine, pad, pid;
		uint64_t time, flags;
	} h = {0x4a695444, 1, sizeof h, 62, 0, (uint32_t)getpid(), now(), 0};

	fwrite(&h, sizeof h, 1, dump);
}

static void announce(const char *name, const uint8_t *at, size_t bytes)
{
	struct {
		uint32_t id, bytes;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, address, size, index;
	} r = {0,
	       (uint32_t)(sizeof r + strlen(name) + 1 + bytes),
	       now(),
	       (uint32_t)getpid(),
	       (uint32_t)getpid(),
	       (uintptr_t)at,
	       (uintptr_t)at,
	       bytes,
	       indexes++};

	fprintf(map, "%lx %zx %s\n", (unsigned long)(uintptr_t)at, bytes, name);
	fwrite(&r, sizeof r, 1, dump);
	fwrite(name, strlen(name) + 1, 1, dump);
	fwrite(at, bytes, 1, dump);
}

/* push rbx; mov ebx, edi; (mov rax, callee; call rax; add ebx, eax) twice; mov eax, ebx ... */
static function compile(const char *name, size_t at, const void *callee)
{
	uint8_t *p = code + at;
	uint64_t target = (uintptr_t)callee;
	const uint8_t *start = p;

	memcpy(p, "\x53\x89\xfb", 3);
	p += 3;
	for (int i = 0; i < 2; i++) {
		memcpy(p, "\x89\xdf\x48\xb8", 4); /* mov edi, ebx; movabs rax */
		memcpy(p + 4, &target, 8);
		memcpy(p + 12, "\xff\xd0\x01\xc3", 4); /* call rax; add ebx, eax */
		p += 16;
	}
	memcpy(p, "\x81\xfb\x00\x00\x01\x00\x7c\x02\x31\xdb\x89\xd8\x5b\xc3", 14);
	p += 14; /* cmp ebx, 65536; jl +2; xor ebx, ebx; mov eax, ebx; pop rbx; ret */
	announce(name, start, (size_t)(p - start));
	return (function)(uintptr_t)start;
}

int main(int argc, char **argv)
{
	char path[4096];
	int sum = 0;

	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	snprintf(path, sizeof path, "%s/jit-%d.dump", argc > 1 ? argv[1] : ".", getpid());
	dump = fopen(path, "w+");
	if (!map || !dump)
		return 1;
	dump_header();
	/* perf learns of a jitdump by this mapping */
	fflush(dump);
	mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
	code = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	function leaf = compile("jit_leaf", 0, (const void *)(uintptr_t)helper);
	function middle = compile("jit_middle", 512, (const void *)(uintptr_t)leaf);
	function top = compile("jit_top", 1024, (const void *)(uintptr_t)middle);
	fclose(map);
	fclose(dump);
	mprotect(code, 8192, PROT_READ | PROT_EXEC);
	for (int i = 0; i < 30; i++)
		sum += top(i) + helper(i);
	printf("%d\n", sum);
	return 0;
}
