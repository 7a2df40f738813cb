/* See line_search.h. */
#include "symbolize/line_search.h"

#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

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

static bool unit_has_file(Dwarf_Die *unit, const char *file)
{
	Dwarf_Files *files;
	size_t count;

	if (dwarf_getsrcfiles(unit, &files, &count) != 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *path = dwarf_filesrc(files, i, NULL, NULL);

		if (path && matches(path, file))
			return true;
	}
	return false;
}

static void search_unit(Dwarf_Die *unit, struct query *q)
{
	Dwarf_Lines *lines;
	size_t count;
	bool mine = false; /* the last address is this unit's */

	if (!unit_has_file(unit, q->file) || dwarf_getsrclines(unit, &lines, &count) != 0)
		return;
	for (size_t i = 0; i < count; i++) {
		Dwarf_Line *row = dwarf_onesrcline(lines, i);
		int number;
		bool statement = false, end = false;
		Dwarf_Addr vaddr;

		if (dwarf_lineno(row, &number) != 0 || number < (int)q->line ||
		    (q->best != 0 && number > (int)q->best) ||
		    dwarf_linebeginstatement(row, &statement) != 0 || !statement ||
		    dwarf_lineendsequence(row, &end) != 0 || end ||
		    dwarf_lineaddr(row, &vaddr) != 0)
			continue;
		const char *path = dwarf_linesrc(row, NULL, NULL);
		if (!path || !matches(path, q->file))
			continue;
		if (q->best == 0 || number < (int)q->best) { /* nearer: forget the others */
			q->best = (unsigned)number;
			q->count = 0;
			mine = false;
		}
		if (mine && vaddr < q->vaddrs[q->count - 1]) {
			q->vaddrs[q->count - 1] = vaddr;
		} else if (!mine && q->count < q->max) {
			q->vaddrs[q->count++] = vaddr;
			mine = true;
		}
	}
}

enum err line_search(const char *object_path, const char *file, unsigned line, uint64_t *vaddrs,
		     size_t max, size_t *count, unsigned *found_line)
{
	struct query q = {.file = file, .line = line, .vaddrs = vaddrs, .max = max};
	int fd = open(object_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
	Dwarf_Off offset = 0, next;
	size_t header_bytes;

	if (!dwarf) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? ERR_IO : ERR_FORMAT;
	}
	while (dwarf_nextcu(dwarf, offset, &next, &header_bytes, NULL, NULL, NULL) == 0) {
		Dwarf_Die unit;

		if (dwarf_offdie(dwarf, offset + header_bytes, &unit))
			search_unit(&unit, &q);
		offset = next;
	}
	dwarf_end(dwarf);
	close(fd);
	if (q.count == 0)
		return ERR_NOT_FOUND;
	*count = q.count;
	*found_line = q.best;
	return ERR_NONE;
}
