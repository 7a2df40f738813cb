/* See container.h. The file around the records:
 *
 *     header (104 bytes) | sample ids | attributes | data | feature table | features */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "testdata/container_private.h"
#include "testdata/sim_clock.h"

enum feature {
	FEATURE_TRACING_DATA = 1,
	FEATURE_BUILD_ID,
	FEATURE_HOSTNAME,
	FEATURE_OSRELEASE,
	FEATURE_VERSION,
	FEATURE_ARCH,
	FEATURE_NRCPUS,
	FEATURE_CPUDESC,
	FEATURE_CPUID,
	FEATURE_TOTAL_MEM,
	FEATURE_CMDLINE,
	FEATURE_EVENT_DESC,
	FEATURE_PMU_MAPPINGS = 16,
	FEATURE_AUXTRACE = 18,
	FEATURE_SAMPLE_TIME = 21,
	FEATURE_COMPRESSED = 27,
	FEATURE_COUNT = 28,
};

enum { HEADER_BYTES = 104, COMPRESSED_MMAP_BYTES = 528384 };

struct section {
	uint64_t offset, bytes;
};

static struct perf_event_attr event_attr(const struct container *c, enum container_event event)
{
	const struct container_config *config = &c->config;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof attr < 128 ? sizeof attr : 128,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_IDENTIFIER |
			       (config->timeless ? 0u : PERF_SAMPLE_TIME) |
			       (config->per_cpu ? PERF_SAMPLE_CPU : 0u),
		.read_format = PERF_FORMAT_ID | 1 << 4, /* PERF_FORMAT_LOST */
		.sample_id_all = 1,
	};

	if (event == EVENT_SWITCH) { /* of the whole CPU, whoever runs */
		attr.context_switch = 1;
		return attr;
	}
	if (event == EVENT_SCHED) {
		attr.type = PERF_TYPE_TRACEPOINT;
		attr.config = SCHED_SWITCH_TYPE;
		attr.sample_type |= PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW;
		return attr;
	}
	attr.inherit = config->per_cpu && !config->system_wide;
	attr.exclude_kernel = attr.exclude_hv = !config->kernel;
	attr.enable_on_exec = !config->attached && !config->system_wide;
	attr.disabled = attr.enable_on_exec || event == EVENT_PT;
	if (event == EVENT_PT) {
		attr.type = CONTAINER_PT_TYPE;
		attr.aux_watermark = 1 << 20;
		attr.config =
			CONFIG_PT | CONFIG_BRANCH | config->psb_shift * CONFIG_PSB_PERIOD |
			(config->tsc ? CONFIG_TSC : 0u) | (config->cyc ? CONFIG_CYC : 0u) |
			(config->no_compression ? CONFIG_NO_RETURN_COMPRESSION : 0u) |
			(config->mtc ? CONFIG_MTC | config->mtc_shift * CONFIG_MTC_PERIOD : 0u);
		return attr;
	}
	if (event == EVENT_CLOCK) {
		attr.config = PERF_COUNT_SW_CPU_CLOCK;
		attr.sample_type |= PERF_SAMPLE_PERIOD;
		if (config->callchains)
			attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
		if (config->aux_sample_bytes)
			attr.sample_type |= PERF_SAMPLE_AUX;
		attr.aux_sample_size = config->aux_sample_bytes;
		attr.disabled = 1;
		return attr;
	}
	attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 1;
	attr.ksymbol = attr.bpf_event = 1;
	attr.text_poke = config->kernel;
	attr.build_id = config->mmap_build_ids;
	attr.context_switch = config->switches == SWITCHES_OWN;
	return attr;
}

static const char *event_name(const struct container *c, enum container_event event)
{
	switch (event) {
	case EVENT_PT: return c->config.kernel ? "intel_pt//" : "intel_pt//u";
	case EVENT_SWITCH: return "dummy:HG";
	case EVENT_SCHED: return "sched:sched_switch";
	case EVENT_CLOCK: return "cpu-clock:u";
	default: return "dummy:u";
	}
}

static bool write64(FILE *f, uint64_t value)
{
	return fwrite(&value, 8, 1, f) == 1;
}

static bool write32(FILE *f, uint32_t value)
{
	return fwrite(&value, 4, 1, f) == 1;
}

/* Length, text, padded to 64 bytes. */
static bool write_string(FILE *f, const char *text)
{
	static const char zeros[64];
	size_t bytes = strlen(text) + 1;
	size_t padded = (bytes + 63) & ~(size_t)63;

	return write32(f, (uint32_t)padded) && fwrite(text, bytes, 1, f) == 1 &&
	       fwrite(zeros, 1, padded - bytes, f) == padded - bytes;
}

static bool write_attr(FILE *f, const struct container *c, enum container_event event)
{
	struct perf_event_attr attr = event_attr(c, event);

	return fwrite(&attr, 1, 128, f) == 128;
}

