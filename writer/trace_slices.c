/* See trace_slices.h. How a call becomes events:
 *
 *     complete   one record [start, end): what almost every call is
 *     pair       begin ... end: calls of zero length, and calls in which a call of zero length
 *                starts at the very end. A viewer sorts by time and would take such a child
 *                for a sibling, or siblings for children; begin and end say by their order in
 *                the file what the times cannot.
 *     none       shorter than --min-duration, or too deep
 *
 * Which it is must be known at the parent's turn, before its children's: slices_mark_pairs()
 * looks at all of a thread's calls first.
 *
 * `open` is the path to the call written last; ends of pairs are written as it unwinds. Its
 * times are those written, so that holding a child inside its parent is one comparison. */
#include "writer/trace_slices.h"

#include <stdlib.h>
#include <string.h>

#include "writer/call_order.h"
#include "writer/names.h"
#include "writer/slice_args.h"
#include "writer/slice_refs.h"

enum open_state { OPEN_COMPLETE, OPEN_PAIR, OPEN_NOT_DRAWN };

enum err slices_init(struct slices *s, const struct trace *trace, const struct trace_names *names,
		     const struct fxt_options *options, struct output *output,
		     struct fxt_counts *counts, struct error *error)
{
	s->trace = trace;
	s->names = names;
	s->options = options;
	s->output = output;
	s->counts = counts;
	fxt_init(&s->fxt, "pt-decode");
	slice_refs_init(s);
	return slices_flush(s, false, error);
}

void slices_done(struct slices *s)
{
	instants_done(&s->instants);
	fxt_done(&s->fxt);
	for (int kind = 0; kind <= CALL_BRACKET; kind++) {
		vec_done(&s->refs[kind].slices);
		vec_done(&s->refs[kind].full);
	}
	vec_done(&s->open);
	vec_done(&s->paired);
	vec_done(&s->special);
	vec_done(&s->arrow_ends);
	map64_done(&s->arrow_heads);
	vec_done(&s->flows);
}

enum err slices_flush(struct slices *s, bool all, struct error *error)
{
	if (s->fxt.out.failed)
		return error_set(error, ERR_NOMEM, "out of memory while writing the trace");
	if (s->fxt.out.bytes < BUFFER_BLOCK_BYTES && !all)
		return ERR_NONE;
	s->counts->bytes += s->fxt.out.bytes;
	return output_put(s->output, &s->fxt.out, error);
}

uint64_t slices_time(const struct slices *s, uint64_t ns)
{
	uint64_t since = ns > s->trace->start_ns ? ns - s->trace->start_ns : 0;

	return since > INT64_MAX ? INT64_MAX : since;
}

/* ---- one slice ---- */

/* As the trace has it, held inside what is open. */
struct slice {
	const struct call *call;
	uint64_t start_ns, end_ns;
	bool pair, deeper;
};

static uint64_t event_header(const struct slices *s, const struct slice_refs *refs, size_t words,
			     unsigned args, bool pair)
{
	uint64_t type = pair ? FXT_BEGIN : FXT_COMPLETE;

	return refs->header | 4 | words << 4 | type << 16 | (uint64_t)args << 20 |
	       (uint64_t)s->thread_ref << 24;
}

/* What almost every slice is: a function seen before, no marks. Written without a choice
 * between its four shapes (with ip or not, complete or begin), which no processor could
 * foresee. False: this one needs slice_emit(). */
