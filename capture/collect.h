/* Gathers what a bundle holds besides perf.data.
 *
 * While the processes live, collector_look() opens every executable file they have mapped,
 * through /proc/PID/map_files (which follows no name, so containers, deleted and memfd
 * files work) or else by the mapped path below /proc/PID/root, step by step without
 * following any symlink. The open files are copied at the end, when it is known from
 * perf.data what is wanted; build ids decide which file belongs to which mapping. */
#ifndef CAPTURE_COLLECT_H
#define CAPTURE_COLLECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/perf_file.h"
#include "common/bundle.h"
#include "common/error.h"
#include "common/vec.h"

enum { COLLECT_OPEN_MAX = 4096, COLLECT_PROCESSES_MAX = 1024 };

struct held_file {
	char *path; /* as /proc/PID/maps says, without " (deleted)" */
	uint64_t device, inode;
	int fd;
};

struct held_process {
	pid_t pid;
	uint32_t uid;
	char *comm, *cmdline; /* cmdline: arguments joined by blanks */
	int perf_map_fd;      /* -1 = none (yet) */
};

struct collector {
	bool no_binaries;
	VEC(struct held_file) files;
	VEC(struct held_process) processes;
	size_t skipped; /* beyond COLLECT_OPEN_MAX, or unreadable */
};

/* Looks at a process and its descendants now. Cheap when nothing changed. Never fails: what
 * cannot be had is reported as missing in the bundle. */
void collector_look(struct collector *collector, pid_t pid);

struct collect_plan; /* what will be copied */

/* Decides what goes into the bundle; the sizes are then known. */
MUST_CHECK enum err collect_plan_new(const struct collector *collector,
				     const struct perf_summary *summary, bool kernel,
				     struct collect_plan **plan, struct error *error);
uint64_t collect_plan_bytes(const struct collect_plan *plan);
size_t collect_plan_files(const struct collect_plan *plan);
/* Copies all into dir and describes it in the bundle. */
MUST_CHECK enum err collect_plan_copy(struct collect_plan *plan, const char *dir,
				      struct bundle *bundle, struct error *error);
void collect_plan_free(struct collect_plan *plan);

/* Copies a file, or a directory of files (two levels: perf's own), to DIR/NAME. */
MUST_CHECK enum err collect_tree(const char *from, const char *dir, const char *name,
				 struct error *error);

void collector_done(struct collector *collector);

#endif
