/* treediff TRUTH PROGRAM [CALLS]: are a decoder's calls those of the truth?
 *
 * CALLS (default: standard input) is what pt-decode --no-inline --no-demangle --dump calls
 * prints. Compared are the calls of the functions of one ELF file, PROGRAM, whose symbols are
 * complete: per thread the sequence of (number of PROGRAM's calls around it, function). How
 * libraries without symbols are divided into functions is thus left open.
 *
 * The truth's tree follows from its depth column: a call is a frame at that depth, a jump to
 * another function's first byte replaces the frame, everything deeper has ended. Threads that
 * a fork gave a stack are left out. Last line and exit status as edgediff. */
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/vec.h"

enum { LINE_BYTES = 65536, NO_FUNCTION = -1 };

struct function {
	uint64_t start, end; /* in the file */
	char *name;
};

struct mapping {
	uint64_t start, length, file_off;
};

struct call {
	uint32_t depth;
	uint64_t function; /* its start */
};

struct frame {
	uint64_t function; /* 0 = not PROGRAM's */
};

struct thread {
	int tid;
	bool begun, skipped, signal;
	VEC(struct frame) stack;
	VEC(struct call) truth;
	VEC(struct call) seen;
};

static struct {
	VEC(struct function) functions;
	VEC(struct mapping) maps;
	VEC(struct thread) threads;
} diff;

static void must(bool ok)
{
	if (!ok) {
		fprintf(stderr, "treediff: out of memory\n");
		exit(2);
	}
}

static struct thread *thread_of(int tid)
{
	for (size_t i = 0; i < diff.threads.count; i++)
		if (diff.threads.items[i].tid == tid)
			return &diff.threads.items[i];
	must(vec_push(&diff.threads, ((struct thread){.tid = tid})));
	return vec_last(&diff.threads);
}

/* Symbol table entries that are functions, as places in the file. */
static bool read_functions(const char *path)
{
	GElf_Phdr segment = {0};
	GElf_Shdr header;
	GElf_Sym symbol;
	size_t segments = 0;
	int fd = open(path, O_RDONLY);

	elf_version(EV_CURRENT);
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	if (!elf || elf_getphdrnum(elf, &segments) != 0)
		return false;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
			if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0)
				continue;
			for (int s = 0; s < (int)segments; s++)
				if (gelf_getphdr(elf, s, &segment) && segment.p_type == PT_LOAD &&
				    symbol.st_value - segment.p_vaddr < segment.p_filesz)
					break;
			uint64_t start = symbol.st_value - segment.p_vaddr + segment.p_offset;
			struct function f = {
				.start = start,
				.end = start + symbol.st_size,
				.name = strdup(elf_strptr(elf, header.sh_link, symbol.st_name)),
			};
			must(f.name && vec_push(&diff.functions, f));
		}
	}
	elf_end(elf);
	close(fd);
	return diff.functions.count > 0;
}

static const struct function *function_named(const char *name, size_t length)
{
	for (size_t i = 0; i < diff.functions.count; i++) {
		const struct function *f = &diff.functions.items[i];

		if (strncmp(f->name, name, length) == 0 && f->name[length] == '\0')
			return f;
	}
	return NULL;
}

/* foo.cold is a part of foo. */
static const struct function *whole(const struct function *f)
{
	size_t length = strlen(f->name);

	if (length <= 5 || strcmp(f->name + length - 5, ".cold") != 0)
		return f;
	const struct function *parent = function_named(f->name, length - 5);
	return parent ? parent : f;
}

/* The function at a run-time address; *entry: it begins there. */
static uint64_t function_at(uint64_t ip, bool *entry)
{
	*entry = false;
	for (size_t m = 0; m < diff.maps.count; m++) {
		const struct mapping *map = &diff.maps.items[m];
		uint64_t place = ip - map->start + map->file_off;

		if (ip - map->start >= map->length)
			continue;
		for (size_t i = 0; i < diff.functions.count; i++) {
			const struct function *f = &diff.functions.items[i];

			if (place < f->start || place >= f->end)
				continue;
			const struct function *of = whole(f);
			*entry = place == of->start;
			return of->start;
		}
	}
	return 0;
}

static void add_call(struct thread *t)
{
	struct call call = {.function = vec_last(&t->stack)->function};

	for (size_t i = 0; i + 1 < t->stack.count; i++)
		call.depth += t->stack.items[i].function != 0;
	if (call.function)
		must(vec_push(&t->truth, call));
}

