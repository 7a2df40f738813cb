/* See bundle.h. */
#include "common/bundle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json_text.h"
#include "common/path.h"
#include "common/tar_zst.h"

#define MANIFEST "manifest.json"

enum {
	FORMAT_VERSION = 1,
	MANIFEST_MAX_BYTES = 64 << 20,
	REMOVE_DEPTH_MAX = 32,
	REMOVE_ATTEMPTS = 1000
};

static const char *const hit_kinds[] = {"trigger", "snapshot-call", "mark"};

void bundle_name_of(const struct build_id *id, const char *leaf, char *text)
{
	char hex[2 * BUILD_ID_MAX + 1];

	build_id_format(id, hex);
	snprintf(text, BUNDLE_NAME_MAX, ".build-id/%.2s/%s/%s", hex, hex[0] ? hex + 2 : "", leaf);
}

/* ---- writing ---- */

static json_t *hex_number(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "0x%" PRIx64, value);
	return json_string(text);
}

static json_t *file_json(const struct bundle_file *file)
{
	char id[2 * BUILD_ID_MAX + 1];

	build_id_format(&file->build_id, id);
	return json_pack("{s:o, s:s, s:o, s:o, s:I}", "path", json_text(file->path), "build_id", id,
			 "file", json_text(file->file), "missing", json_text(file->why_missing),
			 "bytes", (json_int_t)file->bytes);
}

static json_t *hit_json(const struct bundle_hit *hit)
{
	json_t *args = json_array(), *frames = json_array();

	for (size_t i = 0; i < BUNDLE_HIT_ARGS; i++)
		json_array_append_new(args, hex_number(hit->args[i]));
	for (uint32_t i = 0; i < hit->frame_count; i++)
		json_array_append_new(frames, hex_number(hit->frames[i]));
	return json_pack("{s:I, s:o, s:i, s:i, s:i, s:s, s:b, s:o, s:o, s:o}", "time_ns",
			 (json_int_t)hit->time_ns, "ip", hex_number(hit->ip), "pid", (int)hit->pid,
			 "tid", (int)hit->tid, "cpu", (int)hit->cpu, "kind", hit_kinds[hit->kind],
			 "snapshot", hit->snapshot, "where", json_text(hit->where), "args", args,
			 "callchain", frames);
}

/* Any member that could not be made is NULL, and so is then the whole. */
static json_t *manifest_json(const struct bundle *b)
{
	json_t *files = json_array(), *processes = json_array(), *maps = json_array(),
	       *jitdumps = json_array(), *hits = json_array(), *clock = json_null();
	bool good = true;

	for (size_t i = 0; i < b->files.count; i++)
		good &= json_array_append_new(files, file_json(&b->files.items[i])) == 0;
	for (size_t i = 0; i < b->processes.count; i++) {
		const struct bundle_process *p = &b->processes.items[i];

		good &= json_array_append_new(processes,
					      json_pack("{s:i, s:o, s:o}", "pid", (int)p->pid,
							"comm", json_text(p->comm), "cmdline",
							json_text(p->cmdline))) == 0;
	}
	for (size_t i = 0; i < b->perf_maps.count; i++)
		good &= json_array_append_new(
				maps, json_pack("{s:i, s:o}", "pid", (int)b->perf_maps.items[i].pid,
						"file", json_text(b->perf_maps.items[i].file))) ==
			0;
	for (size_t i = 0; i < b->jitdumps.count; i++)
		good &= json_array_append_new(jitdumps, json_text(b->jitdumps.items[i])) == 0;
	for (size_t i = 0; i < b->hits.count; i++)
		good &= json_array_append_new(hits, hit_json(&b->hits.items[i])) == 0;
	if (b->clock.known)
		clock = json_pack("{s:I, s:I, s:i, s:I, s:I}", "time_zero",
				  (json_int_t)b->clock.time_zero, "time_mult",
				  (json_int_t)b->clock.time_mult, "time_shift",
				  (int)b->clock.time_shift, "perf_ns", (json_int_t)b->clock.perf_ns,
				  "realtime_ns", (json_int_t)b->clock.realtime_ns);
	json_t *root = json_pack(
		"{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, "
		"s:o, s:o, s:o}",
		"format", "pt-bundle", "version", FORMAT_VERSION, "command", json_text(b->command),
		"perf_command", json_text(b->perf_command), "kernel", json_text(b->kernel_release),
		"cpu", json_text(b->cpu_model), "perf_data", json_text(b->perf_data), "vdso",
		json_text(b->vdso), "kallsyms", json_text(b->kallsyms), "redacted", b->redacted,
		"clock", clock, "processes", processes, "files", files, "perf_maps", maps,
		"jitdumps", jitdumps, "hits", hits);
	if (!good) {
		json_decref(root);
		return NULL;
	}
	return root;
}

