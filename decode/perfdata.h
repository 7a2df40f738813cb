/* The perf.data container: opens what `perf record` writes and walks its records.
 *
 *     struct perfdata file;
 *     err = perfdata_open(&file, paths, count, error);
 *     ... file.info, file.events ...
 *     err = perfdata_walk(&file, visit, context, error);
 *     perfdata_done(&file);
 *
 * A path is a file, a directory (`perf record --threads`), a pipe-mode file, or "-" for
 * standard input; several paths are a --switch-output series in its order. Files are
 * mapped, not read. Everything in a perfdata, and every pointer in the records it gave,
 * lives until perfdata_done().
 *
 * Damage (a truncated end, an impossible record header, a broken compressed stream) stands in
 * file.damage: during the walk what has been met so far. Behind an impossible one the walk goes
 * on at the next place where records follow each other. Records of unknown type are visited like all others. Other endianness and PERFFILE version 1 are
 * refused with ERR_UNSUPPORTED.
 *
 * Source: Linux tools/perf/Documentation/perf.data-file-format.txt and
 * perf.data-directory-format.txt. */
#ifndef DECODE_PERFDATA_H
#define DECODE_PERFDATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/error.h"
#include "common/file_map.h"
#include "common/map64.h"
#include "common/vec.h"
#include "decode/record.h"

/* Ceilings for what a file may claim. */
#define PERFDATA_FILES_MAX  65536u
#define PERFDATA_EVENTS_MAX 65536u
#define PERFDATA_IDS_MAX    (1u << 22) /* per file, as events */
#define PERFDATA_STRING_MAX (1u << 20)
#define PERFDATA_LIST_MAX   (1u << 20)
#define PERFDATA_PMUS_MAX   4096u
/* Decompressed bytes that are kept: in all, and per compressed byte beyond the first 64 MiB. */
#define PERFDATA_DECOMPRESSED_MAX  ((uint64_t)8 << 30)
#define PERFDATA_DECOMPRESSED_FREE ((uint64_t)64 << 20)
#define PERFDATA_RATIO_MAX         64u

/* A BPF program of the BPF_PROG_INFO feature. Its code is one blob that the functions
 * (ksyms, jited lengths) share in order. */
struct perfdata_bpf_program {
	uint32_t id;
	uint32_t function_count;
	const char *name; /* at most 15 bytes; "" = none */
	uint8_t tag[8];
	const uint8_t *code; /* jited x86 code, NULL = not recorded */
	uint32_t code_bytes;
	const uint8_t *addresses; /* function_count x u64, run-time start of each */
	const uint8_t *lengths;   /* function_count x u32; NULL: one function, all of code */
};

struct perfdata_pmu {
	uint32_t type;
	const char *name;
};

/* One entry of the AUXTRACE index: where an AUXTRACE record stands. */
struct perfdata_aux_index {
	uint64_t file_off, bytes;
	uint32_t file;
};

/* Header features. Strings are "" and numbers 0 when absent. With several files: of the
 * first that has it; build ids, BPF programs and AUX index are those of all files. */
struct perfdata_info {
	const char *hostname, *os_release, *perf_version, *arch, *cpu_description, *cpuid;
	uint32_t cpus_available, cpus_online;
	uint64_t total_memory_kb;
	VEC(const char *) command_line;
	VEC(struct record_build_id) build_ids;
	VEC(struct perfdata_pmu) pmus;
	VEC(struct perfdata_bpf_program) bpf_programs;
	VEC(struct perfdata_aux_index) aux_index;
	const uint8_t *tracing_data; /* for tracepoint.h; NULL = none */
	size_t tracing_data_bytes;
	uint64_t first_sample_ns, last_sample_ns; /* 0, 0 = unknown */
	uint64_t clockid_resolution_ns;
	uint32_t clockid;                   /* CLOCK_DATA: these three belong together */
	uint64_t clockid_ns, wall_clock_ns; /* the same moment; 0, 0 = absent */
	uint32_t compression_level;         /* 0 = no COMPRESSED feature */
	uint64_t directory_version;
	uint64_t features[4];      /* bits of all features that are present */
	uint32_t unknown_features; /* of them newer than ours */
	uint32_t damaged_features; /* whose content contradicts itself; skipped */
};

struct perfdata_file {
	const char *path;
	struct file_map map;
	uint64_t data_start, data_end; /* where its records stand */
	uint64_t missing_bytes;        /* of records or features by the header's word, but beyond the end */
	bool is_pipe;                  /* self-describing stream */
	bool is_part;                  /* a data.N of a directory: records only */
	bool is_unfinished;            /* the recording did not end properly: no features */
	uint32_t header_file;          /* the file with this one's events: itself unless is_part */
	struct map64 events_by_id;     /* of header files */
	int id_from_start, id_from_end; /* where the id stands, in u64s; -1 = nowhere */
	/* [first_event, + event_count) of perfdata.events; the first is meant by id 0, as
	 * synthesized records have it. Parts: those of their header file. */
	uint32_t first_event, event_count;
	uint64_t id_count;
};

enum perfdata_damage_kind {
	PERFDATA_TRUNCATED,  /* the file ends inside a record */
	PERFDATA_BAD_HEADER, /* a record size or type that cannot be */
	PERFDATA_BAD_STREAM, /* zstd data that cannot be decompressed */
	PERFDATA_ZSTD_LIMIT, /* a PERFDATA_DECOMPRESSED_ ceiling */
};
const char *perfdata_damage_name(enum perfdata_damage_kind kind);

struct perfdata_damage {
	enum perfdata_damage_kind kind;
	uint32_t file;
	uint64_t file_off;
	uint64_t lost_bytes; /* of the file, not visited */
};

struct perfdata {
	struct arena arena;
	struct perfdata_info info;
	VEC(struct perfdata_event) events; /* of all files; each of a series brings its own */
	VEC(struct perfdata_file) files;
	/* of the last walk: */
	VEC(struct perfdata_damage) damage;
	uint64_t record_count, unknown_records, unknown_bytes;
	/* private */
	struct compressed *compressed;
};

MUST_CHECK enum err perfdata_open(struct perfdata *p, const char *const *paths, size_t count,
				  struct error *error);
void perfdata_done(struct perfdata *p);

/* Called for every record in file order: COMPRESSED first, then what it holds. Anything
 * but ERR_NONE stops the walk and is its result. */
typedef enum err perfdata_visit(void *context, const struct record *r, struct error *error);
MUST_CHECK enum err perfdata_walk(struct perfdata *p, perfdata_visit *visit, void *context,
				  struct error *error);

/* The event of a sample id (ID_INDEX, LOST ...) in that file, or -1. */
int32_t perfdata_event_of_id(const struct perfdata *p, uint32_t file, uint64_t id);
/* "intel_pt" for a PMU type by the file's PMU_MAPPINGS; NULL = not listed. */
const char *perfdata_pmu_name(const struct perfdata *p, uint32_t type);

#endif
