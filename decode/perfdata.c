/* See perfdata.h.
 *
 *     file      | header | attrs, ids | records ... | feature table | feature sections |
 *     pipe      | magic, size 16 | records, among them HEADER_ATTR, HEADER_FEATURE ...  |
 *     directory   data = a file; data.0, data.1 ... = records of one thread each
 *
 * perf writes the header of a file last: after a crash its data size is 0, the features are
 * not there, and the records reach to the end of the file. A pipe says what its events are
 * as it goes, so it is scanned once on opening. */
#include "decode/perfdata.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "decode/compressed.h"
#include "decode/feature.h"
#include "decode/perfdata_walk.h"

#define MAGIC_2         "PERFILE2"
#define MAGIC_2_SWAPPED "2ELIFREP"
#define MAGIC_1         "PERFFILE"
#define MAGIC_1_SWAPPED "ELIFFREP"

enum {
	RECORD_HEADER = 8,
	PIPE_HEADER = 16,
	FILE_HEADER = 104,    /* with the feature bitmap */
	FILE_HEADER_OLD = 72, /* without */
	SECTION = 16,         /* u64 offset, size */
};

int32_t perfdata_event_of_id(const struct perfdata *p, uint32_t file, uint64_t id)
{
	const struct perfdata_file *f = &p->files.items[p->files.items[file].header_file];
	uint32_t event = map64_get(&f->events_by_id, id);

	return event == MAP64_NONE ? -1 : (int32_t)event;
}

const char *perfdata_pmu_name(const struct perfdata *p, uint32_t type)
{
	for (size_t i = 0; i < p->info.pmus.count; i++)
		if (p->info.pmus.items[i].type == type)
			return p->info.pmus.items[i].name;
	return NULL;
}

/* An id can be found before its event is known only if it stands at one place for all
 * events: that is what IDENTIFIER is for. Without it the first event decides. */
static void file_place_id(const struct perfdata *p, struct perfdata_file *f)
{
	uint64_t type = f->event_count > 0 ? p->events.items[f->first_event].sample_type : 0;

	f->id_from_start = f->id_from_end = -1;
	if (type & PERF_SAMPLE_IDENTIFIER) {
		f->id_from_start = f->id_from_end = 0;
	} else if (type & PERF_SAMPLE_ID) {
		f->id_from_start = !!(type & PERF_SAMPLE_IP) + !!(type & PERF_SAMPLE_TID) +
				   !!(type & PERF_SAMPLE_TIME) + !!(type & PERF_SAMPLE_ADDR);
		f->id_from_end = !!(type & PERF_SAMPLE_STREAM_ID) + !!(type & PERF_SAMPLE_CPU);
	}
}

/* The length of an attr by its own word. */
static size_t attr_own_bytes(const uint8_t *attr)
{
	size_t bytes = (size_t)load_le(attr + 4, 4);

	return bytes > 0 ? bytes : PERF_ATTR_SIZE_VER0;
}

static enum err event_add(struct perfdata *p, struct perfdata_file *f, const uint8_t *attr,
			  size_t attr_bytes, const uint8_t *ids, size_t id_count,
			  struct error *error)
{
	struct perfdata_event event = {.name = "", .id_count = id_count};

	/* No two events share ids, so the file bounds how many there are. */
	f->id_count += id_count;
	if (f->event_count >= PERFDATA_EVENTS_MAX || f->id_count > PERFDATA_IDS_MAX ||
	    f->id_count > f->map.bytes / 8)
		return error_set(error, ERR_LIMIT,
				 "%s: more than %u events or %u event ids, or more ids than bytes",
				 f->path, PERFDATA_EVENTS_MAX, PERFDATA_IDS_MAX);
	if (!record_parse_attr(attr, attr_bytes, &event))
		return error_set(error, ERR_FORMAT, "%s: event %u: attr of %zu bytes, need %d",
				 f->path, f->event_count, attr_bytes, PERF_ATTR_SIZE_VER0);
	uint64_t *copy = arena_alloc(&p->arena, id_count * sizeof *copy);
	if (!copy || !vec_push(&p->events, event))
		return error_set(error, ERR_NOMEM, "%s: out of memory", f->path);
	if (id_count > 0)
		memcpy(copy, ids, id_count * sizeof *copy);
	vec_last(&p->events)->ids = copy;
	for (size_t i = 0; i < id_count; i++)
		if (!map64_set(&f->events_by_id, copy[i], (uint32_t)p->events.count - 1))
			return error_set(error, ERR_NOMEM, "%s: out of memory", f->path);
	f->event_count++;
	return ERR_NONE;
}

