/* perf.data records as plain data: types, names, the sample-id trailer, samples, and the
 * body of every record that sideband needs.
 *
 * A record is a view: all pointers lead into the mapped file or into decompressed memory
 * and live as long as the struct perfdata they came from. The record_*() readers check
 * every bound; they return false (and leave *out undefined) when the record is of another
 * type or too short for what it claims.
 *
 * Sources: linux/perf_event.h (enum perf_event_type), perf/event.h of libperf,
 * tools/perf/Documentation/perf.data-file-format.txt. */
#ifndef DECODE_RECORD_H
#define DECODE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/build_id.h"

enum record_type {
	RECORD_MMAP = 1,
	RECORD_LOST = 2,
	RECORD_COMM = 3,
	RECORD_EXIT = 4,
	RECORD_THROTTLE = 5,
	RECORD_UNTHROTTLE = 6,
	RECORD_FORK = 7,
	RECORD_READ = 8,
	RECORD_SAMPLE = 9,
	RECORD_MMAP2 = 10,
	RECORD_AUX = 11,
	RECORD_ITRACE_START = 12,
	RECORD_LOST_SAMPLES = 13,
	RECORD_SWITCH = 14,
	RECORD_SWITCH_CPU_WIDE = 15,
	RECORD_NAMESPACES = 16,
	RECORD_KSYMBOL = 17,
	RECORD_BPF_EVENT = 18,
	RECORD_CGROUP = 19,
	RECORD_TEXT_POKE = 20,
	RECORD_AUX_OUTPUT_HW_ID = 21,
	RECORD_CALLCHAIN_DEFERRED = 22,
	/* from here on written by perf, not by the kernel: no sample-id trailer */
	RECORD_USER_FIRST = 64,
	RECORD_HEADER_ATTR = 64,
	RECORD_HEADER_EVENT_TYPE = 65,
	RECORD_HEADER_TRACING_DATA = 66,
	RECORD_HEADER_BUILD_ID = 67,
	RECORD_FINISHED_ROUND = 68,
	RECORD_ID_INDEX = 69,
	RECORD_AUXTRACE_INFO = 70,
	RECORD_AUXTRACE = 71,
	RECORD_AUXTRACE_ERROR = 72,
	RECORD_THREAD_MAP = 73,
	RECORD_CPU_MAP = 74,
	RECORD_STAT_CONFIG = 75,
	RECORD_STAT = 76,
	RECORD_STAT_ROUND = 77,
	RECORD_EVENT_UPDATE = 78,
	RECORD_TIME_CONV = 79,
	RECORD_HEADER_FEATURE = 80,
	RECORD_COMPRESSED = 81,
	RECORD_FINISHED_INIT = 82,
	RECORD_COMPRESSED2 = 83,
	RECORD_BPF_METADATA = 84,
	RECORD_SCHEDSTAT_CPU = 85,
	RECORD_SCHEDSTAT_DOMAIN = 86,
};

/* "MMAP2"; NULL for types newer than this list. */
const char *record_type_name(uint32_t type);

/* record.misc */
enum {
	RECORD_MISC_CPUMODE = 7,         /* 1 kernel, 2 user, 3 hypervisor, 4/5 guest kernel/user */
	RECORD_MISC_MMAP_DATA = 1 << 13, /* MMAP*: not executable */
	RECORD_MISC_COMM_EXEC = 1 << 13, /* COMM */
	RECORD_MISC_FORK_EXEC = 1 << 13, /* FORK, synthesized only */
	RECORD_MISC_SWITCH_OUT = 1 << 13,     /* SWITCH* */
	RECORD_MISC_EXACT_IP = 1 << 14,       /* SAMPLE */
	RECORD_MISC_SWITCH_PREEMPT = 1 << 14, /* SWITCH*: switched out while runnable */
	RECORD_MISC_MMAP_BUILD_ID = 1 << 14,  /* MMAP2 */
};

/* One event of the recording (perf_event_attr). Missing fields of old files are 0. */
struct perfdata_event {
	uint32_t type; /* PMU type, see perfdata_pmu_name() */
	uint64_t config, config1, config2;
	uint64_t sample_period; /* or frequency with `is_frequency` */
	uint64_t sample_type, read_format, branch_sample_type; /* PERF_SAMPLE_*, PERF_FORMAT_* */
	uint64_t regs_user_mask, regs_intr_mask;
	uint32_t aux_sample_bytes;
	int32_t clockid;
	bool sample_id_all, exclude_user, exclude_kernel, exclude_hv, is_frequency;
	bool context_switch, write_backward, use_clockid, aux_output, text_poke, comm_exec, inherit;
	const char *name; /* "intel_pt//u"; never NULL, empty when the file has none */
	const uint64_t *ids;
	size_t id_count;
};

