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

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "writer/names.h"

enum open_state { OPEN_COMPLETE, OPEN_PAIR, OPEN_NOT_DRAWN };

enum {
	STRINGS_PER_EVENT = 16,
	MARK_FLAGS = CALL_STITCHED | CALL_START_INFERRED | CALL_END_INFERRED | CALL_TAIL |
		     CALL_AMBIGUOUS | CALL_SIGNAL | CALL_ABORTED | CALL_SWITCHED | CALL_UNWOUND,
};

static const char *const fixed_texts[FIXED_COUNT] = {
	[FIXED_EMPTY] = "",
	[FIXED_FUNCTION] = "function",
	[FIXED_KERNEL] = "kernel",
	[FIXED_INLINED] = "inlined",
	[FIXED_GAP] = "gap",
	[FIXED_FLOW] = "flow",
	[FIXED_EVENT] = "event",
	[FIXED_TASK] = "task",
	[FIXED_CPU] = "cpu",
	[FIXED_TAIL_CALL] = "tail call",
	[FIXED_STACK_SWITCH] = "stack switch",
	[FIXED_PROCESS] = "process",
	[FIXED_IP] = "ip",
	[FIXED_SYMBOL] = "symbol",
	[FIXED_MODULE] = "module",
	[FIXED_LINE] = "line",
	[FIXED_CALLED_AT] = "called at",
	[FIXED_STITCHED] = "stitched",
	[FIXED_GAPS] = "gaps",
	[FIXED_GAP_NS] = "gap_ns",
	[FIXED_GAP_CAUSE] = "gap_cause",
	[FIXED_CONFIRMED_BY] = "confirmed_by_returns",
	[FIXED_AMBIGUOUS] = "ambiguous",
	[FIXED_INFERRED] = "inferred",
	[FIXED_START] = "start",
	[FIXED_END] = "end",
	[FIXED_START_AND_END] = "start and end",
	[FIXED_TAIL] = "tail",
	[FIXED_SIGNAL] = "signal",
	[FIXED_ABORTED] = "aborted",
	[FIXED_SWITCHED] = "switched",
	[FIXED_UNWOUND] = "unwound",
	[FIXED_DEEPER] = "deeper calls",
	[FIXED_NOT_DRAWN] = "not drawn: below the viewer's deepest level",
	[FIXED_LOST_BYTES] = "lost_bytes",
	[FIXED_NUMBER] = "number",
	[FIXED_DETAIL] = "detail",
	[FIXED_VALUE] = "value",
	[FIXED_MHZ] = "MHz",
	[FIXED_PERF_TIME_NS] = "perf_time_ns",
	[FIXED_WALL_TIME_NS] = "wall_time_ns",
};

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
	for (int i = 0; i < FIXED_COUNT; i++)
		s->fixed[i] = fxt_string_fixed(&s->fxt, fixed_texts[i]);
	for (int i = 0; i < JOIN_EVIDENCE_COUNT; i++)
		s->evidence[i] =
			fxt_string_fixed(&s->fxt, join_evidence_name((enum join_evidence)i));
	for (int i = 0; i < LOSS_COUNT; i++)
		s->loss[i] = fxt_string_fixed(&s->fxt, loss_name((enum loss)i));
	return slices_flush(s, false, error);
}