static inline bool slice_emit_plain(struct slices *s, const struct slice *slice)
{
	const struct call *call = slice->call;
	const struct refs_table *table = &s->refs[call->kind];
	struct buffer *out = &s->fxt.out;

	if (call->flags & MARK_FLAGS || call->what >= table->slices.count || slice->deeper ||
	    table->full.count)
		return false;
	const struct slice_refs *refs = &table->slices.items[call->what];
	if (refs->header == 0 || out->capacity - out->bytes < 5 * sizeof(uint64_t))
		return false;
	uint64_t *w = (uint64_t *)(void *)(out->data + out->bytes);
	unsigned args = refs->ip_arg != 0;
	size_t words = 3 + args - slice->pair;
	w[0] = event_header(s, refs, words, args, slice->pair);
	w[1] = slice->start_ns - s->trace->start_ns;
	w[2] = refs->ip_arg;
	w[2 + args] = slice->end_ns - s->trace->start_ns; /* behind the end of a begin */
	out->bytes += words * sizeof *w;
	return true;
}

/* All string refs are taken before the event is started: their records come before it. */
static void slice_emit(struct slices *s, const struct slice *slice)
{
	const struct call *call = slice->call;
	const struct bracket *bracket = NULL;
	enum fxt_args level = s->options->args;
	char scratch[NAME_SCRATCH_BYTES];
	struct slice_refs refs;

	slice_refs_reserve(s);
	if (call->kind == CALL_FRAME) {
		if (level == FXT_ARGS_FULL && call->site)
			slice_refs_frame(s, call->site);
		refs = slice_refs_frame(s, call->what);
	} else if (call->kind == CALL_INLINED) {
		refs = slice_refs_inlined(s, (inline_id){call->what});
	} else {
		const char *name = name_call(s->trace, s->names, call, scratch);

		refs = (struct slice_refs){.header = slice_refs_header(s->fixed[FIXED_GAP],
								       fxt_string(&s->fxt, name))};
		if (call->what < s->trace->brackets.count)
			bracket = &s->trace->brackets.items[call->what];
		if (bracket && bracket->node)
			refs.ip_arg = slice_refs_frame(s, bracket->node).ip_arg;
	}

	uint64_t *start = fxt_event_start(&s->fxt);
	if (!start)
		return;
	struct slice_args args = {.w = start + 2};
	if (refs.ip_arg) {
		*args.w++ = refs.ip_arg;
		args.count++;
	}
	if (level != FXT_ARGS_NONE) {
		if (call->flags & MARK_FLAGS)
			slice_args_marks(s, call, &args);
		if (bracket)
			slice_args_bracket(s, bracket, &args);
		if (slice->deeper)
			slice_args_string(&args, s->fixed[FIXED_DEEPER], s->fixed[FIXED_NOT_DRAWN]);
	}
	if (level == FXT_ARGS_FULL)
		slice_args_full(s, call, &args);
	if (!slice->pair)
		*args.w++ = slice->end_ns - s->trace->start_ns;
	start[0] = event_header(s, &refs, (size_t)(args.w - start), args.count, slice->pair);
	start[1] = slice->start_ns - s->trace->start_ns;
	s->fxt.out.bytes += (size_t)(args.w - start) * sizeof *start;
}

/* ---- flow arrows ---- */

static bool bit_get(const uint64_t *bits, uint32_t at)
{
	return bits[at / 64] & (uint64_t)1 << at % 64;
}

static void bit_set(uint64_t *bits, uint32_t at)
{
	bits[at / 64] |= (uint64_t)1 << at % 64;
}

/* What is lost is shown at any length. */
static bool call_is_loss(const struct trace *trace, const struct call *call)
{
	if (call->kind != CALL_BRACKET || call->what >= trace->brackets.count)
		return false;
	uint8_t kind = trace->brackets.items[call->what].kind;
	return kind == BRACKET_LOST || kind == BRACKET_MISSING_CODE ||
	       kind == BRACKET_MISSING_FRAME || kind == BRACKET_FILTERED;
}

static inline bool call_is_short(const struct slices *s, const struct call *call)
{
	return call->end_ns - call->start_ns < s->options->min_duration_ns &&
	       !call_is_loss(s->trace, call);
}

