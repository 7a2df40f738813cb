/* The files that the traced processes use, held open.
 *
 * While the processes live, collector_look() opens every executable file they have mapped,
 * through /proc/PID/map_files (which follows no name, so containers, deleted and memfd
 * files work) or else by the mapped path below /proc/PID/root, step by step without
 * following any symlink. collect_plan.h
 * decides at the end which of them go into the bundle. */
#ifndef CAPTURE_COLLECTOR_H
#define CAPTURE_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/vec.h"

enum { COLLECTOR_OPEN_MAX = 4096, COLLECTOR_PROCESSES_MAX = 1024 };

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
	size_t skipped; /* beyond COLLECTOR_OPEN_MAX, or unreadable */
};

/* The suffix that the kernel gives to the names of deleted files is taken off. */
void collector_strip_deleted(char *path);
/* Whether it is a regular file, and (inode not 0) that one. */
bool collector_is_regular(int fd, uint64_t inode);

/* Looks at a process and its descendants now. Cheap when nothing changed. Never fails: what
 * cannot be had is reported as missing in the bundle. */
void collector_look(struct collector *collector, pid_t pid);

void collector_done(struct collector *collector);

#endif
