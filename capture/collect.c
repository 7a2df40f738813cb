/* See collect.h. */
#include "capture/collect.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { CMDLINE_MAX = 4096, DESCENT_MAX = 8 };

#define DELETED " (deleted)"

/* ---- looking ---- */

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

static bool is_regular(int fd, uint64_t inode)
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
	if (fd >= 0 && !is_regular(fd, inode)) {
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

static void strip_deleted(char *path)
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
	strip_deleted(path);
	int fd = c->files.count < COLLECT_OPEN_MAX ? open_mapped(pid, range, path, inode) : -1;
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
	if (c->processes.count == COLLECT_PROCESSES_MAX || stat(path, &st) != 0)
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

/* ---- planning ---- */

enum planned_kind {
	PLANNED_CODE,
	PLANNED_DEBUG,
	PLANNED_JITDUMP,
	PLANNED_PERF_MAP,
	PLANNED_KALLSYMS,
	PLANNED_VDSO
};

struct planned {
	enum planned_kind kind;
	const char *path; /* as recorded */
	const char *why_missing;
	struct build_id build_id;
	uint32_t pid; /* of a perf map */
	int fd;       /* -1 = nothing to copy */
	uint64_t bytes;
	const char *name; /* in the bundle */
	bool copied;      /* by another entry of the same name */
};

struct collect_plan {
	struct arena arena;
	VEC(struct planned) items;
	const struct collector *collector;
	unsigned numbered; /* files/N-... used so far */
	bool failed;       /* memory */
};

static const char *plan_text(struct collect_plan *plan, const char *text)
{
	const char *copied = arena_copy_string(&plan->arena, text, strlen(text));

	if (!copied)
		plan->failed = true;
	return copied;
}

static void plan_push(struct collect_plan *plan, struct planned item)
{
	if (vec_push(&plan->items, item))
		return;
	plan->failed = true;
	if (item.fd >= 0)
		close(item.fd);
}

static bool file_build_id(int fd, struct build_id *id, uint64_t *bytes)
{
	struct stat st;

	*id = (struct build_id){0};
	*bytes = 0;
	if (fstat(fd, &st) != 0 || st.st_size <= 0)
		return false;
	*bytes = (uint64_t)st.st_size;
	void *image = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		return false;
	bool found = build_id_find(image, *bytes, id);
	munmap(image, *bytes);
	return found;
}

/* perf pads ids with zeros to 20 bytes in some records. */
static bool is_same_build(const struct build_id *recorded, const struct build_id *file)
{
	static const uint8_t zeros[BUILD_ID_MAX];

	if (file->length == 0 || recorded->length < file->length)
		return false;
	return memcmp(recorded->bytes, file->bytes, file->length) == 0 &&
	       memcmp(recorded->bytes + file->length, zeros,
		      (size_t)(recorded->length - file->length)) == 0;
}

static const char *numbered_name(struct collect_plan *plan, const char *path)
{
	const char *base = strrchr(path, '/');
	char name[64];

	snprintf(name, sizeof name, "files/%u-%.32s", plan->numbered++, base ? base + 1 : path);
	for (char *c = name + strlen("files/"); *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._+-", *c))
			*c = '_';
	return plan_text(plan, name);
}

static bool is_jitdump(const char *path)
{
	const char *base = strrchr(path, '/');
	size_t n = strlen(path);

	return base && strncmp(base, "/jit-", 5) == 0 && n > 5 &&
	       strcmp(path + n - 5, ".dump") == 0;
}

static void plan_debug_file(struct collect_plan *plan, const struct build_id *id)
{
	char name[BUNDLE_NAME_MAX], hex[2 * BUILD_ID_MAX + 1], path[128];
	struct stat st;

	build_id_format(id, hex);
	snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return;
	}
	bundle_name_of(id, "debug", name);
	plan_push(plan, (struct planned){.kind = PLANNED_DEBUG,
					 .path = plan_text(plan, path),
					 .fd = fd,
					 .bytes = (uint64_t)st.st_size,
					 .name = plan_text(plan, name)});
}

static bool is_planned(const struct collect_plan *plan, const char *path, const struct build_id *id)
{
	for (size_t i = 0; i < plan->items.count; i++)
		if (strcmp(plan->items.items[i].path, path) == 0 &&
		    build_id_equal(&plan->items.items[i].build_id, id))
			return true;
	return false;
}

/* Takes fd. */
static void plan_code(struct collect_plan *plan, const char *path, int fd,
		      const struct build_id *id, uint64_t bytes)
{
	char name[BUNDLE_NAME_MAX];
	struct planned item = {
		.path = plan_text(plan, path), .build_id = *id, .fd = fd, .bytes = bytes};

	if (is_jitdump(path))
		item.kind = PLANNED_JITDUMP;
	if (id->length > 0) {
		bundle_name_of(id, "elf", name);
		item.name = plan_text(plan, name);
	} else {
		item.name = numbered_name(plan, path);
	}
	bool first = true;
	for (size_t i = 0; id->length > 0 && i < plan->items.count; i++)
		first &= !build_id_equal(&plan->items.items[i].build_id, id) ||
			 plan->items.items[i].fd < 0;
	item.copied = !first;
	if (item.path && item.name)
		plan_push(plan, item);
	if (first && id->length > 0)
		plan_debug_file(plan, id);
}

/* A name on this host that was recorded in some other place (a container, maybe) may mean
 * anything here, a secret for instance: without a build id to compare, only code counts. */
static bool is_code(int fd)
{
	static const char elf[4] = {0x7f, 'E', 'L', 'F'}, jitdump[4] = {'D', 'T', 'i', 'J'};
	char magic[4];

	return pread(fd, magic, sizeof magic, 0) == sizeof magic &&
	       (memcmp(magic, elf, sizeof elf) == 0 || memcmp(magic, jitdump, sizeof jitdump) == 0);
}

/* What one recorded mapping can be had from: the files held, then the name on this host. */
static void plan_mapping(struct collect_plan *plan, const struct perf_mapping *mapping)
{
	const struct collector *c = plan->collector;
	const char *why = "no such file any more";
	char path[PATH_MAX];
	struct build_id id;
	uint64_t bytes;

	snprintf(path, sizeof path, "%s", mapping->path);
	strip_deleted(path);
	for (size_t i = 0; i <= c->files.count && !c->no_binaries; i++) {
		bool host = i == c->files.count;

		if (!host && strcmp(c->files.items[i].path, path) != 0)
			continue;
		int fd = host ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
			      : fcntl(c->files.items[i].fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0) {
			if (host && errno != ENOENT)
				why = plan_text(plan, strerror(errno));
			continue;
		}
		if (is_regular(fd, 0)) {
			file_build_id(fd, &id, &bytes);
			if (mapping->build_id.length == 0
				    ? !host || is_code(fd)
				    : is_same_build(&mapping->build_id, &id)) {
				plan_code(plan, mapping->path, fd, &id, bytes);
				return;
			}
			why = "replaced since: what has that name now is another file";
		}
		close(fd);
	}
	if (c->no_binaries)
		why = "left out on request";
	plan_push(plan, (struct planned){.path = plan_text(plan, mapping->path),
					 .fd = -1,
					 .build_id = mapping->build_id,
					 .why_missing = why});
}

static void plan_held(struct collect_plan *plan)
{
	const struct collector *c = plan->collector;

	/* Mapped while we looked, but not in perf.data: its records may be lost or compressed. */
	for (size_t i = 0; i < c->files.count; i++) {
		const struct held_file *file = &c->files.items[i];
		struct build_id id;
		uint64_t bytes;

		file_build_id(file->fd, &id, &bytes);
		int fd = is_planned(plan, file->path, &id) ? -1
							   : fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0)
			plan_code(plan, file->path, fd, &id, bytes);
	}
	for (size_t i = 0; i < c->processes.count; i++) {
		const struct held_process *process = &c->processes.items[i];
		struct stat st;
		char name[64];

		if (process->perf_map_fd < 0 || fstat(process->perf_map_fd, &st) != 0)
			continue;
		snprintf(name, sizeof name, "files/perf-%d.map", (int)process->pid);
		plan_push(plan,
			  (struct planned){.kind = PLANNED_PERF_MAP,
					   .path = "",
					   .pid = (uint32_t)process->pid,
					   .fd = fcntl(process->perf_map_fd, F_DUPFD_CLOEXEC, 0),
					   .bytes = (uint64_t)st.st_size,
					   .name = plan_text(plan, name)});
	}
}