void slices_done(struct slices *s)
{
	fxt_done(&s->fxt);
	vec_done(&s->frames);
	vec_done(&s->inlined);
	vec_done(&s->open);
	vec_done(&s->paired);
	vec_done(&s->has_arrow);
	vec_done(&s->arrow_ends);
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

/* ---- names -> string refs, once per function ---- */

void slices_strings_reserve(struct slices *s)
{
	fxt_strings_reserve(&s->fxt, STRINGS_PER_EVENT);
	if (s->generation == s->fxt.generation)
		return;
	s->generation = s->fxt.generation;
	if (s->frames.count)
		memset(s->frames.items, 0, s->frames.count * sizeof *s->frames.items);
	if (s->inlined.count)
		memset(s->inlined.items, 0, s->inlined.count * sizeof *s->inlined.items);
}

fxt_ref slices_ip_ref(struct slices *s, uint64_t ip)
{
	char text[24];

	snprintf(text, sizeof text, "0x%" PRIx64, ip);
	return fxt_string(&s->fxt, text);
}

static const char *file_line(const struct slices *s, str_id file, uint32_t line,
			     char scratch[NAME_SCRATCH_BYTES])
{
	snprintf(scratch, NAME_SCRATCH_BYTES, "%s:%u", symbolizer_text(s->names->symbolizer, file),
		 line);
	return scratch;
}

static void frame_refs_make_full(struct slices *s, node_id node, struct frame_refs *refs)
{
	struct symbolizer *symbolizer = s->names->symbolizer;
	const struct node_cold *cold = &s->names->graph.cold[node];
	func_id func = {s->names->graph.hot[node].func};
	char scratch[NAME_SCRATCH_BYTES];
	str_id file;
	uint32_t line;

	if (func.v)
		refs->symbol = fxt_string(
			&s->fxt, symbolizer_text(symbolizer,
						 symbolizer_func_linkage_name(symbolizer, func)));
	if (cold->module.v == 0)
		return;
	refs->module = fxt_string(&s->fxt, name_module(s->names, cold->module));
	if (symbolizer_line(symbolizer, cold->module, cold->vaddr, &file, &line))
		refs->line = fxt_string(&s->fxt, file_line(s, file, line, scratch));
	/* As a call site: the line of the branch that ends the node, or its address. */
	uint64_t branch = cold->vaddr + (cold->branch_ip - cold->ip);
	if (symbolizer_line(symbolizer, cold->module, branch, &file, &line))
		refs->call_site = fxt_string(&s->fxt, file_line(s, file, line, scratch));
	else
		refs->call_site = slices_ip_ref(s, cold->branch_ip);
}

static const struct frame_refs *frame_refs_make(struct slices *s, node_id node)
{
	static const struct frame_refs none;
	char scratch[NAME_SCRATCH_BYTES];

	if (node >= s->frames.count) {
		size_t before = s->frames.count;

		if (!vec_reserve(&s->frames, (size_t)node + 1)) {
			s->fxt.out.failed = true;
			return &none;
		}
		s->frames.count = s->frames.capacity;
		memset(s->frames.items + before, 0,
		       (s->frames.count - before) * sizeof *s->frames.items);
	}
	struct frame_refs *refs = &s->frames.items[node];
	bool kernel = node && s->names->graph.hot[node].flags & NODE_KERNEL;
	refs->name = fxt_string(&s->fxt, name_frame(s->names, node, scratch));
	refs->category = s->fixed[kernel ? FIXED_KERNEL : FIXED_FUNCTION];
	if (node)
		refs->ip = slices_ip_ref(s, s->names->graph.cold[node].ip);
	if (node && s->options->args == FXT_ARGS_FULL)
		frame_refs_make_full(s, node, refs);
	return refs;
}

static inline const struct frame_refs *frame_refs(struct slices *s, node_id node)
{
	if (node < s->frames.count && s->frames.items[node].name)
		return &s->frames.items[node];
	return frame_refs_make(s, node);
}

static struct inlined_refs inlined_refs(struct slices *s, inline_id id)
{
	char scratch[NAME_SCRATCH_BYTES];

	if (id.v < s->inlined.count && s->inlined.items[id.v].name)
		return s->inlined.items[id.v];
	while (s->inlined.count <= id.v) {
		if (!vec_push(&s->inlined, (struct inlined_refs){0})) {
			s->fxt.out.failed = true;
			return (struct inlined_refs){0};
		}
	}
	struct inlined_refs *refs = &s->inlined.items[id.v];
	refs->name = fxt_string(&s->fxt, name_inlined(s->names, id));
	const struct inline_frame *frame =
		id.v ? symbolizer_inline_get(s->names->symbolizer, id) : NULL;
	if (frame && frame->call_line && s->options->args == FXT_ARGS_FULL) {
		str_id file = symbolizer_inline_call_file(s->names->symbolizer, id);

		refs->called_at =
			fxt_string(&s->fxt, file_line(s, file, frame->call_line, scratch));
	}
	return *refs;
}

/* ---- arguments ---- */

struct args {
	uint64_t *w;
	unsigned count;
};

static void args_string(struct args *a, fxt_ref name, fxt_ref value)
{
	if (value == 0 || a->count == FXT_ARGS_MAX)
		return;
	a->w = fxt_arg_string(a->w, name, value);
	a->count++;
}

static void args_unsigned(struct args *a, fxt_ref name, uint64_t value)
{
	if (a->count == FXT_ARGS_MAX)
		return;
	a->w = fxt_arg_unsigned(a->w, name, value);
	a->count++;
}

static void args_true(struct args *a, fxt_ref name)
{
	if (a->count == FXT_ARGS_MAX)
		return;
	a->w = fxt_arg_true(a->w, name);
	a->count++;
}

/* The first join at or after a time; joins are in order of time. */
static size_t join_at(const struct thread *t, uint64_t ns)
{
	size_t low = 0, high = t->joins.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->joins.items[middle].lost_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A call that goes on across losses: by what evidence, and how much is missing. With several
 * losses, of the weakest kind of evidence. */
static void args_stitched(const struct slices *s, const struct call *call, struct args *a)
{
	const struct thread *t = s->thread;
	size_t end = join_at(t, call->end_ns), gaps = 0;
	const struct join *weakest = NULL;
	uint64_t gap_ns = 0;

	for (size_t i = join_at(t, call->start_ns); i < end; i++) {
		const struct join *j = &t->joins.items[i];

		if (j->evidence >= JOIN_BARRIER || j->cause >= LOSS_COUNT)
			continue;
		if (!weakest || j->evidence > weakest->evidence)
			weakest = j;
		if (j->resumed_ns > j->lost_ns)
			gap_ns += j->resumed_ns - j->lost_ns;
		gaps++;
	}
	if (!weakest) {
		args_true(a, s->fixed[FIXED_STITCHED]);
		return;
	}
	args_string(a, s->fixed[FIXED_STITCHED], s->evidence[weakest->evidence]);
	args_unsigned(a, s->fixed[FIXED_GAPS], gaps);
	args_unsigned(a, s->fixed[FIXED_GAP_NS], gap_ns);
	args_string(a, s->fixed[FIXED_GAP_CAUSE], s->loss[weakest->cause]);
	args_unsigned(a, s->fixed[FIXED_CONFIRMED_BY], weakest->agreeing);
}

static void args_marks(const struct slices *s, const struct call *call, struct args *a)
{
	static const struct {
		uint16_t flag;
		enum fixed_string name;
	} marks[] = {
		{CALL_AMBIGUOUS, FIXED_AMBIGUOUS}, {CALL_TAIL, FIXED_TAIL},
		{CALL_SIGNAL, FIXED_SIGNAL},       {CALL_ABORTED, FIXED_ABORTED},
		{CALL_SWITCHED, FIXED_SWITCHED},   {CALL_UNWOUND, FIXED_UNWOUND},
	};
	bool start = call->flags & CALL_START_INFERRED, end = call->flags & CALL_END_INFERRED;

	if (call->flags & CALL_STITCHED)
		args_stitched(s, call, a);
	if (start || end)
		args_string(a, s->fixed[FIXED_INFERRED],
			    s->fixed[start && end ? FIXED_START_AND_END
				     : start      ? FIXED_START
						  : FIXED_END]);
	for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
		if (call->flags & marks[i].flag)
			args_true(a, s->fixed[marks[i].name]);
}

static void args_bracket(struct slices *s, const struct bracket *bracket, fxt_ref ip,
			 struct args *a)
{
	args_string(a, s->fixed[FIXED_IP], ip);
	if (bracket->lost_bytes)
		args_unsigned(a, s->fixed[FIXED_LOST_BYTES], bracket->lost_bytes);
	if (bracket->kind == BRACKET_SYSCALL && bracket->number >= 0)
		args_unsigned(a, s->fixed[FIXED_NUMBER], (uint32_t)bracket->number);
}

/* ---- one slice ---- */

/* All string refs are taken before the event is started: their records come before it. */
static void slice_emit(struct slices *s, const struct call *call, uint64_t start_ns,
		       uint64_t end_ns, bool pair, bool deeper)
{
	const struct bracket *bracket = NULL;
	const struct frame_refs *frame = NULL, *site = NULL;
	fxt_ref name, category, ip = 0, called_at = 0;
	enum fxt_args level = s->options->args;
	char scratch[NAME_SCRATCH_BYTES];

	slices_strings_reserve(s);
	if (call->kind == CALL_FRAME) {
		if (level == FXT_ARGS_FULL && call->site)
			called_at = frame_refs(s, call->site)->call_site;
		frame = frame_refs(s, call->what);
		name = frame->name;
		category = frame->category;
		ip = frame->ip;
	} else if (call->kind == CALL_INLINED) {
		struct inlined_refs refs = inlined_refs(s, (inline_id){call->what});

		name = refs.name;
		called_at = refs.called_at;
		category = s->fixed[FIXED_INLINED];
	} else {
		name = fxt_string(&s->fxt, name_call(s->trace, s->names, call, scratch));
		category = s->fixed[FIXED_GAP];
		if (call->what < s->trace->brackets.count)
			bracket = &s->trace->brackets.items[call->what];
		if (bracket && bracket->node)
			site = frame_refs(s, bracket->node);
	}

	uint64_t *start = fxt_event_start(&s->fxt);
	if (!start)
		return;
	struct args args = {.w = start + 2};
	if (level != FXT_ARGS_NONE) {
		if (ip)
			args_string(&args, s->fixed[FIXED_IP], ip);
		if (call->flags & MARK_FLAGS)
			args_marks(s, call, &args);
		if (bracket)
			args_bracket(s, bracket, site ? site->ip : 0, &args);
		if (deeper)
			args_string(&args, s->fixed[FIXED_DEEPER], s->fixed[FIXED_NOT_DRAWN]);
		if (level == FXT_ARGS_FULL) {
			args_string(&args, s->fixed[FIXED_CALLED_AT], called_at);
			if (frame) {
				args_string(&args, s->fixed[FIXED_SYMBOL], frame->symbol);
				args_string(&args, s->fixed[FIXED_MODULE], frame->module);
				args_string(&args, s->fixed[FIXED_LINE], frame->line);
			}
		}
	}
	if (!pair)
		*args.w++ = slices_time(s, end_ns);
	fxt_event_finish(&s->fxt, start, args.w, pair ? FXT_BEGIN : FXT_COMPLETE, args.count,
			 s->thread_ref, category, name, slices_time(s, start_ns));
	s->counts->slices++;
	s->counts->zero_length += start_ns == end_ns;
}

/* ---- flow arrows ---- */

static bool bit_get(const uint64_t *bits, uint32_t at)
{
	return bits[at / 64] >> at % 64 & 1;
}

static void bit_set(uint64_t *bits, uint32_t at)
{
	bits[at / 64] |= (uint64_t)1 << at % 64;
}

static int arrow_end_compare(const void *a, const void *b)
{
	const struct arrow_end *x = a, *y = b;

	if (x->call != y->call)
		return x->call < y->call ? -1 : 1;
	return x->arrow < y->arrow ? -1 : x->arrow > y->arrow;
}

/* The call that draws this one: a root found to be a frame of an earlier segment is hidden
 * and names that frame in `site`. Chains get shorter towards the thread's start. */
static uint32_t call_drawn(const struct thread *t, uint32_t call)
{
	while (call < t->calls.count && t->calls.items[call].flags & CALL_HIDDEN) {
		uint32_t merged = t->calls.items[call].site;

		if (merged >= call)
			return CALL_NONE;
		call = merged;
	}
	return call < t->calls.count ? call : CALL_NONE;
}

static bool call_is_short(const struct slices *s, const struct call *call)
{
	uint64_t least = s->options->min_duration_ns;

	/* What is lost is shown at any length. */
	return least && call->end_ns - call->start_ns < least && call->kind != CALL_BRACKET;
}

static enum err slices_find_arrows(struct slices *s, struct error *error)
{
	const struct thread *t = s->thread;

	s->arrow_ends.count = 0;
	s->flows.count = 0;
	if (t->arrows.count == 0 || s->options->args == FXT_ARGS_NONE)
		return ERR_NONE;
	for (size_t i = 0; i < t->arrows.count; i++) {
		uint32_t from = call_drawn(t, t->arrows.items[i].from);
		uint32_t to = call_drawn(t, t->arrows.items[i].to);
		bool drawn = from != CALL_NONE && to != CALL_NONE && from != to &&
			     !call_is_short(s, &t->calls.items[from]) &&
			     !call_is_short(s, &t->calls.items[to]);
		struct arrow_end start = {from, (uint32_t)i, true}, end = {to, (uint32_t)i, false};

		if (!vec_push(&s->flows, 0) ||
		    (drawn && (!vec_push(&s->arrow_ends, start) || !vec_push(&s->arrow_ends, end))))
			return error_set(error, ERR_NOMEM, "out of memory for flow arrows");
		if (drawn) {
			bit_set(s->has_arrow.items, from);
			bit_set(s->has_arrow.items, to);
		}
	}
	if (s->arrow_ends.count)
		qsort(s->arrow_ends.items, s->arrow_ends.count, sizeof *s->arrow_ends.items,
		      arrow_end_compare);
	return ERR_NONE;
}

#define FLOW_OVER UINT64_MAX

/* Flows bind to the slice that is on top when they are read: they stand right behind the
 * start of their slice, with its time, before any child can cover it. The other end must
 * still come: an arrow whose head was passed already is left out. */
static void slices_emit_arrows(struct slices *s, uint32_t call, uint64_t start_ns, bool drawn)
{
	size_t low = 0, high = s->arrow_ends.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->arrow_ends.items[middle].call < call)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < s->arrow_ends.count && s->arrow_ends.items[low].call == call; low++) {
		const struct arrow_end *end = &s->arrow_ends.items[low];
		uint64_t *flow = &s->flows.items[end->arrow];
		bool begins = end->is_start && *flow == 0 && drawn;

		if (begins) {
			*flow = ++s->last_flow;
			s->counts->flows++;
		}
		if (begins || (!end->is_start && *flow != 0 && *flow != FLOW_OVER)) {
			uint64_t *start = fxt_event_start(&s->fxt);
			bool tail = s->thread->arrows.items[end->arrow].kind == 0;

			if (!start)
				return;
			start[2] = *flow;
			fxt_event_finish(&s->fxt, start, start + 3,
					 begins ? FXT_FLOW_BEGIN : FXT_FLOW_END, 0, s->thread_ref,
					 s->fixed[FIXED_FLOW],
					 s->fixed[tail ? FIXED_TAIL_CALL : FIXED_STACK_SWITCH],
					 slices_time(s, start_ns));
		}
		if (!end->is_start)
			*flow = FLOW_OVER;
	}
}

