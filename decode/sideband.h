/* Sideband: everything perf.data says beside the PT bytes, as plain data in time order.
 *
 *     records -> struct sideband { tasks, address spaces, switches, AUX buffers, losses, events }
 *
 * Built once by sideband_read() from an open perf.data, read-only afterwards, so that any
 * number of threads may look. All times are perf-clock ns (clock.h). Handles index the
 * arrays; 0 is "none/unknown" in every id space and element 0 of tasks and spaces is that.
 *
 * Synthesized records (time 0) come before everything; in files recorded with
 * --tail-synthesize or --overwrite they describe the end and are applied at their place.
 *
 * Sources: Linux tools/perf/Documentation/perf.data-file-format.txt, linux/perf_event.h,
 * perf-intel-pt(1). */
#ifndef DECODE_SIDEBAND_H
#define DECODE_SIDEBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/error.h"
#include "common/intern.h"
#include "common/vec.h"
#include "decode/clock.h"
#include "symbolize/symbolize.h"

struct perfdata; /* decode/perfdata.h: the open file */

typedef struct {
	uint32_t v;
} task_id;

typedef struct {
	uint32_t v;
} space_id;

#define TIME_NONE UINT64_MAX

/* One thread, from its start to its exit; a reused tid is another task. */
struct task {
	int32_t pid, tid;            /* -1 = unknown */
	uint64_t start_ns, end_ns;   /* FORK/EXIT; 0 and TIME_NONE when not recorded */
	task_id forked_from;         /* the thread that made it; 0 = unknown */
	bool is_new_process;         /* fork/vfork rather than a new thread */
	bool exit_seen;
};

/* comm from time_ns on; `exec` marks the barrier of an execve by this thread. */
struct task_name {
	uint64_t time_ns;
	task_id task;
	str_id comm;
	bool exec;
};

/* Executable memory: ips in [start, end) come from file_off on of the module. */
struct mapping {
	uint64_t start, end, file_off;
	uint64_t from_ns;
	module_id module;
	str_id path;
	uint32_t flags; /* MAPPING_* */
};

enum {
	MAPPING_ANONYMOUS = 1, /* no file: JIT code or unknown */
	MAPPING_KERNEL = 2,
	MAPPING_VDSO = 4,
	MAPPING_UPROBES = 8,   /* the [uprobes] page: single-stepped out of line */
};

/* What a process has mapped. Mappings are sorted by start and never overlap. A mapping
 * that replaces (part of) another starts a new space, valid from that time, so within one
 * space an ip means one code byte for ever and decoded code can be cached by (space, ip).
 * Space 1 is the kernel's; user spaces hold user mappings only. */
struct space {
	int32_t pid; /* that made it; after fork the child uses it too until either changes it */
	uint64_t from_ns, until_ns; /* half-open */
	VEC(struct mapping) mappings;
};

/* "From time_ns on, pid runs in this space": sorted by (pid, time). After an exec or a
 * replaced mapping the next entry follows. */
struct space_period {
	int32_t pid;
	uint64_t from_ns;
	space_id space;
};

/* "From time_ns on this CPU runs that task" (task 0: idle, or nothing is known).
 *
 * A switch that no record tells but another record proves (records lost: somebody else
 * writes a record on this CPU, or was the one to be switched out) is `inferred`: it happened
 * within [earliest_ns, latest_ns] and time_ns is the best guess. A recorded one has all three
 * equal. With per-thread switch records (SWITCH) a task's OUT is no entry here, as nobody
 * else's trace can follow on the CPU: it stays until the next comes in. */
struct cpu_switch {
	uint64_t time_ns, earliest_ns, latest_ns;
	int32_t cpu;
	task_id task;
	bool inferred;
};

/* Context switches of one task, sorted by (task, time): in or out, on which CPU (-1 =
 * unknown). in and out alternate on one CPU unless records are lost. */
