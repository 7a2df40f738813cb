/* See feature.h. Each reader takes its section through a bounds-checked window. What may
 * differ between the files of a series is added up, the rest is taken from the first. */
#include "decode/feature.h"

#include <linux/perf_event.h>
#include <perf/event.h>
#include <stddef.h>
#include <string.h>

#include "common/bytes.h"

/* The others of feature.h's numbers. */
enum {
	FEATURE_HOSTNAME = 3,
	FEATURE_OSRELEASE = 4,
	FEATURE_VERSION = 5,
	FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7,
	FEATURE_CPUDESC = 8,
	FEATURE_CPUID = 9,
	FEATURE_TOTAL_MEM = 10,
	FEATURE_CMDLINE = 11,
	FEATURE_PMU_MAPPINGS = 16,
	FEATURE_AUXTRACE = 18,
	FEATURE_SAMPLE_TIME = 21,
	FEATURE_CLOCKID = 23,
	FEATURE_DIR_FORMAT = 24,
	FEATURE_BPF_PROG_INFO = 25,
	FEATURE_COMPRESSED = 27,
	FEATURE_CLOCK_DATA = 29,
	FEATURE_NEWEST = 31, /* PMU_CAPS */
};

enum { COMPRESSION_ZSTD = 1 };

/* { u32 length; char text[length], zero-padded }. NULL: b->failed, or memory is short with
 * *err set. */
static const char *string_take(struct perfdata *p, struct bytes *b, enum err *err)
{
	uint32_t length = bytes_u32(b);

	if (length > PERFDATA_STRING_MAX)
		b->failed = true;
	const uint8_t *text = b->failed ? NULL : bytes_take(b, length);
	if (!text)
		return NULL;
	if (memchr(text, 0, length))
		return (const char *)text;
	const char *copy = arena_copy_string(&p->arena, (const char *)text, length);
	if (!copy)
		*err = ERR_NOMEM;
	return copy;
}

static enum err read_string(struct perfdata *p, struct bytes *b, const char **out)
{
	enum err err = ERR_NONE;
	const char *text = string_take(p, b, &err);

	if (text && **out == '\0')
		*out = text;
	return err;
}

static enum err read_command_line(struct perfdata *p, struct bytes *b)
{
	bool is_first = p->info.command_line.count == 0;
	uint32_t count = bytes_u32(b);
	enum err err = ERR_NONE;

	if (count > PERFDATA_LIST_MAX)
		b->failed = true;
	for (uint32_t i = 0; i < count && !b->failed && is_first; i++) {
		const char *text = string_take(p, b, &err);

		if (text && !vec_push(&p->info.command_line, text))
			err = ERR_NOMEM;
		if (err != ERR_NONE)
			return err;
	}
	return ERR_NONE;
}

static enum err read_pmus(struct perfdata *p, struct bytes *b)
{
	bool is_first = p->info.pmus.count == 0;
	uint32_t count = bytes_u32(b);
	enum err err = ERR_NONE;

	if (count > PERFDATA_PMUS_MAX)
		b->failed = true;
	for (uint32_t i = 0; i < count && !b->failed && is_first; i++) {
		struct perfdata_pmu pmu = {.type = bytes_u32(b), .name = string_take(p, b, &err)};

		if (pmu.name && !vec_push(&p->info.pmus, pmu))
			err = ERR_NOMEM;
		if (err != ERR_NONE)
			return err;
	}
	return ERR_NONE;
}

static enum err read_build_ids(struct perfdata *p, struct bytes *b)
{
	enum { HEADER = sizeof(struct perf_event_header) };

	while (bytes_left(b) >= HEADER) {
		struct record r = {.type = RECORD_HEADER_BUILD_ID, .data = b->p};
		struct record_build_id build_id;

		/* header.type is not set in the section */
		r.misc = (uint16_t)load_le(b->p + 4, 2);
		r.bytes = (size_t)load_le(b->p + 6, 2);
		if (r.bytes < HEADER || !bytes_take(b, r.bytes)) {
			b->failed = true;
			break;
		}
		record_parse_id(&r, NULL);
		if (!record_build_id(&r, &build_id))
			b->failed = true;
		else if (!vec_push(&p->info.build_ids, build_id))
			return ERR_NOMEM;
	}
	return ERR_NONE;
}

