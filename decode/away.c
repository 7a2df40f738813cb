/* See away.h. */
#include "decode/away.h"

#include <stdlib.h>

enum {
	CPUS_MAX = 1 << 16,
	RECORD_SLACK_NS = 2000, /* the end of this stay may seem to be before what is in it */
};

enum err weave_init_losses(struct weave *w)
{
	const struct sideband *sb = w->sideband;

	for (size_t i = 0; i < sb->buffers.count; i++) {
		int32_t cpu = sb->buffers.items[i].cpu;

		if (cpu >= 0 && cpu < CPUS_MAX && (size_t)cpu >= w->cpu_count)
			w->cpu_count = (size_t)cpu + 1;
	}
	w->cpus = calloc(w->cpu_count + 1, sizeof *w->cpus);
	if (!w->cpus)
		return ERR_NOMEM;
	struct lost_span before = {.end_ns = TIME_NONE, .cause = LOSS_OVERWRITTEN};
	for (size_t i = 0; i < sb->buffers.count; i++) {
		int32_t cpu = sb->buffers.items[i].cpu;

		if (sb->buffers.items[i].task.v == 0 && cpu >= 0 && cpu < CPUS_MAX &&
		    w->cpus[cpu].spans.count == 0) {
			if (!vec_push(&w->cpus[cpu].spans, before))
				return ERR_NOMEM;
			w->cpus[cpu].open = true;
		}
	}
	return ERR_NONE;
}

struct cpu_losses *weave_losses(struct weave *w, const struct aux_buffer *buffer)
{
	if (buffer->cpu < 0 || (size_t)buffer->cpu >= w->cpu_count ||
	    w->cpus[buffer->cpu].spans.count == 0)
		return NULL;
	return &w->cpus[buffer->cpu];
}

void weave_note_loss(struct weave *w, struct cpu_losses *l, const struct flow_event *event)
{
	struct lost_span *last = vec_last(&l->spans);

	if (event->kind == FLOW_GAP) {
		struct lost_span span = {event->time_ns, TIME_NONE, event->cause};

		if (event->cause == LOSS_MISSING_CODE || event->cause == LOSS_BAD_IP)
			return; /* the thread's own trouble */
		if (l->open)
			last->end_ns = event->time_ns;
		if (!vec_push(&l->spans, span))
			w->out_of_memory = true;
		l->open = true;
	} else if (l->open && (event->kind != FLOW_TASK || l->spans.count == 1)) {
		last->end_ns = event->time_ns;
		l->open = false;
	}
}

/* The first loss of the CPU that overlaps [from, until). */
static const struct lost_span *weave_find_loss(const struct weave *w, int32_t cpu, uint64_t from_ns,
					       uint64_t until_ns)
{
	if (cpu < 0 || (size_t)cpu >= w->cpu_count)
		return NULL;
	const struct lost_span *spans = w->cpus[cpu].spans.items;
	size_t low = 0, high = w->cpus[cpu].spans.count;

	while (low < high) { /* the first that ends after from_ns */
		size_t mid = (low + high) / 2;

		if (spans[mid].end_ns > from_ns)
			high = mid;
		else
			low = mid + 1;
	}
	if (low == w->cpus[cpu].spans.count || spans[low].start_ns >= until_ns)
		return NULL;
	return &spans[low];
}

/* The thread's own switches from its cursor on, while they are before `until_ns`. */
static const struct task_switch *strand_switch_at(const struct strand *s, size_t at,
						  uint64_t until_ns)
{
	const struct sideband *sb = s->weave->sideband;

	if (at >= sb->task_switches.count)
		return NULL;
	const struct task_switch *sw = &sb->task_switches.items[at];
	return sw->task.v == s->task.v && sw->time_ns < until_ns ? sw : NULL;
}

bool strand_lost_while_off(const struct strand *s, bool this_stay, uint64_t *lost_ns,
			   unsigned *cause)
{
	const struct task_switch *sw, *next;

	for (size_t at = s->next_switch; (sw = strand_switch_at(s, at, s->now_ns)); at++) {
		if (!sw->in || sw->time_ns < s->off_ns)
			continue;
		next = strand_switch_at(s, at + 1, s->now_ns);
		if (!next && !this_stay)
			break;
		const struct lost_span *loss = weave_find_loss(s->weave, sw->cpu, sw->time_ns,
							       next ? next->time_ns : s->now_ns);
		if (loss) {
			*lost_ns = loss->start_ns > sw->time_ns ? loss->start_ns : sw->time_ns;
			*cause = loss->cause;
			return true;
		}
	}
	return false;
}

