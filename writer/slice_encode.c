/* See slice_encode.h. How a call becomes events:
 *
 *     complete   one record [start, end): what almost every call is
 *     pair       begin ... end: calls of zero length, and calls in which a call of zero length
 *                starts at the very end. A viewer sorts by time and would take such a child
 *                for a sibling, or siblings for children; begin and end say by their order in
 *                the file what the times cannot.
 *     none       shorter than --min-duration, or too deep
 *
 * Ends of pairs are written as the path unwinds. The path has the times as they are written,
 * so that holding a child inside its parent is one comparison. */
#include "writer/slice_encode.h"

#include "writer/slice_args.h"
#include "writer/slice_refs.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

enum {
	/* What one call can need: the ends of all that is open, its slice. */
	WORDS_PER_CALL = 2 * FXT_DEPTH_MAX + FXT_EVENT_WORDS_MAX,
};

struct encoder {
	const struct slices *s;
	const struct slice_run *run;
	struct slice_path *path;
	struct fxt_counts *counts;
	struct buffer *out;
	uint64_t *w, *limit; /* where the next word goes, and WORDS_PER_CALL before out's end */
	uint64_t start_ns;   /* of the trace */
	uint64_t instant_ns; /* of the next instant; UINT64_MAX = none */
	size_t instant;
	size_t arrows[2]; /* near those of the call, of the marks' coming and leaving ones */
	uint32_t special; /* no call before it is marked, from the present one on */
};

/* As the trace has it, held inside what is open. */
struct slice {
	const struct call *call;
	uint64_t start_ns, end_ns;
	bool pair, deeper;
};

static struct open_slice open_slice(const struct call *call, uint32_t index, uint64_t end_ns,
				    bool pair)
{
	return (struct open_slice){.end_ns = end_ns,
				   .call = index,
				   .flags = (pair ? OPEN_PAIR : 0u) |
					    (call->flags & CALL_ROOT ? OPEN_ROOT : 0u)};
}

/* ---- room ---- */

static void encoder_save(struct encoder *e)
{
	if (e->w)
		e->out->bytes = (size_t)((uint8_t *)e->w - e->out->data);
}

/* False: out of memory, e->out->failed. */
static bool encoder_grow(struct encoder *e, size_t words)
{
	encoder_save(e);
	if (!buffer_reserve(e->out, (words + WORDS_PER_CALL) * sizeof *e->w)) {
		e->out->failed = true;
		return false;
	}
	e->w = (uint64_t *)(void *)(e->out->data + e->out->bytes);
	e->limit = e->w + (e->out->capacity - e->out->bytes) / sizeof *e->w - WORDS_PER_CALL;
	return true;
}

static inline bool encoder_has_room(struct encoder *e)
{
	return e->w <= e->limit || encoder_grow(e, WORDS_PER_CALL);
}

/* ---- one slice ---- */

static void slice_emit(struct encoder *e, const struct slice *slice)
{
	const struct slices *s = e->s;
	const struct call *call = slice->call;
	const struct bracket *bracket = slice_bracket(s, call);
	enum fxt_args level = s->options->args;
	struct slice_refs refs = slice_refs_of(s, call);
	uint64_t *start = e->w;
	struct slice_args args = {.w = start + 2};
	if (refs.ip_arg) {
		*args.w++ = refs.ip_arg;
		args.count++;
	}
	if (level != FXT_ARGS_NONE) {
		if (call->flags & MARK_FLAGS)
			slice_args_marks(s, e->run->thread, call, &args);
		if (bracket)
			slice_args_bracket(s, bracket, &args);
		if (slice->deeper)
			slice_args_string(&args, s->fixed[FIXED_DEEPER], s->fixed[FIXED_NOT_DRAWN]);
	}
	if (level == FXT_ARGS_FULL)
		slice_args_full(s, call, &args);
	if (!slice->pair)
		*args.w++ = slice->end_ns - e->start_ns;
	start[0] = fxt_header_names_of(refs.header) |
		   fxt_header(slice->pair ? FXT_BEGIN : FXT_COMPLETE, (size_t)(args.w - start),
			      args.count, e->run->thread_ref);
	start[1] = slice->start_ns - e->start_ns;
	e->w = args.w;
}