struct section {
	uint64_t off, bytes;
};

static struct section section_take(struct bytes *b)
{
	struct section s;

	s.off = bytes_u64(b);
	s.bytes = bytes_u64(b);
	return s;
}

static bool section_fits(const struct perfdata_file *f, struct section s)
{
	return s.off <= f->map.bytes && s.bytes <= f->map.bytes - s.off;
}

static enum err file_read_attrs(struct perfdata *p, struct perfdata_file *f, struct section attrs,
				uint64_t attr_bytes, struct error *error)
{
	if (!section_fits(f, attrs))
		return error_set(error, ERR_FORMAT,
				 "%s: attrs at %llu + %llu bytes, but the file has %zu", f->path,
				 (unsigned long long)attrs.off, (unsigned long long)attrs.bytes,
				 f->map.bytes);
	if (attr_bytes < PERF_ATTR_SIZE_VER0 + SECTION)
		return error_set(error, ERR_FORMAT, "%s: attr size is %llu, need %d", f->path,
				 (unsigned long long)attr_bytes, PERF_ATTR_SIZE_VER0 + SECTION);
	if (attrs.bytes > 0 && attrs.bytes < attr_bytes)
		return error_set(error, ERR_FORMAT, "%s: attr size is %llu, but all have %llu bytes",
				 f->path, (unsigned long long)attr_bytes,
				 (unsigned long long)attrs.bytes);
	for (uint64_t i = 0; i < attrs.bytes / attr_bytes; i++) {
		const uint8_t *attr = f->map.data + attrs.off + i * attr_bytes;
		size_t own = attr_own_bytes(attr);

		if (own > attr_bytes - SECTION)
			return error_set(error, ERR_FORMAT,
					 "%s: event %llu: attr of %zu bytes in a slot of %llu",
					 f->path, (unsigned long long)i, own,
					 (unsigned long long)attr_bytes);
		struct bytes b = bytes_of(attr + own, SECTION);
		struct section ids = section_take(&b);
		if (!section_fits(f, ids))
			return error_set(
				error, ERR_FORMAT,
				"%s: event %llu: ids at %llu + %llu bytes, but the file has %zu",
				f->path, (unsigned long long)i, (unsigned long long)ids.off,
				(unsigned long long)ids.bytes, f->map.bytes);
		enum err err = event_add(p, f, attr, own, f->map.data + ids.off,
					 (size_t)ids.bytes / 8, error);
		if (err != ERR_NONE)
			return err;
	}
	return ERR_NONE;
}

/* Notes that the header tells of a section that the file does not hold. */
static void file_miss(struct perfdata_file *f, struct section s)
{
	uint64_t missing = s.off > UINT64_MAX - s.bytes ? UINT64_MAX : s.off + s.bytes;

	missing -= f->map.bytes;
	if (missing > f->missing_bytes)
		f->missing_bytes = missing;
}

/* The table behind the records: a section for each bit, lowest first. */
static enum err file_read_features(struct perfdata *p, uint32_t file, const uint8_t *bitmap)
{
	struct perfdata_file *f = &p->files.items[file];
	struct bytes table = bytes_of(f->map.data + f->data_end, f->map.bytes - f->data_end);

	for (unsigned bit = 0; bit < FEATURE_COUNT_MAX; bit++) {
		if (!(bitmap[bit / 8] >> bit % 8 & 1))
			continue;
		struct section s = section_take(&table);
		if (table.failed || !section_fits(f, s)) {
			p->info.damaged_features++;
			file_miss(f, table.failed ? (struct section){f->map.bytes, SECTION} : s);
			continue;
		}
		enum err err = feature_read(p, file, bit, f->map.data + s.off, (size_t)s.bytes);
		if (err != ERR_NONE)
			return err;
	}
	return ERR_NONE;
}

