/* See switches.h.
 *
 * The records of one switch X -> Y on a CPU, in the kernel's order:
 *
 *     SWITCH OUT (by X, CPU_WIDE: next is Y)     X's trace stops
 *     AUX        (still by X)
 *     ITRACE_START (by Y, its first time only)   Y's trace starts
 *     SWITCH IN  (by Y, CPU_WIDE: X was before)
 *
 * So a record by X right after X's OUT contradicts nothing. A record by Z when nobody has
 * switched to Z does: a switch to Z was lost since the last record that fits. If that record
 * is the AUX record of Z's stay, the first TSC in its bytes is when the stay began. */
#include "decode/switches.h"

#include <string.h>

#include "common/map64.h"
#include "decode/aux.h"

static const task_id nobody = {UINT32_MAX};

struct cpu_state {
	task_id running;  /* holds the CPU, as far as known */
	task_id before;   /* who switched out to `running`, until that one's IN; else nobody */
	bool may_write;   /* `before` has still to write its AUX record */
	bool is_known;    /* `running` comes from a record */
	bool is_off;      /* running has switched out, and nobody is known to have come in */
	bool is_arriving; /* running was named as next; its IN has not come yet */
	uint64_t seen_ns; /* the last record of this CPU */
	bool seen_aux;    /* it was an AUX record */
};

struct switch_run {
	struct sideband *sideband;
	const struct aux_buffer *buffer; /* the CPU's ring, or NULL */
	const struct switch_note *end;   /* of the CPU's notes */
	int32_t cpu;
	bool is_per_task;
	struct cpu_state state;
};

void switch_builder_done(struct switch_builder *b)
{
	vec_done(&b->notes);
}

bool switch_add(struct switch_builder *b, struct switch_note note)
{
	note.order = b->notes.count;
	return vec_push(&b->notes, note);
}

static bool switch_push_task(struct switch_run *run, task_id task, uint64_t time_ns, bool in,
			     bool preempted, bool inferred)
{
	struct task_switch item = {.time_ns = time_ns,
				   .task = task,
				   .cpu = run->cpu,
				   .in = in,
				   .preempted = preempted,
				   .inferred = inferred};

	return task.v == 0 || vec_push(&run->sideband->task_switches, item);
}

static bool switch_push_cpu(struct switch_run *run, struct cpu_switch item)
{
	struct sideband *s = run->sideband;

	item.cpu = run->cpu;
	if (s->cpu_switches.count) {
		const struct cpu_switch *last = vec_last(&s->cpu_switches);

		if (last->cpu == run->cpu && last->task.v == item.task.v)
			return true;
	}
	return vec_push(&s->cpu_switches, item);
}

/* The task comes to hold the CPU at a recorded time. */
static bool switch_to(struct switch_run *run, task_id task, uint64_t time_ns)
{
	struct cpu_switch item = {
		.time_ns = time_ns, .earliest_ns = time_ns, .latest_ns = time_ns, .task = task};

	run->state.running = task;
	run->state.is_known = true;
	run->state.is_off = false;
	return switch_push_cpu(run, item);
}

/* The AUX record of the stay in which the task writes the note: its own next record. */
static const struct switch_note *switch_stay_record(const struct switch_run *run,
						    const struct switch_note *note, task_id task)
{
	enum { LOOK_AHEAD = 64 };

	for (int i = 0; i < LOOK_AHEAD && note < run->end && note->task.v == task.v; i++, note++)
		if (note->kind == SWITCH_AUX)
			return note->stream_off == UINT64_MAX ? NULL : note;
	return NULL;
}

