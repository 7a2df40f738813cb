/* edgediff TRUTH [EDGES]: are a decoder's branches those of the truth?
 *
 * EDGES (default: standard input) has lines as perf script -F tid,time,flags,ip,addr
 * prints them: `TID [SEC.NS:]  FLAGS  IP => ADDR`; lines that contain "instruction trace
 * error" are counted, others ignored. Times are not compared.
 *
 * Without faults every thread's branches must be the truth's, one by one; of snapshots,
 * those behind the first PSB of what was saved. A fault cuts a thread's truth in runs:
 * every run must come, whole and in order; what stands between runs is up to the decoder.
 * The last line says EXACT, or DIFFERS and how; exit status 0 or 1, 2 for bad input. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/map64.h"
#include "common/vec.h"

enum edge_kind {
	CALL,
	RET,
	JMP,
	JCC,
	SYSCALL,
	BEGIN,
	END,
	SYSRET,
	INT,
	IRET,
	HW_INT,
	TX_ABORT,
	NO_EDGE
};

/* As the truth names them, and as perf does. */
static const struct {
	const char *truth, *flags;
	enum edge_kind kind;
} kinds[] = {
	{"call", "call", CALL},
	{"icall", NULL, CALL},
	{"ret", "return", RET},
	{"jmp", "jmp", JMP},
	{"ijmp", NULL, JMP},
	{"jcc", "jcc", JCC},
	{"syscall", "syscall", SYSCALL},
	{"begin", "tr strt", BEGIN},
	{"end", "tr end", END},
	{"sysret", "sysret", SYSRET},
	{"int", "int", INT},
	{"iret", "iret", IRET},
	{"hwint", "hw int", HW_INT},
	{"txabort", "tx abrt", TX_ABORT},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct edge {
	uint64_t from, to;
	uint64_t psb; /* truth: place of the PSB before it in its stream */
	uint32_t run; /* truth: number of faults before it; RUN_NONE = inside one */
	uint32_t stream;
	uint8_t kind;
	bool saved; /* by a snapshot */
};

enum { RUN_NONE = UINT32_MAX, STREAMS_MAX = 64, LINE_BYTES = 16384 };

struct thread {
	int tid;
	VEC(struct edge) truth;
	VEC(struct edge) seen;
};

struct stream {
	uint64_t psb;
	bool psb_seen;
	/* A fault: until `found`, or, when decoding is only certain there, the next PSB. */
	bool lost, until_psb, found;
	uint32_t runs;
};

static struct {
	VEC(struct thread) threads;
	struct map64 by_tid;
	struct stream streams[STREAMS_MAX];
	bool per_cpu, snapshots, faults;
	uint64_t errors;
	int stream_tid[STREAMS_MAX];
} diff;

static void *must(bool ok)
{
	if (!ok) {
		fprintf(stderr, "edgediff: out of memory\n");
		exit(2);
	}
	return NULL;
}

static struct thread *thread_of(int tid)
{
	uint32_t at = map64_get(&diff.by_tid, (uint64_t)tid);

	if (at == MAP64_NONE) {
		at = (uint32_t)diff.threads.count;
		must(map64_set(&diff.by_tid, (uint64_t)tid, at));
		must(vec_push(&diff.threads, ((struct thread){.tid = tid})));
	}
	return &diff.threads.items[at];
}

static enum edge_kind truth_kind(const char *name)
{
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(name, kinds[i].truth) == 0)
			return kinds[i].kind;
	return NO_EDGE;
}