static enum err file_read_header(struct perfdata *p, uint32_t file, struct error *error)
{
	struct perfdata_file *f = &p->files.items[file];
	struct bytes b = bytes_of(f->map.data, f->map.bytes);

	bytes_u64(&b); /* magic */
	uint64_t header_bytes = bytes_u64(&b), attr_bytes = bytes_u64(&b);
	struct section attrs = section_take(&b), data = section_take(&b);
	section_take(&b); /* event types, long unused */
	if (b.failed || header_bytes < FILE_HEADER_OLD || header_bytes > f->map.bytes)
		return error_set(error, ERR_FORMAT, "%s: header of %llu bytes in a file of %zu",
				 f->path, (unsigned long long)header_bytes, f->map.bytes);
	if (data.off > f->map.bytes)
		return error_set(error, ERR_FORMAT, "%s: data at %llu, but the file has %zu bytes",
				 f->path, (unsigned long long)data.off, f->map.bytes);
	f->data_start = data.off;
	f->data_end = f->map.bytes;
	if (data.bytes == 0 || !section_fits(f, data)) {
		f->is_unfinished = true;
		if (data.bytes > 0)
			f->missing_bytes = data.bytes - (f->map.bytes - data.off);
	} else {
		f->data_end = data.off + data.bytes;
	}
	enum err err = file_read_attrs(p, f, attrs, attr_bytes, error);
	if (err != ERR_NONE)
		return err;
	file_place_id(p, f);
	if (f->is_unfinished || header_bytes < FILE_HEADER)
		return ERR_NONE;
	err = file_read_features(p, file, b.p);
	return err == ERR_NONE ? err : error_set(error, err, "%s: out of memory", f->path);
}

static enum err pipe_read_attr(struct perfdata *p, struct perfdata_file *f, const struct record *r,
			       struct error *error)
{
	const uint8_t *attr = r->data + RECORD_HEADER;
	size_t bytes = r->bytes - RECORD_HEADER;
	size_t own = bytes >= PERF_ATTR_SIZE_VER0 ? attr_own_bytes(attr) : SIZE_MAX;

	if (own > bytes)
		return error_set(error, ERR_FORMAT, "%s: attr at %llu is cut short", f->path,
				 (unsigned long long)r->file_off);
	return event_add(p, f, attr, own, attr + own, (bytes - own) / 8, error);
}

static enum err pipe_read_event_update(struct perfdata *p, uint32_t file, const struct record *r)
{
	enum { UPDATE_NAME = 2 };
	struct bytes b = bytes_of(r->data + RECORD_HEADER, r->bytes - RECORD_HEADER);
	uint64_t kind = bytes_u64(&b);
	int32_t event = perfdata_event_of_id(p, file, bytes_u64(&b));

	if (b.failed || kind != UPDATE_NAME || event < 0)
		return ERR_NONE;
	return feature_set_event_name(p, (uint32_t)event, (const char *)b.p, bytes_left(&b));
}

/* Older perf sends EVENT_DESC before the events it names: it has to wait. */
static enum err pipe_read_feature(struct perfdata *p, uint32_t file, const struct record *r,
				  struct bytes *event_desc)
{
	struct bytes b = bytes_of(r->data + RECORD_HEADER, r->bytes - RECORD_HEADER);
	uint64_t feature = bytes_u64(&b);

	if (b.failed)
		return ERR_NONE;
	if (feature == FEATURE_EVENT_DESC) {
		*event_desc = b;
		return ERR_NONE;
	}
	return feature_read(p, file, feature, b.p, bytes_left(&b));
}

/* A pipe's header is spread over its records. */
static enum err pipe_read_header(struct perfdata *p, uint32_t file, struct error *error)
{
	struct perfdata_file *f = &p->files.items[file];
	struct perfdata_damage damage;

