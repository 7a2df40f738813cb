/* cut_experiment [OPTIONS] PERF.DATA: how well are calls joined across a loss?
 *
 * The events of a trace of one thread without losses are decoded once and woven into calls:
 * the truth. Then G branch events are cut out at random places, and what is woven of the rest
 * is compared with it:
 *
 *     events[0 .. p)   GAP   RESUME at the target of the last one cut   the rest
 *                                  T = its time
 *
 *     exact    the functions of the frames open at T are those of the truth, root to leaf
 *     false    a frame goes on across the gap that the truth does not have at both ends
 *     lost     a frame of the truth goes on, but here it ends at the gap
 *
 * A frame is known by the time of its start and its function, so times are made unique first.
 * Options: -g G, -n PLACES, -t TAIL (branch events seen after the gap; default: all),
 * -m MOST (branch events of the trace that are used; default: all), -r SEED, -s SYMFS, -v (tell
 * each place that is not right). Prints: places exact, gaps with false ones, gaps with lost ones,
 * frames lost of those that go on, all as numbers in a line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode/join.h"
#include "decode/perfdata.h"
#include "decode/schedule.h"
#include "decode/segment.h"

enum { STACK_MAX = 4096, LATER_MIN = 30 };

struct frame {
	uint64_t start_ns, end_ns;
	uint32_t func;
};

struct stack {
	struct frame frames[STACK_MAX];
	size_t count;
};

struct tally {
	size_t places, exact, with_false, with_lost, lost, going_on;
};

struct experiment {
	struct perfdata file;
	struct sideband sideband;
	struct symbolizer *symbolizer;
	struct graph *graph;
	const struct aux_buffer *buffer;
	VEC(struct flow_event) events;
	VEC(size_t) branches; /* indices of branch events */
	VEC(struct flow_event) cut;
	struct stack truth, seen;
	size_t gap, places, tail, most;
	uint64_t seed;
	bool verbose;
};

static bool is_branch(const struct flow_event *e)
{
	return e->kind == FLOW_CALL || e->kind == FLOW_RETURN || e->kind == FLOW_JUMP ||
	       e->kind == FLOW_BRANCH;
}

static enum err collect(void *context, const struct aux_buffer *buffer, const struct stay *stay)
{
	struct experiment *x = context;

	if (x->buffer && x->buffer != buffer)
		return ERR_UNSUPPORTED;
	x->buffer = buffer;
	for (size_t i = 0; i < stay->count && x->branches.count < x->most; i++) {
		struct flow_event e = stay->events[i];

		if (e.kind == FLOW_FREQUENCY || e.kind == FLOW_PTWRITE || e.kind == FLOW_POWER)
			continue;
		if (x->events.count && e.time_ns <= vec_last(&x->events)->time_ns)
			e.time_ns = vec_last(&x->events)->time_ns + 1;
		if ((is_branch(&e) && !vec_push(&x->branches, x->events.count)) ||
		    !vec_push(&x->events, e))
			return ERR_NOMEM;
	}
	return ERR_NONE;
}

static enum err experiment_open(struct experiment *x, const char *path, const char *symfs,
				struct error *error)
{
	struct symbolizer_options where = {.symfs = symfs};
	struct schedule_options how = {
		.jobs = 1, .flow_flags = FLOW_ALL_BRANCHES, .until_ns = TIME_NONE};
	struct flow_stats stats = {0};
	enum err err = symbolizer_new(&where, &x->symbolizer, error);

	if (err == ERR_NONE)
		err = perfdata_open(&x->file, &path, 1, error);
	if (err == ERR_NONE)
		err = sideband_read(&x->file, x->symbolizer, &x->sideband, error);
	if (err == ERR_NONE)
		err = graph_new(&x->sideband, x->symbolizer, GRAPH_SPLIT_JUMPS, &x->graph, error);
	if (err == ERR_NONE)
		err = schedule_run(x->graph, &x->sideband, &how, collect, x, &stats, error);
	return err;
}

static void experiment_done(struct experiment *x)
{
	vec_done(&x->events);
	vec_done(&x->branches);
	vec_done(&x->cut);
	graph_free(x->graph);
	sideband_done(&x->sideband);
	perfdata_done(&x->file);
	symbolizer_free(x->symbolizer);
}

static enum err weave(struct experiment *x, const struct flow_event *events, size_t count,
		      struct trace *trace)
{
	struct weaver *w = NULL;
	struct stay stay = {.events = events, .count = count};
	enum err err = weaver_new(&x->sideband, x->symbolizer, x->graph, trace, &w);