/* The processes that ended before anybody looked: their maps in /tmp are by host number. */
static void plan_perf_maps_of_ended(struct collect_plan *plan, const struct perf_summary *summary)
{
	for (size_t i = 0; i < summary->processes.count; i++) {
		uint32_t pid = summary->processes.items[i].pid;
		char path[64], name[64];
		struct stat st;
		bool known = false;

		for (size_t k = 0; k < plan->items.count; k++)
			known |= plan->items.items[k].kind == PLANNED_PERF_MAP &&
				 plan->items.items[k].pid == pid;
		snprintf(path, sizeof path, "/tmp/perf-%u.map", pid);
		int fd = known ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
			close(fd);
			continue;
		}
		snprintf(name, sizeof name, "files/perf-%u.map", pid);
		plan_push(plan, (struct planned){.kind = PLANNED_PERF_MAP,
						 .path = "",
						 .pid = pid,
						 .fd = fd,
						 .bytes = (uint64_t)st.st_size,
						 .name = plan_text(plan, name)});
	}
}

/* The vdso is the same for all 64-bit processes of a kernel: ours will do. Its file is
 * written as it stands in memory. */
static bool find_vdso(const uint8_t **image, size_t *bytes)
{
	char *line = NULL;
	size_t room = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t start = 0, end = 0;

	while (maps && end == 0 && getline(&line, &room, maps) > 0)
		if (!strstr(line, "[vdso]") ||
		    sscanf(line, "%lx-%lx", (unsigned long *)&start, (unsigned long *)&end) != 2)
			end = 0;
	free(line);
	if (maps)
		fclose(maps);
	*image = (const uint8_t *)(uintptr_t)start;
	*bytes = (size_t)(end - start);
	return end > start;
}