enum err bundle_write(const struct bundle *b, const char *dir, struct error *error)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/" MANIFEST, dir) >= (int)sizeof path)
		return error_set(error, ERR_LIMIT, "%s: name too long", dir);
	json_t *root = manifest_json(b);
	if (!root)
		return error_set(error, ERR_NOMEM, "%s: %s", path, error_name(ERR_NOMEM));
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	enum err err = ERR_NONE;
	if (fd < 0 || json_dumpfd(root, fd, JSON_INDENT(1)) != 0)
		err = error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	if (fd >= 0 && close(fd) != 0 && err == ERR_NONE)
		err = error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	json_decref(root);
	return err;
}

/* ---- reading ---- */

struct reader {
	struct bundle *b;
	struct error *error;
	enum err err; /* the first failure; later reads do nothing */
};

static void fail(struct reader *r, enum err err, const char *what)
{
	if (r->err == ERR_NONE)
		r->err = error_set(r->error, err, "%s/" MANIFEST ": %s", r->b->dir, what);
}

static const char *copy(struct reader *r, const char *text, size_t length)
{
	const char *copied = arena_copy_string(&r->b->arena, text, length);

	if (!copied)
		fail(r, ERR_NOMEM, error_name(ERR_NOMEM));
	return copied;
}

/* A member that is a string; NULL if it is null, missing or something else. */
static const char *text_of(struct reader *r, const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_string(value) || r->err != ERR_NONE)
		return NULL;
	return copy(r, json_string_value(value), strlen(json_string_value(value)));
}

static uint64_t number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (json_is_string(value))
		return strtoull(json_string_value(value), NULL, 0);
	return (uint64_t)json_integer_value(value);
}

static bool is_clean_name(const char *name)
{
	for (const char *at = name;; at++) {
		size_t n = strcspn(at, "/");

		if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		at += n;
		if (!*at)
			return true;
	}
}

/* No step of dir/name may be a symlink or leave dir. What does not exist is no harm: opening
 * it will say so. */