struct task_switch {
	uint64_t time_ns;
	task_id task;
	int32_t cpu;
	bool in, preempted, inferred;
};

/* Why trace or sideband is missing. Gap records of the decoder use the same list. */
enum loss {
	LOSS_NONE,
	LOSS_OVERFLOW,         /* OVF packet: the hardware dropped packets */
	LOSS_AUX_TRUNCATED,    /* AUX record flag: the ring was full */
	LOSS_AUX_PARTIAL,      /* AUX record flag (guest transitions, collisions) */
	LOSS_AUX_LOST,         /* AUX bytes missing between consecutive chunks */
	LOSS_OVERWRITTEN,      /* outside the interval that a snapshot ring still held */
	LOSS_DATA_LOST,        /* PERF_RECORD_LOST: sideband missing */
	LOSS_BAD_PACKET,       /* undecodable bytes */
	LOSS_MISMATCH,         /* trace and code disagree */
	LOSS_MISSING_CODE,     /* no code bytes at an ip */
	LOSS_BAD_IP,           /* an ip outside every mapping */
	LOSS_INTERNAL_LIMIT,   /* a named ceiling of ours */
	LOSS_COUNT
};
const char *loss_name(enum loss loss); /* "overflow", "aux truncated", ... */

/* A run of stream bytes as they lie in the mapped file (or decompressed memory). */
struct aux_extent {
	uint64_t stream_off; /* position in the buffer's byte stream, ascending, may leave holes */
	const uint8_t *data;
	size_t bytes;
};

/* The stream is not continuous just before stream_off. */
struct aux_cut {
	uint64_t stream_off;
	uint64_t time_ns;    /* of the record that says so; TIME_NONE = unknown */
	uint64_t lost_bytes; /* 0 = unknown */
	uint8_t cause;       /* enum loss; LOSS_NONE = a new snapshot begins */
};

/* What a ring still held. Outside these intervals the CPU or thread ran unseen; also between
 * snapshots whose bytes join, as perf stops tracing while it copies a ring. */
struct aux_interval {
	uint64_t stream_off, stream_end; /* half-open */
	uint64_t from_ns;  /* of its first known time; 0 = nothing was overwritten before it */
	uint64_t until_ns; /* when the snapshot was taken; TIME_NONE = to the end, or unknown */
};

/* One AUX ring: a CPU's, whose task changes by cpu_switches, or a thread's (cpu -1). */
struct aux_buffer {
	uint32_t index; /* AUXTRACE.idx */
	int32_t cpu;
	task_id task; /* AUXTRACE.tid; 0 for most rings of CPUs */
	uint64_t reference_tsc; /* AUXTRACE.reference of the first chunk: extends 56-bit TSCs */
	VEC(struct aux_extent) extents; /* overlap of consecutive snapshots already removed */
	VEC(struct aux_cut) cuts;       /* sorted by stream_off, one at most at each */
	VEC(struct aux_interval) known; /* ascending; one only for a full trace */
	/* [first, last) of this CPU's items in sideband.cpu_switches */
	size_t first_switch, last_switch;
};

/* An extra event (sample of another event, switch tracepoint, signal, mark ...). */
struct instant {
	uint64_t time_ns;
	task_id task;
	int32_t cpu;
	str_id name;
	str_id detail;        /* formatted fields; empty = none */
	uint64_t ip;          /* 0 = none */
	const uint64_t *callchain; /* innermost first, as recorded, with PERF_CONTEXT_* marks */
	uint32_t callchain_count;
};

/* Kernel code changed at run time (TEXT_POKE): from time_ns on `bytes` stand at ip, until then
 * `old_bytes` did. Either may be none: code came or went. */
struct text_poke {
	uint64_t time_ns, ip;
	const uint8_t *bytes, *old_bytes;
	uint32_t count, old_count;
};