static void truth_comment(const char *line)
{
	uint64_t from, to;
	unsigned stream;
	int tid;

	if (strncmp(line, "# mode cpu", 10) == 0)
		diff.per_cpu = true;
	if (sscanf(line, "# psb idx %u tid %d pos %" SCNu64, &stream, &tid, &from) == 3 &&
	    stream < STREAMS_MAX) {
		struct stream *s = &diff.streams[stream];

		diff.stream_tid[stream] = tid;
		s->psb = from;
		s->psb_seen = true;
		if (s->lost && s->until_psb && s->found)
			s->lost = false;
	}
	if (sscanf(line, "# snapshot idx %u tid %d bytes %" SCNu64 " %" SCNu64, &stream, &tid,
		   &from, &to) == 4) {
		diff.snapshots = true;
		for (size_t t = 0; t < diff.threads.count; t++) {
			struct thread *thread = &diff.threads.items[t];

			for (size_t i = 0; i < thread->truth.count; i++)
				if (thread->truth.items[i].stream == stream &&
				    thread->truth.items[i].psb >= from)
					thread->truth.items[i].saved = true;
		}
	}
}

static uint32_t stream_of(int tid, int cpu)
{
	if (diff.per_cpu)
		return cpu >= 0 && cpu < STREAMS_MAX ? (uint32_t)cpu : 0;
	for (uint32_t i = 0; i < STREAMS_MAX; i++)
		if (diff.stream_tid[i] == tid)
			return i;
	return 0;
}

static void truth_fault(struct stream *s, struct thread *t, uint32_t stream, bool lost, uint64_t ip,
			const char *note)
{
	diff.faults = true;
	s->lost = true;
	s->found = !lost;
	if (lost) {
		s->runs++;
		s->until_psb = strcmp(note, "drop") == 0 || strcmp(note, "corrupt") == 0;
		return;
	}
	if (!s->until_psb)
		s->lost = false;
	if (strcmp(note, "ovf") == 0) /* decoders report the ip where it resolved */
		must(vec_push(&t->truth, ((struct edge){.to = ip,
							.kind = BEGIN,
							.stream = stream,
							.psb = s->psb,
							.run = s->runs})));
}

static void truth_line(const char *line)
{
	char kind[32], note[64] = "";
	uint64_t from, to;
	int tid, cpu;

	if (line[0] == '#') {
		truth_comment(line);
		return;
	}
	if (sscanf(line, "%d %*u %d %31s %" SCNx64 " %" SCNx64 " %*u %*s %*s %63s", &tid, &cpu,
		   kind, &from, &to, note) < 5)
		return;
	struct thread *t = thread_of(tid);
	uint32_t stream = stream_of(tid, cpu);
	struct stream *s = &diff.streams[stream];
	if (strcmp(kind, "lost") == 0 || strcmp(kind, "found") == 0)
		truth_fault(s, t, stream, kind[0] == 'l', from, note);
	struct edge edge = {.from = from,
			    .to = to,
			    .stream = stream,
			    .psb = s->psb,
			    .run = s->lost ? RUN_NONE : s->runs,
			    .kind = (uint8_t)truth_kind(kind)};
	if (edge.kind != NO_EDGE)
		must(vec_push(&t->truth, edge));
}

/* "tr end  syscall" is a syscall, any other "tr end" an end; "(x)" means a transaction. */
static enum edge_kind flags_kind(char *flags)
{
	flags[strcspn(flags, "(")] = '\0';
	flags += strspn(flags, " ");
	size_t length = strlen(flags);
	while (length > 0 && flags[length - 1] == ' ')
		flags[--length] = '\0';
	if (strncmp(flags, "tr end", 6) == 0)
		return strstr(flags, "syscall") ? SYSCALL : END;
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].flags && strcmp(flags, kinds[i].flags) == 0)
			return kinds[i].kind;
	return NO_EDGE;
}

static const char *kind_name(uint8_t kind)
{
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].kind == kind)
			return kinds[i].truth;
	return "?";
}

static void seen_line(char *line)
{
	char *arrow = strstr(line, "=>"), *at = line;

	if (strstr(line, "instruction trace error")) {
		diff.errors++;
		return;
	}
	if (!arrow)
		return;
	int tid = (int)strtol(line, &at, 10);
	char *colon = strchr(at, ':');
	if (colon && colon < arrow)
		at = colon + 1;
	uint64_t to = strtoull(arrow + 2, NULL, 16);
	*arrow = '\0';
	while (arrow > at && arrow[-1] == ' ')
		*--arrow = '\0';
	char *ip = strrchr(at, ' ');
	if (!ip)
		return;
	struct edge edge = {.from = strtoull(ip, NULL, 16), .to = to};
	*ip = '\0';
	edge.kind = (uint8_t)flags_kind(at);
	must(vec_push(&thread_of(tid)->seen, edge));
}