	if (err == ERR_NONE)
		err = weaver_events(w, x->buffer, &stay);
	if (err == ERR_NONE)
		err = weaver_finish(w);
	if (err == ERR_NONE)
		err = join_trace(trace, x->graph);
	weaver_free(w);
	return err;
}

static void stack_add(struct stack *s, const struct call *c, uint64_t time_ns,
		      struct graph_tables g)
{
	if (c->kind == CALL_FRAME && !(c->flags & CALL_HIDDEN) && c->start_ns <= time_ns &&
	    time_ns < c->end_ns && s->count < STACK_MAX)
		s->frames[s->count++] = (struct frame){c->start_ns, c->end_ns, g.hot[c->what].func};
}

/* The frames that are drawn at a time, root to leaf. */
static void stack_at(const struct trace *trace, struct graph_tables g, uint64_t time_ns,
		     struct stack *s)
{
	s->count = 0;
	for (size_t i = 0; i < trace->threads.count; i++) {
		const struct thread *t = &trace->threads.items[i];

		for (size_t k = 0; k < t->segments.count; k++) {
			const struct segment *seg = &t->segments.items[k];

			for (uint32_t r = seg->first_root; r < seg->end_root; r++)
				stack_add(s, &t->calls.items[t->roots.items[r]], time_ns, g);
			for (uint32_t c = seg->first_call; c < seg->end_call; c++)
				if (!(t->calls.items[c].flags & CALL_ROOT))
					stack_add(s, &t->calls.items[c], time_ns, g);
		}
	}
}

static bool stack_equal(const struct stack *a, const struct stack *b)
{
	for (size_t i = 0; i < a->count && i < b->count; i++)
		if (a->frames[i].func != b->frames[i].func)
			return false;
	return a->count == b->count;
}

/* Frames of a that were there before `lost_ns` and that b does not have. */
static size_t stack_missing(const struct stack *a, const struct stack *b, uint64_t lost_ns)
{
	size_t missing = 0;

	for (size_t i = 0; i < a->count; i++) {
		bool found = a->frames[i].start_ns >= lost_ns;

		for (size_t k = 0; k < b->count && !found; k++)
			found = a->frames[i].func == b->frames[k].func &&
				a->frames[i].start_ns == b->frames[k].start_ns;
		missing += !found;
	}
	return missing;
}

static void stack_print(const struct experiment *x, const char *what, const struct stack *s)
{
	enum { SHOWN = 12 };

	printf("  %s:", what);
	for (size_t i = s->count > SHOWN ? s->count - SHOWN : 0; i < s->count; i++) {
		const struct frame *f = &s->frames[i];
		str_id name = symbolizer_func_name(x->symbolizer, (func_id){f->func});

		printf(" %s@%" PRIu64, symbolizer_text(x->symbolizer, name), f->start_ns);
	}
	putchar('\n');
}

static void tell(const struct experiment *x, const struct trace *trace, size_t first,
		 uint64_t lost_ns, uint64_t time_ns)
{
	for (size_t i = 0; i < trace->threads.count; i++) {
		const struct thread *t = &trace->threads.items[i];

		for (size_t k = 0; k < t->joins.count; k++) {
			const struct join *j = &t->joins.items[k];

			printf("event %zu, %" PRIu64 " .. %" PRIu64
			       ": by %s, waiting %u kept %u inferred %u agreeing %u of %u\n",
			       first, lost_ns, time_ns, join_evidence_name(j->evidence), j->waiting,
			       j->kept, j->inferred, j->agreeing, j->candidates);
		}
	}
	stack_print(x, "truth", &x->truth);
	stack_print(x, "seen ", &x->seen);
}

/* Cuts branch events [b, b + gap). False: no trace there without a break. */
static bool make_cut(struct experiment *x, size_t b, size_t end)
{
	size_t first = x->branches.items[b], last = x->branches.items[b + x->gap - 1];
	const struct flow_event *e = x->events.items;

	for (size_t i = first; i < last; i++)
		if (e[i].kind == FLOW_TASK || e[i].kind == FLOW_GAP || e[i].kind == FLOW_RESUME)
			return false;
	if (!vec_reserve(&x->cut, x->events.count + 2))
		return false;
	struct flow_event *to = x->cut.items;
	memcpy(to, e, first * sizeof *e);
	to[first] = (struct flow_event){.time_ns = e[first].time_ns,
					.from = e[first].from,
					.kind = FLOW_GAP,
					.cause = LOSS_OVERFLOW};
	to[first + 1] = (struct flow_event){.time_ns = e[last].time_ns,
					    .to = e[last].to,
					    .kind = FLOW_RESUME,
					    .cause = FLOW_RESUME_CERTAIN};
	memcpy(to + first + 2, e + last + 1, (end - last - 1) * sizeof *e);
	x->cut.count = first + 2 + end - last - 1;
	return true;
}