/* ---- between slices ---- */

static void flow_emit(struct encoder *e, const struct arrow_end *end, uint64_t start_ns)
{
	const fxt_ref *fixed = e->s->fixed;

	if (!encoder_has_room(e))
		return;
	e->w[2] = e->run->marks->first_flow + end->flow;
	e->w = fxt_event(e->w, e->w + 3, (enum fxt_event_type)end->type, 0, e->run->thread_ref,
			 fixed[FIXED_FLOW],
			 fixed[end->kind == ARROW_TAIL_CALL ? FIXED_TAIL_CALL : FIXED_STACK_SWITCH],
			 start_ns - e->start_ns);
	e->counts->flows += end->type != FXT_FLOW_END;
}

/* Flows bind to the slice that is on top when they are read: they stand right behind the
 * start of their slice, with its time, before any child can cover it. The arrows of a slice
 * too deep to be drawn are those of the slice above. */
static void arrows_emit(struct encoder *e, uint32_t call, uint64_t start_ns)
{
	const struct arrow_ends *both[] = {&e->run->marks->coming, &e->run->marks->leaving};

	for (int i = 0; i < 2; i++) {
		const struct arrow_end *items = both[i]->items;

		e->arrows[i] = arrow_ends_find(both[i], call, e->arrows[i]);
		for (size_t at = e->arrows[i]; at > 0 && items[at - 1].call == call; at--)
			flow_emit(e, &items[at - 1], start_ns);
	}
}

static void encoder_next_instant(struct encoder *e)
{
	e->instant_ns = e->instant < e->run->instant_end
				? e->s->instants.rows.items[e->instant].time_ns
				: UINT64_MAX;
}

/* Instants before a time. To a viewer they are slices of zero length: at the same time as
 * others they come last, where they disturb nobody's nesting. */
static void instants_emit(struct encoder *e, uint64_t before_ns)
{
	while (e->instant_ns < before_ns && encoder_has_room(e)) {
		e->w = instant_put(e->s, &e->s->instants.rows.items[e->instant++],
				   e->run->thread_ref, e->w);
		e->counts->instants++;
		encoder_next_instant(e);
	}
}

static void close_one(struct encoder *e)
{
	struct slice_path *path = e->path;
	const struct open_slice *top = &path->open[path->depth--];

	path->floor_ns = top->end_ns; /* children never pass it, so floors only rise */
	if (!(top->flags & OPEN_PAIR))
		return;
	if (e->instant_ns < top->end_ns) {
		instants_emit(e, top->end_ns);
		if (!encoder_has_room(e))
			return;
	}
	e->w = fxt_event(e->w, e->w + 2, FXT_END, 0, e->run->thread_ref, 0, 0,
			 top->end_ns - e->start_ns);
}

/* What is left of the run's instants: what is open then has ended, or contains them. */
static void instants_finish(struct encoder *e)
{
	while (e->instant_ns != UINT64_MAX && encoder_has_room(e)) {
		while (e->path->depth > 0 && path_top(e->path)->end_ns <= e->instant_ns)
			close_one(e);
		instants_emit(e, e->instant_ns + 1);
	}
}

/* ---- calls ---- */

/* Calls [first, end) as long as they are what almost all are: functions and inlined frames
 * without marks, whose place in the path and times are as they should be. The first that is
 * not is returned. (Inline, as without --min-duration there is one comparison less.) */
