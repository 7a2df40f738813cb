/* See perf_file.h.
 *
 *     header | attrs | data: record record [AUXTRACE + trace bytes] record ... | features
 *
 * Every record is { u32 type; u16 misc; u16 size }; AUXTRACE (71) and TRACING_DATA (66) are
 * followed by bytes of their own, whose length they hold. */
#include "capture/perf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/bytes.h"
#include "common/file_map.h"

/* perf's user-space records: tools/lib/perf/include/perf/event.h */
enum {
	RECORD_TRACING_DATA = 66,
	RECORD_AUXTRACE = 71,
	RECORD_COMPRESSED = 81,
	RECORD_COMPRESSED2 = 83,
};
/* Header features (bit numbers): tools/perf/util/header.h */
enum { FEATURE_BUILD_ID = 2, FEATURE_HOSTNAME = 3, FEATURE_CMDLINE = 11, FEATURE_BITS = 256 };

enum {
	HEADER_BYTES = 104,
	PIPE_HEADER_BYTES = 16,
	FEATURES_OFFSET = 72,
	COMM_OFFSET = 16,    /* of the name in a COMM record */
	MMAP_OFFSET = 40,    /* in MMAP */
	KSYMBOL_OFFSET = 24, /* in KSYMBOL: of a BPF program */
	MMAP2_OFFSET = 72,   /* in MMAP2 */
	BUILD_ID_OFFSET = 40,
	BUILD_ID_NAME_OFFSET = 36, /* in the records of the build-id feature */
	INFLATE_CHUNK = 256 << 10,
	MISC_EXEC = 1 << 13, /* of COMM; of MMAP: a data mapping */
	MISC_BUILD_ID = 1 << 14,
};

struct record {
	uint32_t type;
	uint16_t misc, bytes;
	const uint8_t *at; /* the header */
	uint64_t trailing; /* bytes of trace behind it */
};

/* The next whole record; false at the end (or at damage: the rest is not readable). */
static bool next_record(struct bytes *data, struct record *r)
{
	const uint8_t *at = bytes_take(data, 8);

	if (!at)
		return false;
	*r = (struct record){.type = (uint32_t)load_le(at, 4),
			     .misc = (uint16_t)load_le(at + 4, 2),
			     .bytes = (uint16_t)load_le(at + 6, 2),
			     .at = at};
	if (r->bytes < 8 || !bytes_take(data, r->bytes - 8u))
		return false;
	if (r->type == RECORD_AUXTRACE && r->bytes >= 16)
		r->trailing = load_le(at + 8, 8);
	else if (r->type == RECORD_TRACING_DATA && r->bytes >= 12)
		r->trailing = (load_le(at + 8, 4) + 7) & ~(uint64_t)7;
	/* COMPRESSED2's 16-bit size may have wrapped; its own field tells. */
	if (r->type == RECORD_COMPRESSED2 && r->bytes >= 16 && load_le(at + 8, 8) > r->bytes - 16u)
		r->trailing = load_le(at + 8, 8) - (r->bytes - 16u);
	if (r->trailing > bytes_left(data))
		r->trailing = bytes_left(data); /* cut off: what is there counts */
	return bytes_take(data, (size_t)r->trailing) != NULL || r->trailing == 0;
}

/* The name at `offset` of a record, if it ends inside. */
static const char *record_name(const struct record *r, size_t offset)
{
	if (r->bytes <= offset || !memchr(r->at + offset, 0, r->bytes - offset))
		return NULL;
	return (const char *)r->at + offset;
}

/* Where the records are. */
static enum err find_data(const char *path, const struct file_map *map, struct bytes *data,
			  bool *unfinished, struct error *error)
{
	if (map->bytes < PIPE_HEADER_BYTES || memcmp(map->data, "PERFILE2", 8) != 0)
		return error_set(error, ERR_FORMAT, "%s: not a perf.data file", path);
	if (load_le(map->data + 8, 8) == PIPE_HEADER_BYTES) {
		*data = bytes_of(map->data + PIPE_HEADER_BYTES, map->bytes - PIPE_HEADER_BYTES);
		return ERR_NONE;
	}
	uint64_t offset = map->bytes >= HEADER_BYTES ? load_le(map->data + 40, 8) : 0;
	uint64_t bytes = map->bytes >= HEADER_BYTES ? load_le(map->data + 48, 8) : 0;
	if (offset < HEADER_BYTES || offset > map->bytes)
		return error_set(error, ERR_FORMAT, "%s: damaged header", path);
	*unfinished = bytes == 0;
	if (bytes == 0 || bytes > map->bytes - offset)
		bytes = map->bytes - offset;
	*data = bytes_of(map->data + offset, bytes);
	return ERR_NONE;
}

