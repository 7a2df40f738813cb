/* See segment.h. Which thread an event belongs to is decided here, what it does there in
 * transfer.h and resume.h.
 *
 * Switch records tell the task of a CPU. With kernel tracing that is not exact: the stacks
 * change places in __switch_to_asm, the records are written somewhat before and after:
 *
 *     prev   ... schedule > __switch_to_asm > __switch_to ┐ return   here, by rule
 *     next                                                └> schedule ...
 */
#include "decode/segment.h"

#include <stdlib.h>

#include "decode/away.h"
#include "decode/resume.h"
#include "decode/strand.h"
#include "decode/transfer.h"

/* What a buffer's CPU runs. */
struct cpu_task {
	task_id task;
	uint64_t since_ns;
	task_id next; /* its record came before __switch_to_asm; 0 = none */
};

struct weaver {
	struct weave weave;
	struct strand *strands; /* indexed by task_id.v */
	size_t strand_count;
	struct cpu_task *cpus; /* per buffer */
	bool switches_stacks;  /* __switch_to_asm is in the trace */
};

static void weaver_mark(struct weaver *w, const struct aux_buffer *buffer, task_id task,
			const struct flow_event *e, const uint64_t *payloads)
{
	struct trace *t = w->weave.trace;

	if (e->kind == FLOW_FREQUENCY) {
		struct frequency f = {.time_ns = e->time_ns, .cpu = buffer->cpu, .ratio = e->data};

		if (t->frequencies.count && vec_last(&t->frequencies)->ratio == f.ratio &&
		    vec_last(&t->frequencies)->cpu == f.cpu)
			return;
		if (!vec_push(&t->frequencies, f))
			w->weave.out_of_memory = true;
		return;
	}
	struct trace_mark m = {.time_ns = e->time_ns,
			       .payload = e->kind == FLOW_PTWRITE && payloads ? payloads[e->data]
									      : e->data,
			       .task = task,
			       .cpu = buffer->cpu,
			       .node = e->from,
			       .kind = e->kind};
	if (!vec_push(&t->marks, m))
		w->weave.out_of_memory = true;
}

static struct strand *weaver_strand(struct weaver *w, task_id task)
{
	return task.v < w->strand_count ? &w->strands[task.v] : NULL;
}

/* Adds the time since the last change of state to what that state counts for. */
static void strand_account(struct strand *s, enum strand_state before)
{
	const struct trace *trace = s->weave->trace;
	uint64_t ns = trace_counted_ns(trace, s->since_ns, s->now_ns);

	if (before == STRAND_ON)
		s->thread->traced_ns += ns;
	else if (before == STRAND_LOST)
		s->thread->lost_ns += ns;
	if (before == STRAND_LOST && ns && s->since_ns < trace->from_ns &&
	    s->off_cause < LOSS_COUNT)
		s->thread->losses[s->off_cause]++; /* it began before what counts */
	s->since_ns = s->now_ns;
}

static void strand_event(struct strand *s, const struct flow_event *e)
{
	s->last_ns = s->now_ns;
	if (e->time_ns < s->now_ns)
		s->thread->clamped_times++;
	else
		s->now_ns = e->time_ns;
	/* An event of running code while the strand is off or new: the engine missed a begin. */
	enum strand_state before = s->state;
	bool running = s->state == STRAND_ON && s->stack.count > 0;

	switch ((enum flow_kind)e->kind) {
	case FLOW_SYNC: strand_on_sync(s, e->to); break;
	case FLOW_BEGIN: strand_on_begin(s, e->to, true); break;
	case FLOW_END: strand_on_end(s, e->from, e->cause, e->data); break;
	case FLOW_GAP: strand_on_gap(s, e->from, e->cause); break;
	case FLOW_RESUME: strand_on_resume(s, e->to, e->cause); break;
	case FLOW_CALL:
		if (running)
			strand_call(s, e->from, e->to);
		break;
	case FLOW_RETURN:
		if (running)
			strand_return(s, e->from, e->to);
		break;
	case FLOW_JUMP:
		if (running)
			strand_jump(s, e->from, e->to);
		break;
	case FLOW_STEP:
		if (running)
			strand_inline_to(s, e->to);
		break;
	case FLOW_ENTRY:
		if (running)
			strand_push(s, e->to, graph_successor(s->weave->graph, e->from, 0), e->from,
				    CALL_INTERRUPT);
		break;
	case FLOW_INTERRUPT:
		if (running)
			strand_push(s, e->to, e->from, e->from, CALL_INTERRUPT);
		break;
	case FLOW_EXIT:
		if (running)
			strand_exit(s, e->to);
		break;
	case FLOW_TX_BEGIN:
	case FLOW_TX_COMMIT:
	case FLOW_TX_ABORT:
		if (running)
			strand_transaction(s, e);
		break;
	default: break;
	}
	if (s->state != before)
		strand_account(s, before);
	if (s->thread->segments.count)
		vec_last(&s->thread->segments)->edges++;
}