/* Who, when and where, as far as known. */
struct sample_id {
	uint32_t has; /* SAMPLE_ID_*: which members are valid */
	int32_t pid, tid;
	int32_t cpu;
	uint64_t time; /* perf clock, ns */
	uint64_t id, stream_id;
};

enum {
	SAMPLE_ID_TID = 1, /* pid and tid */
	SAMPLE_ID_TIME = 2,
	SAMPLE_ID_CPU = 4,
	SAMPLE_ID_ID = 8,
	SAMPLE_ID_STREAM = 16,
};

struct record {
	uint32_t type; /* enum record_type, or a newer one */
	uint16_t misc;
	uint32_t file;       /* index of perfdata.files */
	uint64_t file_off;   /* of the record, or of the COMPRESSED record it came out of */
	const uint8_t *data; /* with the 8-byte header */
	size_t bytes;
	const uint8_t *body; /* behind the header, without the sample-id trailer */
	size_t body_bytes;
	const uint8_t *payload; /* AUXTRACE, TRACING_DATA: what follows the record; else NULL */
	size_t payload_bytes;
	int32_t event;       /* index of perfdata.events; -1 = none or unknown id */
	struct sample_id id; /* of samples too; has = 0 for perf's own records */
};

/* A PERF_RECORD_SAMPLE in full. Absent parts are 0/NULL, `type` (PERF_SAMPLE_*) says which
 * are present. Arrays may be unaligned: read them with load_le(p, 8). */
struct sample {
	uint64_t type;
	struct sample_id id;
	uint64_t ip, addr, period;
	uint64_t weight, data_src, transaction, phys_addr, cgroup, data_page_size, code_page_size;
	struct {
		uint64_t time_enabled, time_running;
		uint64_t value, id, lost; /* of the counter; unused with PERF_FORMAT_GROUP */
		const uint8_t
			*values; /* of a group: count x value_bytes: u64 value[, id][, lost] */
		uint64_t count;
		size_t value_bytes;
	} read;
	const uint8_t
		*callchain; /* callchain_count x u64, innermost first, PERF_CONTEXT_* inside */
	uint64_t callchain_count;
	const uint8_t *raw; /* tracepoint fields */
	uint32_t raw_bytes;
	const uint8_t *branches; /* branch_count x {u64 from, to, flags}, newest first */
	uint64_t branch_count, branch_hw_index;
	uint64_t regs_user_abi, regs_intr_abi; /* PERF_SAMPLE_REGS_ABI_* */
	const uint8_t *regs_user, *regs_intr;  /* one u64 per mask bit, low bit first */
	const uint8_t *stack;                  /* user stack from the stack pointer on */
	uint64_t stack_bytes;                  /* really copied by the kernel */
	const uint8_t *aux;                    /* AUX area sample: PT bytes */
	uint64_t aux_bytes;
};

/* event must be that of r->event. */
bool record_sample(const struct record *r, const struct perfdata_event *event, struct sample *out);

/* Body and sample id of the record r->data, r->bytes, with r->type and r->event set. A
 * sample too short for its id keeps has = 0. (perfdata_walk() has done this.) */
void record_parse_id(struct record *r, const struct perfdata_event *event);

/* An attr as it stands in the file; false when bytes cannot be one. Name and ids stay. */
bool record_parse_attr(const uint8_t *attr, size_t bytes, struct perfdata_event *out);

/* MMAP and MMAP2 alike. */
struct record_mmap {
	int32_t pid, tid; /* pid -1: the kernel or a module */
	uint64_t start, length, file_off;
	uint32_t prot, flags; /* PROT_*, MAP_*; MMAP: prot is guessed from misc */
	uint32_t device_major, device_minor;
	uint64_t inode, inode_generation; /* all four 0 with a build id, or from MMAP */
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_bytes; /* 0 = none */
	const char *path;
};
bool record_mmap(const struct record *r, struct record_mmap *out);

struct record_comm {
	int32_t pid, tid;
	const char *comm;
	bool exec;
};
bool record_comm(const struct record *r, struct record_comm *out);

