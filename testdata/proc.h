/* What /proc tells about a traced process, and copies of what it has mapped. */
#ifndef TESTDATA_PROC_H
#define TESTDATA_PROC_H

#include <stdint.h>
#include <sys/types.h>

#include "testdata/recording.h"

/* Executable mappings of pid; with `only` != 0 just the one that contains it. Each is
 * pushed to r->maps. */
MUST_CHECK enum err proc_maps_read(pid_t pid, uint64_t only, struct recording *r, struct error *e);

/* Copies each mapped file to DIR/its path unless a copy of the same age is there. */
MUST_CHECK enum err proc_maps_copy_files(const struct recording *r, const char *dir,
					 struct error *e);
/* Writes length bytes of pid's memory to a file. */
MUST_CHECK enum err proc_memory_save(pid_t pid, uint64_t start, uint64_t length, const char *path,
				     struct error *e);

/* The thread's name; "?" if it is gone. */
void proc_comm_read(pid_t tid, char *comm, size_t bytes);
bool proc_signal_is_caught(pid_t pid, pid_t tid, int signal);

#endif
