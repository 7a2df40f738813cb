/* trees_compare [OPTIONS OF pt-decode] FILE: are the call stacks of a trace the same when they
 * are built with trees of closed calls (tree.h) and without, by one thread and by three?
 *
 * Prints what differs, else how many events there are and how many of them trees held. Exit
 * status 0: nothing differs. */
#include <inttypes.h>
#include <stdio.h>

#include "decode/anchor.h"
#include "decode/input.h"
#include "decode/join.h"
#include "decode/schedule.h"
#include "decode/segment.h"
#include "decode/tests/trace_compare.h"

enum { JOBS = 3 };

struct comparison {
	struct options o;
	struct input in;
	struct graph *graph; /* one for all: node ids mean the same */
	struct trace with_trees, without;
	struct weaver *w;
	uint64_t events, in_trees;
};

static enum err weave_stay(void *context, const struct aux_buffer *buffer, const struct stay *stay)
{
	struct comparison *c = context;

	c->events += stay->count;
	for (size_t i = 0; i < stay->tree_count; i++)
		c->in_trees += stay->trees[i].end_event - stay->trees[i].first_event;
	return weaver_events(c->w, buffer, stay);
}

static enum err weave(struct comparison *c, bool trees, struct trace *trace, struct error *error)
{
	struct schedule_options how = {.jobs = trees ? JOBS : 1,
				       .trees = trees,
				       .libipt = c->o.engine == ENGINE_LIBIPT,
				       .until_ns = TIME_NONE};
	struct flow_stats stats = {0};
	enum err err = weaver_new(&c->in.sideband, c->in.symbolizer, c->graph, trace, &c->w);

	c->events = c->in_trees = 0;
	if (err == ERR_NONE)
		err = schedule_run(c->graph, &c->in.sideband, &how, weave_stay, c, &stats, error);
	if (err == ERR_NONE)
		err = weaver_finish(c->w);
	if (err == ERR_NONE)
		err = join_trace(trace, c->graph);
	if (err == ERR_NONE)
		err = anchor_trace(trace, c->graph, &c->in.sideband);
	weaver_free(c->w);
	return err;
}

static enum err compare(struct comparison *c, struct error *error)
{
	enum err err = input_open(&c->in, &c->o, error);

	if (err == ERR_NONE)
		err = input_read(&c->in, &c->o, error);
	if (err == ERR_NONE)
		err = graph_new(&c->in.sideband, c->in.symbolizer,
				c->o.no_inline ? GRAPH_NO_INLINE : 0, &c->graph, error);
	if (err == ERR_NONE)
		err = weave(c, false, &c->without, error);
	if (err == ERR_NONE)
		err = weave(c, true, &c->with_trees, error);
	return err;
}

int main(int argc, char **argv)
{
	static struct comparison c;
	struct error error = {0};
	enum err err = options_parse(argc, argv, &c.o, &error);

	if (err == ERR_NONE)
		err = compare(&c, &error);
	const char *what = err == ERR_NONE ? trace_difference(&c.with_trees, &c.without) : NULL;
	if (err != ERR_NONE)
		fprintf(stderr, "trees_compare: %s\n", error.message);
	else if (what)
		printf("trees change the %s\n", what);
	else
		printf("%" PRIu64 " %" PRIu64 "\n", c.events, c.in_trees);
	trace_done(&c.with_trees);
	trace_done(&c.without);
	graph_free(c.graph);
	input_done(&c.in);
	options_done(&c.o);
	return err != ERR_NONE || what != NULL;
}
