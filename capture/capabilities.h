/* What this machine, this kernel, this perf and this user can do: probed once, then plain data.
 *
 * perf_argv.c and check.c are pure functions of this struct, so every machine can be
 * described in a test. With a system root the files are read below it, the system is not
 * asked by system calls, and the kernel's abilities follow from its version.
 *
 * Sources: Documentation/ABI/testing/sysfs-bus-event_source-devices-*, perf-intel-pt(1),
 * perf_event_open(2), Documentation/admin-guide/perf-security.rst. */
#ifndef CAPTURE_CAPABILITIES_H
#define CAPTURE_CAPABILITIES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct version {
	unsigned major, minor; /* 0.0 = not known */
};

static inline bool version_at_least(struct version v, unsigned major, unsigned minor)
{
	return v.major > major || (v.major == major && v.minor >= minor);
}

struct pt_capabilities {
	bool present;             /* the kernel has an intel_pt PMU */
	int open_errno;           /* why an event cannot be opened by us; 0 = it can or not tried */
	unsigned type;            /* perf_event_attr.type */
	unsigned address_filters; /* how many the CPU has */
	bool psb_cyc, mtc, ptwrite, event_trace;
	uint64_t cycle_thresholds, mtc_periods, psb_periods; /* bit N = value N is supported */
};

struct perf_capabilities {
	char path[PATH_MAX];    /* empty = not found */
	struct version version; /* 0.0 when perf does not tell (wrappers) */
	bool unusable;    /* says neither its version nor its options: a wrapper without a perf */
	bool no_auxtrace; /* built without AUX area tracing */
	bool control;     /* --control (5.9) */
	bool control_snapshot; /* ... and it knows `snapshot` (5.10) */
	bool kcore;            /* --kcore (5.5) */
	bool buildid_mmap;     /* --buildid-mmap (5.12) */
	uint64_t file_caps;    /* capabilities the program file adds */
};

struct capabilities {
	/* CPU */
	bool cpu_intel, cpu_pt, cpu_hypervisor;
	char cpu_model[128];
	unsigned cpu_count; /* online */
	struct pt_capabilities pt;
	/* Kernel */
	struct version kernel;
	char kernel_release[128];
	bool kernel_mmap_build_id; /* perf_event_attr.build_id (5.12) */
	bool kernel_aux_pause;     /* perf_event_attr.aux_pause (6.13) */
	bool perf_events;          /* perf_event_open exists at all */
	int perf_event_paranoid, kptr_restrict;
	uint64_t perf_event_mlock_bytes; /* per CPU */
	bool kcore_readable;
	/* This user */
	bool root;
	uint64_t caps;          /* effective, as in /proc/self/status */
	uint64_t memlock_bytes; /* RLIMIT_MEMLOCK; UINT64_MAX = unlimited */
	int seccomp;            /* 2 = filtered */
	bool container;
	int software_event_errno; /* why even a software event cannot be opened; 0 = it can */
	struct perf_capabilities perf;
};

/* perf_program: path or name of perf; system_root: NULL = this machine. Always succeeds
 * (what is missing is what check reports) except for memory. */
void capabilities_probe(const char *perf_program, const char *system_root,
			struct capabilities *result);

/* From the texts of "perf version --build-options" and "perf record -h". */
void perf_capabilities_parse(const char *version_text, const char *help_text,
			     struct perf_capabilities *perf);

/* Whether perf, run by us, has capability bit `cap` (CAP_PERFMON 38, ...). */
bool capabilities_perf_has(const struct capabilities *c, unsigned cap);
/* May trace user code of its own processes / kernel code. */
bool capabilities_may_trace_user(const struct capabilities *c);
bool capabilities_may_trace_kernel(const struct capabilities *c);
/* Bytes that perf may lock for its buffers in all; UINT64_MAX = any. */
uint64_t capabilities_lockable_bytes(const struct capabilities *c);

/* Whether the kernel lets us trace that process; asked with an event that counts nothing. A
 * perf with capabilities of its own may do more than we: then it is left to perf. */
MUST_CHECK enum err capabilities_may_attach(const struct capabilities *c, int pid,
					    struct error *error);

#endif