/* When the stay began, by the first TSC in its bytes: tracing starts with a PSB+. */
static bool switch_stay_start(const struct switch_run *run, const struct switch_note *note,
			      uint64_t *time_ns)
{
	enum { WITHIN = 256 };
	const struct sideband *s = run->sideband;
	size_t low = 0, high;
	uint64_t tsc;

	if (!run->buffer || !note || !s->clock.valid)
		return false;
	high = run->buffer->extents.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (run->buffer->extents.items[middle].stream_off <= note->stream_off)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return false;
	const struct aux_extent *extent = &run->buffer->extents.items[low - 1];
	uint64_t skip = note->stream_off - extent->stream_off;
	if (skip >= extent->bytes)
		return false;
	size_t count = extent->bytes - skip < WITHIN ? (size_t)(extent->bytes - skip) : WITHIN;
	if (!aux_first_tsc(extent->data + skip, count, run->buffer->reference_tsc, &tsc))
		return false;
	*time_ns = clock_ns(&s->clock, tsc);
	return true;
}

/* When the running task stopped at the latest, if another one writes the note: where it wrote
 * its AUX record if that ends its stay, else just before. Idle leaves no trace of user code:
 * what there is belongs to who came after. */
static uint64_t switch_gone_ns(const struct switch_run *run, const struct switch_note *note)
{
	const struct cpu_state *state = &run->state;
	bool is_over =
		state->running.v == 0 || state->is_off || (run->is_per_task && state->seen_aux);

	return is_over ? state->seen_ns : note->time_ns;
}

/* The note proves that `task` holds the CPU though nobody switched to it. */
static bool switch_infer(struct switch_run *run, const struct switch_note *note, task_id task)
{
	struct cpu_state *state = &run->state;
	struct cpu_switch item = {.task = task, .latest_ns = note->time_ns, .inferred = true};
	uint64_t start_ns;

	if (!state->is_known) {
		/* the first record of this CPU: so it was since the beginning */
		item.time_ns = item.earliest_ns = 0;
	} else {
		item.earliest_ns = state->seen_ns;
		item.time_ns = switch_gone_ns(run, note);
		/* a stay that ends with the note began before it */
		if (item.time_ns == note->time_ns &&
		    (note->kind == SWITCH_IN || note->kind == SWITCH_OUT))
			item.time_ns -= (item.time_ns - item.earliest_ns) / 2;
		if (switch_stay_start(run, switch_stay_record(run, note, task), &start_ns) &&
		    start_ns >= item.earliest_ns && start_ns <= item.latest_ns)
			item.time_ns = start_ns;
		if (!state->is_off &&
		    !switch_push_task(run, state->running, item.time_ns, false, false, true))
			return false;
		if (!switch_push_task(run, task, item.time_ns, true, false, true))
			return false;
	}
	state->running = task;
	state->before = nobody;
	state->is_known = true;
	state->is_off = state->is_arriving = state->may_write = false;
	return switch_push_cpu(run, item);
}

/* The task that was named as next has come in, at the latest at time_ns. */
static bool switch_arrived(struct switch_run *run, uint64_t time_ns, bool inferred)
{
	struct cpu_state *state = &run->state;

	if (!state->is_arriving)
		return true;
	state->is_arriving = false;
	return switch_push_task(run, state->running, time_ns, true, false, inferred);
}

static bool switch_in(struct switch_run *run, const struct switch_note *note)
{
	struct cpu_state *state = &run->state;
	task_id before = note->other;

	if (state->running.v != note->task.v && !switch_arrived(run, state->seen_ns, true))
		return false;
	if (note->has_other && before.v != state->before.v &&
	    (!state->is_known || before.v != state->running.v) && (state->is_known || before.v) &&
	    !switch_infer(run, note, before))
		return false;
	if (state->is_known && !state->is_off && !state->is_arriving &&
	    state->running.v != note->task.v &&
	    !switch_push_task(run, state->running, switch_gone_ns(run, note), false, false, true))
		return false;
	bool was_in = state->is_known && state->running.v == note->task.v && !state->is_off &&
		      !state->is_arriving;
	/* without knowledge of others: before its first record no one else was traced here */
	uint64_t from_ns = !state->is_known && !note->has_other ? 0 : note->time_ns;
	state->before = nobody;
	state->is_arriving = state->may_write = false;
	return (was_in || switch_push_task(run, note->task, note->time_ns, true, false, false)) &&
	       switch_to(run, note->task, from_ns);
}

