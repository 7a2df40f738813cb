/* See flow_state.h: which task a CPU runs, and in which address space.
 *
 * The sideband says when a CPU switches and when a process's mappings change; the trace says
 * only between which two times it stands:
 *
 *     known time      TIP.PGE          next known time
 *     ────┼──────────────┼──────────────────┼────
 *              switch?         switch?
 *
 * In kernel code, when it is traced, a task changes where __switch_to_asm is left, or, where that
 * is not known, at the next known time. Elsewhere: a change before the known time has happened. One
 * between the two may have: it is taken when the ip at which code begins to run is mapped after it,
 * but not before. */
#include "decode/flow_state.h"

enum {
	SWITCH_RECORD_LATE_NS = 1000000, /* behind the last known time of the trace, at most */
	AHEAD_BYTES_MAX = 1 << 20,
};

uint64_t flow_time_ahead(const struct flow *f)
{
	struct flow_time t = f->time;
	enum packet_context context = f->context;
	const uint8_t *end = f->end - f->p > AHEAD_BYTES_MAX ? f->p + AHEAD_BYTES_MAX : f->end;
	struct packet packet;
	int length;

	for (const uint8_t *p = f->p; p < end; p += length) {
		length = packet_decode(p, (size_t)(end - p), context, &packet);
		if (length <= 0)
			break;
		context = packet_next_context(context, &packet);
		if (flow_time_packet(&t, &packet))
			return flow_time_now(&t);
	}
	return f->piece->next_time_ns;
}

/* While code runs, each MTC follows the one before. Of one that does not the next one tells: either
 * those between are lost, and it follows this one, or this one never was. */
bool flow_mtc_is_false(const struct flow *f, uint8_t mtc)
{
	uint8_t last = f->time.last_mtc;
	enum packet_context context = f->context;
	struct packet packet;
	int length;

	if (!f->time.have_tma || f->time.first_mtc || f->state == FLOW_STATE_OFF ||
	    mtc == (uint8_t)(last + 1))
		return false;
	for (const uint8_t *p = f->p; p < f->end; p += length) {
		length = packet_decode(p, (size_t)(f->end - p), context, &packet);
		if (length <= 0)
			return true;
		context = packet_next_context(context, &packet);
		if (packet.kind == PACKET_TSC)
			return false;
		if (packet.kind == PACKET_MTC)
			return (uint8_t)(packet.payload - last) < (uint8_t)(packet.payload - mtc);
	}
	return false;
}

static bool is_mapped(const struct flow *f, space_id space, uint64_t ip)
{
	return space.v && space_find(&f->sideband->spaces.items[space.v], ip);
}

static size_t first_switch_after(const struct flow *f, uint64_t ns)
{
	size_t low = f->piece->buffer->first_switch, high = f->piece->buffer->last_switch;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (f->sideband->cpu_switches.items[middle].time_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Waiting returns were pushed in another space: they mean the same ips in this one. */
static void move_stack(struct flow *f)
{
	for (unsigned i = 0; i < f->depth; i++) {
		node_id *entry = &f->stack[(f->top + FLOW_STACK - i) % FLOW_STACK];
		node_id n = *entry & ~FLOW_STACK_RETURN_NODE;
		uint64_t ip = *entry & FLOW_STACK_RETURN_NODE ? f->hot[n].ip : f->cold[n].end_ip;

		if (n && !(f->hot[n].flags & NODE_KERNEL))
			*entry = flow_target(f, ip) | FLOW_STACK_RETURN_NODE;
	}
}

static uint64_t now_ns(const struct flow *f)
{
	uint64_t now = flow_time_now(&f->time);

	/* Without times all records hold. */
	if (now == TIME_NONE)
		return f->sideband->last_ns;
	return now > f->switched_ns ? now : f->switched_ns;
}

static int32_t pid_of(const struct flow *f, task_id task)
{
	return f->sideband->tasks.items[task.v].pid;
}

static void set_context(struct flow *f, task_id task, uint64_t ns, bool is_start)
{
	const struct sideband *s = f->sideband;
	const struct space_period *period = sideband_space_period(s, pid_of(f, task), ns);
	space_id space = period ? period->space : (space_id){0};

	f->space_until_ns = TIME_NONE;
	if (period && period + 1 < s->space_periods.items + s->space_periods.count &&
	    period[1].pid == period->pid)
		f->space_until_ns = period[1].from_ns;
	if (is_start || task.v != f->task.v)
		flow_emit(f, FLOW_TASK, 0, 0, 0, task.v);
	f->task = task;
	if (space.v != f->space.v) {
		f->space = space;
		move_stack(f);
	}
}

static void set_context_at(struct flow *f, uint64_t ns, bool is_start)
{
	const struct aux_buffer *b = f->piece->buffer;
	task_id task = b->task;

	if (b->first_switch != b->last_switch) {
		f->next_switch = first_switch_after(f, ns);
		if (f->next_switch == b->first_switch)
			task = sideband_task_on_cpu(f->sideband, b->cpu, ns);
		else
			task = f->sideband->cpu_switches.items[f->next_switch - 1].task;
	}
	set_context(f, task, ns, is_start);
}

void flow_context_start(struct flow *f)
{
	f->switched_ns = 0;
	set_context_at(f, now_ns(f), true);
}

static uint64_t next_switch_ns(const struct flow *f)
{
	if (f->next_switch >= f->piece->buffer->last_switch)
		return TIME_NONE;
	return f->sideband->cpu_switches.items[f->next_switch].time_ns;
}

void flow_context_tick(struct flow *f)
{
	if (!f->sideband->config.kernel || f->has_stack_switch || f->state != FLOW_STATE_ON ||
	    !(f->hot[f->node].flags & NODE_KERNEL))
		return;
	uint64_t now = now_ns(f);
	if (now >= next_switch_ns(f))
		set_context_at(f, now, false);
}

void flow_context_resume(struct flow *f)
{
	uint64_t now = now_ns(f);

	if (now >= next_switch_ns(f) || now >= f->space_until_ns)
		set_context_at(f, now, false);
}

void flow_context_switch(struct flow *f)
{
	uint64_t ns = next_switch_ns(f);

	if (ns == TIME_NONE || ns > now_ns(f) + SWITCH_RECORD_LATE_NS)
		return;
	f->switched_ns = ns;
	set_context(f, f->sideband->cpu_switches.items[f->next_switch++].task, ns, false);
}

void flow_context_begin(struct flow *f, uint64_t ip)
{
	const struct sideband *s = f->sideband;
	uint64_t now = now_ns(f);

	if (now >= next_switch_ns(f) || now >= f->space_until_ns)
		set_context_at(f, now, false);
	if (ip_is_kernel(ip) || is_mapped(f, f->space, ip))
		return;
	uint64_t ahead = flow_time_ahead(f);
	if (f->space_until_ns <= ahead &&
	    is_mapped(f, sideband_space_at(s, pid_of(f, f->task), f->space_until_ns), ip)) {
		set_context(f, f->task, f->space_until_ns, false);
		return;
	}
	for (size_t i = f->next_switch;
	     i < f->piece->buffer->last_switch && s->cpu_switches.items[i].time_ns <= ahead; i++) {
		const struct cpu_switch *c = &s->cpu_switches.items[i];

		if (is_mapped(f, sideband_space_at(s, pid_of(f, c->task), c->time_ns), ip)) {
			f->next_switch = i + 1;
			set_context(f, c->task, c->time_ns, false);
			return;
		}
	}
}
