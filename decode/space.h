/* Address spaces while the sideband is built: versions of what each process has mapped.
 *
 *     pid 7   |--- space 2 ---------|--- space 4 -------->     mmap over an old mapping
 *     pid 8               |- space 2 -|--- space 3 ------>     fork, then exec
 *
 * A process points at one open space. New mappings go into it as long as nobody else uses it
 * and they contradict nothing; else the process moves to a new space that starts as a copy.
 * Calls come in time order. */
#ifndef DECODE_SPACE_H
#define DECODE_SPACE_H

#include "common/map64.h"
#include "decode/sideband.h"

/* Executable mappings of one process; the kernel's default limit is 65530 of all kinds. */
#define SPACE_MAPPINGS_MAX (1u << 17)
/* Mappings in all spaces together. Beyond it old versions are overwritten. */
#define SPACE_COPIES_MAX (1u << 22)

struct space_process {
	int32_t pid;
	space_id space;
	bool is_shared; /* another process may use it as well */
};

struct space_table {
	struct sideband *sideband;
	struct map64 by_pid; /* pid -> index of processes */
	VEC(struct space_process) processes;
	uint64_t mapping_count; /* of all spaces */
	uint64_t refused;       /* mappings not kept as they should, for lack of room */
};

/* Makes spaces 0 and 1 (SPACE_KERNEL). */
bool space_table_init(struct space_table *t, struct sideband *sideband);
void space_table_done(struct space_table *t);

/* A MAPPING_KERNEL mapping goes to SPACE_KERNEL, whatever the pid. from_ns is its time. */
bool space_map(struct space_table *t, int32_t pid, const struct mapping *mapping);
bool space_fork(struct space_table *t, int32_t parent_pid, int32_t pid, uint64_t time_ns);
bool space_exec(struct space_table *t, int32_t pid, uint64_t time_ns);
/* Sorts the periods and closes the spaces. */
void space_finish(struct space_table *t);

#endif