static bool arrow_end_add(struct slices *s, uint32_t call, uint32_t arrow, bool is_start)
{
	struct arrow_end end = {.arrow = arrow, .is_start = is_start};

	end.next = map64_get(&s->arrow_heads, call);
	bit_set(s->special.items, call);
	return vec_push(&s->arrow_ends, end) &&
	       map64_set(&s->arrow_heads, call, (uint32_t)s->arrow_ends.count - 1);
}

static enum err slices_find_arrows(struct slices *s, struct error *error)
{
	const struct thread *t = s->thread;

	s->arrow_ends.count = 0;
	s->flows.count = 0;
	map64_done(&s->arrow_heads);
	if (s->options->args == FXT_ARGS_NONE)
		return ERR_NONE;
	for (size_t i = 0; i < t->arrows.count; i++) {
		uint32_t from = call_drawn(t, t->arrows.items[i].from);
		uint32_t to = call_drawn(t, t->arrows.items[i].to);
		bool drawn = from != CALL_NONE && to != CALL_NONE && from != to &&
			     !call_is_short(s, &t->calls.items[from]) &&
			     !call_is_short(s, &t->calls.items[to]);

		if (!vec_push(&s->flows, 0) ||
		    (drawn && (!arrow_end_add(s, from, (uint32_t)i, true) ||
			       !arrow_end_add(s, to, (uint32_t)i, false))))
			return error_set(error, ERR_NOMEM, "out of memory for flow arrows");
	}
	return ERR_NONE;
}

#define FLOW_OVER UINT64_MAX

static void flow_write(struct slices *s, enum fxt_event_type type, uint32_t arrow,
		       uint64_t start_ns)
{
	bool tail = s->thread->arrows.items[arrow].kind == ARROW_TAIL_CALL;
	uint64_t *start = fxt_event_start(&s->fxt);

	if (!start)
		return;
	start[2] = s->flows.items[arrow];
	fxt_event_finish(&s->fxt, start, start + 3, type, 0, s->thread_ref, s->fixed[FIXED_FLOW],
			 s->fixed[tail ? FIXED_TAIL_CALL : FIXED_STACK_SWITCH],
			 slices_time(s, start_ns));
}

/* The first arrow that can leave this call: its head must still come. UINT32_MAX = none. */
static uint32_t arrow_leaving(const struct slices *s, uint32_t call)
{
	for (uint32_t at = map64_get(&s->arrow_heads, call); at != MAP64_NONE;
	     at = s->arrow_ends.items[at].next)
		if (s->arrow_ends.items[at].is_start &&
		    s->flows.items[s->arrow_ends.items[at].arrow] == 0)
			return s->arrow_ends.items[at].arrow;
	return UINT32_MAX;
}

/* Flows bind to the slice that is on top when they are read: they stand right behind the
 * start of their slice, with its time, before any child can cover it. An arrow that comes
 * and one that leaves are one step of a longer flow, which saves a record. */
static void slices_emit_arrows(struct slices *s, uint32_t call, uint64_t start_ns, bool drawn)
{
	const struct arrow *arrows = s->thread->arrows.items;
	uint32_t leaving = drawn ? arrow_leaving(s, call) : UINT32_MAX;

	for (uint32_t at = map64_get(&s->arrow_heads, call); at != MAP64_NONE;
	     at = s->arrow_ends.items[at].next) {
		uint32_t coming = s->arrow_ends.items[at].arrow;
		uint64_t *flow = &s->flows.items[coming];

		if (s->arrow_ends.items[at].is_start)
			continue;
		if (*flow != 0 && *flow != FLOW_OVER) {
			bool goes_on = leaving != UINT32_MAX &&
				       arrows[leaving].kind == arrows[coming].kind;

			flow_write(s, goes_on ? FXT_FLOW_STEP : FXT_FLOW_END, coming, start_ns);
			if (goes_on) {
				s->flows.items[leaving] = *flow;
				s->counts->flows++;
				leaving = arrow_leaving(s, call);
			}
		}
		*flow = FLOW_OVER;
	}
	for (; leaving != UINT32_MAX; leaving = arrow_leaving(s, call)) {
		s->flows.items[leaving] = ++s->last_flow;
		s->counts->flows++;
		flow_write(s, FXT_FLOW_BEGIN, leaving, start_ns);
	}
}

