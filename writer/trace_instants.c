/* See trace_instants.h. */
#include "writer/trace_instants.h"

#include <stdio.h>
#include <stdlib.h>

#include "decode/flow.h"
#include "writer/slice_args.h"
#include "writer/slice_refs.h"

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

void instant_define(struct slices *s, struct instant_row *row)
{
	const struct sideband *sideband = s->names->sideband;
	const char *name, *detail = "";
	char title[64];
	uint64_t ip = 0;

	if (row->source == INSTANT_EVENT) {
		const struct instant *instant = &sideband->instants.items[row->index];

		name = intern_text(&sideband->names, instant->name);
		detail = intern_text(&sideband->names, instant->detail);
		ip = instant->ip;
	} else if (row->source == INSTANT_NAME) {
		/* Perfetto shows one name per thread; others it had are events. */
		const struct task_name *task_name = &sideband->task_names.items[row->index];

		snprintf(title, sizeof title, "%s: %s", task_name->exec ? "exec" : "comm",
			 intern_text(&sideband->names, task_name->comm));
		name = title;
	} else {
		const struct trace_mark *mark = &s->trace->marks.items[row->index];

		name = mark->kind == FLOW_PTWRITE ? "ptwrite"
		       : mark->kind == FLOW_POWER ? "power"
						  : "event";
		ip = mark->node ? s->names->graph.cold[mark->node].ip : 0;
	}
	row->name = fxt_string(&s->fxt, name[0] ? name : "event");
	row->detail = row->ip = 0;
	if (s->options->args == FXT_ARGS_NONE)
		return;
	row->detail = fxt_string(&s->fxt, detail);
	if (ip)
		row->ip = slice_refs_ip(s, ip);
}

uint64_t *instant_put(const struct slices *s, const struct instant_row *row, uint8_t thread_ref,
		      uint64_t *w)
{
	struct slice_args args = {.w = w + 2};
	enum fixed_string category = row->source == INSTANT_NAME ? FIXED_TASK : FIXED_EVENT;

	if (row->source == INSTANT_MARK) {
		args.w = fxt_arg_long(args.w, FXT_ARG_POINTER, s->fixed[FIXED_VALUE],
				      s->trace->marks.items[row->index].payload);
		args.count++;
	}
	slice_args_string(&args, s->fixed[FIXED_DETAIL], row->detail);
	slice_args_string(&args, s->fixed[FIXED_IP], row->ip);
	return fxt_event(w, args.w, FXT_INSTANT, args.count, thread_ref, s->fixed[category],
			 row->name, slices_time(s, row->time_ns));
}