static bool same(const struct edge *a, const struct edge *b)
{
	return a->kind == b->kind && a->from == b->from && a->to == b->to;
}

static void show(const char *whose, const struct thread *t, const struct edge *e, size_t at,
		 size_t count)
{
	printf("%d: %s #%zu of %zu:", t->tid, whose, at, count);
	if (at < count)
		printf(" %s %" PRIx64 " => %" PRIx64, kind_name(e[at].kind), e[at].from, e[at].to);
	putchar('\n');
}

static bool thread_exact(const struct thread *t)
{
	size_t i = 0;

	while (i < t->truth.count && i < t->seen.count &&
	       same(&t->truth.items[i], &t->seen.items[i]))
		i++;
	if (i == t->truth.count && i == t->seen.count)
		return true;
	show("truth", t, t->truth.items, i, t->truth.count);
	show("seen", t, t->seen.items, i, t->seen.count);
	return false;
}

/* Where the run [from, to) of the truth stands in seen, at or after `at`. */
static size_t run_find(const struct thread *t, size_t from, size_t to, size_t at, size_t *longest)
{
	*longest = 0;
	for (; at + (to - from) <= t->seen.count; at++) {
		size_t n = 0;

		while (from + n < to && same(&t->truth.items[from + n], &t->seen.items[at + n]))
			n++;
		if (from + n == to)
			return at;
		if (n > *longest)
			*longest = n;
	}
	return SIZE_MAX;
}

static bool thread_runs(const struct thread *t)
{
	size_t seen = 0, from = 0, longest;
	bool ok = true;

	while (from < t->truth.count) {
		uint32_t run = t->truth.items[from].run;
		size_t to = from;

		while (to < t->truth.count && t->truth.items[to].run == run)
			to++;
		if (run != RUN_NONE) {
			size_t at = run_find(t, from, to, seen, &longest);

			if (at == SIZE_MAX) {
				printf("%d: run of %zu after fault %u is not there (longest: "
				       "%zu)\n",
				       t->tid, to - from, run, longest);
				ok = false;
			} else {
				seen = at + (to - from);
			}
		}
		from = to;
	}
	return ok;
}

static void keep_saved(struct thread *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->truth.count; i++)
		if (t->truth.items[i].saved)
			t->truth.items[kept++] = t->truth.items[i];
	t->truth.count = kept;
}

static bool read_lines(const char *path, bool truth)
{
	static char line[LINE_BYTES];
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");

	if (!f) {
		perror(path);
		return false;
	}
	while (fgets(line, sizeof line, f)) {
		if (truth)
			truth_line(line);
		else
			seen_line(line);
	}
	fclose(f);
	return true;
}

int main(int argc, char **argv)
{
	uint64_t truth = 0, seen = 0;
	bool ok = true;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "Usage: edgediff TRUTH [EDGES]\n");
		return 2;
	}
	if (!read_lines(argv[1], true) || !read_lines(argc > 2 ? argv[2] : "-", false))
		return 2;
	for (size_t i = 0; i < diff.threads.count; i++) {
		struct thread *t = &diff.threads.items[i];

		if (diff.snapshots)
			keep_saved(t);
		ok &= diff.faults ? thread_runs(t) : thread_exact(t);
		truth += t->truth.count;
		seen += t->seen.count;
	}
	if (!diff.faults && diff.errors > 0)
		ok = false;
	printf("truth %" PRIu64 " seen %" PRIu64 " errors %" PRIu64 "\n%s\n", truth, seen,
	       diff.errors, ok && truth > 0 ? "EXACT" : "DIFFERS");
	return ok && truth > 0 ? 0 : 1;
}