static ALWAYS_INLINE uint32_t plain_calls_emit(struct encoder *e, uint32_t first, uint32_t end,
					       uint64_t min_ns)
{
	enum { NOT_PLAIN = MARK_FLAGS | CALL_HIDDEN | CALL_ROOT };
	const struct slices *s = e->s;
	const struct call *calls = e->run->thread->calls.items;
	const struct slice_refs *const tables[] = {
		[CALL_FRAME] = s->refs[CALL_FRAME].slices.items,
		[CALL_INLINED] = s->refs[CALL_INLINED].slices.items,
	};
	const uint64_t thread = fxt_header((enum fxt_event_type)0, 0, 0, e->run->thread_ref) - 4;
	const uint64_t pair_less =
		fxt_header(FXT_COMPLETE, 1, 0, 0) - fxt_header(FXT_BEGIN, 0, 0, 0);
	const uint64_t end_header = fxt_header(FXT_END, 2, 0, e->run->thread_ref);
	const uint64_t base_ns = e->start_ns;
	struct open_slice *open = e->path->open, *top = &open[e->path->depth];
	uint64_t floor_ns = e->path->floor_ns, zero_length = 0, inlined = 0;
	uint32_t index = first;

	if (s->options->args == FXT_ARGS_FULL)
		return first;
	if (e->special < first)
		e->special = mark_next(e->run->marks->special, first,
				       (uint32_t)e->run->thread->calls.count);
	if (end > e->special)
		end = e->special;
	/* Each has its slice, and one end at the most; others were open before. */
	ptrdiff_t need = 6 * (ptrdiff_t)(end - first);
	if (e->limit - e->w < need && !encoder_grow(e, (size_t)need))
		return first;
	uint64_t *w = e->w;
	for (; index < end; index++) {
		const struct call *call = &calls[index];
		uint64_t start_ns = call->start_ns, end_ns = call->end_ns;

		if (call->flags & NOT_PLAIN || call->kind >= CALL_BRACKET ||
		    e->instant_ns < start_ns)
			break;
		for (; top->call > call->parent; top--) {
			if (top->flags & OPEN_ROOT)
				break;
			floor_ns = top->end_ns;
			if (top->flags) {
				*w++ = end_header;
				*w++ = floor_ns - base_ns;
			}
		}
		uint64_t length_ns = end_ns - start_ns;
		int64_t too_short_ns = (int64_t)(length_ns - min_ns); /* or end before start */
		if (top->call != call->parent || top >= &open[FXT_DEPTH_MAX - 1] ||
		    start_ns < floor_ns || end_ns > top->end_ns || too_short_ns < 0)
			break;
		const struct slice_refs *refs = &tables[call->kind][call->what];
		uint64_t header = refs->header;
		uint32_t pair = length_ns == 0;
		/* No choice between its four shapes (with ip or not, complete or begin), which no
		 * processor could foresee. */
		uint64_t *next = w + fxt_header_words(header);
		w[0] = (header | thread) - pair * pair_less;
		w[1] = start_ns - base_ns;
		w[2] = refs->ip_arg;
		next[-1] = end_ns - base_ns; /* behind the end of a begin */
		w = next - pair;
		zero_length += pair;
		inlined += call->kind;
		floor_ns = start_ns;
		top++;
		top->end_ns = end_ns;
		top->call = index;
		top->flags = pair;
	}
	e->w = w;
	e->path->depth = (uint32_t)(top - open);
	e->path->floor_ns = floor_ns;
	_Static_assert(CALL_FRAME == 0 && CALL_INLINED == 1, "so counted");
	e->counts->calls += index - first - inlined;
	e->counts->slices += index - first;
	e->counts->zero_length += zero_length;
	return index;
}

/* Held inside what is open, and not before what was written. */
static void slice_clamp(struct encoder *e, struct slice *slice, uint64_t limit_ns)
{
	if (slice->start_ns < e->path->floor_ns)
		slice->start_ns = e->path->floor_ns;
	if (slice->start_ns > limit_ns)
		slice->start_ns = limit_ns;
	if (slice->end_ns > limit_ns)
		slice->end_ns = limit_ns;
	if (slice->end_ns < slice->start_ns)
		slice->end_ns = slice->start_ns;
	e->counts->clamped++;
}

/* Is the call that follows in this order a child of the one just taken from it? */
static bool next_is_child(struct call_order order, uint32_t call)
{
	uint32_t next = call_order_next(&order);

	return next != CALL_NONE && order.thread->calls.items[next].parent == call;
}