static bool switch_seen(struct switch_run *run, const struct switch_note *note)
{
	struct cpu_state *state = &run->state;

	if (note->kind == SWITCH_AUX && state->may_write && note->task.v == state->before.v) {
		state->may_write = false;
		return true;
	}
	if (state->is_known && note->task.v == state->running.v)
		return state->is_off || switch_arrived(run, state->seen_ns, false);
	if (!state->is_known && note->task.v == 0)
		return true;
	return switch_arrived(run, state->seen_ns, true) && switch_infer(run, note, note->task);
}

static bool switch_out(struct switch_run *run, const struct switch_note *note)
{
	struct cpu_state *state = &run->state;

	if ((!state->is_known && note->task.v) ||
	    (state->is_known && state->running.v != note->task.v)) {
		if (!switch_arrived(run, state->seen_ns, true) ||
		    !switch_infer(run, note, note->task))
			return false;
	} else if (!switch_arrived(run, state->seen_ns, true)) {
		return false;
	}
	if (!state->is_off &&
	    !switch_push_task(run, note->task, note->time_ns, false, note->preempted, false))
		return false;
	state->before = note->task;
	state->may_write = true;
	if (!note->has_other) {
		state->is_off = true;
		return true;
	}
	state->is_arriving = true;
	return switch_to(run, note->other, note->time_ns);
}

static bool switch_step(struct switch_run *run, const struct switch_note *note)
{
	bool ok = false;

	switch ((enum switch_kind)note->kind) {
	case SWITCH_IN: ok = switch_in(run, note); break;
	case SWITCH_OUT: ok = switch_out(run, note); break;
	case SWITCH_STARTS:
		/* where it started is known; where the one before went is not */
		ok = run->state.is_known && run->state.running.v == note->task.v
			     ? switch_arrived(run, note->time_ns, false)
			     : switch_in(run, note);
		break;
	case SWITCH_SEEN:
	case SWITCH_AUX: ok = switch_seen(run, note); break;
	}
	run->state.seen_ns = note->time_ns;
	run->state.seen_aux = note->kind == SWITCH_AUX;
	return ok;
}