/* ---- a thread ---- */

static void slices_close_one(struct slices *s)
{
	struct open_slice *top = vec_last(&s->open);

	s->open.count--;
	if (top->state == OPEN_NOT_DRAWN)
		return;
	s->depth--;
	if (top->end_ns > s->floor_ns)
		s->floor_ns = top->end_ns;
	if (top->state == OPEN_PAIR) {
		uint64_t *start = fxt_event_start(&s->fxt);

		if (start)
			fxt_event_finish(&s->fxt, start, start + 2, FXT_END, 0, s->thread_ref, 0, 0,
					 slices_time(s, top->end_ns));
	}
}

/* Closes what does not contain a call with this parent. */
static void slices_unwind_to(struct slices *s, uint32_t parent, uint64_t start_ns)
{
	size_t at = s->open.count;

	while (at > 0 && s->open.items[at - 1].call != parent)
		at--;
	if (at == 0) /* a parent that is closed already: let the time decide */
		while (s->open.count > 1 && vec_last(&s->open)->end_ns <= start_ns)
			slices_close_one(s);
	else
		while (s->open.count > at)
			slices_close_one(s);
}

static enum err slices_call(struct slices *s, uint32_t index, uint32_t next, struct error *error)
{
	const struct call *call = &s->thread->calls.items[index];
	uint32_t parent =
		call->parent == CALL_NONE ? CALL_NONE : call_drawn(s->thread, call->parent);