	f->is_pipe = true;
	f->data_start = PIPE_HEADER;
	f->data_end = f->map.bytes;
	struct cursor cursor = {.pos = f->data_start};
	struct record r = {.file = file};
	struct bytes event_desc = {0};
	enum err err = ERR_NONE;
	while (err == ERR_NONE && perfdata_step(f, &cursor, &r, &damage) == STEP_RECORD) {
		switch (r.type) {
		case RECORD_HEADER_ATTR:
			err = pipe_read_attr(p, f, &r, error);
			if (err != ERR_NONE)
				return err;
			break;
		case RECORD_EVENT_UPDATE: err = pipe_read_event_update(p, file, &r); break;
		case RECORD_HEADER_TRACING_DATA:
			if (r.payload)
				err = feature_read(p, file, FEATURE_TRACING_DATA, r.payload,
						   r.payload_bytes);
			break;
		case RECORD_HEADER_BUILD_ID:
			err = feature_read(p, file, FEATURE_BUILD_ID, r.data, r.bytes);
			break;
		case RECORD_HEADER_FEATURE:
			err = pipe_read_feature(p, file, &r, &event_desc);
			break;
		default: break;
		}
	}
	if (err == ERR_NONE && event_desc.p)
		err = feature_read(p, file, FEATURE_EVENT_DESC, event_desc.p,
				   bytes_left(&event_desc));
	file_place_id(p, f);
	return err == ERR_NONE ? err : error_set(error, err, "%s: out of memory", f->path);
}

static enum err file_read_start(struct perfdata *p, uint32_t file, struct error *error)
{
	const struct perfdata_file *f = &p->files.items[file];
	const uint8_t *magic = f->map.data;

	if (f->map.bytes < PIPE_HEADER)
		return error_set(error, ERR_FORMAT, "%s: not a perf.data: only %zu bytes", f->path,
				 f->map.bytes);
	if (memcmp(magic, MAGIC_2_SWAPPED, 8) == 0 || memcmp(magic, MAGIC_1_SWAPPED, 8) == 0)
		return error_set(error, ERR_UNSUPPORTED,
				 "%s: recorded on a big-endian machine, which has no Intel PT",
				 f->path);
	if (memcmp(magic, MAGIC_1, 8) == 0)
		return error_set(error, ERR_UNSUPPORTED,
				 "%s: perf.data version 1 (before Linux 3.4) is not supported",
				 f->path);
	if (memcmp(magic, MAGIC_2, 8) != 0)
		return error_set(error, ERR_FORMAT, "%s: not a perf.data: no PERFILE2 at its start",
				 f->path);
	if (load_le(magic + 8, 8) == PIPE_HEADER)
		return pipe_read_header(p, file, error);
	return file_read_header(p, file, error);
}

/* Takes the map over. part_of: the header file of a data.N, else UINT32_MAX. */
static enum err file_add(struct perfdata *p, const char *path, struct file_map *map,
			 uint32_t part_of, struct error *error)
{
	struct perfdata_file f = {.map = *map, .is_part = part_of != UINT32_MAX};
	uint32_t index = (uint32_t)p->files.count;

	f.path = arena_copy_string(&p->arena, path, strlen(path));
	f.header_file = f.is_part ? part_of : index;
	f.first_event = f.is_part ? 0 : (uint32_t)p->events.count;
	f.data_end = map->bytes;
	if (p->files.count >= PERFDATA_FILES_MAX) {
		file_map_done(map);
		return error_set(error, ERR_LIMIT, "%s: more than %u files", path,
				 PERFDATA_FILES_MAX);
	}
	if (!f.path || !vec_push(&p->files, f)) {
		file_map_done(map);
		return error_set(error, ERR_NOMEM, "%s: out of memory", path);
	}
	return f.is_part ? ERR_NONE : file_read_start(p, index, error);
}

static enum err add_file(struct perfdata *p, const char *path, uint32_t part_of,
			 struct error *error)
{
	struct file_map map;
	enum err err = file_map_open(path, &map, error);

	return err == ERR_NONE ? file_add(p, path, &map, part_of, error) : err;
}