static void plan_system(struct collect_plan *plan, bool kernel)
{
	const uint8_t *vdso;
	size_t bytes;
	struct build_id id = {0};
	char name[BUNDLE_NAME_MAX];

	if (find_vdso(&vdso, &bytes) && build_id_find(vdso, bytes, &id)) {
		bundle_name_of(&id, "vdso", name);
		plan_push(plan, (struct planned){.kind = PLANNED_VDSO,
						 .path = "[vdso]",
						 .fd = -1,
						 .build_id = id,
						 .bytes = bytes,
						 .name = plan_text(plan, name)});
	}
	int fd = kernel ? open("/proc/kallsyms", O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0)
		plan_push(plan, (struct planned){.kind = PLANNED_KALLSYMS,
						 .path = "",
						 .fd = fd,
						 .name = "kallsyms"});
}

enum err collect_plan_new(const struct collector *collector, const struct perf_summary *summary,
			  bool kernel, struct collect_plan **result, struct error *error)
{
	struct collect_plan *plan = calloc(1, sizeof *plan);

	if (!plan)
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	plan->collector = collector;
	for (size_t i = 0; i < summary->mappings.count; i++)
		plan_mapping(plan, &summary->mappings.items[i]);
	plan_held(plan);
	plan_perf_maps_of_ended(plan, summary);
	plan_system(plan, kernel);
	if (plan->failed) {
		collect_plan_free(plan);
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	}
	*result = plan;
	return ERR_NONE;
}

uint64_t collect_plan_bytes(const struct collect_plan *plan)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->items.count; i++)
		bytes += plan->items.items[i].copied ? 0 : plan->items.items[i].bytes;
	return bytes;
}

size_t collect_plan_files(const struct collect_plan *plan)
{
	size_t files = 0;

	for (size_t i = 0; i < plan->items.count; i++)
		files += plan->items.items[i].name && !plan->items.items[i].copied;
	return files;
}

void collect_plan_free(struct collect_plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < plan->items.count; i++)
		if (plan->items.items[i].fd >= 0)
			close(plan->items.items[i].fd);
	vec_done(&plan->items);
	arena_done(&plan->arena);
	free(plan);
}

/* ---- copying ---- */

static enum err make_parents(const char *dir, const char *name, struct error *error)
{
	char path[PATH_MAX];
	size_t base = strlen(dir) + 1;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	for (char *slash = path + base; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	}
	return ERR_NONE;
}

static enum err write_all(int fd, const void *data, size_t bytes, const char *path,
			  struct error *error)
{
	for (const char *at = data; bytes > 0;) {
		ssize_t n = write(fd, at, bytes);

		if (n <= 0)
			return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
		at += n;
		bytes -= (size_t)n;
	}
	return ERR_NONE;
}

static enum err copy_content(int from, int to, const char *path, struct error *error)
{
	static char buffer[256 << 10]; /* one copy at a time */
	bool in_kernel = true;
	off_t at = 0;

	for (;;) {
		/* shares blocks or copies without passing through us, where it can */
		ssize_t n = in_kernel ? copy_file_range(from, &at, to, NULL, 1 << 30, 0) : -1;

		if (n > 0)
			continue;
		in_kernel = false; /* also after 0: some file systems say 0 instead of refusing */
		n = pread(from, buffer, sizeof buffer, at);
		if (n == 0)
			return ERR_NONE;
		if (n < 0)
			return error_set(error, ERR_IO, "%s: reading its source: %s", path,
					 strerror(errno));
		enum err err = write_all(to, buffer, (size_t)n, path, error);
		if (err != ERR_NONE)
			return err;
		at += n;
	}
}

static enum err copy_item(const struct planned *item, const char *dir, struct error *error)
{
	char path[PATH_MAX];
	const uint8_t *vdso;
	size_t bytes;