static int switch_note_compare(const void *left, const void *right)
{
	const struct switch_note *a = left, *b = right;

	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int task_switch_compare(const void *left, const void *right)
{
	const struct task_switch *a = left, *b = right;

	if (a->task.v != b->task.v)
		return a->task.v < b->task.v ? -1 : 1;
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	if (a->cpu != b->cpu)
		return a->cpu < b->cpu ? -1 : 1;
	/* an OUT and an IN of one instant: off and on again */
	return (int)a->in - (int)b->in;
}

/* An inferred switch can be guessed to lie before its recorded neighbour. */
static void switch_keep_order(struct sideband *s, size_t first)
{
	for (size_t i = first + 1; i < s->cpu_switches.count; i++) {
		struct cpu_switch *item = &s->cpu_switches.items[i];

		if (item->time_ns < item[-1].time_ns)
			item->time_ns = item[-1].time_ns;
	}
}

static bool switch_is_known_cpu(const struct map64 *cpus, int32_t cpu)
{
	return map64_get(cpus, (uint32_t)cpu) != MAP64_NONE;
}

/* A CPU's ring without any record on it belongs to the thread it was opened for. */
static bool switch_add_single_tasks(struct switch_builder *b, const struct sideband *s)
{
	struct map64 cpus = {0};
	bool ok = true;

	for (size_t i = 0; i < b->notes.count && ok; i++)
		if (!switch_is_known_cpu(&cpus, b->notes.items[i].cpu))
			ok = map64_set(&cpus, (uint32_t)b->notes.items[i].cpu, 1);
	for (size_t i = 0; i < s->buffers.count && ok; i++) {
		const struct aux_buffer *buffer = &s->buffers.items[i];
		struct switch_note note = {.stream_off = UINT64_MAX,
					   .cpu = buffer->cpu,
					   .task = buffer->task,
					   .kind = SWITCH_STARTS};

		if (buffer->cpu >= 0 && buffer->task.v && !switch_is_known_cpu(&cpus, buffer->cpu))
			ok = switch_add(b, note);
	}
	map64_done(&cpus);
	return ok;
}

/* Without rings of CPUs, or without a CPU, only a thread's own ins and outs matter. */
static bool switch_step_thread(struct switch_run *run, const struct switch_note *note)
{
	if (note->kind != SWITCH_IN && note->kind != SWITCH_OUT)
		return true;
	return switch_push_task(run, note->task, note->time_ns, note->kind == SWITCH_IN,
				note->preempted, false);
}

static size_t switch_lower(const struct sideband *s, int64_t cpu)
{
	size_t low = 0, high = s->cpu_switches.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->cpu_switches.items[middle].cpu < cpu)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Do AUX records end the stays, as only chosen tasks are traced? Then a task that switches out
 * writes one next; in a system-wide trace they come when a ring is full. */
static bool switch_is_per_task(const struct switch_builder *b)
{
	for (size_t i = 0; i < b->notes.count; i++) {
		const struct switch_note *note = &b->notes.items[i];

		if (note->kind != SWITCH_OUT)
			continue;
		if (!note->has_other)
			return true;
		if (i + 1 < b->notes.count && note[1].kind == SWITCH_AUX &&
		    note[1].cpu == note->cpu && note[1].task.v == note->task.v && note->task.v)
			return true;
	}
	return false;
}

static bool switch_replay(struct switch_builder *b, struct sideband *s, const struct map64 *buffers)
{
	for (size_t i = 0, end; i < b->notes.count; i = end) {
		struct switch_run run = {
			.sideband = s, .cpu = b->notes.items[i].cpu, .is_per_task = b->is_per_task};
		uint32_t buffer = map64_get(buffers, (uint32_t)run.cpu);
		size_t first = s->cpu_switches.count;

		if (buffer != MAP64_NONE)
			run.buffer = &s->buffers.items[buffer];
		for (end = i; end < b->notes.count && b->notes.items[end].cpu == run.cpu;)
			end++;
		run.end = b->notes.items + end;
		for (const struct switch_note *note = b->notes.items + i; note < run.end; note++)
			if (!(run.cpu < 0 || buffers->count == 0 ? switch_step_thread(&run, note)
								 : switch_step(&run, note)))
				return false;
		switch_keep_order(s, first);
	}
	return true;
}

enum err switch_finish(struct switch_builder *b, struct sideband *s)
{
	struct map64 buffers = {0};
	enum err err = ERR_NOMEM;

	for (size_t i = 0; i < s->buffers.count; i++)
		if (s->buffers.items[i].cpu >= 0 &&
		    !map64_set(&buffers, (uint32_t)s->buffers.items[i].cpu, (uint32_t)i))
			goto done;
	if (!switch_add_single_tasks(b, s))
		goto done;
	if (b->notes.count)
		qsort(b->notes.items, b->notes.count, sizeof *b->notes.items, switch_note_compare);
	b->is_per_task |= switch_is_per_task(b);
	if (!switch_replay(b, s, &buffers))
		goto done;
	if (s->task_switches.count)
		qsort(s->task_switches.items, s->task_switches.count,
		      sizeof *s->task_switches.items, task_switch_compare);
	for (size_t i = 0; i < s->buffers.count; i++) {
		struct aux_buffer *buffer = &s->buffers.items[i];

		if (buffer->cpu < 0)
			continue;
		buffer->first_switch = switch_lower(s, buffer->cpu);
		buffer->last_switch = switch_lower(s, (int64_t)buffer->cpu + 1);
	}
	err = ERR_NONE;
done:
	map64_done(&buffers);
	return err;
}
