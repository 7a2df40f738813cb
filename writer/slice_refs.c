/* See slice_refs.h. */
#include "writer/slice_refs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

bool slice_refs_init(struct slices *s)
{
	/* One more, for brackets that do not exist. */
	s->bracket_names = calloc(s->trace->brackets.count + 1, sizeof *s->bracket_names);
	if (!s->bracket_names)
		return false;
	for (int i = 0; i < FIXED_COUNT; i++)
		s->fixed[i] = fxt_string_fixed(&s->fxt, fixed_texts[i]);
	for (int i = 0; i < JOIN_EVIDENCE_COUNT; i++)
		s->evidence[i] =
			fxt_string_fixed(&s->fxt, join_evidence_name((enum join_evidence)i));
	for (int i = 0; i < LOSS_COUNT; i++)
		s->loss[i] = fxt_string_fixed(&s->fxt, loss_name((enum loss)i));
	return true;
}

void slice_refs_done(struct slices *s)
{
	for (int kind = 0; kind <= CALL_BRACKET; kind++) {
		vec_done(&s->refs[kind].slices);
		vec_done(&s->refs[kind].full);
	}
	free(s->bracket_names);
}

bool slice_refs_fit(const struct slices *s)
{
	return fxt_strings_fit(&s->fxt, STRINGS_PER_EVENT);
}

void slice_refs_forget(struct slices *s)
{
	fxt_strings_reserve(&s->fxt, FXT_STRINGS_MAX);
	for (int kind = 0; kind < CALL_BRACKET; kind++)
		if (s->refs[kind].slices.count)
			memset(s->refs[kind].slices.items, 0,
			       s->refs[kind].slices.count * sizeof *s->refs[kind].slices.items);
	memset(s->bracket_names, 0, (s->trace->brackets.count + 1) * sizeof *s->bracket_names);
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

/* Items up to and including `at`, the new ones zero. They may move: nobody else may look. */
static bool refs_grow(struct slices *s, void **items, size_t *count, size_t *capacity,
		      size_t item_bytes, size_t at)
{
	if (at < *count)
		return true;
	if (output_drain(s->output, NULL) != ERR_NONE)
		return false; /* the next block meets the error */
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

/* As it stands in struct slice_refs. */
static uint64_t refs_header(fxt_ref category, fxt_ref name, bool has_ip)
{
	return fxt_header_names(category, name) | fxt_header(FXT_COMPLETE, 3u + has_ip, has_ip, 0);
}

static void frame_define(struct slices *s, node_id node)
{
	char scratch[NAME_SCRATCH_BYTES];

	if (!REFS_GROW(s, &s->refs[CALL_FRAME].slices, node))
		return;
	struct slice_refs *refs = &s->refs[CALL_FRAME].slices.items[node];
	if (refs->header)
		return;
	bool kernel = node && s->names->graph.hot[node].flags & NODE_KERNEL;
	bool has_ip = node && s->options->args != FXT_ARGS_NONE;
	refs->header =
		refs_header(s->fixed[kernel ? FIXED_KERNEL : FIXED_FUNCTION],
			    fxt_string(&s->fxt, name_frame(s->names, node, scratch)), has_ip);
	if (has_ip)
		fxt_arg_string(&refs->ip_arg, s->fixed[FIXED_IP],
			       slice_refs_ip(s, s->names->graph.cold[node].ip));
	if (node && s->options->args == FXT_ARGS_FULL)
		frame_make_full(s, node);
}

static void inlined_define(struct slices *s, inline_id id)
{
	char scratch[NAME_SCRATCH_BYTES];

	if (!REFS_GROW(s, &s->refs[CALL_INLINED].slices, id.v))
		return;
	struct slice_refs *refs = &s->refs[CALL_INLINED].slices.items[id.v];
	if (refs->header)
		return;
	refs->header = refs_header(s->fixed[FIXED_INLINED],
				   fxt_string(&s->fxt, name_inlined(s->names, id)), false);
	const struct inline_frame *frame =
		id.v ? symbolizer_inline_get(s->names->symbolizer, id) : NULL;
	if (frame && frame->call_line && s->options->args == FXT_ARGS_FULL &&
	    REFS_GROW(s, &s->refs[CALL_INLINED].full, id.v)) {
		str_id file = symbolizer_inline_call_file(s->names->symbolizer, id);

		s->refs[CALL_INLINED].full.items[id.v].call_site =
			fxt_string(&s->fxt, file_line(s, file, frame->call_line, scratch));
	}
}

static size_t bracket_index(const struct slices *s, const struct call *call)
{
	return call->what < s->trace->brackets.count ? call->what : s->trace->brackets.count;
}

static void bracket_define(struct slices *s, const struct call *call)
{
	const struct bracket *bracket = slice_bracket(s, call);
	fxt_ref *name = &s->bracket_names[bracket_index(s, call)];
	char scratch[NAME_SCRATCH_BYTES];

	if (*name)
		return;
	if (bracket && bracket->node)
		frame_define(s, bracket->node);
	*name = fxt_string(&s->fxt, name_call(s->trace, s->names, call, scratch));
}

void slice_refs_define(struct slices *s, const struct call *call)
{
	switch ((enum call_kind)call->kind) {
	case CALL_FRAME:
		if (s->options->args == FXT_ARGS_FULL && call->site)
			frame_define(s, call->site);
		frame_define(s, call->what);
		break;
	case CALL_INLINED: inlined_define(s, (inline_id){call->what}); break;
	case CALL_BRACKET: bracket_define(s, call); break;
	}
}

const struct bracket *slice_bracket(const struct slices *s, const struct call *call)
{
	return call->kind == CALL_BRACKET && call->what < s->trace->brackets.count
		       ? &s->trace->brackets.items[call->what]
		       : NULL;
}

struct slice_refs slice_refs_of(const struct slices *s, const struct call *call)
{
	if (call->kind != CALL_BRACKET)
		return s->refs[call->kind].slices.items[call->what];
	const struct bracket *bracket = slice_bracket(s, call);
	struct slice_refs refs = {
		.header = fxt_header_names(s->fixed[FIXED_GAP],
					   s->bracket_names[bracket_index(s, call)])};
	if (bracket && bracket->node)
		refs.ip_arg = s->refs[CALL_FRAME].slices.items[bracket->node].ip_arg;
	return refs;
}
