/* See dump_edges.h. Each buffer is a source of events, decoded a piece at a time; the source
 * with the earliest event is printed next. Lines are put together by hand: the dump of a big
 * trace is bound by its formatting. */
#include "decode/dump_edges.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "decode/piece.h"

struct source {
	const struct aux_buffer *buffer;
	struct pieces pieces;
	size_t next_piece;
	struct flow *fast;
	struct flow_libipt *libipt;    /* one of the two */
	VEC(struct flow_event) events; /* of the piece */
	size_t at;
	uint64_t time_ns; /* of events[at], never going back */
	int32_t tid, pid;
	bool wanted;      /* its task is */
	enum err err;
};

struct dump {
	const struct sideband *sideband;
	const struct dump_edges_options *o;
	struct graph *graph;
	struct graph_tables tables;
	FILE *out;
	bool timed;
};

static void take_events(void *context, const struct flow_event *events, size_t count)
{
	struct source *s = context;

	if (s->err == ERR_NONE && !vec_reserve(&s->events, s->events.count + count))
		s->err = ERR_NOMEM;
	if (s->err != ERR_NONE)
		return;
	memcpy(s->events.items + s->events.count, events, count * sizeof *events);
	s->events.count += count;
}

/* Makes events[at] valid by decoding on; false at the end. */
static bool source_fill(struct source *s)
{
	struct flow_sink sink = {.events = take_events, .context = s};

	while (s->at == s->events.count && s->next_piece < s->pieces.items.count &&
	       s->err == ERR_NONE) {
		const struct flow_piece *piece = &s->pieces.items.items[s->next_piece++];
		enum err err;

		s->at = s->events.count = 0;
		err = s->fast ? flow_decode(s->fast, piece, sink)
			      : flow_libipt_decode(s->libipt, piece, sink);
		if (s->err == ERR_NONE)
			s->err = err;
	}
	if (s->err != ERR_NONE || s->at == s->events.count)
		return false;
	if (s->events.items[s->at].time_ns > s->time_ns)
		s->time_ns = s->events.items[s->at].time_ns;
	return true;
}

/* perf's name of a branch by the instruction that makes it. */
static const char *branch_name(const struct dump *d, node_id n)
{
	switch (d->tables.cold[n].branch) {
	case INSN_COND: return "jcc";
	case INSN_JUMP:
	case INSN_JUMP_INDIRECT:
	case INSN_FAR_JUMP: return "jmp";
	case INSN_CALL:
	case INSN_CALL_INDIRECT:
	case INSN_FAR_CALL: return "call";
	case INSN_RETURN:
	case INSN_FAR_RETURN: return "return";
	case INSN_SYSCALL: return "syscall";
	case INSN_SYSRET: return "sysret";
	case INSN_INT: return "int";
	case INSN_IRET: return "iret";
	case INSN_VMENTRY: return "vmentry";
	}
	return "jmp";
}

static char *put_text(char *p, const char *text)
{
	size_t length = strlen(text);

	memcpy(p, text, length);
	return p + length;
}

static char *put_decimal(char *p, uint64_t value, int width, char pad)
{
	char digits[20];
	int count = 0;

	do
		digits[count++] = (char)('0' + value % 10);
	while (value /= 10);
	for (int i = count; i < width; i++)
		*p++ = pad;
	while (count)
		*p++ = digits[--count];
	return p;
}

static char *put_hex(char *p, uint64_t value)
{
	memset(p, ' ', 16);
	for (int at = 15; at == 15 || value; at--, value >>= 4)
		p[at] = "0123456789abcdef"[value & 15];
	return p + 16;
}