static bool is_inside(const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (!is_clean_name(name) ||
	    snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
		return false;
	for (char *at = path + strlen(dir) + 1;; at++) {
		struct stat st;

		at += strcspn(at, "/");
		char end = *at;
		*at = '\0';
		if (lstat(path, &st) != 0)
			return errno == ENOENT;
		if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
			return false;
		if (!end)
			return true;
		*at = end;
	}
}

/* The name of a file in the bundle, as a path that can be opened. NULL if there is none. */
static const char *file_of(struct reader *r, const json_t *value)
{
	char path[PATH_MAX];

	if (!json_is_string(value) || r->err != ERR_NONE)
		return NULL;
	const char *name = json_string_value(value);
	if (!is_inside(r->b->dir, name)) {
		fail(r, ERR_FORMAT, "refused: a name that leads out of the bundle");
		return NULL;
	}
	snprintf(path, sizeof path, "%s/%s", r->b->dir, name);
	return copy(r, path, strlen(path));
}

static const char *file_member(struct reader *r, const json_t *object, const char *key)
{
	return file_of(r, json_object_get(object, key));
}

static const json_t *array_of(struct reader *r, const json_t *root, const char *key, size_t max)
{
	const json_t *array = json_object_get(root, key);

	if (json_array_size(array) > max)
		fail(r, ERR_LIMIT, key);
	return r->err == ERR_NONE ? array : NULL;
}

static void push_failed(struct reader *r, bool pushed)
{
	if (!pushed)
		fail(r, ERR_NOMEM, error_name(ERR_NOMEM));
}

static void read_files(struct reader *r, const json_t *root)
{
	const json_t *array = array_of(r, root, "files", BUNDLE_FILES_MAX), *item;
	size_t i;

	json_array_foreach(array, i, item)
	{
		const char *id = json_string_value(json_object_get(item, "build_id"));
		struct bundle_file file = {
			.path = text_of(r, item, "path"),
			.file = file_member(r, item, "file"),
			.why_missing = text_of(r, item, "missing"),
			.bytes = number_of(item, "bytes"),
		};

		if (id && id[0] && !build_id_parse(id, &file.build_id))
			fail(r, ERR_FORMAT, "a build id that is not hex");
		if (file.path)
			push_failed(r, vec_push(&r->b->files, file));
	}
	array = array_of(r, root, "perf_maps", BUNDLE_FILES_MAX);
	json_array_foreach(array, i, item)
	{
		struct bundle_pid_file map = {.pid = (uint32_t)number_of(item, "pid"),
					      .file = file_member(r, item, "file")};

		if (map.file)
			push_failed(r, vec_push(&r->b->perf_maps, map));
	}
	array = array_of(r, root, "jitdumps", BUNDLE_FILES_MAX);
	json_array_foreach(array, i, item)
	{
		const char *file = file_of(r, item);

		if (file)
			push_failed(r, vec_push(&r->b->jitdumps, file));
	}
}

static void read_processes(struct reader *r, const json_t *root)
{
	const json_t *array = array_of(r, root, "processes", BUNDLE_FILES_MAX), *item;
	size_t i;

	json_array_foreach(array, i, item)
	{
		struct bundle_process p = {.pid = (uint32_t)number_of(item, "pid"),
					   .comm = text_of(r, item, "comm"),
					   .cmdline = text_of(r, item, "cmdline")};

		push_failed(r, vec_push(&r->b->processes, p));
	}
}

static void read_hits(struct reader *r, const json_t *root)
{
	const json_t *array = array_of(r, root, "hits", BUNDLE_HITS_MAX), *item;
	size_t i;

	json_array_foreach(array, i, item)
	{
		const char *kind = json_string_value(json_object_get(item, "kind"));
		const json_t *args = json_object_get(item, "args");
		const json_t *chain = json_object_get(item, "callchain");
		struct bundle_hit hit = {
			.time_ns = number_of(item, "time_ns"),
			.ip = number_of(item, "ip"),
			.pid = (uint32_t)number_of(item, "pid"),
			.tid = (uint32_t)number_of(item, "tid"),
			.cpu = (uint32_t)number_of(item, "cpu"),
			.snapshot = json_is_true(json_object_get(item, "snapshot")),
			.where = text_of(r, item, "where"),
		};

		for (size_t k = 0; kind && k < sizeof hit_kinds / sizeof hit_kinds[0]; k++)
			if (strcmp(kind, hit_kinds[k]) == 0)
				hit.kind = (enum bundle_hit_kind)k;
		for (size_t k = 0; k < BUNDLE_HIT_ARGS; k++) {
			const char *text = json_string_value(json_array_get(args, k));

			hit.args[k] = text ? strtoull(text, NULL, 0) : 0;
		}
		size_t count = json_array_size(chain);
		if (count > BUNDLE_HIT_FRAMES)
			count = BUNDLE_HIT_FRAMES;
		uint64_t *frames = count ? arena_alloc(&r->b->arena, count * sizeof *frames) : NULL;
		push_failed(r, !count || frames);
		for (size_t k = 0; frames && k < count; k++) {
			const char *text = json_string_value(json_array_get(chain, k));

			frames[k] = text ? strtoull(text, NULL, 0) : 0;
		}
		hit.frames = frames;
		hit.frame_count = frames ? (uint32_t)count : 0;
		push_failed(r, vec_push(&r->b->hits, hit));
	}
}

static void read_manifest(struct reader *r, const json_t *root)
{
	struct bundle *b = r->b;
	const char *format = json_string_value(json_object_get(root, "format"));
	const json_t *clock = json_object_get(root, "clock");

	if (!format || strcmp(format, "pt-bundle") != 0) {
		fail(r, ERR_FORMAT, "not the manifest of a capture bundle");
		return;
	}
	if (number_of(root, "version") != FORMAT_VERSION) {
		fail(r, ERR_UNSUPPORTED, "a bundle of a later version");
		return;
	}
	b->command = text_of(r, root, "command");
	b->perf_command = text_of(r, root, "perf_command");
	b->kernel_release = text_of(r, root, "kernel");
	b->cpu_model = text_of(r, root, "cpu");
	b->perf_data = file_member(r, root, "perf_data");
	b->vdso = file_member(r, root, "vdso");
	b->kallsyms = file_member(r, root, "kallsyms");
	b->redacted = json_is_true(json_object_get(root, "redacted"));
	if (json_is_object(clock))
		b->clock = (struct bundle_clock){
			.known = true,
			.time_zero = number_of(clock, "time_zero"),
			.time_mult = (uint32_t)number_of(clock, "time_mult"),
			.time_shift = (uint16_t)number_of(clock, "time_shift"),
			.perf_ns = number_of(clock, "perf_ns"),
			.realtime_ns = number_of(clock, "realtime_ns"),
		};
	if (!b->perf_data)
		fail(r, ERR_FORMAT, "no perf_data");
	read_files(r, root);
	read_processes(r, root);
	read_hits(r, root);
}

static enum err load_manifest(struct bundle *b, struct error *error)
{
	char path[PATH_MAX];
	struct reader r = {.b = b, .error = error};
	json_error_t problem;
	struct stat st;

	if (snprintf(path, sizeof path, "%s/" MANIFEST, b->dir) >= (int)sizeof path)
		return error_set(error, ERR_LIMIT, "%s: name too long", b->dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > MANIFEST_MAX_BYTES) {
		r.err = error_set(error, fd < 0 && errno == ENOENT ? ERR_NOT_FOUND : ERR_FORMAT,
				  "%s: %s", path, fd < 0 ? strerror(errno) : "not a manifest");
	} else {
		json_t *root = json_loadfd(fd, JSON_REJECT_DUPLICATES, &problem);

		if (root)
			read_manifest(&r, root);
		else
			r.err = error_set(error, ERR_FORMAT, "%s: line %d: %s", path, problem.line,
					  problem.text);
		json_decref(root);
	}
	if (fd >= 0)
		close(fd);
	return r.err;
}

static bool has_manifest(const char *dir)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof path, "%s/" MANIFEST, dir) < (int)sizeof path &&
	       access(path, F_OK) == 0;
}