	if (snprintf(path, sizeof path, "%s/%s", dir, item->name) >= (int)sizeof path)
		return error_set(error, ERR_LIMIT, "%s: name too long", dir);
	enum err err = make_parents(dir, item->name, error);
	if (err != ERR_NONE)
		return err;
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	if (item->kind == PLANNED_VDSO)
		err = find_vdso(&vdso, &bytes) ? write_all(to, vdso, bytes, path, error) : ERR_NONE;
	else
		err = copy_content(item->fd, to, path, error);
	if (close(to) != 0 && err == ERR_NONE)
		err = error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	return err;
}

static bool describe(const struct planned *item, struct bundle *b)
{
	struct bundle_file file = {.build_id = item->build_id, .bytes = item->bytes};

	switch (item->kind) {
	case PLANNED_VDSO:
		b->vdso = arena_copy_string(&b->arena, item->name, strlen(item->name));
		return b->vdso != NULL;
	case PLANNED_KALLSYMS: b->kallsyms = "kallsyms"; return true;
	case PLANNED_PERF_MAP: {
		struct bundle_pid_file map = {
			.pid = item->pid,
			.file = arena_copy_string(&b->arena, item->name, strlen(item->name))};

		return map.file && vec_push(&b->perf_maps, map);
	}
	case PLANNED_CODE:
	case PLANNED_DEBUG:
	case PLANNED_JITDUMP: break;
	}
	file.path = arena_copy_string(&b->arena, item->path, strlen(item->path));
	if (item->name)
		file.file = arena_copy_string(&b->arena, item->name, strlen(item->name));
	if (item->why_missing)
		file.why_missing =
			arena_copy_string(&b->arena, item->why_missing, strlen(item->why_missing));
	if (!file.path || (item->name && !file.file) || (item->why_missing && !file.why_missing))
		return false;
	if (item->kind == PLANNED_JITDUMP && !vec_push(&b->jitdumps, file.file))
		return false;
	return vec_push(&b->files, file);
}

static bool describe_processes(const struct collector *c, struct bundle *b)
{
	for (size_t i = 0; i < c->processes.count; i++) {
		const struct held_process *p = &c->processes.items[i];
		struct bundle_process process = {.pid = (uint32_t)p->pid};

		if (p->comm)
			process.comm = arena_copy_string(&b->arena, p->comm, strlen(p->comm));
		if (p->cmdline)
			process.cmdline =
				arena_copy_string(&b->arena, p->cmdline, strlen(p->cmdline));
		if (!vec_push(&b->processes, process))
			return false;
	}
	return true;
}

enum err collect_plan_copy(struct collect_plan *plan, const char *dir, struct bundle *bundle,
			   struct error *error)
{
	for (size_t i = 0; i < plan->items.count; i++) {
		struct planned *item = &plan->items.items[i];

		if (item->name && !item->copied) {
			enum err err = copy_item(item, dir, error);

			if (err != ERR_NONE)
				return err;
		}
		if (!describe(item, bundle))
			return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	}
	if (!describe_processes(plan->collector, bundle))
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	return ERR_NONE;
}

static enum err copy_file(const char *from, const char *dir, const char *name, struct error *error)
{
	struct planned item = {.fd = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .name = name};

	if (item.fd < 0)
		return error_set(error, ERR_IO, "%s: %s", from, strerror(errno));
	enum err err = is_regular(item.fd, 0)
			       ? copy_item(&item, dir, error)
			       : error_set(error, ERR_UNSUPPORTED, "%s: not a regular file", from);
	close(item.fd);
	return err;
}

static enum err copy_tree(const char *from, const char *dir, const char *name, int depth,
			  struct error *error)
{
	struct stat st;
	struct dirent *entry;
	enum err err = ERR_NONE;

	if (stat(from, &st) != 0)
		return error_set(error, ERR_IO, "%s: %s", from, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return copy_file(from, dir, name, error);
	DIR *listing = depth < 3 ? opendir(from) : NULL;
	if (!listing)
		return error_set(error, ERR_IO, "%s: cannot be listed", from);
	while (err == ERR_NONE && (entry = readdir(listing))) {
		char child_from[PATH_MAX], child_name[PATH_MAX];

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (snprintf(child_from, sizeof child_from, "%s/%s", from, entry->d_name) >=
			    (int)sizeof child_from ||
		    snprintf(child_name, sizeof child_name, "%s/%s", name, entry->d_name) >=
			    (int)sizeof child_name)
			err = error_set(error, ERR_LIMIT, "%s: name too long", from);
		else
			err = copy_tree(child_from, dir, child_name, depth + 1, error);
	}
	closedir(listing);
	return err;
}

enum err collect_tree(const char *from, const char *dir, const char *name, struct error *error)
{
	return copy_tree(from, dir, name, 0, error);
}
