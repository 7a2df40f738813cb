/* See truth.h. */
#include "testdata/truth.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What `# totals` counts; icall counts as call, ijmp as jmp. */
static const char *const total_names[] = {"call", "ret", "jmp", "jcc", "syscall", "begin", "end"};
enum { TOTALS = sizeof total_names / sizeof *total_names };

struct truth {
	FILE *file;
	const char *path;
	uint64_t totals[TOTALS];
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

void truth_write(struct truth *t, const struct truth_event *event)
{
	const char *name = event->kind;

	if (strcmp(name, "icall") == 0 || strcmp(name, "ijmp") == 0)
		name++;
	for (int i = 0; i < TOTALS; i++)
		t->totals[i] += strcmp(name, total_names[i]) == 0;
	fprintf(t->file, "%d %" PRIu64 " %u %s %" PRIx64 " %" PRIx64 " %u - -%s%s\n", event->tid,
		event->ns, event->cpu, event->kind, event->from, event->to, event->depth,
		event->note ? " " : "", event->note ? event->note : "");
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
	fprintf(t->file, "# totals");
	for (int i = 0; i < TOTALS; i++)
		fprintf(t->file, " %s %" PRIu64, total_names[i], t->totals[i]);
	fputc('\n', t->file);
	if (ferror(t->file) | (fclose(t->file) != 0))
		result = error_set(e, ERR_IO, "%s: cannot write", t->path);
	free(t);
	return result;
}