bool bundle_is(const char *path)
{
	return path_ends_in(path, ".tar.zst") || has_manifest(path);
}

/* "tar --zstd -cf x.tar.zst DIR" puts all below one directory: b->dir becomes that one.
 * Its name was made by us during extraction, so it is no symlink. */
static bool descend(struct bundle *b)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir = has_manifest(b->dir) ? NULL : opendir(b->dir);

	if (!dir)
		return true;
	bool good = true;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' ||
		    snprintf(path, sizeof path, "%s/%s", b->dir, entry->d_name) >=
			    (int)sizeof path ||
		    !has_manifest(path))
			continue;
		b->dir = arena_copy_string(&b->arena, path, strlen(path));
		good = b->dir != NULL;
		break;
	}
	closedir(dir);
	return good;
}

/* Where the archive opened last was extracted to; "" = nowhere any more. */
static struct {
	pthread_mutex_t lock;
	char dir[PATH_MAX];
} extracted = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* mkdtemp(), and noted before anybody can ask. */
static bool make_extracted(char *template)
{
	pthread_mutex_lock(&extracted.lock);
	bool good = mkdtemp(template) != NULL;
	if (good)
		snprintf(extracted.dir, sizeof extracted.dir, "%s", template);
	pthread_mutex_unlock(&extracted.lock);
	return good;
}