/* The trace ends. The thread may have left the CPU before, or go on on another one. */
static void strand_still_lost(struct strand *s, uint64_t time_ns)
{
	uint64_t until = strand_ran_until(s, time_ns);

	if (s->state == STRAND_LOST && until > s->now_ns)
		s->now_ns = until;
}

/* ---- tasks of a CPU ---- */

static bool strand_in_kernel(const struct strand *s)
{
	if (s->state != STRAND_ON || s->stack.count == 0)
		return false;
	uint32_t row = s->stack.items[s->top].call;
	const struct call *c = row == CALL_NONE ? NULL : &s->thread->calls.items[row];
	return c && c->kind == CALL_FRAME && strand_node(s, c->what)->flags & NODE_KERNEL;
}

/* A switch record says that the CPU runs `next`. */
static void weaver_switch(struct weaver *w, struct cpu_task *cpu, task_id next, uint64_t time_ns)
{
	const struct strand *prev = weaver_strand(w, cpu->task);

	cpu->since_ns = time_ns;
	cpu->next = (task_id){0};
	if (next.v == cpu->task.v)
		return;
	/* Kernel code that is on its way to __switch_to_asm still belongs to the old task. */
	if (w->switches_stacks && prev && strand_in_kernel(prev) && !prev->at_stack_switch) {
		cpu->next = next;
		return;
	}
	cpu->task = next;
	if (weaver_strand(w, next))
		weaver_strand(w, next)->at_stack_switch = false;
}

/* The first return behind __switch_to_asm: it is on the stack of the next task. If that has
 * no record yet, the next one on this CPU tells. */
static void weaver_switch_stacks(struct weaver *w, const struct aux_buffer *buffer,
				 struct cpu_task *cpu)
{
	const struct sideband *sb = w->weave.sideband;
	task_id next = cpu->next;
	size_t low = buffer->first_switch, high = buffer->last_switch;

	while (low < high) { /* the first record after the last one that was seen */
		size_t mid = (low + high) / 2;

		if (sb->cpu_switches.items[mid].time_ns > cpu->since_ns)
			high = mid;
		else
			low = mid + 1;
	}
	if (next.v == 0 && low < buffer->last_switch)
		next = sb->cpu_switches.items[low].task;
	if (next.v)
		cpu->task = next;
	cpu->next = (task_id){0};
	if (weaver_strand(w, cpu->task))
		weaver_strand(w, cpu->task)->at_stack_switch = false;
}

static void weaver_event(struct weaver *w, const struct aux_buffer *buffer, struct cpu_task *cpu,
			 const struct flow_event *e)
{
	struct strand *s = weaver_strand(w, cpu->task);

	if (s && s->at_stack_switch && e->kind == FLOW_RETURN) {
		weaver_switch_stacks(w, buffer, cpu);
		s = weaver_strand(w, cpu->task);
	} else if (cpu->next.v && e->kind != FLOW_CALL && e->kind != FLOW_RETURN &&
		   e->kind != FLOW_JUMP && e->kind != FLOW_STEP) {
		cpu->task = cpu->next; /* it never came to a switch of stacks */
		cpu->next = (task_id){0};
		s = weaver_strand(w, cpu->task);
	}
	if (!s)
		return;
	strand_event(s, e);
	if ((e->kind == FLOW_CALL || e->kind == FLOW_JUMP) &&
	    weave_role(&w->weave, strand_node(s, e->to)->func) == FUNC_STACK_SWITCH)
		w->switches_stacks = s->at_stack_switch = true;
}

/* The events of a tree at once, if nothing is to be asked about each. */
static bool weaver_tree(struct weaver *w, const struct cpu_task *cpu,
			const struct cpu_losses *losses, const struct stay *stay,
			const struct tree *tree)
{
	struct strand *s = weaver_strand(w, cpu->task);

	return s && s->state == STRAND_ON && s->stack.count > 0 && !s->at_stack_switch &&
	       !(losses && losses->open) && strand_tree(s, stay, tree);
}