/* FORK and EXIT. */
struct record_task {
	int32_t pid, parent_pid, tid, parent_tid;
	uint64_t time;
};
bool record_task(const struct record *r, struct record_task *out);

/* SWITCH and SWITCH_CPU_WIDE. The thread meant by `in`/out is that of the sample id. */
struct record_switch {
	bool in, preempted;
	bool has_other;
	int32_t other_pid, other_tid; /* in: who ran before; out: who runs next */
};
bool record_switch(const struct record *r, struct record_switch *out);

struct record_itrace_start {
	int32_t pid, tid;
};
bool record_itrace_start(const struct record *r, struct record_itrace_start *out);

enum {
	AUX_FLAG_TRUNCATED = 1,
	AUX_FLAG_OVERWRITE = 2, /* snapshot mode */
	AUX_FLAG_PARTIAL = 4,
	AUX_FLAG_COLLISION = 8,
};
struct record_aux {
	uint64_t offset, bytes, flags;
};
bool record_aux(const struct record *r, struct record_aux *out);

/* LOST and LOST_SAMPLES (id 0). */
struct record_lost {
	uint64_t id, count;
};
bool record_lost(const struct record *r, struct record_lost *out);

struct record_ksymbol {
	uint64_t address;
	uint32_t bytes;
	uint16_t kind, flags; /* PERF_RECORD_KSYMBOL_TYPE_*; flags & 1 = unregistered */
	const char *name;
};
bool record_ksymbol(const struct record *r, struct record_ksymbol *out);

struct record_bpf {
	uint16_t kind, flags; /* PERF_BPF_EVENT_* */
	uint32_t id;
	uint8_t tag[8];
};
bool record_bpf(const struct record *r, struct record_bpf *out);

struct record_text_poke {
	uint64_t address;
	const uint8_t *old_code, *new_code;
	uint16_t old_bytes, new_bytes;
};
bool record_text_poke(const struct record *r, struct record_text_poke *out);

struct record_namespaces {
	int32_t pid, tid;
	uint64_t count;
	const uint8_t *links; /* count x {u64 dev, ino} */
};
bool record_namespaces(const struct record *r, struct record_namespaces *out);

struct record_cgroup {
	uint64_t id;
	const char *path;
};
bool record_cgroup(const struct record *r, struct record_cgroup *out);

/* THROTTLE and UNTHROTTLE. */
struct record_throttle {
	uint64_t time, id, stream_id;
};
bool record_throttle(const struct record *r, struct record_throttle *out);

struct record_aux_output_hw_id {
	uint64_t hw_id;
};
bool record_aux_output_hw_id(const struct record *r, struct record_aux_output_hw_id *out);

enum { AUXTRACE_INTEL_PT = 1 };
struct record_auxtrace_info {
	uint32_t kind;       /* AUXTRACE_* */
	const uint8_t *priv; /* priv_count x u64; what follows them (filter string) included */
	size_t priv_count;
};
bool record_auxtrace_info(const struct record *r, struct record_auxtrace_info *out);

/* The trace bytes are r->payload. */
struct record_auxtrace {
	uint64_t bytes, offset, reference;
	uint32_t index;
	int32_t tid, cpu;
};
bool record_auxtrace(const struct record *r, struct record_auxtrace *out);

struct record_auxtrace_error {
	uint32_t kind, code;
	int32_t cpu, pid, tid;
	uint64_t ip, time; /* time 0 = the old format without it */
	const char *text;
	size_t text_bytes;
};
bool record_auxtrace_error(const struct record *r, struct record_auxtrace_error *out);

struct record_time_conv {
	uint64_t time_shift, time_mult, time_zero;
	uint64_t time_cycles, time_mask;
	bool has_zero, is_short; /* has_zero: time_zero is usable */
};
bool record_time_conv(const struct record *r, struct record_time_conv *out);

struct record_id_index {
	uint64_t count;
	const uint8_t *entries; /* count x {u64 id, idx, cpu, tid} */
};
bool record_id_index(const struct record *r, struct record_id_index *out);

struct record_thread_map {
	uint64_t count;
	const uint8_t *entries; /* count x {u64 pid, char comm[16]} */
};
bool record_thread_map(const struct record *r, struct record_thread_map *out);

/* HEADER_BUILD_ID, and the entries of the build-id feature. */
struct record_build_id {
	int32_t pid; /* -1 = host */
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_bytes;
	uint16_t misc; /* CPUMODE tells kernel from user files */
	const char *path;
};
bool record_build_id(const struct record *r, struct record_build_id *out);

#endif
