/* See trace_instants.h. */
#include "writer/trace_instants.h"

#include <stdio.h>
#include <stdlib.h>

#include "decode/flow.h"
#include "writer/slice_refs.h"
#include "writer/trace_slices.h"

static int instant_compare(const void *a, const void *b)
{
	const struct instant_row *x = a, *y = b;

	if (x->task != y->task)
		return x->task < y->task ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static bool instants_add(struct instants *in, const struct trace *trace, enum instant_source source,
			 size_t index, uint64_t time_ns, task_id task)
{
	struct instant_row row = {.time_ns = time_ns,
				  .task = task.v,
				  .index = (uint32_t)index,
				  .source = (uint8_t)source};

	/* Events far from what was traced would only shrink the picture. */
	if (time_ns < trace->start_ns || time_ns > trace->end_ns)
		return true;
	return vec_push(&in->rows, row);
}

bool instants_collect(struct instants *in, const struct trace *trace,
		      const struct sideband *sideband)
{
	bool ok = true;

	for (size_t i = 0; ok && i < sideband->instants.count; i++)
		ok = instants_add(in, trace, INSTANT_EVENT, i, sideband->instants.items[i].time_ns,
				  sideband->instants.items[i].task);
	for (size_t i = 0; ok && i < sideband->task_names.count; i++)
		if (sideband->task_names.items[i].time_ns > 0) /* others were there before */
			ok = instants_add(in, trace, INSTANT_NAME, i,
					  sideband->task_names.items[i].time_ns,
					  sideband->task_names.items[i].task);
	for (size_t i = 0; ok && i < trace->marks.count; i++)
		ok = instants_add(in, trace, INSTANT_MARK, i, trace->marks.items[i].time_ns,
				  trace->marks.items[i].task);
	if (in->rows.count)
		qsort(in->rows.items, in->rows.count, sizeof *in->rows.items, instant_compare);
	return ok;
}

size_t instants_of_task(const struct instants *in, task_id task)
{
	size_t low = 0, high = in->rows.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (in->rows.items[middle].task < task.v)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void instants_done(struct instants *in)
{
	vec_done(&in->rows);
}

/* What to say of a row; `title` is room for a name made here. */
struct instant_text {
	const char *name, *detail; /* detail: "" = none */
	enum fixed_string category;
	uint64_t ip; /* 0 = none */
	bool has_value;
	uint64_t value;
};

static struct instant_text instant_describe(const struct slices *s, const struct instant_row *row,
					    char title[64])
{
	const struct sideband *sideband = s->names->sideband;
	struct instant_text text = {.name = title, .detail = "", .category = FIXED_EVENT};

	if (row->source == INSTANT_EVENT) {
		const struct instant *instant = &sideband->instants.items[row->index];

		text.name = intern_text(&sideband->names, instant->name);
		text.detail = intern_text(&sideband->names, instant->detail);
		text.ip = instant->ip;
	} else if (row->source == INSTANT_NAME) {
		/* Perfetto shows one name per thread; others it had are events. */
		const struct task_name *name = &sideband->task_names.items[row->index];

		text.category = FIXED_TASK;
		snprintf(title, 64, "%s: %s", name->exec ? "exec" : "comm",
			 intern_text(&sideband->names, name->comm));
	} else {
		const struct trace_mark *mark = &s->trace->marks.items[row->index];

		text.name = mark->kind == FLOW_PTWRITE ? "ptwrite"
			    : mark->kind == FLOW_POWER ? "power"
						       : "event";
		text.ip = mark->node ? s->names->graph.cold[mark->node].ip : 0;
		text.has_value = true;
		text.value = mark->payload;
	}
	if (!text.name[0])
		text.name = "event";
	return text;
}

void instant_write(struct slices *s, const struct instant_row *row, uint8_t thread_ref)
{
	char title[64];
	struct instant_text text = instant_describe(s, row, title);
	fxt_ref detail = 0, ip = 0;
	unsigned args = 0;

	slice_refs_reserve(s);
	fxt_ref name = fxt_string(&s->fxt, text.name);
	if (s->options->args != FXT_ARGS_NONE) {
		detail = fxt_string(&s->fxt, text.detail);
		ip = text.ip ? slice_refs_ip(s, text.ip) : 0;
	}
	uint64_t *start = fxt_event_start(&s->fxt);
	if (!start)
		return;
	uint64_t *w = start + 2;
	if (text.has_value) {
		w = fxt_arg_long(w, FXT_ARG_POINTER, s->fixed[FIXED_VALUE], text.value);
		args++;
	}
	if (detail) {
		w = fxt_arg_string(w, s->fixed[FIXED_DETAIL], detail);
		args++;
	}
	if (ip) {
		w = fxt_arg_string(w, s->fixed[FIXED_IP], ip);
		args++;
	}
	fxt_event_finish(&s->fxt, start, w, FXT_INSTANT, args, thread_ref, s->fixed[text.category],
			 name, slices_time(s, row->time_ns));
	s->counts->instants++;
}
