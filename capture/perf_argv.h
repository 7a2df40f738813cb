/* (options, capabilities) -> the argument vector of perf record. Pure. */
#ifndef CAPTURE_PERF_ARGV_H
#define CAPTURE_PERF_ARGV_H

#include <stdint.h>

#include "capture/capabilities.h"
#include "capture/options.h"
#include "common/arena.h"
#include "common/error.h"

enum { PERF_ARGV_MAX = 96, PERF_NOTES_MAX = 16, PERF_HITS_MAX = 4 };

/* How a snapshot is asked for. */
enum snapshot_control {
	CONTROL_NONE,   /* --full: nothing to ask for */
	CONTROL_FD,     /* "snapshot\n" down --control=fd, acknowledged */
	CONTROL_SIGNAL, /* SIGUSR2 */
};

struct perf_target {
	const char *data_path;  /* perf record -o */
	int control_fd, ack_fd; /* in perf; -1 = decided not to use --control */
	/* Run-time addresses whose execution freezes the trace in the kernel; 0 ends. */
	uint64_t pause_at[PERF_HITS_MAX];
};

struct perf_argv {
	char *argv[PERF_ARGV_MAX]; /* NULL-terminated */
	size_t argc;
	enum snapshot_control control;
	bool ready_by_control; /* perf acknowledges commands: readiness can be asked for */
	bool snapshot_at_exit; /* perf takes the last one itself */
	uint64_t buffer_bytes; /* per buffer, after rounding and limits */
	/* What was asked for and cannot be had here, or is done in a lesser way. */
	const char *notes[PERF_NOTES_MAX];
	size_t note_count;
};

/* pids/tid of the options are the target; for run the program itself, as "-- PROG ARGS",
 * unless pid > 0 (the program, started and held by us) is given. Strings live in the arena
 * or where the options' do.
 * ERR_LIMIT: the buffer asked for cannot be locked here (figures and remedy in the message).
 * ERR_UNSUPPORTED: something asked for cannot be had at all. */
MUST_CHECK enum err perf_argv_build(const struct capture_options *options,
				    const struct capabilities *caps,
				    const struct perf_target *target, pid_t pid,
				    struct arena *arena, struct perf_argv *result,
				    struct error *error);

/* The command line for a person: quoted so that a shell would read it back as it is. */
const char *perf_argv_quoted(const struct perf_argv *perf, struct arena *arena);

#endif
