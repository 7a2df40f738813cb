/* See select.h. */
#include "decode/select.h"

#include <stdlib.h>
#include <string.h>

struct window {
	uint64_t from_ns, until_ns;
};

struct windows {
	VEC(struct window) items; /* sorted, disjoint */
};

static bool holds(const int32_t *items, size_t count, int32_t value)
{
	for (size_t i = 0; i < count; i++)
		if (items[i] == value)
			return true;
	return count == 0;
}

bool select_task(const struct selection *s, const struct sideband *sideband, task_id id)
{
	const struct task *task = &sideband->tasks.items[id.v];

	if (!holds(s->pids, s->pid_count, task->pid) || !holds(s->tids, s->tid_count, task->tid))
		return false;
	if (s->comm_count == 0)
		return true;
	for (size_t i = 0; i < sideband->task_names.count; i++) {
		const struct task_name *n = &sideband->task_names.items[i];

		for (size_t k = 0; n->task.v == id.v && k < s->comm_count; k++)
			if (strcmp(intern_text(&sideband->names, n->comm), s->comms[k]) == 0)
				return true;
	}
	return false;
}

static bool func_is(const func_id *ids, size_t count, uint32_t func)
{
	for (size_t i = 0; i < count; i++)
		if (ids[i].v == func)
			return true;
	return false;
}

enum { BETWEEN_FUNCS_MAX = 64 };

/* Windows from each call of `start` to the next call of `stop` (or the thread's end). */
static bool windows_between(struct windows *w, const struct thread *t, struct graph_tables g,
			    const func_id *start, size_t starts, const func_id *stop, size_t stops)
{
	w->items.count = 0;
	for (size_t i = 0; i < t->calls.count; i++) {
		const struct call *c = &t->calls.items[i];
		struct window *last = w->items.count ? vec_last(&w->items) : NULL;
		bool open = last && last->until_ns == TIME_NONE;

		if (c->kind != CALL_FRAME || c->flags & (CALL_HIDDEN | CALL_ROOT))
			continue;
		uint32_t func = g.hot[c->what].func;
		if (open && c->start_ns > last->from_ns && func_is(stop, stops, func))
			last->until_ns = c->start_ns;
		else if (!open && func_is(start, starts, func) &&
			 !vec_push(&w->items, ((struct window){c->start_ns, TIME_NONE})))
			return false;
	}
	return true;
}

/* The part of [start, end] inside the first window that it meets; false = none. */
static bool window_clip(const struct windows *w, size_t *at, struct call *c)
{
	while (*at < w->items.count && w->items.items[*at].until_ns <= c->start_ns)
		(*at)++;
	/* Rows come in start order but for roots, which may reach back. */
	for (size_t i = c->flags & CALL_ROOT ? 0 : *at; i < w->items.count; i++) {
		const struct window *win = &w->items.items[i];

		if (win->from_ns > c->end_ns)
			return false;
		if (win->until_ns <= c->start_ns)
			continue;
		if (c->start_ns < win->from_ns)
			c->start_ns = win->from_ns;
		/* Up to the last window that it reaches: one slice, not several. */
		uint64_t until = win->until_ns;
		for (; i < w->items.count && w->items.items[i].from_ns < c->end_ns; i++)
			until = w->items.items[i].until_ns;
		if (c->end_ns > until)
			c->end_ns = until;
		return true;
	}
	return false;
}

static void thread_apply(struct thread *t, const struct windows *w, const struct selection *s,
			 struct graph_tables g)
{
	size_t at = 0;

	for (size_t i = 0; i < t->calls.count; i++) {
		struct call *c = &t->calls.items[i];

		if (c->flags & CALL_HIDDEN)
			continue;
		bool kernel = c->kind == CALL_FRAME && g.hot[c->what].flags & NODE_KERNEL;
		if ((c->kind == CALL_FRAME && ((s->kernel_only && !kernel) || (s->user_only && kernel))) ||
		    !window_clip(w, &at, c)) {
			c->flags |= CALL_HIDDEN;
			c->site = CALL_NONE; /* merged into no other */
		}
	}
	for (size_t i = 0; i < t->calls.count; i++) {
		uint32_t parent = t->calls.items[i].parent;

		while (parent != CALL_NONE && t->calls.items[parent].flags & CALL_HIDDEN)
			parent = t->calls.items[parent].parent;
		t->calls.items[i].parent = parent;
	}
}

enum err select_trace(struct trace *trace, const struct trace_names *names,
		      const struct selection *s, struct error *error)
{
	func_id start[BETWEEN_FUNCS_MAX], stop[BETWEEN_FUNCS_MAX];
	size_t starts = 0, stops = 0, kept = 0;
	struct windows all = {0}, between = {0};
	enum err err = ERR_NONE;
	bool ranged = s->from_ns > 0 || s->until_ns != TIME_NONE || s->kernel_only || s->user_only;

	if (s->between_start) {
		starts = symbolizer_func_find(names->symbolizer, s->between_start, start,
					      BETWEEN_FUNCS_MAX);
		stops = symbolizer_func_find(names->symbolizer, s->between_stop, stop,
					     BETWEEN_FUNCS_MAX);
		if (starts == 0 || stops == 0)
			return error_set(error, ERR_NOT_FOUND, "--between: no function '%s' here",
					 starts ? s->between_stop : s->between_start);
	}
	if (!vec_push(&all.items, ((struct window){s->from_ns, s->until_ns})))
		err = ERR_NOMEM;
	for (size_t i = 0; i < trace->threads.count && err == ERR_NONE; i++) {
		struct thread *t = &trace->threads.items[i];

		if (!select_task(s, names->sideband, t->task)) {
			thread_done(t);
			continue;
		}
		if (s->between_start) {
			if (!windows_between(&between, t, names->graph, start, starts, stop, stops))
				err = ERR_NOMEM;
			else
				thread_apply(t, &between, s, names->graph);
		}
		if (ranged)
			thread_apply(t, &all, s, names->graph);
		struct thread moved = *t;
		*t = (struct thread){0};
		trace->threads.items[kept++] = moved;
	}
	if (err == ERR_NONE) {
		trace->threads.count = kept;
		trace_measure(trace);
	}
	vec_done(&all.items);
	vec_done(&between.items);
	return err;
}