static void print_edge(const struct dump *d, const struct source *s, const char *prefix,
		       const char *name, uint64_t from, uint64_t to)
{
	enum { FLAGS_WIDTH = 23 };
	char line[128], *p = line;

	if (s->tid < 0)
		p = put_text(p, "   -1");
	else
		p = put_decimal(p, (uint64_t)s->tid, 5, ' ');
	*p++ = ' ';
	if (d->timed) {
		p = put_decimal(p, s->time_ns / 1000000000, 5, ' ');
		*p++ = '.';
		p = put_decimal(p, s->time_ns % 1000000000, 9, '0');
		p = put_text(p, ": ");
	}
	p = put_text(p, "  ");
	char *flags = p;
	p = put_text(put_text(p, prefix), name);
	while (p < flags + FLAGS_WIDTH)
		*p++ = ' ';
	p = put_hex(p, from);
	p = put_text(p, " => ");
	p = put_hex(p, to);
	*p++ = '\n';
	fwrite_unlocked(line, 1, (size_t)(p - line), d->out);
}

static void print_gap(const struct dump *d, struct source *s, const struct flow_event *e)
{
	fprintf(d->out, " instruction trace error type 1");
	if (d->timed)
		fprintf(d->out, " time %" PRIu64 ".%09" PRIu64, s->time_ns / 1000000000,
			s->time_ns % 1000000000);
	fprintf(d->out, " cpu %d pid %d tid %d ip %#" PRIx64 " code %u: %s", s->buffer->cpu, s->pid,
		s->tid, d->tables.hot[e->from].ip, e->cause, loss_name(e->cause));
	if (e->data)
		fprintf(d->out, ", %u bytes", e->data);
	fputc('\n', d->out);
}

static void print_end(const struct dump *d, const struct source *s, const struct flow_event *e)
{
	bool is_async = e->cause == FLOW_END_ASYNC;
	const struct node *hot = d->tables.hot;

	print_edge(d, s, "tr end  ", is_async ? "async" : branch_name(d, e->from),
		   is_async ? hot[e->from].ip : d->tables.cold[e->from].branch_ip, hot[e->to].ip);
}

static bool is_wanted(const struct dump *d, task_id task)
{
	return !d->o->selection || select_task(d->o->selection, d->sideband, task);
}

static void print_event(const struct dump *d, struct source *s)
{
	const struct flow_event *e = &s->events.items[s->at];
	uint64_t to = d->tables.hot[e->to].ip;

	if (e->kind == FLOW_TASK) {
		const struct task *task = &d->sideband->tasks.items[e->data];

		/* Nobody known is printed as the idle task, as perf does. */
		s->tid = e->data ? task->tid : 0;
		s->pid = e->data ? task->pid : 0;
		s->wanted = is_wanted(d, (task_id){e->data});
		return;
	}
	const struct selection *selection = d->o->selection;
	if (!s->wanted || (selection && (s->time_ns < selection->from_ns ||
					 s->time_ns >= selection->until_ns)))
		return;
	switch (e->kind) {
	case FLOW_BEGIN:
	case FLOW_RESUME: print_edge(d, s, "tr strt", "", 0, to); break;
	case FLOW_END: print_end(d, s, e); break;
	case FLOW_GAP:
		/* Between two snapshots nothing went wrong. */
		if (e->cause != LOSS_OVERWRITTEN)
			print_gap(d, s, e);
		break;
	case FLOW_INTERRUPT: print_edge(d, s, "hw int", "", d->tables.hot[e->from].ip, to); break;
	case FLOW_TX_ABORT: print_edge(d, s, "tx abrt", "", d->tables.hot[e->from].ip, to); break;
	case FLOW_CALL:
	case FLOW_RETURN:
	case FLOW_JUMP:
	case FLOW_BRANCH:
	case FLOW_ENTRY:
	case FLOW_EXIT:
		print_edge(d, s, "", branch_name(d, e->from), d->tables.cold[e->from].branch_ip,
			   to);
		break;
	}
}

static enum err source_open(const struct dump *d, struct source *s, const struct aux_buffer *buffer,
			    struct error *error)
{
	const struct task *task = &d->sideband->tasks.items[buffer->task.v];
	enum err err;

