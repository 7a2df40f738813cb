/* See collect_plan.h. */
#include "capture/collect_plan.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/file_copy.h"

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
	collector_strip_deleted(path);
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
		if (collector_is_regular(fd, 0)) {
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

	/* Mapped while we looked, but not in perf.data: its records may be lost. */
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
}

static void plan_held_perf_maps(struct collect_plan *plan)
{
	const struct collector *c = plan->collector;

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
			  const struct capture_options *options, struct collect_plan **result,
			  struct error *error)
{
	struct collect_plan *plan = calloc(1, sizeof *plan);

	if (!plan)
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	plan->collector = collector;
	for (size_t i = 0; i < summary->mappings.count; i++)
		plan_mapping(plan, &summary->mappings.items[i]);
	plan_held(plan);
	if (!options->redact) {
		plan_held_perf_maps(plan);
		plan_perf_maps_of_ended(plan, summary);
	}
	plan_system(plan, options->kernel);
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

static enum err copy_item(const struct planned *item, const char *dir, struct error *error)
{
	const uint8_t *vdso;
	size_t bytes;

	if (item->kind == PLANNED_VDSO && find_vdso(&vdso, &bytes))
		return file_copy_memory(vdso, bytes, dir, item->name, error);
	return file_copy_fd(item->fd, dir, item->name, error);
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
