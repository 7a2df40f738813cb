/* Tasks while the sideband is built: who has which tid now.
 *
 * Calls come in time order. A tid that is forked again, or seen after its exit, is a new task.
 * pid/tid 0 (idle) and -1 (unknown) are task 0. */
#ifndef DECODE_TASK_H
#define DECODE_TASK_H

#include "common/map64.h"
#include "decode/record.h"
#include "decode/sideband.h"

struct task_table {
	struct sideband *sideband;
	struct map64 by_tid;    /* tid -> index of its newest task */
	VEC(uint8_t) seen_live; /* by task: mentioned by a record that is not synthesized */
	VEC(str_id) comms;      /* by task: the present one */
};

/* Makes task 0. */
bool task_table_init(struct task_table *t, struct sideband *sideband);
void task_table_done(struct task_table *t);

/* The task of a tid now, made if new; pid <= 0 = unknown. */
bool task_find(struct task_table *t, int32_t pid, int32_t tid, uint64_t time_ns, task_id *id);
/* A real FORK, not one that perf synthesized. */
bool task_fork(struct task_table *t, const struct record_task *r, uint64_t time_ns);
bool task_exit(struct task_table *t, const struct record_task *r, uint64_t time_ns);
/* COMM. An exec ends the other threads of the process. */
bool task_comm(struct task_table *t, const struct record_comm *r, uint64_t time_ns);

#endif
