/* See trace_fxt.h. The file, in order:
 *
 *     head          magic, clock rate, fixed strings, wall clock, "trace start"
 *     per thread    process and thread names, slices with flows and instants between them
 *     the rest      instants of other threads, CPU frequencies */
#include "writer/trace_fxt.h"

#include <stdlib.h>

#include "common/map64.h"
#include "writer/names.h"
#include "writer/slice_refs.h"
#include "writer/trace_slices.h"

enum {
	/* Perfetto keeps 32 bits of an id; these are no one's. */
	ID_UNKNOWN = 0x7fffffff,
	ID_DECODER = 0x7ffffffe, /* what belongs to no thread: counters, the start */
	ID_SECOND = 0x7ffffffd,  /* and downwards: see tasks_own_track() */
	BUS_CLOCK_MHZ = 100,     /* since Sandy Bridge */
};

struct tasks {
	struct map64 main_tasks;      /* pid -> task with tid == pid, the latest */
	struct map64 named_processes; /* pid -> 1 */
	struct map64 named_tasks;     /* task -> 1 */
	struct map64 traced;          /* task -> 1: has a thread in the trace */
	struct map64 tracks;          /* pid << 32 | tid -> item of track_ends */
	VEC(uint64_t) track_ends;     /* ns */
	uint32_t second_tracks;
};

static bool tasks_init(struct tasks *tasks, const struct sideband *sideband)
{
	for (uint32_t i = 1; i < sideband->tasks.count; i++) {
		const struct task *task = &sideband->tasks.items[i];

		if (task->pid >= 0 && task->pid == task->tid &&
		    !map64_set(&tasks->main_tasks, (uint32_t)task->pid, i))
			return false;
	}
	return true;
}

static void tasks_done(struct tasks *tasks)
{
	map64_done(&tasks->main_tasks);
	map64_done(&tasks->named_processes);
	map64_done(&tasks->named_tasks);
	map64_done(&tasks->traced);
	map64_done(&tasks->tracks);
	vec_done(&tasks->track_ends);
}

static struct fxt_thread task_ids(const struct sideband *sideband, task_id id)
{
	const struct task *task =
		id.v && id.v < sideband->tasks.count ? &sideband->tasks.items[id.v] : NULL;
	int32_t tid = task ? task->tid : -1;
	int32_t pid = task && task->pid >= 0 ? task->pid : tid;

	return (struct fxt_thread){
		.pid = pid >= 0 ? (uint32_t)pid : ID_UNKNOWN,
		.tid = tid >= 0 ? (uint32_t)tid : ID_UNKNOWN,
	};
}

static bool tasks_name_process(struct tasks *tasks, struct slices *s, task_id task, uint64_t pid)
{
	char scratch[NAME_SCRATCH_BYTES];

	if (map64_get(&tasks->named_processes, pid) != MAP64_NONE)
		return true;
	uint32_t main_task = map64_get(&tasks->main_tasks, pid);
	if (main_task != MAP64_NONE)
		task = (task_id){main_task};
	fxt_name_process(&s->fxt, pid,
			 fxt_string(&s->fxt, name_task(s->names, task, s->trace->end_ns, scratch)));
	return map64_set(&tasks->named_processes, pid, 1);
}

static uint8_t tasks_name_thread(struct tasks *tasks, struct slices *s, task_id task,
				 struct fxt_thread ids)
{
	uint8_t index = fxt_thread(&s->fxt, ids.pid, ids.tid);
	char scratch[NAME_SCRATCH_BYTES];

	const char *name = name_task(s->names, task, s->trace->end_ns, scratch);
	if (!tasks_name_process(tasks, s, task, ids.pid))
		s->fxt.out.failed = true;
	fxt_name_thread(&s->fxt, ids.pid, ids.tid, fxt_string(&s->fxt, name),
			s->fixed[FIXED_PROCESS]);
	return index;
}

/* The index of a task's thread; names it and its process when they are new. */
static uint8_t tasks_thread(struct tasks *tasks, struct slices *s, task_id task)
{
	struct fxt_thread ids = task_ids(s->names->sideband, task);

	if (map64_get(&tasks->named_tasks, task.v) != MAP64_NONE)
		return fxt_thread(&s->fxt, ids.pid, ids.tid);
	if (!map64_set(&tasks->named_tasks, task.v, 1))
		s->fxt.out.failed = true;
	return tasks_name_thread(tasks, s, task, ids);
}

