/* See trace_slices.h. A thread's calls are cut into blocks, which are encoded side by side.
 * Before a block is given away its calls are looked at once, here and in order: the names
 * that are new get their strings, which stand at the block's head.
 *
 *     this thread   names of block 4 │ names of block 5 │ names of block 6
 *     others              encode 3, 4        │ encode 5 ...
 *
 * When the string table is full, the block ends early and all must be encoded before names
 * are forgotten; so, too, before the tables of refs move. */
#include "writer/trace_slices.h"

#include "writer/slice_block.h"
#include "writer/slice_refs.h"

enum {
	/* About half of BUFFER_BLOCK_BYTES, which caches hold. Calls that are not drawn are less
	   work, not none. */
	BLOCK_CALLS = 1 << 14,
	DRAWN_WEIGHT = 16,
	/* Each may take two of the 255 indices of threads, which must last for a block. */
	BLOCK_RUNS = 100,
};

static uint32_t block_room(const struct slices *s)
{
	return (s->options->block_calls ? s->options->block_calls : BLOCK_CALLS) * DRAWN_WEIGHT;
}

enum err slices_init(struct slices *s, const struct trace *trace, const struct trace_names *names,
		     const struct fxt_options *options, struct output *output,
		     struct fxt_counts *counts, struct error *error)
{
	s->trace = trace;
	s->names = names;
	s->options = options;
	s->output = output;
	s->counts = counts;
	s->reached = malloc(sizeof *s->reached);
	s->room = block_room(s);
	fxt_init(&s->fxt, "pt-decode");
	if (!slice_refs_init(s) || !s->reached)
		return error_set(error, ERR_NOMEM, "out of memory while writing the trace");
	return slices_flush(s, false, error);
}

void slices_done(struct slices *s)
{
	slice_block_free(s->block);
	slice_marks_free(s->marks);
	slice_refs_done(s);
	instants_done(&s->instants);
	fxt_done(&s->fxt);
	free(s->reached);
}

static enum err slices_check(const struct slices *s, struct error *error)
{
	if (memory_limit_is_passed(s->trace->memory))
		return error_set(error, ERR_LIMIT, "too much memory while writing the trace");
	return s->fxt.out.failed
		       ? error_set(error, ERR_NOMEM, "out of memory while writing the trace")
		       : ERR_NONE;
}

enum err slices_flush(struct slices *s, bool all, struct error *error)
{
	enum err err = slices_check(s, error);

	if (err != ERR_NONE || (s->fxt.out.bytes < BUFFER_BLOCK_BYTES && !all))
		return err;
	s->counts->bytes += s->fxt.out.bytes;
	return output_put(s->output, &s->fxt.out, error);
}

uint64_t slices_time(const struct slices *s, uint64_t ns)
{
	uint64_t since = ns > s->trace->start_ns ? ns - s->trace->start_ns : 0;

	return since > INT64_MAX ? INT64_MAX : since;
}

/* ---- blocks ---- */

static enum err slices_put_block(struct slices *s, struct error *error)
{
	struct slice_block *block = s->block;
	enum err err = slices_check(s, error);

	if (!block || err != ERR_NONE)
		return err;
	s->block = NULL;
	s->room = block_room(s);
	return slice_block_put(block, &s->fxt.out, error);
}

enum err slices_finish(struct slices *s, struct error *error)
{
	enum err err = slices_put_block(s, error);

	return err == ERR_NONE ? output_drain(s->output, error) : err;
}

enum err slices_reserve(struct slices *s, struct error *error)
{
	if (slice_refs_fit(s))
		return ERR_NONE;
	enum err err = slices_finish(s, error);
	if (err == ERR_NONE)
		slice_refs_forget(s);
	return err;
}

/* ---- a thread ---- */

/* A thread on its way into blocks. */
struct feed {
	struct slices *s;
	struct error *error;
	struct slice_run run;        /* what of it goes into the present block, so far */
	uint32_t last;               /* call of the run; CALL_NONE = there was none */
	size_t instant, instant_end; /* rows of the thread that are still to come */
	uint64_t instant_ns;         /* of the next one; UINT64_MAX = none */
};

static void feed_next_instant(struct feed *f)
{
	f->instant_ns = f->instant < f->instant_end ? f->s->instants.rows.items[f->instant].time_ns
						    : UINT64_MAX;
}

static enum err feed_end_run(struct feed *f, bool is_last)
{
	struct slices *s = f->s;

	f->run.is_last = is_last;
	f->run.instant_end = f->instant;
	if (!s->block)
		s->block = slice_block_new(s);
	if (!s->block || !slice_block_add(s->block, &f->run))
		return error_set(f->error, ERR_NOMEM, "out of memory while writing the trace");
	if (is_last)
		s->marks = NULL;
	return ERR_NONE;
}

/* Ends the block; what comes next in `order` begins another. */
static enum err feed_cut(struct feed *f, const struct call_order *order)
{
	enum err err = feed_end_run(f, false);