static bool is_file_name(const char *path)
{
	return path[0] == '/' && strncmp(path, "//", 2) != 0 &&
	       strncmp(path, "/dev/zero", 9) != 0 && strncmp(path, "/SYSV", 5) != 0 &&
	       strncmp(path, "/[aio]", 6) != 0;
}

static enum err add_mapping(struct perf_summary *s, const char *path, const struct build_id *id,
			    struct error *error)
{
	for (size_t i = s->mappings.count; i-- > 0;)
		if (strcmp(s->mappings.items[i].path, path) == 0 &&
		    build_id_equal(&s->mappings.items[i].build_id, id))
			return ERR_NONE;
	if (s->mappings.count == PERF_FILE_MAPPINGS_MAX)
		return error_set(error, ERR_LIMIT, "more than %d mapped files",
				 PERF_FILE_MAPPINGS_MAX);
	struct perf_mapping mapping = {.path = arena_copy_string(&s->arena, path, strlen(path)),
				       .build_id = *id};
	if (!mapping.path || !vec_push(&s->mappings, mapping))
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	return ERR_NONE;
}

static enum err note_mapping(struct perf_summary *s, const struct record *r, struct error *error)
{
	bool mmap2 = r->type == PERF_RECORD_MMAP2;
	const char *path = record_name(r, mmap2 ? MMAP2_OFFSET : MMAP_OFFSET);
	struct build_id id = {0};

	if (!path || (r->misc & MISC_EXEC)) /* here the bit says "data" */
		return ERR_NONE;
	if ((r->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL) {
		s->kernel_mapped = true;
		return ERR_NONE;
	}
	if (!is_file_name(path))
		return ERR_NONE;
	if (mmap2 && (r->misc & MISC_BUILD_ID)) {
		id.length = r->at[BUILD_ID_OFFSET];
		if (id.length > BUILD_ID_MAX)
			id.length = 0;
		memcpy(id.bytes, r->at + BUILD_ID_OFFSET + 4, id.length);
	}
	return add_mapping(s, path, &id, error);
}

static enum err note_comm(struct perf_summary *s, const struct record *r, struct error *error)
{
	const char *comm = record_name(r, COMM_OFFSET);

	if (!comm)
		return ERR_NONE;
	uint32_t pid = (uint32_t)load_le(r->at + 8, 4), tid = (uint32_t)load_le(r->at + 12, 4);
	struct perf_process *known = NULL;
	for (size_t i = 0; i < s->processes.count && !known; i++)
		if (s->processes.items[i].pid == pid)
			known = &s->processes.items[i];
	if (pid != tid || (known && !(r->misc & MISC_EXEC)))
		return ERR_NONE;
	struct perf_process process = {.pid = pid,
				       .comm = arena_copy_string(&s->arena, comm, strlen(comm))};
	if (process.comm && known)
		*known = process;
	else if (!process.comm || (s->processes.count < PERF_FILE_PROCESSES_MAX &&
				   !vec_push(&s->processes, process)))
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	return ERR_NONE;
}

/* The one zstd stream that all compressed records of a file carry. What it inflates to are
 * records again, which may be split between two compressed ones. */
struct inflater {
	ZSTD_DCtx *zstd;
	uint8_t *data;
	size_t bytes; /* not yet a whole record */
	bool broken;
};

static enum err note_record(struct perf_summary *s, const struct record *r, struct inflater *inf,
			    struct error *error);

static enum err note_inflated(struct perf_summary *s, struct inflater *inf, struct error *error)
{
	struct bytes data = bytes_of(inf->data, inf->bytes);
	enum err err = ERR_NONE;