bool strand_switched_out(const struct strand *s, uint64_t until_ns)
{
	const struct task_switch *sw;

	for (size_t at = s->next_switch; (sw = strand_switch_at(s, at, until_ns)); at++)
		if (!sw->in && sw->time_ns >= s->off_ns)
			return true;
	return false;
}

uint64_t strand_ran_until(const struct strand *s, uint64_t until_ns)
{
	const struct task_switch *sw, *last = NULL;

	for (size_t at = s->next_switch; (sw = strand_switch_at(s, at, until_ns)); at++)
		last = sw;
	return last && !last->in && last->time_ns >= s->off_ns ? last->time_ns : until_ns;
}

bool strand_had_silent_stay(const struct strand *s, uint64_t *since_ns)
{
	const struct task_switch *sw, *next;
	bool left = false;

	if (s->weave->sideband->config.kernel)
		return false;
	for (size_t at = s->next_switch; (sw = strand_switch_at(s, at, s->now_ns)); at++) {
		next = strand_switch_at(s, at + 1, s->now_ns);
		left |= !sw->in && sw->time_ns >= s->off_ns;
		if (left && sw->in && next && !next->in &&
		    next->time_ns + RECORD_SLACK_NS < s->now_ns) {
			*since_ns = sw->time_ns;
			return true;
		}
	}
	return false;
}

bool strand_lost_before_off(const struct strand *s, unsigned *cause)
{
	const struct task_switch *sw;

	if (s->weave->sideband->config.kernel)
		return false; /* the kernel's trace does not end there */
	for (size_t at = s->next_switch; (sw = strand_switch_at(s, at, s->now_ns)); at++) {
		if (sw->in || sw->time_ns < s->last_ns ||
		    sw->time_ns + RECORD_SLACK_NS >= s->now_ns)
			continue;
		const struct lost_span *loss =
			weave_find_loss(s->weave, sw->cpu, s->last_ns, s->now_ns);
		*cause = loss ? loss->cause : LOSS_DATA_LOST;
		return true;
	}
	return false;
}

/* [descheduled] for the switches out since off_ns; returns whether there were any. The cursor
 * only moves forward: times of a strand do. */
static bool strand_draw_descheduled(struct strand *s, bool draw)
{
	const struct task_switch *sw;
	uint64_t now = s->now_ns;
	bool any = false;

	for (; (sw = strand_switch_at(s, s->next_switch, now)); s->next_switch++) {
		if (sw->in || sw->time_ns < s->off_ns)
			continue;
		any = true;
		if (!draw)
			continue;
		const struct task_switch *in = strand_switch_at(s, s->next_switch + 1, now);
		s->now_ns = in && in->in ? in->time_ns : now;
		strand_bracket(s, weave_bracket(s->weave, BRACKET_DESCHEDULED, 0, 0), sw->time_ns);
		s->now_ns = now;
	}
	return any;
}

void strand_draw_off(struct strand *s)
{
	uint64_t now = s->now_ns;

	if (s->off_cause == FLOW_END_SYSCALL) {
		uint32_t b = weave_bracket(s->weave, BRACKET_SYSCALL, s->off_node, 0);

		/* Open while its descheduled part is drawn inside. */
		s->now_ns = s->off_ns;
		uint32_t row = strand_open_call(s, CALL_BRACKET, b, 0, 0);
		s->now_ns = now;
		strand_push_frame(s, (struct frame){.call = row, .kind = FRAME_INLINED});
		strand_draw_descheduled(s, true);
		strand_pop_to(s, s->stack.count - 1, 0);
	} else if (s->off_cause == FLOW_END_ASYNC) {
		bool out = strand_draw_descheduled(s, false);
		enum bracket_kind kind = out                 ? BRACKET_DESCHEDULED
					 : s->off_page_fault ? BRACKET_PAGE_FAULT
							     : BRACKET_INTERRUPTED;

		strand_bracket(s, weave_bracket(s->weave, kind, 0, 0), s->off_ns);
	} else {
		strand_bracket(s, weave_bracket(s->weave, BRACKET_FILTERED, 0, 0), s->off_ns);
	}
}