/* Threads that share their ids may do so at one time, if the ids are not known or are the
 * idle task's: such a one gets a track of its own, or their slices would cut each other. */
static uint8_t tasks_own_track(struct tasks *tasks, struct slices *s, const struct thread *thread)
{
	struct fxt_thread ids = task_ids(s->names->sideband, thread->task);
	uint64_t key = ids.pid << 32 | ids.tid, start_ns = UINT64_MAX, end_ns = 0;

	for (size_t i = 0; i < thread->segments.count; i++) {
		const struct segment *segment = &thread->segments.items[i];

		start_ns = segment->start_ns < start_ns ? segment->start_ns : start_ns;
		end_ns = segment->end_ns > end_ns ? segment->end_ns : end_ns;
	}
	uint32_t track = map64_get(&tasks->tracks, key);
	if (track == MAP64_NONE) {
		if (!vec_push(&tasks->track_ends, end_ns) ||
		    !map64_set(&tasks->tracks, key, (uint32_t)tasks->track_ends.count - 1))
			s->fxt.out.failed = true;
	} else if (start_ns < tasks->track_ends.items[track]) {
		ids.tid = ID_SECOND - tasks->second_tracks++;
		return tasks_name_thread(tasks, s, thread->task, ids);
	} else {
		tasks->track_ends.items[track] = end_ns;
	}
	return tasks_thread(tasks, s, thread->task);
}

static uint8_t decoder_thread(struct slices *s)
{
	return fxt_thread(&s->fxt, ID_DECODER, ID_DECODER);
}

/* The absolute start, which all times of the file are relative to. */
static void write_start(struct slices *s)
{
	const struct fxt_options *options = s->options;

	fxt_ref program = fxt_string(&s->fxt, "pt-decode");
	fxt_name_process(&s->fxt, ID_DECODER, program);
	fxt_name_thread(&s->fxt, ID_DECODER, ID_DECODER, program, s->fixed[FIXED_PROCESS]);
	if (options->has_wall_clock)
		fxt_wall_clock(&s->fxt, fxt_string(&s->fxt, "clock"), 0, options->wall_ns);
	fxt_ref name = fxt_string(&s->fxt, "trace start");
	uint8_t thread = decoder_thread(s);
	uint64_t *start = fxt_event_start(&s->fxt);
	if (!start)
		return;
	uint64_t *w = fxt_arg_unsigned(start + 2, s->fixed[FIXED_PERF_TIME_NS], s->trace->start_ns);
	if (options->has_wall_clock)
		w = fxt_arg_unsigned(w, s->fixed[FIXED_WALL_TIME_NS], options->wall_ns);
	fxt_event_finish(&s->fxt, start, w, FXT_INSTANT, options->has_wall_clock ? 2 : 1, thread,
			 s->fixed[FIXED_EVENT], name, 0);
	s->counts->instants++;
}

static void write_instant(struct slices *s, struct instant_row *row, uint8_t thread_ref)
{
	instant_define(s, row);
	uint64_t *start = fxt_event_start(&s->fxt);
	if (!start)
		return;
	uint64_t *end = instant_put(s, row, thread_ref, start);
	s->fxt.out.bytes += (size_t)(end - start) * sizeof *start;
	s->counts->instants++;
}

/* Instants of threads of which no code was traced. */
static enum err write_other_instants(struct slices *s, struct tasks *tasks, struct error *error)
{
	enum err err = ERR_NONE;

	for (size_t i = 0; i < s->instants.rows.count && err == ERR_NONE; i++) {
		struct instant_row *row = &s->instants.rows.items[i];

		/* A name is worth a track only where there is something to be named. */
		if (row->source == INSTANT_NAME ||
		    map64_get(&tasks->traced, row->task) != MAP64_NONE)
			continue;
		err = slices_reserve(s, error);
		write_instant(s, row, tasks_thread(tasks, s, (task_id){row->task}));
		if (err == ERR_NONE)
			err = slices_flush(s, false, error);
	}
	return err;
}

