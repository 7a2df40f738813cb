/* A perf.data file in the making: records, AUX data, header and features.
 *
 * Layouts are those of linux/perf_event.h and of tools/perf/Documentation/
 * perf.data-file-format.txt. Records gather per ring buffer (one per CPU, or one per
 * thread) until container_round() drains them, as perf record does. */
#ifndef TESTDATA_CONTAINER_H
#define TESTDATA_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "common/vec.h"
#include "testdata/recording.h"

enum container_switches {
	SWITCHES_NONE,
	SWITCHES_TRACEPOINT, /* sched:sched_switch */
	SWITCHES_OWN,        /* PERF_RECORD_SWITCH of the traced threads */
	SWITCHES_CPU_WIDE,   /* PERF_RECORD_SWITCH_CPU_WIDE */
};

struct container_config {
	bool per_cpu; /* else per thread */
	uint32_t rings;
	bool timeless; /* no TIME in the samples */
	bool snapshot;
	bool attached;    /* perf record -p: no enable_on_exec */
	bool system_wide; /* perf record -a */
	bool kernel;      /* traced, too: intel_pt// instead of intel_pt//u */
	bool compressed;
	uint32_t
		aux_sample_bytes; /* AUX data in samples of the clock event; 0 = AUXTRACE records */
	bool callchains;          /* a cpu-clock event with call chains */
	bool mmap_build_ids, header_build_ids;
	bool no_compression; /* of returns */
	bool mtc, tsc, cyc;
	uint32_t mtc_shift, psb_shift; /* psb period 2^(11 + n) bytes */
	enum container_switches switches;
	const char *filter;  /* as in AUXTRACE_INFO, or NULL */
	const char *command; /* the traced program, for the command line feature */
	const char *symfs;   /* where build ids are read from; NULL: the recorded paths */
};

enum { CONTAINER_RINGS = 64, CONTAINER_EVENTS = 5 };

/* The events that may be in a file; not all are in each. */
enum container_event { EVENT_PT, EVENT_SWITCH, EVENT_SCHED, EVENT_DUMMY, EVENT_CLOCK };

/* Where an AUXTRACE record lies in the file. */
struct aux_place {
	uint64_t at, bytes;
};

struct container {
	struct container_config config;
	enum container_event events[CONTAINER_EVENTS];
	unsigned event_count;
	FILE *file;
	const char *path;
	uint64_t data_at, data_bytes; /* the data section, in the file */
	VEC(uint8_t) rings[CONTAINER_RINGS];
	VEC(struct aux_place) aux_index;
	uint64_t first_ns, last_ns;
	const struct recording *recording;
	void *zstd;
	bool failed;
};

/* When, where and for whom a record was written. */
struct moment {
	uint64_t ns;
	uint32_t ring, cpu;
	int32_t pid, tid;
};

/* Kernel code that is rewritten. */
enum { CONTAINER_POKE_MAX = 32 };
struct container_poke {
	uint64_t ip;
	uint8_t old_code[CONTAINER_POKE_MAX], new_code[CONTAINER_POKE_MAX];
	uint16_t old_bytes, new_bytes;
};

/* The recording and the path must outlive the container. */
MUST_CHECK enum err container_open(struct container *c, const char *path,
				   const struct container_config *config, const struct recording *r,
				   struct error *e);
/* What perf record writes first. threads: the targets (their tids, for per-thread rings). */
void container_start(struct container *c, const int32_t *tids, int32_t pid);
/* After the records with time 0 (straight to the file: what existed before). */
void container_init_done(struct container *c);
void container_comm(struct container *c, const struct moment *m, const char *name, bool exec);
void container_mmap(struct container *c, const struct moment *m, const struct rec_map *map);
/* m is the parent at the fork (perf's PERF_RECORD_FORK), or the thread at its exit. */
void container_fork(struct container *c, const struct moment *m, int32_t pid, int32_t tid);
void container_exit(struct container *c, const struct moment *m, int32_t parent_pid,
		    int32_t parent_tid);
void container_itrace_start(struct container *c, const struct moment *m);
/* other: the thread switched to (out) or from (in). `m` is the one that leaves or comes. */
void container_switch(struct container *c, const struct moment *m, bool out, bool preempt,
		      int32_t other_pid, int32_t other_tid);
/* The tracepoint: m is the thread that leaves. */
void container_sched_switch(struct container *c, const struct moment *m, const char *comm,
			    const char *next_comm, int32_t next_tid);
void container_text_poke(struct container *c, const struct moment *m,
			 const struct container_poke *poke);
/* A sample of the clock event: user ips, the innermost first. */
void container_callchain(struct container *c, const struct moment *m, const uint64_t *ips,
			 uint32_t count);
/* A sample that carries the last bytes of the PT stream. */
void container_aux_sample(struct container *c, const struct moment *m, uint64_t ip,
			  const uint8_t *bytes, size_t count);
void container_aux(struct container *c, const struct moment *m, uint64_t offset, uint64_t bytes,
		   uint64_t flags);
void container_auxtrace(struct container *c, uint32_t ring, int32_t tid, uint64_t offset,
			uint64_t reference, const uint8_t *bytes, size_t count);
/* Drains the rings into the file. */
void container_drain(struct container *c);
void container_round(struct container *c);
/* Completes the file. Frees everything in any case. */
MUST_CHECK enum err container_close(struct container *c, struct error *e);

/* The GNU build id of an ELF file: its length, 0 if there is none. */
size_t build_id_read(const char *path, uint8_t id[20]);

#endif
