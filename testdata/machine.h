/* The machine that a recording is replayed on: CPUs, a scheduler, a clock, the kernel's
 * side of perf and, per CPU or thread, the PT hardware. Out come a perf.data and the truth.
 *
 * One global clock advances with the recording's one order of events, so whatever
 * happened before something else also has the smaller time. */
#ifndef TESTDATA_MACHINE_H
#define TESTDATA_MACHINE_H

#include "testdata/container.h"
#include "testdata/recording.h"
#include "testdata/tracer.h"

enum fault_kind {
	FAULT_NONE,
	FAULT_OVF,
	FAULT_OVF_PGE,
	FAULT_AUXGAP,
	FAULT_DROP,
	FAULT_DROP_FLAGGED,
	FAULT_CORRUPT,
	FAULT_LOSTSWITCH,
	FAULT_TSCBACK,
};

struct machine_options {
	uint64_t seed;
	uint32_t cpus;      /* per-CPU recording on so many; 0 = per thread */
	uint32_t irq_us;    /* mean time between interrupts of user code; 0 = none */
	bool page_faults;   /* the first instruction on 64 KB of code faults */
	uint64_t aux_bytes; /* the AUX buffer: an AUX record per half of it; 0 = big enough */
	uint32_t snapshots; /* so many snapshots, evenly spread, the last at the end */
	struct fault_options {
		enum fault_kind kind;
		uint32_t count;
		uint64_t low, high; /* ns or bytes, see fault.c */
	} fault;
	const char *no_map; /* NULL, or: files with this in their name get no MMAP2 record */
	uint32_t repeat;    /* replay the recording's main loop so many times; 0 = 1 */
	struct tracer_config tracer;
	struct container_config container; /* rings, per_cpu, snapshot ... are filled in */
};

/* Writes DIR/perf.data and DIR/truth.txt. */
MUST_CHECK enum err machine_run(const struct recording *r, const struct machine_options *options,
				const char *dir, struct error *e);

#endif