	slices_unwind_to(s, parent, call->start_ns);
	uint64_t limit_ns = vec_last(&s->open)->end_ns;
	uint64_t start_ns = call->start_ns > s->floor_ns ? call->start_ns : s->floor_ns;
	if (start_ns > limit_ns)
		start_ns = limit_ns;
	uint64_t end_ns = call->end_ns < limit_ns ? call->end_ns : limit_ns;
	if (end_ns < start_ns)
		end_ns = start_ns;
	if (start_ns != call->start_ns || end_ns != call->end_ns)
		s->counts->clamped++;

	struct open_slice open = {.end_ns = end_ns, .call = index, .state = OPEN_NOT_DRAWN};
	if (call_is_short(s, call)) {
		s->counts->too_short++;
	} else if (s->depth >= FXT_DEPTH_MAX) {
		s->counts->too_deep++;
	} else {
		bool pair = start_ns == end_ns || bit_get(s->paired.items, index);
		bool deeper = s->depth == FXT_DEPTH_MAX - 1 && next != CALL_NONE &&
			      s->thread->calls.items[next].parent == index;

		open.state = pair ? OPEN_PAIR : OPEN_COMPLETE;
		s->depth++;
		s->floor_ns = start_ns;
		slice_emit(s, call, start_ns, end_ns, pair, deeper);
	}
	if (s->arrow_ends.count && bit_get(s->has_arrow.items, index))
		slices_emit_arrows(s, index, start_ns, open.state != OPEN_NOT_DRAWN);
	if (!vec_push(&s->open, open))
		return error_set(error, ERR_NOMEM, "out of memory while writing the trace");
	return slices_flush(s, false, error);
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
		bit_set(s->paired.items, i);
		uint32_t up = call->parent;
		while (up != CALL_NONE && (up = call_drawn(t, up)) != CALL_NONE &&
		       t->calls.items[up].end_ns == call->start_ns &&
		       !bit_get(s->paired.items, up)) {
			bit_set(s->paired.items, up);
			up = t->calls.items[up].parent;
		}
	}
}

