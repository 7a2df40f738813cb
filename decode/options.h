/* pt-decode's command line -> a plain struct. Pure: opens nothing, prints nothing. */
#ifndef DECODE_OPTIONS_H
#define DECODE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/vec.h"

enum dump_kind {
	DUMP_NONE,
	DUMP_RECORDS,
	DUMP_SIDEBAND,
	DUMP_PACKETS,
	DUMP_EDGES,
	DUMP_CALLS,
	DUMP_SEGMENTS,
	DUMP_JOINS,
	DUMP_SYMBOLS,
};

enum engine_kind { ENGINE_FAST, ENGINE_LIBIPT };

enum args_kind { ARGS_BASIC, ARGS_NONE, ARGS_FULL };

enum action { ACTION_DECODE, ACTION_HELP, ACTION_VERSION };

/* A point in time: absolute perf-clock ns, or relative to the trace's first event. */
struct time_point {
	bool given, relative;
	uint64_t ns;
};

struct options {
	enum action action;
	VEC(const char *) inputs;
	const char *output; /* -o; default by kind of output */
	unsigned jobs;      /* 0 = all CPUs */
	const char *symfs, *kcore, *kallsyms, *stats, *batch, *report_junit;
	VEC(const char *) debug_dirs, perf_maps, jitdumps; /* NULL-terminated once parsed */
	bool debuginfod;
	VEC(int32_t) pids, tids, cpus;
	VEC(const char *) comms;
	struct time_point from, until;
	const char *between_start, *between_stop;
	uint64_t min_duration_ns;
	bool no_inline, no_demangle, kernel_only, user_only;
	enum dump_kind dump;
	enum args_kind args;
	enum engine_kind engine;
	double max_loss_percent;           /* < 0 = any loss is accepted */
	uint64_t max_memory_bytes;         /* 0 = no limit */
	unsigned shard_index, shard_count; /* count 0 = not sharded; index from 0 */
	int verbosity;                     /* -1 quiet .. 2 debug */
	bool progress;
};

/* ERR_USAGE with one specific line in error; ERR_NOMEM. */
MUST_CHECK enum err options_parse(int argc, char **argv, struct options *options,
				  struct error *error);
void options_done(struct options *options);
/* The text of --help. */
const char *options_help(void);

#endif