static bool write_event_desc(FILE *f, const struct container *c)
{
	bool ok = write32(f, c->event_count) && write32(f, 128);

	for (unsigned e = 0; ok && e < c->event_count; e++) {
		ok = write_attr(f, c, c->events[e]) && write32(f, c->config.rings) &&
		     write_string(f, event_name(c, c->events[e]));
		for (uint32_t i = 0; ok && i < c->config.rings; i++)
			ok = write64(f, container_id(c, c->events[e], i));
	}
	return ok;
}

static bool write_pmu_mappings(FILE *f)
{
	static const struct {
		uint32_t type;
		const char *name;
	} pmus[] = {{4, "cpu"},
		    {CONTAINER_PT_TYPE, "intel_pt"},
		    {1, "software"},
		    {2, "tracepoint"},
		    {5, "breakpoint"}};
	bool ok = write32(f, sizeof pmus / sizeof *pmus);

	for (size_t i = 0; ok && i < sizeof pmus / sizeof *pmus; i++)
		ok = write32(f, pmus[i].type) && write_string(f, pmus[i].name);
	return ok;
}

static bool write_cmdline(FILE *f, const struct container *c)
{
	const char *const args[] = {"/usr/bin/perf",
				    "record",
				    "-e",
				    "intel_pt//u",
				    c->config.system_wide ? "-a"
				    : c->config.per_cpu   ? "--inherit"
							  : "--per-thread",
				    c->config.snapshot ? "--snapshot" : "--no-buildid-cache",
				    "--",
				    c->config.command};
	bool ok = write32(f, sizeof args / sizeof *args);

	for (size_t i = 0; ok && i < sizeof args / sizeof *args; i++)
		ok = write_string(f, args[i]);
	return ok;
}

static bool write_aux_index(FILE *f, const struct container *c)
{
	bool ok = write64(f, c->aux_index.count);

	for (size_t i = 0; ok && i < c->aux_index.count; i++)
		ok = write64(f, c->aux_index.items[i].at) &&
		     write64(f, c->aux_index.items[i].bytes);
	return ok;
}

static bool write_build_ids(FILE *f, const struct container *c)
{
	const struct recording *r = c->recording;
	bool ok = true;

	for (size_t i = 0; ok && i < r->maps.count; i++) {
		const char *path = recording_string(r, r->maps.items[i].path);
		char file[4096];
		uint8_t id[24] = {0};
		bool seen = false;

		for (size_t k = 0; k < i; k++)
			seen |= strcmp(recording_string(r, r->maps.items[k].path), path) == 0;
		snprintf(file, sizeof file, "%s%s", c->config.symfs ? c->config.symfs : "", path);
		if (seen || path[0] != '/' || build_id_read(file, id) == 0)
			continue;
		size_t padded = (strlen(path) + 64) & ~(size_t)63;
		struct perf_event_header header = {
			.type = 67,
			.misc = PERF_RECORD_MISC_USER,
			.size = (uint16_t)(sizeof header + 4 + 24 + padded),
		};
		char name[4096 + 64] = "";
		strcpy(name, path);
		id[20] = 20;
		ok = fwrite(&header, sizeof header, 1, f) == 1 && write32(f, UINT32_MAX) &&
		     fwrite(id, 24, 1, f) == 1 && fwrite(name, padded, 1, f) == 1;
	}
	return ok;
}

static bool has_feature(const struct container *c, enum feature feature)
{
	switch (feature) {
	case FEATURE_TRACING_DATA: return c->config.switches == SWITCHES_TRACEPOINT;
	case FEATURE_BUILD_ID: return c->config.header_build_ids;
	case FEATURE_SAMPLE_TIME: return !c->config.timeless;
	case FEATURE_COMPRESSED: return c->config.compressed;
	case FEATURE_PMU_MAPPINGS:
	case FEATURE_AUXTRACE: return true;
	default: return feature >= FEATURE_HOSTNAME && feature <= FEATURE_EVENT_DESC;
	}
}

static bool write_feature(FILE *f, const struct container *c, enum feature feature)
{
	uint32_t cpus = c->config.per_cpu ? c->config.rings : 2;

	switch (feature) {
	case FEATURE_TRACING_DATA: return write_tracing_data(f);
	case FEATURE_BUILD_ID: return write_build_ids(f, c);
	case FEATURE_HOSTNAME: return write_string(f, "testdata");
	case FEATURE_OSRELEASE: return write_string(f, "6.1.0-18-amd64");
	case FEATURE_VERSION: return write_string(f, "6.1.76");
	case FEATURE_ARCH: return write_string(f, "x86_64");
	case FEATURE_NRCPUS: return write32(f, cpus) && write32(f, cpus);
	case FEATURE_CPUDESC: return write_string(f, "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz");
	case FEATURE_CPUID: return write_string(f, "GenuineIntel,6,85,7");
	case FEATURE_TOTAL_MEM: return write64(f, 65612420);
	case FEATURE_CMDLINE: return write_cmdline(f, c);
	case FEATURE_EVENT_DESC: return write_event_desc(f, c);
	case FEATURE_PMU_MAPPINGS: return write_pmu_mappings(f);
	case FEATURE_AUXTRACE: return write_aux_index(f, c);
	case FEATURE_SAMPLE_TIME: return write64(f, c->first_ns) && write64(f, c->last_ns);
	case FEATURE_COMPRESSED:
		return write32(f, 1) && write32(f, 1) && write32(f, 1) && write32(f, 1) &&
		       write32(f, COMPRESSED_MMAP_BYTES);
	default: return false;
	}
}

