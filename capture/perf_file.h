/* What a bundle must know of a perf.data: which files were mapped, which processes there
 * were, and whether there is any trace in it. Not a decoder: decode/ reads all the rest.
 *
 * Reads the file format of tools/perf/Documentation/perf.data-file-format.txt: plain files,
 * pipe-mode files, and directories (the file "data" in them). A file that perf did not finish
 * (data size 0) is read to its end. Compressed records are inflated. */
#ifndef CAPTURE_PERF_FILE_H
#define CAPTURE_PERF_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/build_id.h"
#include "common/error.h"
#include "common/vec.h"

enum { PERF_FILE_MAPPINGS_MAX = 1 << 16, PERF_FILE_PROCESSES_MAX = 1 << 16 };

struct perf_mapping { /* one executable file; each (path, build id) once */
	const char *path;
	struct build_id build_id; /* length 0 = not recorded */
};

struct perf_process {
	uint32_t pid;
	const char *comm; /* the first one after its exec, else the first */
};

struct perf_summary {
	struct arena arena;
	VEC(struct perf_mapping) mappings;
	VEC(struct perf_process) processes;
	uint64_t aux_bytes, aux_chunks;
	uint64_t lost_aux;  /* PERF_RECORD_AUX with a truncated flag */
	bool unreadable;    /* compressed records that cannot be inflated to the end */
	bool unfinished;    /* perf did not get to write the header */
	bool kernel_mapped; /* kernel maps are recorded */
};

MUST_CHECK enum err perf_file_summarize(const char *path, struct perf_summary *summary,
					struct error *error);
void perf_summary_done(struct perf_summary *summary);

/* Overwrites, in place, the names in COMM, MMAP and KSYMBOL records and in the header's
 * build-id, host and command-line features by what rename() makes of them: it gets a NUL-terminated
 * name in a buffer of `room` bytes (room - 1 usable) and changes it there. */
typedef void perf_rename(void *context, char *name, size_t room);
MUST_CHECK enum err perf_file_rename(const char *path, perf_rename *rename, void *context,
				     struct error *error);

#endif
