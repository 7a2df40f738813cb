/* Who runs where while the sideband is built: observations -> cpu_switches, task_switches.
 *
 * Every record that a CPU wrote names the task that wrote it. Switch records say who comes
 * next; the others confirm, or prove that switch records are missing. */
#ifndef DECODE_SWITCHES_H
#define DECODE_SWITCHES_H

#include "decode/sideband.h"

enum switch_kind {
	SWITCH_IN,     /* `task` starts to run; `other` = who ran before, if known */
	SWITCH_OUT,    /* `task` stops; `other` = who runs next, if known */
	SWITCH_STARTS, /* tracing of `task` starts here (ITRACE_START) */
	SWITCH_SEEN,   /* `task` writes some other record */
	SWITCH_AUX,    /* `task` writes an AUX record: when it goes, or the ring is full */
};

struct switch_note {
	uint64_t time_ns;
	uint64_t stream_off; /* SWITCH_AUX: where its bytes begin; UINT64_MAX = not known */
	int32_t cpu;
	task_id task, other;
	uint8_t kind; /* enum switch_kind */
	bool has_other, preempted;
	size_t order;
};

struct switch_builder {
	VEC(struct switch_note) notes;
	bool is_per_task; /* only chosen tasks are traced, as far as the caller knows */
};

void switch_builder_done(struct switch_builder *b);
/* In time order. cpu -1 = unknown. */
bool switch_add(struct switch_builder *b, struct switch_note note);
/* After aux_finish(), whose buffers tell when the bytes of an AUX record began. Fills
 * cpu_switches, task_switches and the buffers' first_switch, last_switch. */
MUST_CHECK enum err switch_finish(struct switch_builder *b, struct sideband *sideband);

#endif