	s->buffer = buffer;
	s->tid = task->tid;
	s->pid = task->pid;
	s->wanted = is_wanted(d, buffer->task);
	if (d->o->engine == DUMP_EDGES_FAST)
		err = flow_new(d->graph, d->sideband, FLOW_ALL_BRANCHES, &s->fast, error);
	else
		err = flow_libipt_new(d->graph, d->sideband, FLOW_ALL_BRANCHES, &s->libipt, error);
	bool cpu_wanted = d->o->cpu_count == 0;
	for (size_t i = 0; i < d->o->cpu_count; i++)
		cpu_wanted |= d->o->cpus[i] == buffer->cpu;
	if (err == ERR_NONE && cpu_wanted)
		err = pieces_find(d->sideband, buffer, &s->pieces);
	return err;
}

static void source_close(struct source *s)
{
	flow_free(s->fast);
	flow_libipt_free(s->libipt);
	pieces_done(&s->pieces);
	vec_done(&s->events);
}

static void merge(const struct dump *d, struct source *sources, size_t count)
{
	for (;;) {
		struct source *first = NULL, *second = NULL;

		for (size_t i = 0; i < count; i++) {
			struct source *s = &sources[i];

			if (!source_fill(s))
				continue;
			if (!first || (d->timed && s->time_ns < first->time_ns)) {
				second = first;
				first = s;
			} else if (!second || s->time_ns < second->time_ns) {
				second = s;
			}
		}
		if (!first)
			return;
		/* As far as no other source is due. */
		do {
			print_event(d, first);
			first->at++;
		} while (source_fill(first) &&
			 (!second || !d->timed || first->time_ns <= second->time_ns));
	}
}

static void add_stats(struct flow_stats *sum, const struct flow_stats *s)
{
	sum->packets += s->packets;
	sum->tnt_bits += s->tnt_bits;
	sum->tips += s->tips;
	sum->instructions += s->instructions;
	sum->bad_times += s->bad_times;
	sum->bytes += s->bytes;
	for (size_t i = 0; i < LOSS_COUNT; i++)
		sum->losses[i] += s->losses[i];
}

enum err dump_edges(const struct sideband *sideband, struct symbolizer *symbolizer,
		    const struct dump_edges_options *options, FILE *out, struct flow_stats *stats,
		    struct error *error)
{
	struct dump d = {.sideband = sideband,
			 .o = options,
			 .out = out,
			 .timed = sideband->clock.valid && sideband->last_ns};
	size_t count = sideband->buffers.count;
	struct source *sources = calloc(count + 1, sizeof *sources);
	enum err err = graph_new(sideband, symbolizer, GRAPH_SPLIT_JUMPS | GRAPH_NO_INLINE,
				 &d.graph, error);

	if (err != ERR_NONE || !sources)
		goto done;
	d.tables = graph_tables(d.graph);
	for (size_t i = 0; i < count && err == ERR_NONE; i++)
		err = source_open(&d, &sources[i], &sideband->buffers.items[i], error);
	if (err == ERR_NONE)
		merge(&d, sources, count);
	for (size_t i = 0; i < count && err == ERR_NONE; i++)
		err = sources[i].err;
	if (err == ERR_NONE && (fflush(out) != 0 || ferror(out)))
		err = error_set(error, ERR_IO, "cannot write the dump");
done:
	if (!sources || err == ERR_NOMEM)
		err = error_set(error, ERR_NOMEM, "out of memory");
	for (size_t i = 0; sources && i < count; i++) {
		if (stats && sources[i].fast)
			add_stats(stats, flow_stats(sources[i].fast));
		else if (stats && sources[i].libipt)
			add_stats(stats, flow_stats(flow_libipt_flow(sources[i].libipt)));
		source_close(&sources[i]);
	}
	free(sources);
	graph_free(d.graph);
	return err;
}