/* The table of sections stands before the sections, but is known only after them. */
static bool write_features(FILE *f, const struct container *c)
{
	struct section table[FEATURE_COUNT];
	unsigned count = 0;

	for (int i = 0; i < FEATURE_COUNT; i++)
		count += has_feature(c, (enum feature)i);
	off_t table_at = ftello(f);
	bool ok = fseeko(f, table_at + (off_t)(count * sizeof *table), SEEK_SET) == 0;
	count = 0;
	for (int i = 0; ok && i < FEATURE_COUNT; i++) {
		if (!has_feature(c, (enum feature)i))
			continue;
		uint64_t at = (uint64_t)ftello(f);
		ok = write_feature(f, c, (enum feature)i);
		table[count++] = (struct section){at, (uint64_t)ftello(f) - at};
	}
	return ok && fseeko(f, table_at, SEEK_SET) == 0 &&
	       fwrite(table, sizeof *table, count, f) == count;
}

static bool write_header(FILE *f, const struct container *c)
{
	uint64_t ids_at = HEADER_BYTES;
	uint64_t attrs_at = ids_at + 8ull * c->event_count * c->config.rings;
	uint64_t features[4] = {0};

	for (int i = 0; i < FEATURE_COUNT; i++)
		features[0] |= (uint64_t)has_feature(c, (enum feature)i) << i;
	bool ok = fwrite("PERFILE2", 8, 1, f) == 1 && write64(f, HEADER_BYTES) &&
		  write64(f, 128 + sizeof(struct section)) && write64(f, attrs_at) &&
		  write64(f, c->event_count * (128 + sizeof(struct section))) &&
		  write64(f, c->data_at) && write64(f, c->data_bytes) && write64(f, 0) &&
		  write64(f, 0) && fwrite(features, sizeof features, 1, f) == 1;
	for (unsigned e = 0; ok && e < c->event_count; e++)
		for (uint32_t i = 0; ok && i < c->config.rings; i++)
			ok = write64(f, container_id(c, c->events[e], i));
	for (unsigned e = 0; ok && e < c->event_count; e++)
		ok = write_attr(f, c, c->events[e]) &&
		     write64(f, ids_at + 8ull * e * c->config.rings) &&
		     write64(f, 8ull * c->config.rings);
	return ok;
}

enum err container_open(struct container *c, const char *path,
			const struct container_config *config, const struct recording *r,
			struct error *e)
{
	*c = (struct container){.config = *config, .recording = r, .path = path};
	c->events[c->event_count++] = EVENT_PT;
	if (config->switches == SWITCHES_CPU_WIDE)
		c->events[c->event_count++] = EVENT_SWITCH;
	if (config->switches == SWITCHES_TRACEPOINT)
		c->events[c->event_count++] = EVENT_SCHED;
	c->events[c->event_count++] = EVENT_DUMMY;
	if (config->callchains || config->aux_sample_bytes)
		c->events[c->event_count++] = EVENT_CLOCK;
	c->data_at = HEADER_BYTES + 8ull * c->event_count * config->rings +
		     c->event_count * (128 + sizeof(struct section));
	c->file = fopen(path, "wb");
	if (!c->file || fseeko(c->file, (off_t)c->data_at, SEEK_SET) < 0)
		return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	return ERR_NONE;
}

enum err container_close(struct container *c, struct error *e)
{
	enum err result = ERR_NONE;

	if (!c->file)
		return ERR_NONE;
	/* The header tells where everything lies: it is written last. */
	bool ok = !c->failed && write_features(c->file, c) && fseeko(c->file, 0, SEEK_SET) == 0 &&
		  write_header(c->file, c);
	if (fclose(c->file) != 0 || !ok)
		result = error_set(e, ERR_IO, "%s: cannot write", c->path);
	for (int i = 0; i < CONTAINER_RINGS; i++)
		vec_done(&c->rings[i]);
	vec_done(&c->aux_index);
	ZSTD_freeCStream(c->zstd);
	return result;
}

size_t build_id_read(const char *path, uint8_t id[20])
{
	size_t found = 0, count = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (elf && elf_getphdrnum(elf, &count) != 0)
		count = 0;
	for (size_t i = 0; i < count && !found; i++) {
		GElf_Phdr segment;
		GElf_Nhdr note;
		size_t at = 0, name, desc;

		if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_NOTE)
			continue;
		Elf_Data *data = elf_getdata_rawchunk(elf, (int64_t)segment.p_offset,
						      segment.p_filesz, ELF_T_NHDR);
		while (data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0) {
			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			    note.n_descsz == 20 &&
			    memcmp((char *)data->d_buf + name, "GNU", 4) == 0) {
				memcpy(id, (char *)data->d_buf + desc, 20);
				found = 20;
			}
		}
	}
	elf_end(elf);
	close(fd);
	return found;
}