static void call_emit(struct encoder *e, const struct call_order *order, uint32_t index)
{
	const struct call *call = &order->thread->calls.items[index];
	bool special = mark_get(e->run->marks->special, index);
	struct slice_path *path = e->path;

	if (path->open[path->depth].call != call->parent) {
		uint32_t depth = path_depth_around(path, order->thread, call);

		while (path->depth > depth)
			close_one(e);
	}
	uint64_t limit_ns = path->open[path->depth].end_ns;
	struct slice slice = {.call = call, .start_ns = call->start_ns, .end_ns = call->end_ns};
	if (slice.start_ns < path->floor_ns || slice.end_ns > limit_ns ||
	    slice.end_ns < slice.start_ns)
		slice_clamp(e, &slice, limit_ns);
	path->floor_ns = slice.start_ns;
	e->counts->calls += call->kind == CALL_FRAME;
	if (e->instant_ns < slice.start_ns)
		instants_emit(e, slice.start_ns);
	if (call_is_short(e->s->trace, e->s->options, call)) {
		e->counts->too_short++;
	} else if (path->depth >= FXT_DEPTH_MAX) {
		e->counts->too_deep++;
	} else {
		slice.pair = slice.start_ns == slice.end_ns ||
			     (special && mark_get(e->run->marks->paired, index));
		slice.deeper = path->depth == FXT_DEPTH_MAX - 1 && next_is_child(*order, index);
		e->counts->slices++;
		e->counts->zero_length += slice.start_ns == slice.end_ns;
		slice_emit(e, &slice);
		path->open[++path->depth] = open_slice(call, index, slice.end_ns, slice.pair);
	}
	if (special && e->run->marks->coming.count)
		arrows_emit(e, index, slice.start_ns);
}

void slice_run_encode(const struct slices *s, const struct slice_run *run, struct slice_path *path,
		      struct buffer *out, struct fxt_counts *counts)
{
	struct encoder e = {.s = s,
			    .run = run,
			    .path = path,
			    .counts = counts,
			    .out = out,
			    .start_ns = s->trace->start_ns,
			    .instant = run->instant};
	uint64_t min_ns = s->options->min_duration_ns;
	struct call_order order = run->order;

	if (!encoder_grow(&e, WORDS_PER_CALL))
		return;
	encoder_next_instant(&e);
	for (uint32_t left = run->calls; left > 0 && encoder_has_room(&e); left--) {
		uint32_t first = order.call, stretch = order.end - first;

		stretch = stretch < left ? stretch : left;
		order.call = min_ns ? plain_calls_emit(&e, first, first + stretch, min_ns)
				    : plain_calls_emit(&e, first, first + stretch, 0);
		left -= order.call - first;
		if (left == 0)
			break;
		call_emit(&e, &order, call_order_next(&order));
	}
	instants_finish(&e);
	while (run->is_last && path->depth > 0 && encoder_has_room(&e))
		close_one(&e);
	encoder_save(&e);
}

/* ---- the path before a run ---- */

/* The last one of the thread before this run; 0 = none. */
static uint64_t instant_before(const struct slices *s, const struct slice_run *run)
{
	if (run->instant == 0)
		return 0;
	const struct instant_row *row = &s->instants.rows.items[run->instant - 1];
	return row->task == run->thread->task.v ? row->time_ns : 0;
}

bool slice_run_guess(const struct slices *s, const struct slice_run *run, struct slice_path *path)
{
	enum { LINKS_MAX = 1 << 16 };
	const struct thread *t = run->thread;
	uint32_t outer[FXT_DEPTH_MAX],
		call = run->before; /* the outermost of those found, a ring */
	size_t found = 0, links = 0;

	path_start(path, s->trace);
	path->floor_ns = t->calls.items[call].start_ns;
	for (; call != CALL_NONE && links < LINKS_MAX; links++) {
		if (!call_is_short(s->trace, s->options, &t->calls.items[call]))
			outer[found++ % FXT_DEPTH_MAX] = call;
		call = call_drawn(t, t->calls.items[call].parent);
	}
	while (found > 0 && path->depth < FXT_DEPTH_MAX) {
		uint32_t index = outer[--found % FXT_DEPTH_MAX];
		const struct call *c = &t->calls.items[index];

		path->open[++path->depth] =
			open_slice(c, index, c->end_ns,
				   c->start_ns == c->end_ns || mark_get(run->marks->paired, index));
	}
	/* See instants_finish(). */
	uint64_t instant_ns = instant_before(s, run);
	while (path->depth > 0 && path_top(path)->end_ns <= instant_ns)
		path->floor_ns = path->open[path->depth--].end_ns;
	return call == CALL_NONE;
}