enum err weaver_events(struct weaver *w, const struct aux_buffer *buffer, const struct stay *stay)
{
	struct cpu_task *cpu = &w->cpus[buffer - w->weave.sideband->buffers.items];
	struct cpu_losses *losses = weave_losses(&w->weave, buffer);
	bool kernel = w->weave.sideband->config.kernel;

	for (size_t i = 0, next = 0; i < stay->count; i++) {
		const struct flow_event *e = &stay->events[i];
		struct strand *s = weaver_strand(w, cpu->task);

		if (next < stay->tree_count &&
		    stay->trees[next].first_event == stay->first_event + i) {
			const struct tree *tree = &stay->trees[next++];

			if (weaver_tree(w, cpu, losses, stay, tree)) {
				i = tree->end_event - stay->first_event - 1;
				continue;
			}
		}
		if (e->kind == FLOW_STILL_LOST) {
			if (s)
				strand_still_lost(s, e->time_ns);
			continue;
		}
		if (losses && (losses->open || e->kind == FLOW_GAP))
			weave_note_loss(&w->weave, losses, e);
		if (e->kind == FLOW_TASK) {
			weaver_switch(w, cpu, (task_id){e->data}, e->time_ns);
			continue;
		}
		if (e->kind == FLOW_FREQUENCY || e->kind == FLOW_PTWRITE || e->kind == FLOW_POWER ||
		    e->kind == FLOW_EVENT) {
			weaver_mark(w, buffer, cpu->task, e, stay->payloads);
			continue;
		}
		if (kernel)
			weaver_event(w, buffer, cpu, e);
		else if (s)
			strand_event(s, e);
	}
	return w->weave.out_of_memory || w->weave.facts.out_of_memory ? ERR_NOMEM : ERR_NONE;
}

enum err weaver_new(const struct sideband *sideband, struct symbolizer *symbolizer,
		    struct graph *graph, struct trace *trace, struct weaver **result)
{
	struct weaver *w = calloc(1, sizeof *w);

	if (!w)
		return ERR_NOMEM;
	w->weave = (struct weave){.sideband = sideband,
				  .symbolizer = symbolizer,
				  .graph = graph,
				  .tables = graph_tables(graph),
				  .trace = trace,
				  .timeless = !sideband->clock.valid};
	facts_init(&w->weave.facts, graph, symbolizer);
	w->strand_count = sideband->tasks.count;
	w->strands = calloc(w->strand_count + 1, sizeof *w->strands);
	w->cpus = calloc(sideband->buffers.count + 1, sizeof *w->cpus);
	if (!w->strands || !w->cpus || !vec_reserve(&trace->threads, w->strand_count) ||
	    weave_init_losses(&w->weave) != ERR_NONE) {
		weaver_free(w);
		return ERR_NOMEM;
	}
	/* One thread a task, at a fixed address; those without trace are dropped at the end. */
	for (size_t i = 0; i < w->strand_count; i++) {
		struct thread thread = {.task = {(uint32_t)i}};

		trace->threads.items[trace->threads.count++] = thread;
		strand_init(&w->strands[i], &w->weave, &trace->threads.items[i],
			    (task_id){(uint32_t)i});
	}
	*result = w;
	return ERR_NONE;
}

void weaver_free(struct weaver *w)
{
	if (!w)
		return;
	for (size_t i = 0; w->strands && i < w->strand_count; i++)
		strand_done(&w->strands[i]);
	free(w->strands);
	free(w->cpus);
	weave_done(&w->weave);
	free(w);
}

static int thread_order(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return x->task.v < y->task.v ? -1 : x->task.v > y->task.v;
}

enum err weaver_finish(struct weaver *w)
{
	struct trace *t = w->weave.trace;
	size_t kept = 0;

	for (size_t i = 0; i < w->strand_count; i++) {
		strand_account(&w->strands[i], w->strands[i].state);
		strand_finish(&w->strands[i]);
	}
	for (size_t i = 0; i < t->threads.count; i++)
		if (t->threads.items[i].segments.count)
			t->threads.items[kept++] = t->threads.items[i];
	t->threads.count = kept;
	qsort(t->threads.items, kept, sizeof *t->threads.items, thread_order);
	return w->weave.out_of_memory || w->weave.facts.out_of_memory ? ERR_NOMEM : ERR_NONE;
}
