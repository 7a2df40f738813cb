/* See slice_refs.h. */
#include "writer/slice_refs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "writer/names.h"

enum { STRINGS_PER_EVENT = 16 };

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
	[FIXED_INTERRUPT] = "interrupt",
	[FIXED_ABORTED] = "aborted",
	[FIXED_SWITCHED] = "switched",
	[FIXED_UNWOUND] = "unwound",
	[FIXED_TRUE] = "true",
	[FIXED_DEEPER] = "deeper calls",
	[FIXED_NOT_DRAWN] = "not drawn: below the viewer's deepest level",
	[FIXED_LOST_BYTES] = "lost_bytes",
	[FIXED_NUMBER] = "number",
	[FIXED_MISSING_CODE] = "missing code",
	[FIXED_DETAIL] = "detail",
	[FIXED_VALUE] = "value",
	[FIXED_MHZ] = "MHz",
	[FIXED_PERF_TIME_NS] = "perf_time_ns",
	[FIXED_WALL_TIME_NS] = "wall_time_ns",
};

void slice_refs_init(struct slices *s)
{
	for (int i = 0; i < FIXED_COUNT; i++)
		s->fixed[i] = fxt_string_fixed(&s->fxt, fixed_texts[i]);
	for (int i = 0; i < JOIN_EVIDENCE_COUNT; i++)
		s->evidence[i] =
			fxt_string_fixed(&s->fxt, join_evidence_name((enum join_evidence)i));
	for (int i = 0; i < LOSS_COUNT; i++)
		s->loss[i] = fxt_string_fixed(&s->fxt, loss_name((enum loss)i));
}

void slice_refs_reserve(struct slices *s)
{
	fxt_strings_reserve(&s->fxt, STRINGS_PER_EVENT);
	if (s->generation == s->fxt.generation)
		return;
	s->generation = s->fxt.generation;
	for (int kind = 0; kind < CALL_BRACKET; kind++)
		if (s->refs[kind].slices.count)
			memset(s->refs[kind].slices.items, 0,
			       s->refs[kind].slices.count * sizeof *s->refs[kind].slices.items);
}

fxt_ref slice_refs_ip(struct slices *s, uint64_t ip)
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

uint64_t slice_refs_header(fxt_ref category, fxt_ref name)
{
	return (uint64_t)category << 32 | (uint64_t)name << 48;
}

/* Items up to and including `at`, the new ones zero. */
static bool refs_grow(struct slices *s, void **items, size_t *count, size_t *capacity,
		      size_t item_bytes, size_t at)
{
	if (at < *count)
		return true;
	if (!vec_reserve_(items, capacity, at + 1, item_bytes)) {
		s->fxt.out.failed = true;
		return false;
	}
	memset((char *)*items + *count * item_bytes, 0, (*capacity - *count) * item_bytes);
	*count = *capacity;
	return true;
}

#define REFS_GROW(s, v, at) \
	refs_grow((s), (void **)&(v)->items, &(v)->count, &(v)->capacity, sizeof *(v)->items, (at))

static void frame_make_full(struct slices *s, node_id node)
{
	struct symbolizer *symbolizer = s->names->symbolizer;
	const struct node_cold *cold = &s->names->graph.cold[node];
	func_id func = {s->names->graph.hot[node].func};
	char scratch[NAME_SCRATCH_BYTES];
	str_id file;
	uint32_t line;

	if (!REFS_GROW(s, &s->refs[CALL_FRAME].full, node))
		return;
	struct full_refs *refs = &s->refs[CALL_FRAME].full.items[node];
	*refs = (struct full_refs){0};
	if (func.v) {
		str_id name = symbolizer_func_linkage_name(symbolizer, func);

		refs->symbol = fxt_string(&s->fxt, symbolizer_text(symbolizer, name));
	}
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
		refs->call_site = slice_refs_ip(s, cold->branch_ip);
}

static struct slice_refs frame_refs_make(struct slices *s, node_id node)
{
	char scratch[NAME_SCRATCH_BYTES];

	if (!REFS_GROW(s, &s->refs[CALL_FRAME].slices, node))
		return (struct slice_refs){0};
	struct slice_refs *refs = &s->refs[CALL_FRAME].slices.items[node];
	bool kernel = node && s->names->graph.hot[node].flags & NODE_KERNEL;
	refs->header = slice_refs_header(s->fixed[kernel ? FIXED_KERNEL : FIXED_FUNCTION],
					 fxt_string(&s->fxt, name_frame(s->names, node, scratch)));
	if (node && s->options->args != FXT_ARGS_NONE)
		fxt_arg_string(&refs->ip_arg, s->fixed[FIXED_IP],
			       slice_refs_ip(s, s->names->graph.cold[node].ip));
	if (node && s->options->args == FXT_ARGS_FULL)
		frame_make_full(s, node);
	return *refs;
}

struct slice_refs slice_refs_frame(struct slices *s, node_id node)
{
	if (node < s->refs[CALL_FRAME].slices.count &&
	    s->refs[CALL_FRAME].slices.items[node].header)
		return s->refs[CALL_FRAME].slices.items[node];
	return frame_refs_make(s, node);
}

struct slice_refs slice_refs_inlined(struct slices *s, inline_id id)
{
	char scratch[NAME_SCRATCH_BYTES];

	if (id.v < s->refs[CALL_INLINED].slices.count &&
	    s->refs[CALL_INLINED].slices.items[id.v].header)
		return s->refs[CALL_INLINED].slices.items[id.v];
	if (!REFS_GROW(s, &s->refs[CALL_INLINED].slices, id.v))
		return (struct slice_refs){0};
	struct slice_refs *refs = &s->refs[CALL_INLINED].slices.items[id.v];
	refs->header = slice_refs_header(s->fixed[FIXED_INLINED],
					 fxt_string(&s->fxt, name_inlined(s->names, id)));
	const struct inline_frame *frame =
		id.v ? symbolizer_inline_get(s->names->symbolizer, id) : NULL;
	if (frame && frame->call_line && s->options->args == FXT_ARGS_FULL &&
	    REFS_GROW(s, &s->refs[CALL_INLINED].full, id.v)) {
		str_id file = symbolizer_inline_call_file(s->names->symbolizer, id);

		s->refs[CALL_INLINED].full.items[id.v].call_site =
			fxt_string(&s->fxt, file_line(s, file, frame->call_line, scratch));
	}
	return *refs;
}
