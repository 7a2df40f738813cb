/* pt-capture's command line as a plain struct. No probing, no side effects.
 *
 * All strings point into argv. Sizes are bytes, times ns. */
#ifndef CAPTURE_OPTIONS_H
#define CAPTURE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

enum capture_command {
	CAPTURE_RUN,
	CAPTURE_ATTACH,
	CAPTURE_CHECK,
	CAPTURE_BUNDLE,
	CAPTURE_HELP,
	CAPTURE_VERSION
};
enum capture_timing { TIMING_NORMAL, TIMING_LOW, TIMING_HIGH };
enum capture_profile { PROFILE_DEFAULT, PROFILE_ROBUST };

enum {
	OPTIONS_PIDS_MAX = 64,
	OPTIONS_EVENTS_MAX = 16,
	OPTIONS_FILTERS_MAX = 8,
	OPTIONS_TRIGGERS_MAX = 4 /* debug registers of the CPU */
};

struct capture_options {
	enum capture_command command;
	char **program;        /* run: PROG and ARGS, NULL-terminated */
	const char *perf_data; /* bundle: the file to wrap */
	pid_t pids[OPTIONS_PIDS_MAX];
	size_t pid_count;
	pid_t tid;          /* 0 = all threads */
	const char *output; /* NULL = pt-COMMAND-TIME */
	const char *triggers[OPTIONS_TRIGGERS_MAX];
	size_t trigger_count;
	unsigned snapshots; /* --multi N: snapshots by trigger; 1 = the first hit ends it */
	const char *events[OPTIONS_EVENTS_MAX];
	size_t event_count;
	const char *filters[OPTIONS_FILTERS_MAX];
	size_t filter_count;
	uint64_t buffer_bytes;   /* per CPU; 0 = what the limits allow, at most 16 MiB */
	uint64_t duration_ns;    /* 0 = until the end */
	uint64_t min_history_ns; /* triggers are armed this long after the start */
	enum capture_timing timing;
	enum capture_profile profile;
	bool full;      /* no snapshots: everything is written */
	bool kernel;    /* kernel code too */
	bool callchain; /* record the stack at each trigger hit */
	bool no_binaries, redact;
	bool print_command, json;
	int ready_fd;            /* -1 = none */
	int verbosity;           /* enum log_level */
	const char *perf;        /* the perf program; NULL = "perf" of $PATH */
	const char *system_root; /* where /sys and /proc are described; NULL = this machine */
};

/* ERR_USAGE with one specific line when argv makes no sense. */
MUST_CHECK enum err options_parse(int argc, char **argv, struct capture_options *options,
				  struct error *error);

/* The text of --help. */
extern const char options_help[];

#endif