	while (err == ERR_NONE && bytes_left(&data) >= 8) {
		struct bytes before = data;
		struct record r;

		if (load_le(data.p + 6, 2) > bytes_left(&data))
			break; /* the rest comes with the next one */
		if (!next_record(&data, &r) || r.type == RECORD_COMPRESSED ||
		    r.type == RECORD_COMPRESSED2) {
			inf->broken = true;
			data = before;
			break;
		}
		err = note_record(s, &r, inf, error);
	}
	inf->bytes = bytes_left(&data);
	memmove(inf->data, data.p, inf->bytes);
	return err;
}

static enum err inflate(struct perf_summary *s, const struct record *r, struct inflater *inf,
			struct error *error)
{
	size_t header = r->type == RECORD_COMPRESSED ? 8 : 16;
	enum err err = ERR_NONE;

	if (!inf->zstd)
		inf->zstd = ZSTD_createDCtx();
	if (!inf->data) /* room for a whole record before what is new */
		inf->data = malloc(UINT16_MAX + INFLATE_CHUNK);
	if (!inf->zstd || !inf->data)
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	if (r->bytes < header)
		return ERR_NONE;
	/* COMPRESSED2 pads: its size field counts */
	uint64_t bytes = r->type == RECORD_COMPRESSED2 ? load_le(r->at + 8, 8) : r->bytes - header;
	if (bytes > r->bytes - header + r->trailing)
		bytes = r->bytes - header + r->trailing;
	ZSTD_inBuffer in = {r->at + header, (size_t)bytes, 0};
	while (err == ERR_NONE && !inf->broken && in.pos < in.size) {
		ZSTD_outBuffer out = {inf->data, UINT16_MAX + INFLATE_CHUNK, inf->bytes};
		size_t before = in.pos, status = ZSTD_decompressStream(inf->zstd, &out, &in);

		inf->broken = ZSTD_isError(status) || (in.pos == before && out.pos == inf->bytes);
		inf->bytes = out.pos;
		err = note_inflated(s, inf, error);
	}
	s->unreadable |= inf->broken;
	return err;
}

static enum err note_record(struct perf_summary *s, const struct record *r, struct inflater *inf,
			    struct error *error)
{
	switch (r->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return note_mapping(s, r, error);
	case PERF_RECORD_COMM: return note_comm(s, r, error);
	case RECORD_AUXTRACE:
		s->aux_bytes += r->trailing;
		s->aux_chunks++;
		break;
	case PERF_RECORD_AUX:
		if (r->bytes >= 32 && (load_le(r->at + 24, 8) & PERF_AUX_FLAG_TRUNCATED))
			s->lost_aux++;
		break;
	case RECORD_COMPRESSED:
	case RECORD_COMPRESSED2: return inflate(s, r, inf, error);
	}
	return ERR_NONE;
}

/* The file itself, or "data" in a directory. */
static bool data_file(const char *path, char *file, size_t bytes)
{
	struct stat st;
	bool directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);

	return snprintf(file, bytes, directory ? "%s/data" : "%s", path) < (int)bytes;
}

enum err perf_file_summarize(const char *path, struct perf_summary *summary, struct error *error)
{
	struct perf_summary s = {0};
	struct inflater inf = {0};
	struct file_map map;
	struct bytes data;
	struct record r;
	char file[PATH_MAX];

	if (!data_file(path, file, sizeof file))
		return error_set(error, ERR_LIMIT, "%s: name too long", path);
	enum err err = file_map_open(file, &map, error);
	if (err != ERR_NONE)
		return err;
	err = find_data(file, &map, &data, &s.unfinished, error);
	while (err == ERR_NONE && next_record(&data, &r))
		err = note_record(&s, &r, &inf, error);
	file_map_done(&map);
	ZSTD_freeDCtx(inf.zstd);
	free(inf.data);
	if (err != ERR_NONE) {
		perf_summary_done(&s);
		return err;
	}
	*summary = s;
	return ERR_NONE;
}

void perf_summary_done(struct perf_summary *s)
{
	vec_done(&s->mappings);
	vec_done(&s->processes);
	arena_done(&s->arena);
	*s = (struct perf_summary){0};
}

/* ---- renaming ---- */

struct renamer {
	uint8_t *file;
	size_t bytes;
	perf_rename *rename;
	void *context;
};