enum err feature_set_event_name(struct perfdata *p, uint32_t event, const char *name, size_t length)
{
	const char *copy = arena_copy_string(&p->arena, name, strnlen(name, length));

	if (!copy)
		return ERR_NOMEM;
	p->events.items[event].name = copy;
	return ERR_NONE;
}

/* Takes only the names: attrs and ids stand in the attrs section too. An event is known by
 * its first id, or, if it has none, by its place. */
static enum err read_event_desc(struct perfdata *p, uint32_t file, struct bytes *b)
{
	const struct perfdata_file *f = &p->files.items[file];
	uint32_t count = bytes_u32(b), attr_bytes = bytes_u32(b);
	enum err err = ERR_NONE;

	if (count > PERFDATA_EVENTS_MAX)
		b->failed = true;
	for (uint32_t i = 0; i < count && !b->failed; i++) {
		bytes_take(b, attr_bytes);
		uint32_t id_count = bytes_u32(b);
		const char *name = string_take(p, b, &err);

		if (err != ERR_NONE)
			return err;
		int64_t event = i < f->event_count ? (int64_t)f->first_event + i : -1;
		if (id_count > 0 && bytes_left(b) >= 8) {
			uint32_t known = map64_get(&f->events_by_id, load_le(b->p, 8));

			if (known != MAP64_NONE)
				event = known;
		}
		if (id_count > bytes_left(b) / 8)
			b->failed = true;
		else
			bytes_take(b, (size_t)id_count * 8);
		if (event >= 0 && name)
			p->events.items[event].name = name;
	}
	return ERR_NONE;
}

static enum err read_aux_index(struct perfdata *p, uint32_t file, struct bytes *b)
{
	uint64_t count = bytes_u64(b);

	if (count > bytes_left(b) / 16)
		b->failed = true;
	for (uint64_t i = 0; i < count && !b->failed; i++) {
		struct perfdata_aux_index entry = {.file = file};

		entry.file_off = bytes_u64(b);
		entry.bytes = bytes_u64(b);
		if (!vec_push(&p->info.aux_index, entry))
			return ERR_NOMEM;
	}
	return ERR_NONE;
}

/* An array of a BPF program: its pointer member holds an offset into `data`. */
static const uint8_t *bpf_array(const uint8_t *data, size_t bytes, uint64_t offset, uint64_t count,
				size_t item_bytes)
{
	if (count == 0 || offset > bytes || count > (bytes - offset) / item_bytes)
		return NULL;
	return data + offset;
}

static enum err read_bpf_program(struct perfdata *p, struct bytes *b)
{
	uint32_t info_bytes = bytes_u32(b), data_bytes = bytes_u32(b);
	uint64_t arrays = bytes_u64(b);
	const uint8_t *raw = bytes_take(b, info_bytes);
	const uint8_t *data = bytes_take(b, data_bytes);
	struct bpf_prog_info info = {0};
	struct perfdata_bpf_program program = {0};

	if (b->failed)
		return ERR_NONE;
	memcpy(&info, raw, info_bytes < sizeof info ? info_bytes : sizeof info);
	/* bits of `arrays`: perf's bpf-utils.h */
	enum { JITED_CODE = 0, JITED_KSYMS = 3, JITED_LENGTHS = 4 };
	program.id = info.id;
	memcpy(program.tag, info.tag, sizeof program.tag);
	program.name =
		arena_copy_string(&p->arena, info.name, strnlen(info.name, sizeof info.name));
	if (!program.name)
		return ERR_NOMEM;
	if (arrays >> JITED_CODE & 1) {
		program.code =
			bpf_array(data, data_bytes, info.jited_prog_insns, info.jited_prog_len, 1);
		program.code_bytes = program.code ? info.jited_prog_len : 0;
	}
	if (arrays >> JITED_KSYMS & 1)
		program.addresses =
			bpf_array(data, data_bytes, info.jited_ksyms, info.nr_jited_ksyms, 8);
	if (arrays >> JITED_LENGTHS & 1 && info.nr_jited_func_lens == info.nr_jited_ksyms)
		program.lengths = bpf_array(data, data_bytes, info.jited_func_lens,
					    info.nr_jited_func_lens, 4);
	program.function_count = program.addresses ? info.nr_jited_ksyms : 0;
	return vec_push(&p->info.bpf_programs, program) ? ERR_NONE : ERR_NOMEM;
}

