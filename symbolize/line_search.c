/* See line_search.h. */
#include "symbolize/line_search.h"

#include <stdbool.h>
#include <string.h>

#include "symbolize/line_table.h"

struct query {
	const char *file;
	unsigned line; /* asked for */
	unsigned best; /* the nearest one seen; 0 = none */
	uint64_t *vaddrs;
	size_t max, count;
};

static bool matches(const char *path, const char *file)
{
	size_t n = strlen(path), m = strlen(file);

	return n >= m && strcmp(path + n - m, file) == 0 &&
	       (n == m || path[n - m - 1] == '/' || file[0] == '/');
}

static bool file_matches(const struct line_table *lines, uint64_t number, const char *file)
{
	char path[PATH_MAX];

	return line_table_path(lines, number, path) && matches(path, file);
}

static bool unit_has_file(const struct line_table *lines, const char *file)
{
	for (size_t i = 0; i < lines->files.count; i++)
		if (file_matches(lines, lines->first_file + i, file))
			return true;
	return false;
}

static void search_unit(const struct line_table *lines, struct query *q)
{
	bool mine = false; /* the last address is this unit's */

	if (!unit_has_file(lines, q->file))
		return;
	for (size_t i = 0; i < lines->rows.count; i++) {
		const struct line_row *row = &lines->rows.items[i];

		if (row->line < q->line || (q->best != 0 && row->line > q->best) ||
		    !row->statement || row->end || !file_matches(lines, row->file, q->file))
			continue;
		if (q->best == 0 || row->line < q->best) { /* nearer: forget the others */
			q->best = row->line;
			q->count = 0;
			mine = false;
		}
		if (mine && row->vaddr < q->vaddrs[q->count - 1]) {
			q->vaddrs[q->count - 1] = row->vaddr;
		} else if (!mine && q->count < q->max) {
			q->vaddrs[q->count++] = row->vaddr;
			mine = true;
		}
	}
}

enum err line_search(const char *object_path, const char *file, unsigned line, uint64_t *vaddrs,
		     size_t max, size_t *count, unsigned *found_line)
{
	struct query q = {.file = file, .line = line, .vaddrs = vaddrs, .max = max};
	struct object *object = NULL;
	struct debug_file debug;
	enum err err = object_open(object_path, &object, NULL);

	if (err != ERR_NONE)
		return err;
	debug_file_init(&debug, object, false);
	if (!debug_file_has_units(object))
		err = ERR_FORMAT;
	else if (!debug_file_read_units(&debug))
		err = ERR_NOMEM;
	for (size_t i = 0; !err && i < debug.units.count; i++) {
		struct line_table lines;

		if (line_table_read(&lines, &debug.units.items[i]))
			search_unit(&lines, &q);
		else
			err = ERR_NOMEM;
		line_table_done(&lines);
	}
	debug_file_done(&debug);
	object_free(object);
	if (err == ERR_NONE && q.count == 0)
		err = ERR_NOT_FOUND;
	if (err == ERR_NONE) {
		*count = q.count;
		*found_line = q.best;
	}
	return err;
}