/* ---- a thread ---- */

static void slices_next_instant(struct slices *s)
{
	s->instant_ns = s->instant < s->instant_end ? s->instants.rows.items[s->instant].time_ns
						    : UINT64_MAX;
}

/* Instants before a time. To a viewer they are slices of zero length: at the same time as
 * others they come last, where they disturb nobody's nesting. */
static void slices_emit_instants(struct slices *s, uint64_t before_ns)
{
	while (s->instant_ns < before_ns) {
		instant_write(s, &s->instants.rows.items[s->instant++], s->thread_ref);
		slices_next_instant(s);
	}
}

static inline void slices_close_one(struct slices *s)
{
	struct open_slice top = *vec_last(&s->open);

	s->open.count--;
	if (top.state == OPEN_NOT_DRAWN)
		return;
	s->depth--;
	s->floor_ns = top.end_ns; /* children never pass it, so floors only rise */
	if (top.state == OPEN_PAIR) {
		if (s->instant_ns < top.end_ns)
			slices_emit_instants(s, top.end_ns);
		uint64_t *start = fxt_event_start(&s->fxt);

		if (start)
			fxt_event_finish(&s->fxt, start, start + 2, FXT_END, 0, s->thread_ref, 0, 0,
					 top.end_ns - s->trace->start_ns);
	}
}

/* Where the parent stands in `open`: its index + 1; 0 = closed already, or never drawn. */
static inline size_t slices_find_open(const struct slices *s, uint32_t parent)
{
	const struct open_slice *open = s->open.items;
	size_t at = s->open.count;

	while (at > 0 && open[at - 1].call != parent)
		at--;
	return at;
}

/* Closes what does not contain this call. */
static inline void slices_unwind_to(struct slices *s, const struct call *call)
{
	if (vec_last(&s->open)->call == call->parent)
		return;
	size_t at = slices_find_open(s, call->parent);
	if (at == 0)
		at = slices_find_open(s, call_drawn(s->thread, call->parent));
	if (at == 0) /* let the time decide */
		while (s->open.count > 1 && vec_last(&s->open)->end_ns <= call->start_ns)
			slices_close_one(s);
	else
		while (s->open.count > at)
			slices_close_one(s);
}

/* Held inside what is open, and not before what was written. */
static void slice_clamp(struct slices *s, struct slice *slice, uint64_t limit_ns)
{
	if (slice->start_ns < s->floor_ns)
		slice->start_ns = s->floor_ns;
	if (slice->start_ns > limit_ns)
		slice->start_ns = limit_ns;
	if (slice->end_ns > limit_ns)
		slice->end_ns = limit_ns;
	if (slice->end_ns < slice->start_ns)
		slice->end_ns = slice->start_ns;
	s->counts->clamped++;
}

/* Is the call that follows in this order a child of the one just taken from it? */
static bool next_is_child(struct call_order order, uint32_t call)
{
	uint32_t next = call_order_next(&order);

	return next != CALL_NONE && order.thread->calls.items[next].parent == call;
}

static enum err slices_call(struct slices *s, const struct call_order *order, uint32_t index,
			    struct error *error)
{
	const struct call *call = &order->thread->calls.items[index];
	bool special = bit_get(s->special.items, index);

