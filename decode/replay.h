/* Records in time order -> the tables of the sideband.
 *
 *     replay_init(); set-up fields, replay_add_build_id(); replay_record() ...; replay_finish()
 *
 * The owner of everything that lives only while the sideband is built. */
#ifndef DECODE_REPLAY_H
#define DECODE_REPLAY_H

#include "common/map64.h"
#include "decode/aux.h"
#include "decode/perfdata.h"
#include "decode/sideband.h"
#include "decode/space.h"
#include "decode/switches.h"
#include "decode/task.h"
#include "decode/trace_config.h"
#include "decode/tracepoint.h"

struct ksymbol {
	uint64_t start, bytes, from_ns, until_ns;
	const char *name;
};

struct replay {
	struct perfdata *file;
	struct symbolizer *symbolizer;
	struct sideband *s;
	/* set up by the caller before the first record */
	struct trace_info info;
	bool has_info, has_switch_records;
	/* private, but for chunks of AUXTRACE, which have no time: aux_add_chunk() */
	struct aux_builder aux;
	struct task_table tasks;
	struct space_table spaces;
	struct switch_builder switches;
	struct tracepoints *tracepoints;
	int64_t sched_switch;          /* its tracepoint id if it tells the switches; -1 = no */
	struct map64 build_id_by_path; /* str_id -> index */
	VEC(struct build_id) build_ids;
	struct map64 ksymbol_by_start; /* start -> index of the newest */
	VEC(struct ksymbol) ksymbols;
	VEC(uint64_t) seen_ns; /* by CPU: its newest record */
};

MUST_CHECK enum err replay_init(struct replay *r, struct perfdata *file,
				struct symbolizer *symbolizer, struct sideband *result);
void replay_done(struct replay *r);

/* Build ids by path, for mappings that have none. */
bool replay_add_build_id(struct replay *r, const struct record_build_id *record);
/* Opens the tracepoint descriptions; has_switch_records is known. */
MUST_CHECK enum err replay_start(struct replay *r);
/* Types that replay_record() wants. */
bool replay_wants(uint32_t type);
/* time_ns: the record's place in time, 0 = before everything. */
MUST_CHECK enum err replay_record(struct replay *r, const struct record *record, uint64_t time_ns);
/* Sorts and closes what the records left, builds buffers and switches. */
MUST_CHECK enum err replay_finish(struct replay *r);

#endif