/* What comes through a pipe is kept in an unlinked file, so that it can be mapped. */
static enum err add_stream(struct perfdata *p, int fd, const char *name, struct error *error)
{
	char path[64];
	const char *directory = getenv("TMPDIR");
	uint8_t buffer[1 << 14];
	int spool = open(directory ? directory : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (spool < 0)
		return error_set(error, ERR_IO, "%s: cannot keep it in %s: %s", name,
				 directory ? directory : "/tmp", strerror(errno));
	enum err err = ERR_NONE;
	for (;;) {
		ssize_t got = read(fd, buffer, sizeof buffer);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			err = error_set(error, ERR_IO, "%s: %s", name, strerror(errno));
		if (got <= 0)
			break;
		for (ssize_t put = 0, n; put < got && err == ERR_NONE; put += n) {
			n = write(spool, buffer + put, (size_t)(got - put));
			if (n <= 0)
				err = error_set(error, ERR_IO, "%s: cannot keep it in %s: %s", name,
						directory ? directory : "/tmp", strerror(errno));
		}
		if (err != ERR_NONE)
			break;
	}
	struct file_map map = {0};
	snprintf(path, sizeof path, "/proc/self/fd/%d", spool);
	if (err == ERR_NONE)
		err = file_map_open(path, &map, error);
	close(spool);
	return err == ERR_NONE ? file_add(p, name, &map, UINT32_MAX, error) : err;
}

static int compare_numbers(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;

	return (x > y) - (x < y);
}

/* data, then data.0, data.1 ... in the order of their numbers. */
static enum err add_directory(struct perfdata *p, const char *path, struct error *error)
{
	char name[4096];
	VEC(unsigned long) parts = {0};
	uint32_t header_file = (uint32_t)p->files.count;

	snprintf(name, sizeof name, "%s/data", path);
	if (access(name, F_OK) != 0)
		return error_set(error, ERR_NOT_FOUND,
				 "%s: a directory, but neither a bundle (no manifest.json) nor "
				 "perf's directory format (no data)",
				 path);
	enum err err = add_file(p, name, UINT32_MAX, error);
	if (err != ERR_NONE)
		return err;
	DIR *dir = opendir(path);
	if (!dir)
		return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	for (const struct dirent *entry; (entry = readdir(dir));) {
		char *end;

		if (strncmp(entry->d_name, "data.", 5) != 0)
			continue;
		unsigned long number = strtoul(entry->d_name + 5, &end, 10);
		if (end == entry->d_name + 5 || *end != '\0')
			continue;
		if (!vec_push(&parts, number)) {
			err = error_set(error, ERR_NOMEM, "%s: out of memory", path);
			break;
		}
	}
	closedir(dir);
	if (parts.count > 0)
		qsort(parts.items, parts.count, sizeof *parts.items, compare_numbers);
	for (size_t i = 0; i < parts.count && err == ERR_NONE; i++) {
		snprintf(name, sizeof name, "%s/data.%lu", path, parts.items[i]);
		err = add_file(p, name, header_file, error);
	}
	vec_done(&parts);
	return err;
}

static enum err add_path(struct perfdata *p, const char *path, struct error *error)
{
	struct stat st;

	if (strcmp(path, "-") == 0)
		return add_stream(p, STDIN_FILENO, "standard input", error);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return add_directory(p, path, error);
	if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode)) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
		enum err err = add_stream(p, fd, path, error);
		close(fd);
		return err;
	}
	return add_file(p, path, UINT32_MAX, error);
}

enum err perfdata_open(struct perfdata *p, const char *const *paths, size_t count,
		       struct error *error)
{
	*p = (struct perfdata){0};
	struct perfdata_info *info = &p->info;
	info->hostname = info->os_release = info->perf_version = "";
	info->arch = info->cpu_description = info->cpuid = "";
	enum err err = ERR_NONE;
	p->compressed = compressed_new();
	if (!p->compressed)
		err = error_set(error, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < count && err == ERR_NONE; i++)
		err = add_path(p, paths[i], error);
	if (err != ERR_NONE)
		perfdata_done(p);
	return err;
}

void perfdata_done(struct perfdata *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->files.count; i++) {
		file_map_done(&p->files.items[i].map);
		map64_done(&p->files.items[i].events_by_id);
	}
	vec_done(&p->files);
	vec_done(&p->events);
	vec_done(&p->damage);
	vec_done(&p->info.command_line);
	vec_done(&p->info.build_ids);
	vec_done(&p->info.pmus);
	vec_done(&p->info.bpf_programs);
	vec_done(&p->info.aux_index);
	compressed_free(p->compressed);
	arena_done(&p->arena);
	*p = (struct perfdata){0};
}
