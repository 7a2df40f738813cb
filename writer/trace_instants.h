/* Instants: extra events of the recording, names that threads had before their last one,
 * PTWRITE and power events. Sorted by thread and time, to be written between the slices. */
#ifndef WRITER_TRACE_INSTANTS_H
#define WRITER_TRACE_INSTANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"
#include "decode/trace.h"
#include "writer/fxt.h"

struct slices;

enum instant_source { INSTANT_EVENT, INSTANT_NAME, INSTANT_MARK };

struct instant_row {
	uint64_t time_ns;
	uint32_t task;
	uint32_t index;           /* into sideband.instants, sideband.task_names or trace.marks */
	uint8_t source;           /* enum instant_source */
	fxt_ref name, detail, ip; /* made by instant_define() */
};

struct instants {
	VEC(struct instant_row) rows; /* sorted by (task, time) */
};

/* What lies between the trace's start and end. False when memory is short. */
bool instants_collect(struct instants *in, const struct trace *trace,
		      const struct sideband *sideband);
/* The first row of the task or of a later one. */
size_t instants_of_task(const struct instants *in, task_id task);
/* Makes its refs; their room was asked for before. */
void instant_define(struct slices *s, struct instant_row *row);
/* Writes one whose refs were made as an event of the thread with this index, in at most
 * FXT_EVENT_WORDS_MAX; returns the end. */
uint64_t *instant_put(const struct slices *s, const struct instant_row *row, uint8_t thread_ref,
		      uint64_t *w);
void instants_done(struct instants *in);

#endif
