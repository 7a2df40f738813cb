/* See collector.h. */
#include "capture/collector.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { CMDLINE_MAX = 4096, DESCENT_MAX = 8 };

#define DELETED " (deleted)"

/* An absolute path below a directory, one step at a time, following no symlink at all: maps
 * show names that are already resolved, so a link in one was put there since. */
static int open_below(int root, const char *path)
{
	char part[NAME_MAX + 1];
	int fd = dup(root);

	while (fd >= 0) {
		path += strspn(path, "/");
		size_t n = strcspn(path, "/");
		bool last = path[n] == '\0';

		if (n == 0 || n > NAME_MAX || (n == 2 && memcmp(path, "..", 2) == 0)) {
			close(fd);
			errno = EINVAL;
			return -1;
		}
		memcpy(part, path, n);
		part[n] = '\0';
		int next = openat(fd, part,
				  last ? O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK
				       : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		if (last)
			return next;
		fd = next;
		path += n;
	}
	return -1;
}

static int open_root(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

bool collector_is_regular(int fd, uint64_t inode)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (inode == 0 || st.st_ino == inode);
}

static int open_mapped(pid_t pid, const char *range, const char *path, uint64_t inode)
{
	char name[128];

	snprintf(name, sizeof name, "/proc/%d/map_files/%.64s", (int)pid, range);
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && path[0] == '/') {
		int root = open_root(pid);

		fd = root >= 0 ? open_below(root, path) : -1;
		if (root >= 0)
			close(root);
	}
	if (fd >= 0 && !collector_is_regular(fd, inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool is_held(const struct collector *c, uint64_t device, uint64_t inode)
{
	for (size_t i = c->files.count; i-- > 0;)
		if (c->files.items[i].inode == inode && c->files.items[i].device == device)
			return true;
	return false;
}

void collector_strip_deleted(char *path)
{
	size_t n = strlen(path), m = strlen(DELETED);

	if (n > m && strcmp(path + n - m, DELETED) == 0)
		path[n - m] = '\0';
}

/* "7f00-7f10 r-xp 00001000 fe:01 1234   /usr/lib/x" */
static void look_at_mapping(struct collector *c, pid_t pid, char *line)
{
	unsigned major, minor;
	unsigned long long inode;
	char range[64], perms[8];
	int path_at = 0;

	if (sscanf(line, "%63s %7s %*x %x:%x %llu %n", range, perms, &major, &minor, &inode,
		   &path_at) < 5 ||
	    path_at == 0 || inode == 0 || perms[2] != 'x')
		return;
	uint64_t device = makedev(major, minor);
	char *path = line + path_at;
	path[strcspn(path, "\n")] = '\0';
	if (is_held(c, device, inode))
		return;
	collector_strip_deleted(path);
	int fd = c->files.count < COLLECTOR_OPEN_MAX ? open_mapped(pid, range, path, inode) : -1;
	struct held_file file = {
		.path = fd >= 0 ? strdup(path) : NULL, .device = device, .inode = inode, .fd = fd};
	if (!file.path || !vec_push(&c->files, file)) {
		free(file.path);
		if (fd >= 0)
			close(fd);
		c->skipped++;
	}
}

static char *read_small(pid_t pid, const char *name, size_t bytes, size_t *length)
{
	char path[64];
	char *text = malloc(bytes + 1);

	*length = 0;
	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	int fd = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		ssize_t n = read(fd, text, bytes);

		*length = n > 0 ? (size_t)n : 0;
		close(fd);
	}
	if (text)
		text[*length] = '\0';
	return text;
}

/* perf-PID.map lies in the process's own /tmp under the number it knows itself by. Only a
 * file of the process's own user counts: /tmp belongs to everybody. */
static int open_perf_map(pid_t pid, uint32_t uid)
{
	size_t length;
	char *status = read_small(pid, "status", 8192, &length);
	const char *line = status ? strstr(status, "\nNSpid:") : NULL;
	int inner = (int)pid;
	char path[64];
	struct stat st;

	if (line) { /* one number a namespace, the innermost last */
		const char *at = line + strlen("\nNSpid:");
		char *end;

		for (long n = strtol(at, &end, 10); end != at; n = strtol(at, &end, 10)) {
			inner = (int)n;
			at = end;
			at += strspn(at, "\t ");
			if (*at == '\n')
				break;
		}
	}
	free(status);
	snprintf(path, sizeof path, "tmp/perf-%d.map", inner);
	int root = open_root(pid);
	int fd = root >= 0 ? open_below(root, path) : -1;
	if (root >= 0)
		close(root);
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != uid)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static char *read_cmdline(pid_t pid)
{
	size_t length;
	char *text = read_small(pid, "cmdline", CMDLINE_MAX, &length);

	if (text && length > 0 && text[length - 1] == '\0')
		length--;
	for (size_t i = 0; text && i < length; i++)
		if (iscntrl((unsigned char)text[i]))
			text[i] = ' ';
	return text;
}

static struct held_process *hold_process(struct collector *c, pid_t pid)
{
	char path[64];
	struct stat st;
	size_t length;

	for (size_t i = 0; i < c->processes.count; i++)
		if (c->processes.items[i].pid == pid)
			return &c->processes.items[i];
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	if (c->processes.count == COLLECTOR_PROCESSES_MAX || stat(path, &st) != 0)
		return NULL;
	struct held_process process = {.pid = pid,
				       .uid = st.st_uid,
				       .perf_map_fd = -1,
				       .comm = read_small(pid, "comm", 64, &length),
				       .cmdline = read_cmdline(pid)};
	if (process.comm)
		process.comm[strcspn(process.comm, "\n")] = '\0';
	if (!vec_push(&c->processes, process)) {
		free(process.comm);
		free(process.cmdline);
		return NULL;
	}
	return vec_last(&c->processes);
}

static void look(struct collector *c, pid_t pid, int depth);

static void look_at_children(struct collector *c, pid_t pid, int depth)
{
	char path[64], text[4096];
	struct dirent *entry;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof path, "%.20s/children", entry->d_name);
		int fd = entry->d_name[0] == '.' ? -1
						 : openat(dirfd(dir), path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

		if (fd >= 0)
			close(fd);
		text[n > 0 ? n : 0] = '\0';
		for (char *at = text, *end;; at = end) {
			long child = strtol(at, &end, 10);

			if (end == at)
				break;
			look(c, (pid_t)child, depth + 1);
		}
	}
	if (dir)
		closedir(dir);
}

static void look(struct collector *c, pid_t pid, int depth)
{
	char path[64], *line = NULL;
	size_t room = 0;
	struct held_process *process = hold_process(c, pid);

	if (!process || depth > DESCENT_MAX)
		return;
	if (depth == 0 && process->cmdline) { /* it may have called exec since */
		char *now = read_cmdline(pid);
		size_t length;
		char *comm = read_small(pid, "comm", 64, &length);

		if (now && comm && length > 0) {
			comm[strcspn(comm, "\n")] = '\0';
			free(process->cmdline);
			free(process->comm);
			process->cmdline = now;
			process->comm = comm;
		} else {
			free(now);
			free(comm);
		}
	}
	if (process->perf_map_fd < 0)
		process->perf_map_fd = open_perf_map(pid, process->uid);
	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *maps = c->no_binaries ? NULL : fopen(path, "re");
	while (maps && getline(&line, &room, maps) > 0)
		look_at_mapping(c, pid, line);
	free(line);
	if (maps)
		fclose(maps);
	look_at_children(c, pid, depth);
}

void collector_look(struct collector *c, pid_t pid)
{
	look(c, pid, 0);
}

void collector_done(struct collector *c)
{
	for (size_t i = 0; i < c->files.count; i++) {
		free(c->files.items[i].path);
		close(c->files.items[i].fd);
	}
	for (size_t i = 0; i < c->processes.count; i++) {
		struct held_process *p = &c->processes.items[i];

		free(p->comm);
		free(p->cmdline);
		if (p->perf_map_fd >= 0)
			close(p->perf_map_fd);
	}
	vec_done(&c->files);
	vec_done(&c->processes);
}