static enum err read_bpf_programs(struct perfdata *p, struct bytes *b)
{
	uint32_t count = bytes_u32(b);
	enum err err = ERR_NONE;

	for (uint32_t i = 0; i < count && !b->failed && err == ERR_NONE; i++)
		err = read_bpf_program(p, b);
	return err;
}

/* Features of fixed size: no memory needed. */
static void read_numbers(struct perfdata_info *info, uint64_t feature, struct bytes *b)
{
	switch (feature) {
	case FEATURE_NRCPUS:
		info->cpus_available = bytes_u32(b);
		info->cpus_online = bytes_u32(b);
		break;
	case FEATURE_TOTAL_MEM: info->total_memory_kb = bytes_u64(b); break;
	case FEATURE_SAMPLE_TIME: {
		uint64_t first = bytes_u64(b), last = bytes_u64(b);

		/* over a series: the hull */
		if (info->last_sample_ns == 0 || first < info->first_sample_ns)
			info->first_sample_ns = first;
		if (last > info->last_sample_ns)
			info->last_sample_ns = last;
		break;
	}
	case FEATURE_CLOCKID: info->clockid_resolution_ns = bytes_u64(b); break;
	case FEATURE_DIR_FORMAT: info->directory_version = bytes_u64(b); break;
	case FEATURE_COMPRESSED: {
		bytes_u32(b); /* version */
		uint32_t type = bytes_u32(b);

		info->compression_level = bytes_u32(b);
		if (type != COMPRESSION_ZSTD)
			b->failed = true;
		break;
	}
	case FEATURE_CLOCK_DATA:
		bytes_u32(b); /* version */
		info->clockid = bytes_u32(b);
		info->wall_clock_ns = bytes_u64(b);
		info->clockid_ns = bytes_u64(b);
		break;
	default: break;
	}
}

enum err feature_read(struct perfdata *p, uint32_t file, uint64_t feature, const uint8_t *data,
		      size_t bytes)
{
	struct perfdata_info *info = &p->info;
	struct bytes b = bytes_of(data, bytes);
	enum err err = ERR_NONE;

	if (feature >= FEATURE_COUNT_MAX) {
		info->unknown_features++;
		return ERR_NONE;
	}
	info->features[feature / 64] |= (uint64_t)1 << feature % 64;
	switch (feature) {
	case FEATURE_TRACING_DATA:
		if (!info->tracing_data && bytes > 0) {
			info->tracing_data = data;
			info->tracing_data_bytes = bytes;
		}
		break;
	case FEATURE_BUILD_ID: err = read_build_ids(p, &b); break;
	case FEATURE_HOSTNAME: err = read_string(p, &b, &info->hostname); break;
	case FEATURE_OSRELEASE: err = read_string(p, &b, &info->os_release); break;
	case FEATURE_VERSION: err = read_string(p, &b, &info->perf_version); break;
	case FEATURE_ARCH: err = read_string(p, &b, &info->arch); break;
	case FEATURE_CPUDESC: err = read_string(p, &b, &info->cpu_description); break;
	case FEATURE_CPUID: err = read_string(p, &b, &info->cpuid); break;
	case FEATURE_CMDLINE: err = read_command_line(p, &b); break;
	case FEATURE_EVENT_DESC: err = read_event_desc(p, file, &b); break;
	case FEATURE_PMU_MAPPINGS: err = read_pmus(p, &b); break;
	case FEATURE_AUXTRACE: err = read_aux_index(p, file, &b); break;
	case FEATURE_BPF_PROG_INFO: err = read_bpf_programs(p, &b); break;
	default:
		if (feature > FEATURE_NEWEST)
			info->unknown_features++;
		else
			read_numbers(info, feature, &b);
		break;
	}
	if (b.failed)
		info->damaged_features++;
	return err;
}