/* Lost after the CPU's record of from_ns (0 = its first) and before that of time_ns. */
struct sideband_loss {
	uint64_t from_ns, time_ns;
	uint64_t count; /* of records */
	int32_t cpu;
	task_id task;
	uint8_t cause; /* enum loss */
};

/* What the PT decoder must know of the recording (AUXTRACE_INFO, CPUID feature, attr). */
struct trace_config {
	uint16_t cpu_family;
	uint8_t cpu_model, cpu_stepping;
	bool cpu_is_intel;
	uint32_t tsc_ctc_numerator, tsc_ctc_denominator; /* CPUID.15H EBX, EAX; 0 = unknown */
	uint32_t mtc_period;          /* MTC frequency: 2^mtc_period CTC ticks */
	bool has_tsc, has_mtc, has_cyc;
	bool no_return_compression;   /* DisRETC was set */
	bool no_branches;             /* BranchEn was clear: the trace holds no flow */
	bool user, kernel;            /* what was traced */
	bool per_cpu, snapshot, sample_mode;
	uint32_t max_non_turbo_ratio; /* 0 = unknown */
	str_id filter;                /* address filter string; empty = none */
};

struct sideband_counts {
	uint64_t records, unknown_records, skipped_bytes;
	uint64_t by_type[128]; /* record types up to 127 */
};

struct sideband {
	struct arena arena;
	struct intern names; /* comms, paths, event names */
	struct clock clock;
	struct trace_config config;
	VEC(struct task) tasks;
	VEC(struct task_name) task_names;
	VEC(struct space) spaces;
	VEC(struct space_period) space_periods;
	VEC(struct cpu_switch) cpu_switches;   /* sorted by (cpu, time) */
	VEC(struct task_switch) task_switches; /* sorted by (task, time) */
	VEC(struct aux_buffer) buffers;
	VEC(struct instant) instants;          /* sorted by time */
	VEC(struct text_poke) text_pokes;
	VEC(struct sideband_loss) losses;
	uint64_t first_ns, last_ns; /* of all records with a time; 0, 0 without times */
	struct sideband_counts counts;
	bool has_switches; /* some kind of context-switch record exists */
};

/* Reads the whole file. The symbolizer receives every mapped module. */
MUST_CHECK enum err sideband_read(struct perfdata *file, struct symbolizer *symbolizer,
				  struct sideband *result, struct error *error);
void sideband_done(struct sideband *s);

/* The task that `cpu` runs at time_ns by its switches. */
task_id sideband_task_on_cpu(const struct sideband *s, int32_t cpu, uint64_t time_ns);
/* The space of a process at a time (0 = nothing known of pid). Before its first period: the
 * first, as times of the trace are coarser than those of the records. */
space_id sideband_space_at(const struct sideband *s, int32_t pid, uint64_t time_ns);
/* The period of that answer, or NULL; the next one of the pid, if any, follows it. */
const struct space_period *sideband_space_period(const struct sideband *s, int32_t pid,
						 uint64_t time_ns);
/* The task with that tid that lives at time_ns (the first one if that is before it). */
task_id sideband_task_of_tid(const struct sideband *s, int32_t tid, uint64_t time_ns);
/* Why a task may have run traced code between two times that is not in the trace: LOSS_NONE if
 * all its stays on CPUs then lie in what the rings held; LOSS_OVERWRITTEN; LOSS_DATA_LOST when
 * lost records may hide a stay. For links between runs of a thread (reconstruction). */
enum loss sideband_unseen(const struct sideband *s, task_id task, uint64_t from_ns,
			  uint64_t until_ns);
/* The mapping that holds ip, or NULL. */
const struct mapping *space_find(const struct space *space, uint64_t ip);
/* comm of the task at that time; empty = unknown. */
str_id sideband_comm_at(const struct sideband *s, task_id task, uint64_t time_ns);

#define SPACE_KERNEL ((space_id){1})

static inline bool ip_is_kernel(uint64_t ip)
{
	return ip >> 63;
}

#endif