/* stack[d] is the frame at depth d; the one at 0 is there from the start. */
static void truth_event(struct thread *t, const char *kind, uint64_t to, size_t depth)
{
	bool entry, is_call = strcmp(kind, "call") == 0 || strcmp(kind, "icall") == 0;
	uint64_t function = function_at(to, &entry);
	bool signal = t->signal && strcmp(kind, "begin") == 0;

	if (to == 0 || t->skipped)
		return;
	if (!t->begun) {
		t->begun = true;
		t->skipped = depth > 0;
		if (!t->skipped) {
			must(vec_push(&t->stack, ((struct frame){function})));
			add_call(t);
		}
		return;
	}
	if ((is_call || signal) && depth == t->stack.count) {
		t->signal = false;
		must(vec_push(&t->stack, ((struct frame){function})));
		add_call(t);
		return;
	}
	if (t->stack.count > depth + 1)
		t->stack.count = depth + 1;
	bool jump =
		strcmp(kind, "jmp") == 0 || strcmp(kind, "ijmp") == 0 || strcmp(kind, "jcc") == 0;
	uint64_t *top = &vec_last(&t->stack)->function;
	if (strcmp(kind, "ret") == 0 && !entry) {
		*top = function; /* past the bottom */
	} else if (*top != function && (entry || (jump && function == 0))) {
		*top = function;
		add_call(t);
	}
}

static void truth_line(char *line, const char *program)
{
	char kind[32], path[4096];
	uint64_t from, to, off;
	unsigned depth;
	int tid;

	if (sscanf(line, "%d %*u %*d mmap %" SCNx64 " %" SCNx64 " %" SCNx64 " %4095s", &tid, &from,
		   &to, &off, path) == 5) {
		if (strcmp(path, program) == 0)
			must(vec_push(&diff.maps, ((struct mapping){from, to, off})));
		return;
	}
	if (sscanf(line, "%d %*u %*d %31s %" SCNx64 " %" SCNx64 " %u", &tid, kind, &from, &to,
		   &depth) < 5)
		return;
	struct thread *t = thread_of(tid);
	if (strcmp(kind, "signal") == 0) {
		t->signal = true;
		return;
	}
	if (strcmp(kind, "exec") == 0) {
		t->begun = false;
		t->stack.count = 0;
	}
	truth_event(t, kind, to, depth);
}

/* `  START  DURATION  [indent]NAME[ (marks)]` */
static void seen_line(char *line, struct thread **current, uint32_t *depths)
{
	int pid, tid, at = 0;
	uint64_t start, duration;

	if (sscanf(line, "thread %d/%d", &pid, &tid) == 2) {
		*current = thread_of(tid);
		return;
	}
	if (!*current || sscanf(line, "%" SCNu64 " %" SCNu64 "%n", &start, &duration, &at) < 2)
		return;
	char *name = line + at + strspn(line + at, " ");
	size_t level = (size_t)(name - line - at - 2) / 2;
	const struct function *f = function_named(name, strcspn(name, " \n"));
	if (level + 1 >= LINE_BYTES / 2)
		return;
	depths[level + 1] = depths[level] + (f != NULL);
	if (f)
		must(vec_push(&(*current)->seen, ((struct call){depths[level], whole(f)->start})));
}

static const char *name_of(uint64_t function)
{
	for (size_t i = 0; i < diff.functions.count; i++)
		if (diff.functions.items[i].start == function)
			return diff.functions.items[i].name;
	return "?";
}

static bool compare(const struct thread *t)
{
	size_t i = 0;

	while (i < t->truth.count && i < t->seen.count &&
	       t->truth.items[i].depth == t->seen.items[i].depth &&
	       t->truth.items[i].function == t->seen.items[i].function)
		i++;
	if (i == t->truth.count && i == t->seen.count)
		return true;
	for (size_t k = i > 2 ? i - 2 : 0; k < i + 4; k++) {
		printf("%d #%zu:", t->tid, k);
		if (k < t->truth.count)
			printf(" truth %u %s", t->truth.items[k].depth,
			       name_of(t->truth.items[k].function));
		if (k < t->seen.count)
			printf(" seen %u %s", t->seen.items[k].depth,
			       name_of(t->seen.items[k].function));
		printf("%s\n", k == i ? "  <--" : "");
	}
	return false;
}

int main(int argc, char **argv)
{
	static char line[LINE_BYTES];
	static uint32_t depths[LINE_BYTES / 2];
	struct thread *current = NULL;
	size_t calls = 0;
	bool ok = true;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "Usage: treediff TRUTH PROGRAM [CALLS]\n");
		return 2;
	}
	FILE *truth = fopen(argv[1], "r");
	FILE *seen = argc > 3 ? fopen(argv[3], "r") : stdin;
	if (!truth || !seen || !read_functions(argv[2])) {
		fprintf(stderr, "treediff: cannot read the files\n");
		return 2;
	}
	while (fgets(line, sizeof line, truth))
		truth_line(line, argv[2]);
	while (fgets(line, sizeof line, seen))
		seen_line(line, &current, depths);
	for (size_t i = 0; i < diff.threads.count; i++) {
		if (diff.threads.items[i].skipped)
			continue;
		ok &= compare(&diff.threads.items[i]);
		calls += diff.threads.items[i].truth.count;
	}
	printf("calls %zu\n%s\n", calls, ok && calls > 0 ? "EXACT" : "DIFFERS");
	return ok && calls > 0 ? 0 : 1;
}