/* `truth` is that of all events. */
static enum err try_place(struct experiment *x, size_t b, const struct trace *truth,
			  struct tally *tally)
{
	struct graph_tables g = graph_tables(x->graph);
	const struct flow_event *e = x->events.items;
	size_t first = x->branches.items[b], last = x->branches.items[b + x->gap - 1];
	size_t end = x->tail ? x->branches.items[b + x->gap + x->tail - 1] + 1 : x->events.count;
	struct trace uncut = {0}, cut = {0};
	enum err err = ERR_NONE;

	if (!make_cut(x, b, end))
		return ERR_NONE;
	/* What is known only by later events than those left is not asked for. */
	if (x->tail)
		err = weave(x, e, end, &uncut);
	if (err == ERR_NONE)
		err = weave(x, x->cut.items, x->cut.count, &cut);
	if (err == ERR_NONE) {
		size_t going_on = 0;

		stack_at(x->tail ? &uncut : truth, g, e[last].time_ns, &x->truth);
		stack_at(&cut, g, e[last].time_ns, &x->seen);
		for (size_t i = 0; i < x->truth.count; i++)
			going_on += x->truth.frames[i].start_ns < e[first].time_ns;
		bool exact = stack_equal(&x->truth, &x->seen);
		size_t wrong = stack_missing(&x->seen, &x->truth, e[first].time_ns);
		size_t lost = stack_missing(&x->truth, &x->seen, e[first].time_ns);

		tally->places++;
		tally->exact += exact;
		tally->with_false += wrong > 0;
		tally->with_lost += lost > 0;
		tally->lost += lost;
		tally->going_on += going_on;
		if (x->verbose && (!exact || wrong || lost)) {
			printf("%s%s%s", exact ? "" : "inexact ", wrong ? "false " : "",
			       lost ? "lost " : "");
			tell(x, &cut, first, e[first].time_ns, e[last].time_ns);
		}
	}
	trace_done(&uncut);
	trace_done(&cut);
	return err;
}

static uint64_t chance(struct experiment *x, uint64_t below)
{
	x->seed ^= x->seed << 13;
	x->seed ^= x->seed >> 7;
	x->seed ^= x->seed << 17;
	return (x->seed >> 11) % below;
}

static enum err experiment_run(struct experiment *x, struct tally *tally, struct error *error)
{
	size_t later = x->tail > LATER_MIN ? x->tail : LATER_MIN;
	struct trace truth = {0};

	if (x->branches.count <= 2 * (x->gap + later))
		return error_set(error, ERR_NOT_FOUND, "only %zu branches", x->branches.count);
	enum err err = weave(x, x->events.items, x->events.count, &truth);
	size_t choices = x->branches.count - x->gap - later - 1;
	for (size_t i = 0; err == ERR_NONE && i < 2 * x->places && tally->places < x->places; i++)
		err = try_place(x, 1 + chance(x, choices), &truth, tally);
	trace_done(&truth);
	return err;
}

static size_t number(const char *text)
{
	return (size_t)strtoull(text, NULL, 0);
}

int main(int argc, char **argv)
{
	static struct experiment x = {.gap = 20, .places = 200, .seed = 1, .most = SIZE_MAX};
	const char *symfs = NULL;
	struct error error = {0};
	struct tally tally = {0};
	int option;

	while ((option = getopt(argc, argv, "g:m:n:t:r:s:v")) != -1) {
		switch (option) {
		case 'g': x.gap = number(optarg); break;
		case 'm': x.most = number(optarg); break;
		case 'n': x.places = number(optarg); break;
		case 't': x.tail = number(optarg); break;
		case 'r': x.seed = number(optarg); break;
		case 's': symfs = optarg; break;
		case 'v': x.verbose = true; break;
		default: return 2;
		}
	}
	if (optind + 1 != argc || x.gap == 0) {
		fprintf(stderr, "cut_experiment: usage: [OPTIONS] PERF.DATA\n");
		return 2;
	}
	x.seed = (x.seed * 0x9e3779b97f4a7c15u + x.gap) | 1;
	enum err err = experiment_open(&x, argv[optind], symfs, &error);
	if (err == ERR_NONE)
		err = experiment_run(&x, &tally, &error);
	if (err == ERR_NONE)
		printf("%zu %zu %zu %zu %zu %zu\n", tally.places, tally.exact, tally.with_false,
		       tally.with_lost, tally.lost, tally.going_on);
	else
		fprintf(stderr, "cut_experiment: %s: %s %s\n", argv[optind], error_name(err),
			error.message);
	experiment_done(&x);
	return err == ERR_NONE ? 0 : 1;
}
