/* See proc.h. */
#include "testdata/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static bool map_parse(const char *line, struct rec_map *map, const char **path)
{
	char perms[8];
	int at = 0;
	uint64_t end;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &map->start, &end, perms, &map->file_off, &map->major, &map->minor, &map->inode,
		   &at) < 7)
		return false;
	map->length = end - map->start;
	map->prot = (perms[0] == 'r' ? PROT_READ : 0u) | (perms[1] == 'w' ? PROT_WRITE : 0u) |
		    (perms[2] == 'x' ? PROT_EXEC : 0u);
	*path = line[at] ? line + at : "//anon";
	return true;
}

enum err proc_maps_read(pid_t pid, uint64_t only, struct recording *r, struct error *e)
{
	char name[64], line[PATH_BYTES + 128];
	enum err result = ERR_NONE;

	snprintf(name, sizeof name, "/proc/%d/maps", pid);
	FILE *f = fopen(name, "r");
	if (!f)
		return error_set(e, ERR_IO, "%s: %s", name, strerror(errno));
	while (result == ERR_NONE && fgets(line, sizeof line, f)) {
		struct rec_map map = {.pid = pid};
		const char *path;

		line[strcspn(line, "\n")] = '\0';
		if (!map_parse(line, &map, &path) || !(map.prot & PROT_EXEC) ||
		    (only && only - map.start >= map.length))
			continue;
		map.path = recording_add_string(r, path);
		if (map.path == UINT32_MAX || !vec_push(&r->maps, map))
			result = error_set(e, ERR_NOMEM, "out of memory");
	}
	fclose(f);
	return result;
}

static enum err make_parents(char *path, struct error *e)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int failed = mkdir(path, 0777) < 0 && errno != EEXIST;
		if (failed)
			return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
		*slash = '/';
	}
	return ERR_NONE;
}

static enum err file_copy(const char *from, char *to, struct error *e)
{
	char buffer[1 << 16];
	struct stat source, copy;
	ssize_t n;

	if (stat(from, &source) < 0)
		return ERR_NONE; /* deleted since: the decoder will miss it, too */
	if (stat(to, &copy) == 0 && copy.st_mtime >= source.st_mtime)
		return ERR_NONE;
	unlink(to);
	enum err failed = make_parents(to, e);
	if (failed)
		return failed;
	int in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return ERR_NONE;
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	bool ok = out >= 0;
	while (ok && (n = read(in, buffer, sizeof buffer)) > 0)
		ok = write(out, buffer, (size_t)n) == n;
	close(in);
	if (out >= 0 && close(out) < 0)
		ok = false;
	return ok ? ERR_NONE : error_set(e, ERR_IO, "%s: %s", to, strerror(errno));
}

enum err proc_maps_copy_files(const struct recording *r, const char *dir, struct error *e)
{
	for (size_t i = 0; i < r->maps.count; i++) {
		const char *path = recording_string(r, r->maps.items[i].path);
		char to[PATH_BYTES];

		if (path[0] != '/' || path[1] == '/')
			continue;
		snprintf(to, sizeof to, "%s%s", dir, path);
		enum err failed = file_copy(path, to, e);
		if (failed)
			return failed;
	}
	return ERR_NONE;
}

enum err proc_memory_save(pid_t pid, uint64_t start, uint64_t length, const char *path,
			  struct error *e)
{
	void *bytes = malloc(length + 1);
	struct iovec local = {bytes, length};
	struct iovec remote = {(void *)(uintptr_t)start, length};
	bool ok = bytes && process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)length;
	FILE *f = ok ? fopen(path, "wb") : NULL;

	ok = f && fwrite(bytes, 1, length, f) == length;
	if (f && fclose(f) != 0)
		ok = false;
	free(bytes);
	return ok ? ERR_NONE : error_set(e, ERR_IO, "%s: cannot save memory of %d", path, pid);
}

void proc_comm_read(pid_t tid, char *comm, size_t bytes)
{
	char name[64];

	snprintf(comm, bytes, "?");
	snprintf(name, sizeof name, "/proc/%d/comm", tid);
	FILE *f = fopen(name, "r");
	if (!f)
		return;
	if (fgets(comm, (int)bytes, f))
		comm[strcspn(comm, "\n")] = '\0';
	fclose(f);
}

bool proc_signal_is_caught(pid_t pid, pid_t tid, int signal)
{
	char name[64], line[256];
	uint64_t caught = 0;

	snprintf(name, sizeof name, "/proc/%d/task/%d/status", pid, tid);
	FILE *f = fopen(name, "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "SigCgt: %" SCNx64, &caught) == 1)
			break;
	if (f)
		fclose(f);
	return caught >> (signal - 1) & 1;
}
