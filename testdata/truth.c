/* See truth.h. */
#include "testdata/truth.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[TRUTH_KINDS] = {
	"call",     "icall",     "ret",    "jmp",    "ijmp", "jcc",  "syscall", "begin", "end",
	"switchin", "switchout", "signal", "sigret", "exec", "exit", "lost",    "found", "repeat",
};

struct truth {
	FILE *file;
	const char *path;
	bool quiet;
	uint64_t counts[TRUTH_KINDS];
};

enum err truth_open(const char *path, struct truth **truth, struct error *e)
{
	struct truth *t = calloc(1, sizeof *t);

	if (!t)
		return error_set(e, ERR_NOMEM, "%s: out of memory", path);
	t->file = fopen(path, "w");
	t->path = path;
	if (!t->file) {
		free(t);
		return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	}
	fprintf(t->file, "# truth: tid time_ns cpu kind from to depth fromsym tosym [note]\n");
	*truth = t;
	return ERR_NONE;
}

void truth_quiet(struct truth *t, bool quiet)
{
	t->quiet = quiet;
}

void truth_write(struct truth *t, const struct truth_event *event)
{
	t->counts[event->kind]++;
	if (t->quiet)
		return;
	fprintf(t->file, "%d %" PRIu64 " %u %s %" PRIx64 " %" PRIx64 " %u - -%s%s\n", event->tid,
		event->ns, event->cpu, kind_names[event->kind], event->from, event->to,
		event->depth, event->note ? " " : "", event->note ? event->note : "");
}

void truth_map(struct truth *t, int32_t tid, uint64_t ns, int cpu, uint64_t start, uint64_t length,
	       uint64_t file_off, const char *path)
{
	fprintf(t->file, "%d %" PRIu64 " %d mmap %" PRIx64 " %" PRIx64 " %" PRIx64 " %s\n", tid, ns,
		cpu, start, length, file_off, path);
}

void truth_line(struct truth *t, const char *format, ...)
{
	va_list ap;

	if (t->quiet)
		return;
	va_start(ap, format);
	vfprintf(t->file, format, ap);
	va_end(ap);
	fputc('\n', t->file);
}

enum err truth_close(struct truth *t, struct error *e)
{
	enum err result = ERR_NONE;

	if (!t)
		return ERR_NONE;
	const uint64_t *n = t->counts;
	fprintf(t->file, "# totals call %" PRIu64 " ret %" PRIu64 " jmp %" PRIu64 " jcc %" PRIu64,
		n[TRUTH_CALL] + n[TRUTH_ICALL], n[TRUTH_RET], n[TRUTH_JMP] + n[TRUTH_IJMP],
		n[TRUTH_JCC]);
	fprintf(t->file, " syscall %" PRIu64 " begin %" PRIu64 " end %" PRIu64 "\n",
		n[TRUTH_SYSCALL], n[TRUTH_BEGIN], n[TRUTH_END]);
	if (ferror(t->file) | (fclose(t->file) != 0))
		result = error_set(e, ERR_IO, "%s: cannot write", t->path);
	free(t);
	return result;
}