static void rename_at(const struct renamer *rn, const struct record *r, size_t offset)
{
	if (record_name(r, offset)) {
		char *name = (char *)rn->file + (r->at - rn->file) + offset;

		/* the id sample behind the name begins at the next multiple of 8 */
		rn->rename(rn->context, name, (strlen(name) + 8) & ~(size_t)7);
	}
}

/* { u32 room; char text[room] } */
static void rename_text(const struct renamer *rn, uint64_t *at, uint64_t end)
{
	if (*at > end || end - *at < 4)
		return;
	uint64_t room = load_le(rn->file + *at, 4);
	if (room > 0 && room <= end - *at - 4 && memchr(rn->file + *at + 4, 0, room))
		rn->rename(rn->context, (char *)rn->file + *at + 4, room);
	*at += 4 + room;
}

static void rename_build_ids(const struct renamer *rn, uint64_t at, uint64_t end)
{
	struct bytes records = {.p = rn->file + at, .end = rn->file + end};
	struct record r;

	while (next_record(&records, &r))
		if (record_name(&r, BUILD_ID_NAME_OFFSET))
			rn->rename(rn->context,
				   (char *)rn->file + (r.at - rn->file) + BUILD_ID_NAME_OFFSET,
				   r.bytes - (size_t)BUILD_ID_NAME_OFFSET);
}

/* The feature table { u64 offset, size } stands behind the data, one entry a set bit. */
static void rename_features(const struct renamer *rn)
{
	uint64_t table = load_le(rn->file + 40, 8) + load_le(rn->file + 48, 8);

	for (unsigned bit = 0; bit < FEATURE_BITS; bit++) {
		if (!(rn->file[FEATURES_OFFSET + bit / 8] >> bit % 8 & 1))
			continue;
		if (table > rn->bytes || rn->bytes - table < 16)
			return;
		uint64_t at = load_le(rn->file + table, 8), size = load_le(rn->file + table + 8, 8);
		table += 16;
		if (at > rn->bytes || size > rn->bytes - at)
			continue;
		uint64_t end = at + size;
		if (bit == FEATURE_BUILD_ID)
			rename_build_ids(rn, at, end);
		if (bit == FEATURE_HOSTNAME)
			rename_text(rn, &at, end);
		if (bit == FEATURE_CMDLINE && size >= 4) {
			uint64_t count = load_le(rn->file + at, 4);

			for (at += 4; count > 0 && at < end; count--)
				rename_text(rn, &at, end);
		}
	}
}

enum err perf_file_rename(const char *path, perf_rename *rename, void *context, struct error *error)
{
	char file[PATH_MAX];
	struct stat st;
	struct bytes data;
	struct record r;
	bool unfinished = false;

	if (!data_file(path, file, sizeof file))
		return error_set(error, ERR_LIMIT, "%s: name too long", path);
	int fd = open(file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	void *p = MAP_FAILED;
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
		p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int why = errno;
	if (fd >= 0)
		close(fd);
	if (p == MAP_FAILED)
		return error_set(error, ERR_IO, "%s: %s", file, strerror(why));
	struct renamer rn = {
		.file = p, .bytes = (size_t)st.st_size, .rename = rename, .context = context};
	struct file_map map = {.data = p, .bytes = rn.bytes};
	enum err err = find_data(file, &map, &data, &unfinished, error);
	while (err == ERR_NONE && next_record(&data, &r)) {
		if (r.type == RECORD_COMPRESSED || r.type == RECORD_COMPRESSED2)
			err = error_set(error, ERR_UNSUPPORTED,
					"%s: names in compressed records cannot be replaced", file);
		else if (r.type == PERF_RECORD_COMM)
			rename_at(&rn, &r, COMM_OFFSET);
		else if (r.type == PERF_RECORD_KSYMBOL)
			rename_at(&rn, &r, KSYMBOL_OFFSET);
		else if ((r.type == PERF_RECORD_MMAP || r.type == PERF_RECORD_MMAP2) &&
			 (r.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_KERNEL)
			rename_at(&rn, &r, r.type == PERF_RECORD_MMAP ? MMAP_OFFSET : MMAP2_OFFSET);
	}
	if (err == ERR_NONE && rn.bytes >= HEADER_BYTES && !unfinished &&
	    load_le(rn.file + 8, 8) == HEADER_BYTES)
		rename_features(&rn);
	munmap(p, rn.bytes);
	return err;
}