static void forget_extracted(void)
{
	pthread_mutex_lock(&extracted.lock);
	extracted.dir[0] = '\0';
	pthread_mutex_unlock(&extracted.lock);
}

void bundle_remove_extracted(void)
{
	pthread_mutex_lock(&extracted.lock);
	/* Extraction may still go on in another thread: until the directory is gone, where
	 * nothing can be made in it any more. */
	for (int i = 0; extracted.dir[0] && i < REMOVE_ATTEMPTS; i++) {
		bundle_remove_tree(extracted.dir);
		if (access(extracted.dir, F_OK) != 0)
			extracted.dir[0] = '\0';
	}
	pthread_mutex_unlock(&extracted.lock);
}

static enum err open_archive(const char *path, struct bundle *b, char *temporary, size_t bytes,
			     struct error *error)
{
	const char *tmp = getenv("TMPDIR");

	if (snprintf(temporary, bytes, "%s/pt-bundle-XXXXXX", tmp && tmp[0] ? tmp : "/tmp") >=
	    (int)bytes)
		return error_set(error, ERR_LIMIT, "$TMPDIR: name too long");
	if (!make_extracted(temporary))
		return error_set(error, ERR_IO, "%s: %s", temporary, strerror(errno));
	b->dir = b->temporary_dir = arena_copy_string(&b->arena, temporary, strlen(temporary));
	if (!b->dir) {
		rmdir(temporary);
		forget_extracted();
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	}
	enum err err = tar_zst_extract(path, temporary, BUNDLE_EXTRACTED_MAX_BYTES,
				       BUNDLE_FILES_MAX, error);
	if (err == ERR_NONE && !descend(b))
		err = error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	return err;
}

enum err bundle_open(const char *path, struct bundle *bundle, struct error *error)
{
	struct bundle b = {0};
	char temporary[PATH_MAX];
	enum err err = ERR_NONE;

	if (path_ends_in(path, ".tar.zst")) {
		err = open_archive(path, &b, temporary, sizeof temporary, error);
	} else {
		b.dir = arena_copy_string(&b.arena, path, strlen(path));
		if (!b.dir)
			err = error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	}
	if (err == ERR_NONE)
		err = load_manifest(&b, error);
	if (err != ERR_NONE) {
		bundle_done(&b);
		return err;
	}
	*bundle = b;
	return ERR_NONE;
}

const struct bundle_file *bundle_find_build_id(const struct bundle *b, const struct build_id *id)
{
	for (size_t i = 0; id->length > 0 && i < b->files.count; i++)
		if (b->files.items[i].file && build_id_equal(&b->files.items[i].build_id, id))
			return &b->files.items[i];
	return NULL;
}

const struct bundle_file *bundle_find_path(const struct bundle *b, const char *path)
{
	for (size_t i = b->files.count; i-- > 0;)
		if (b->files.items[i].file && strcmp(b->files.items[i].path, path) == 0)
			return &b->files.items[i];
	return NULL;
}

/* Closes fd. */
static void remove_entries(int fd, int depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		close(fd);
		return;
	}
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) == 0 || depth >= REMOVE_DEPTH_MAX)
			continue;
		int child = openat(dirfd(dir), entry->d_name,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child >= 0)
			remove_entries(child, depth + 1);
		unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

void bundle_remove_tree(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		remove_entries(fd, 0);
	rmdir(dir);
}

void bundle_done(struct bundle *b)
{
	if (b->temporary_dir) {
		bundle_remove_tree(b->temporary_dir);
		forget_extracted();
	}
	vec_done(&b->files);
	vec_done(&b->processes);
	vec_done(&b->perf_maps);
	vec_done(&b->jitdumps);
	vec_done(&b->hits);
	arena_done(&b->arena);
	*b = (struct bundle){0};
}