	slices_unwind_to(s, call);
	uint64_t limit_ns = vec_last(&s->open)->end_ns;
	struct slice slice = {.call = call, .start_ns = call->start_ns, .end_ns = call->end_ns};
	if (slice.start_ns < s->floor_ns || slice.end_ns > limit_ns ||
	    slice.end_ns < slice.start_ns)
		slice_clamp(s, &slice, limit_ns);
	struct open_slice open = {.end_ns = slice.end_ns, .call = index, .state = OPEN_NOT_DRAWN};
	if (call_is_short(s, call)) {
		s->counts->too_short++;
	} else if (s->depth >= FXT_DEPTH_MAX) {
		s->counts->too_deep++;
	} else {
		slice.pair = slice.start_ns == slice.end_ns ||
			     (special && bit_get(s->paired.items, index));
		slice.deeper = s->depth == FXT_DEPTH_MAX - 1 && next_is_child(*order, index);
		open.state = slice.pair ? OPEN_PAIR : OPEN_COMPLETE;
		if (s->instant_ns < slice.start_ns)
			slices_emit_instants(s, slice.start_ns);
		s->depth++;
		s->floor_ns = slice.start_ns;
		s->counts->slices++;
		s->counts->zero_length += slice.start_ns == slice.end_ns;
		if (!slice_emit_plain(s, &slice))
			slice_emit(s, &slice);
	}
	if (special && s->arrow_ends.count)
		slices_emit_arrows(s, index, slice.start_ns, open.state != OPEN_NOT_DRAWN);
	if (!vec_push(&s->open, open))
		return error_set(error, ERR_NOMEM, "out of memory while writing the trace");
	return ERR_NONE;
}

/* See the top: calls of zero length, and those around one that starts at their end. */
static void slices_mark_pairs(struct slices *s)
{
	const struct thread *t = s->thread;

	for (uint32_t i = 0; i < t->calls.count; i++) {
		const struct call *call = &t->calls.items[i];

		if (call->start_ns != call->end_ns || call->flags & CALL_HIDDEN ||
		    call_is_short(s, call))
			continue;
		uint32_t up = call->parent;
		while (up != CALL_NONE && (up = call_drawn(t, up)) != CALL_NONE &&
		       t->calls.items[up].end_ns == call->start_ns &&
		       !bit_get(s->paired.items, up)) {
			bit_set(s->paired.items, up);
			bit_set(s->special.items, up);
			up = t->calls.items[up].parent;
		}
	}
}

/* Grown to a bit per call, all zero. */
#define bits_clear(v, bits) \
	(vec_reserve((v), (bits) / 64 + 1) && \
	 (memset((v)->items, 0, ((bits) / 64 + 1) * sizeof *(v)->items), true))

enum err slices_write_thread(struct slices *s, const struct thread *thread, uint8_t thread_ref,
			     struct error *error)
{
	uint64_t start_ns = s->trace->start_ns;
	struct open_slice all = {.call = CALL_NONE, .state = OPEN_NOT_DRAWN};
	struct call_order order = call_order_of(thread);

	all.end_ns = start_ns > UINT64_MAX - INT64_MAX ? UINT64_MAX : start_ns + INT64_MAX;
	s->thread = thread;
	s->thread_ref = thread_ref;
	s->depth = 0;
	s->floor_ns = start_ns;
	s->open.count = 0;
	s->instant = instants_of_task(&s->instants, thread->task);
	s->instant_end = instants_of_task(&s->instants, (task_id){thread->task.v + 1});
	slices_next_instant(s);
	if (!vec_push(&s->open, all) || !bits_clear(&s->paired, thread->calls.count) ||
	    !bits_clear(&s->special, thread->calls.count))
		return error_set(error, ERR_NOMEM, "out of memory while writing the trace");
	enum err err = slices_find_arrows(s, error);
	slices_mark_pairs(s);
	for (uint32_t call; err == ERR_NONE && (call = call_order_next(&order)) != CALL_NONE;) {
		err = slices_call(s, &order, call, error);
		if (err == ERR_NONE && s->fxt.out.bytes >= BUFFER_BLOCK_BYTES)
			err = slices_flush(s, false, error);
	}
	while (s->open.count > 1)
		slices_close_one(s);
	slices_emit_instants(s, UINT64_MAX);
	return err == ERR_NONE ? slices_flush(s, false, error) : err;
}
