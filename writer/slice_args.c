/* See slice_args.h. */
#include "writer/slice_args.h"

void slice_args_string(struct slice_args *a, fxt_ref name, fxt_ref value)
{
	if (value == 0 || a->count == FXT_ARGS_MAX)
		return;
	a->w = fxt_arg_string(a->w, name, value);
	a->count++;
}

static void args_unsigned(struct slice_args *a, fxt_ref name, uint64_t value)
{
	if (a->count == FXT_ARGS_MAX)
		return;
	a->w = fxt_arg_unsigned(a->w, name, value);
	a->count++;
}

/* As text: not all readers know boolean arguments. */
static void args_true(const struct slices *s, struct slice_args *a, enum fixed_string name)
{
	slice_args_string(a, s->fixed[name], s->fixed[FIXED_TRUE]);
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
static void args_stitched(const struct slices *s, const struct thread *t, const struct call *call,
			  struct slice_args *a)
{
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
		args_true(s, a, FIXED_STITCHED);
		return;
	}
	slice_args_string(a, s->fixed[FIXED_STITCHED], s->evidence[weakest->evidence]);
	args_unsigned(a, s->fixed[FIXED_GAPS], gaps);
	args_unsigned(a, s->fixed[FIXED_GAP_NS], gap_ns);
	slice_args_string(a, s->fixed[FIXED_GAP_CAUSE], s->loss[weakest->cause]);
	args_unsigned(a, s->fixed[FIXED_CONFIRMED_BY], weakest->agreeing);
}

void slice_args_marks(const struct slices *s, const struct thread *t, const struct call *call,
		      struct slice_args *a)
{
	static const struct {
		uint16_t flag;
		enum fixed_string name;
	} marks[] = {
		{CALL_AMBIGUOUS, FIXED_AMBIGUOUS}, {CALL_TAIL, FIXED_TAIL},
		{CALL_SIGNAL, FIXED_SIGNAL},       {CALL_ABORTED, FIXED_ABORTED},
		{CALL_SWITCHED, FIXED_SWITCHED},   {CALL_INTERRUPT, FIXED_INTERRUPT},
		{CALL_UNWOUND, FIXED_UNWOUND},
	};
	bool start = call->flags & CALL_START_INFERRED, end = call->flags & CALL_END_INFERRED;

	if (call->flags & CALL_STITCHED)
		args_stitched(s, t, call, a);
	if (start || end)
		slice_args_string(a, s->fixed[FIXED_INFERRED],
				  s->fixed[start && end ? FIXED_START_AND_END
					   : start      ? FIXED_START
							: FIXED_END]);
	for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
		if (call->flags & marks[i].flag)
			args_true(s, a, marks[i].name);
}

void slice_args_bracket(const struct slices *s, const struct bracket *bracket, struct slice_args *a)
{
	if (bracket->lost_bytes)
		args_unsigned(a, s->fixed[FIXED_LOST_BYTES], bracket->lost_bytes);
	if (bracket->kind == BRACKET_MISSING_FRAME)
		args_true(s, a, FIXED_MISSING_CODE);
	if (bracket->kind == BRACKET_SYSCALL && bracket->number >= 0)
		args_unsigned(a, s->fixed[FIXED_NUMBER], (uint32_t)bracket->number);
}

void slice_args_full(const struct slices *s, const struct call *call, struct slice_args *a)
{
	static const struct full_refs none;
	const struct full_refs *here = &none;
	fxt_ref called_at = 0;

	if (call->kind == CALL_INLINED) {
		if (call->what < s->refs[CALL_INLINED].full.count)
			called_at = s->refs[CALL_INLINED].full.items[call->what].call_site;
	} else if (call->kind == CALL_FRAME) {
		if (call->what < s->refs[CALL_FRAME].full.count)
			here = &s->refs[CALL_FRAME].full.items[call->what];
		if (call->site && call->site < s->refs[CALL_FRAME].full.count)
			called_at = s->refs[CALL_FRAME].full.items[call->site].call_site;
	}
	slice_args_string(a, s->fixed[FIXED_CALLED_AT], called_at);
	slice_args_string(a, s->fixed[FIXED_SYMBOL], here->symbol);
	slice_args_string(a, s->fixed[FIXED_MODULE], here->module);
	slice_args_string(a, s->fixed[FIXED_LINE], here->line);
}