/* perf's reckoning: the ratio is in units of the bus clock, of which the TSC is a multiple. */
static uint32_t frequency_mhz(const struct sideband *sideband, uint32_t ratio)
{
	const struct clock *clock = &sideband->clock;
	uint32_t nominal = sideband->config.max_non_turbo_ratio;

	if (!clock->valid || clock->time_mult == 0 || nominal == 0)
		return ratio * BUS_CLOCK_MHZ;
	double tsc_mhz = 1e3 * (double)((uint64_t)1 << clock->time_shift) / clock->time_mult;
	return (uint32_t)(ratio * tsc_mhz / nominal + 0.5);
}

static int frequency_compare(const void *a, const void *b)
{
	const struct frequency *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

static void write_frequency(struct slices *s, const struct frequency *f, uint32_t mhz)
{
	fxt_ref name = fxt_string(&s->fxt, "CPU frequency");
	uint8_t thread = decoder_thread(s);
	uint64_t *start = fxt_event_start(&s->fxt);
	if (!start)
		return;
	uint64_t *w = fxt_arg_short(start + 2, FXT_ARG_U32, s->fixed[FIXED_MHZ], mhz);
	*w++ = f->cpu >= 0 ? (uint32_t)f->cpu : 0;
	fxt_event_finish(&s->fxt, start, w, FXT_COUNTER, 1, thread, s->fixed[FIXED_CPU], name,
			 slices_time(s, f->time_ns));
	s->counts->counters++;
}

/* In order of time over all CPUs; only changes. */
static enum err write_frequencies(struct slices *s, struct error *error)
{
	size_t count = s->trace->frequencies.count;
	struct frequency *sorted = calloc(count ? count : 1, sizeof *sorted);
	struct map64 last = {0}; /* cpu -> MHz */
	enum err err = ERR_NONE;

	if (!sorted)
		return error_set(error, ERR_NOMEM, "out of memory for CPU frequencies");
	for (size_t i = 0; i < count; i++)
		sorted[i] = s->trace->frequencies.items[i];
	qsort(sorted, count, sizeof *sorted, frequency_compare);
	for (size_t i = 0; i < count && err == ERR_NONE; i++) {
		uint32_t mhz = frequency_mhz(s->names->sideband, sorted[i].ratio);

		if (map64_get(&last, (uint32_t)sorted[i].cpu) == mhz)
			continue;
		err = slices_reserve(s, error);
		write_frequency(s, &sorted[i], mhz);
		if (!map64_set(&last, (uint32_t)sorted[i].cpu, mhz))
			s->fxt.out.failed = true;
		if (err == ERR_NONE)
			err = slices_flush(s, false, error);
	}
	map64_done(&last);
	free(sorted);
	return err;
}

enum err trace_fxt_write(const struct trace *trace, const struct trace_names *names,
			 const struct fxt_options *options, struct output *output,
			 struct fxt_counts *counts, struct error *error)
{
	struct slices s = {0};
	struct tasks tasks = {0};

	*counts = (struct fxt_counts){0};
	enum err err = slices_init(&s, trace, names, options, output, counts, error);
	if (err == ERR_NONE && (!tasks_init(&tasks, names->sideband) ||
				!instants_collect(&s.instants, trace, names->sideband)))
		err = error_set(error, ERR_NOMEM, "out of memory for names and events");
	if (err == ERR_NONE)
		write_start(&s);
	for (size_t i = 0; i < trace->threads.count && err == ERR_NONE; i++) {
		const struct thread *thread = &trace->threads.items[i];

		err = slices_reserve(&s, error);
		if (err == ERR_NONE)
			err = slices_write_thread(&s, thread, tasks_own_track(&tasks, &s, thread),
						  error);
		if (err == ERR_NONE && !map64_set(&tasks.traced, thread->task.v, 1))
			err = error_set(error, ERR_NOMEM, "out of memory for thread names");
	}
	if (err == ERR_NONE)
		err = slices_finish(&s, error);
	if (err == ERR_NONE && !options->traced_threads_only)
		err = write_other_instants(&s, &tasks, error);
	if (err == ERR_NONE)
		err = write_frequencies(&s, error);
	if (err == ERR_NONE)
		err = slices_flush(&s, true, error);
	/* Of what is freed here nothing may be made any more. */
	enum err drained = output_drain(output, err == ERR_NONE ? error : NULL);
	if (err == ERR_NONE)
		err = drained;
	counts->string_records = s.fxt.string_records;
	tasks_done(&tasks);
	slices_done(&s);
	return err;
}