	if (err == ERR_NONE)
		err = slices_put_block(f->s, f->error);
	f->run.order = *order;
	f->run.before = f->last;
	f->run.calls = 0;
	f->run.instant = f->instant;
	return err;
}

static enum err feed_reserve(struct feed *f, const struct call_order *order)
{
	if (slice_refs_fit(f->s))
		return ERR_NONE;
	enum err err = feed_cut(f, order);
	return err == ERR_NONE ? slices_reserve(f->s, f->error) : err;
}

/* Instants before a time, which come before what is next in `order`. */
static enum err feed_instants(struct feed *f, uint64_t before_ns, const struct call_order *order)
{
	enum err err = ERR_NONE;

	while (f->instant_ns < before_ns && err == ERR_NONE) {
		err = feed_reserve(f, order);
		instant_define(f->s, &f->s->instants.rows.items[f->instant++]);
		feed_next_instant(f);
	}
	return err;
}

/* A call whose name is new, or before which there is an instant. */
static enum err feed_define(struct feed *f, struct call_order order, uint32_t index, bool drawn)
{
	const struct call *call = &order.thread->calls.items[index];

	call_order_undo(&order, index);
	enum err err = feed_instants(f, call->start_ns, &order);
	if (err != ERR_NONE || !drawn)
		return err;
	err = feed_reserve(f, &order);
	slice_refs_define(f->s, call);
	return err == ERR_NONE ? slices_check(f->s, f->error) : err;
}

/* Of [first, end) the first call that needs more than to be counted: its name is new, an
 * instant comes before it, or it may not be drawn. */
static inline uint32_t feed_known(const struct feed *f, uint32_t first, uint32_t end,
				  uint64_t min_ns)
{
	const struct slices *s = f->s;
	const struct call *calls = f->run.thread->calls.items;
	struct {
		const struct slice_refs *items;
		size_t count;
	} tables[CALL_BRACKET];
	uint32_t index = first;

	for (int kind = 0; kind < CALL_BRACKET; kind++) {
		tables[kind].items = s->refs[kind].slices.items;
		tables[kind].count = s->refs[kind].slices.count;
	}
	if (s->options->args == FXT_ARGS_FULL)
		return first;
	for (; index < end; index++) {
		const struct call *call = &calls[index];

		if (call->flags & (CALL_HIDDEN | CALL_ROOT) || call->kind >= CALL_BRACKET ||
		    f->instant_ns < call->start_ns || call->end_ns - call->start_ns < min_ns ||
		    call->what >= tables[call->kind].count ||
		    tables[call->kind].items[call->what].header == 0)
			break;
	}
	return index;
}

static enum err feed_calls(struct feed *f, struct call_order *order)
{
	struct slices *s = f->s;
	uint64_t min_ns = s->options->min_duration_ns;
	enum err err = ERR_NONE;

	while (err == ERR_NONE) {
		uint32_t first = order->call, stretch = order->end - first,
			 fit = s->room / DRAWN_WEIGHT;

		stretch = stretch < fit ? stretch : fit;
		order->call = min_ns ? feed_known(f, first, first + stretch, min_ns)
				     : feed_known(f, first, first + stretch, 0);
		if (order->call > first) {
			f->run.calls += order->call - first;
			f->last = order->call - 1;
			s->room -= (order->call - first) * DRAWN_WEIGHT;
		}
		uint32_t index = call_order_next(order);
		if (index == CALL_NONE)
			break;
		const struct call *call = &order->thread->calls.items[index];
		bool drawn = !call_is_short(s->trace, s->options, call);
		uint32_t weight = drawn ? DRAWN_WEIGHT : 1;

		if (f->instant_ns < call->start_ns || (drawn && !slice_refs_ready(s, call)))
			err = feed_define(f, *order, index, drawn);
		f->run.calls++;
		f->last = index;
		if (s->room > weight)
			s->room -= weight;
		else if (err == ERR_NONE)
			err = feed_cut(f, order);
	}
	return err;
}

enum err slices_write_thread(struct slices *s, const struct thread *thread, uint8_t thread_ref,
			     struct error *error)
{
	struct call_order order = call_order_of(thread);
	struct feed f = {.s = s,
			 .error = error,
			 .run = {.thread = thread,
				 .order = order,
				 .before = CALL_NONE,
				 .thread_ref = thread_ref},
			 .last = CALL_NONE};

	f.instant = f.run.instant = instants_of_task(&s->instants, thread->task);
	f.instant_end = instants_of_task(&s->instants, (task_id){thread->task.v + 1});
	feed_next_instant(&f);
	enum err err = slice_marks_new(s->trace, thread, s->options, s->output, &s->last_flow,
				       &s->marks, error);
	f.run.marks = s->marks;
	if (err == ERR_NONE)
		err = feed_calls(&f, &order);
	if (err == ERR_NONE)
		err = feed_instants(&f, UINT64_MAX, &order);
	if (err == ERR_NONE)
		err = feed_end_run(&f, true);
	if (err == ERR_NONE && slice_block_runs(s->block) >= BLOCK_RUNS)
		err = slices_put_block(s, error);
	return err;
}