/* The thread's calls in the order of trace.h, one ahead of the writing. */
struct cursor {
	const struct thread *thread;
	size_t segment;
	uint32_t root, call; /* next in the segment */
};

static void cursor_segment(struct cursor *c, size_t segment)
{
	c->segment = segment;
	if (segment < c->thread->segments.count) {
		c->root = c->thread->segments.items[segment].first_root;
		c->call = c->thread->segments.items[segment].first_call;
	}
}

static uint32_t cursor_next(struct cursor *c)
{
	const struct thread *t = c->thread;

	for (; c->segment < t->segments.count; cursor_segment(c, c->segment + 1)) {
		const struct segment *segment = &t->segments.items[c->segment];

		while (c->root < segment->end_root && c->root < t->roots.count) {
			uint32_t call = t->roots.items[c->root++];

			if (call < t->calls.count && !(t->calls.items[call].flags & CALL_HIDDEN))
				return call;
		}
		while (c->call < segment->end_call && c->call < t->calls.count) {
			uint32_t call = c->call++;

			if (!(t->calls.items[call].flags & (CALL_HIDDEN | CALL_ROOT)))
				return call;
		}
	}
	return CALL_NONE;
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
	struct cursor cursor = {.thread = thread};

	all.end_ns = start_ns > UINT64_MAX - INT64_MAX ? UINT64_MAX : start_ns + INT64_MAX;
	s->thread = thread;
	s->thread_ref = thread_ref;
	s->depth = 0;
	s->floor_ns = start_ns;
	s->open.count = 0;
	if (!vec_push(&s->open, all) || !bits_clear(&s->paired, thread->calls.count) ||
	    !bits_clear(&s->has_arrow, thread->calls.count))
		return error_set(error, ERR_NOMEM, "out of memory while writing the trace");
	enum err err = slices_find_arrows(s, error);
	slices_mark_pairs(s);
	cursor_segment(&cursor, 0);
	for (uint32_t call = cursor_next(&cursor); call != CALL_NONE && err == ERR_NONE;) {
		uint32_t next = cursor_next(&cursor);

		err = slices_call(s, call, next, error);
		call = next;
	}
	while (s->open.count > 1)
		slices_close_one(s);
	return err == ERR_NONE ? slices_flush(s, false, error) : err;
}
