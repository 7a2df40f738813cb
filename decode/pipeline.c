/* See pipeline.h. pipeline_run() is the table of contents; everything above it is one stage. */
#include "decode/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/memory.h"
#include "decode/anchor.h"
#include "decode/dump_edges.h"
#include "decode/dump_packets.h"
#include "decode/dump_records.h"
#include "decode/dump_sideband.h"
#include "decode/input.h"
#include "decode/join.h"
#include "decode/piece.h"
#include "decode/schedule.h"
#include "decode/segment.h"
#include "decode/select.h"
#include "writer/calls_text.h"
#include "writer/segments_text.h"
#include "writer/stats.h"
#include "writer/symbols_text.h"
#include "writer/trace_fxt.h"

struct pipeline {
	const struct options *o;
	struct error *error;
	struct input in;
	struct graph *graph;
	struct weaver *weaver;
	struct trace trace;
	struct selection selection;
	struct run_stats stats;
	struct output *out, *stats_out; /* NULL = not asked for */
	double stage_wall, stage_cpu;
	bool show_progress;
	double progress_shown;
	struct memory_limit memory;
};

static double clock_seconds(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Notes the stage that ends now; the next one begins. */
static void pipeline_stage(struct pipeline *p, const char *name)
{
	double wall = clock_seconds(CLOCK_MONOTONIC), cpu = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
	struct rusage usage = {0};

	getrusage(RUSAGE_SELF, &usage);
	struct stage_stats stage = {.name = name,
				    .wall_s = wall - p->stage_wall,
				    .cpu_s = cpu - p->stage_cpu,
				    .peak_bytes = (uint64_t)usage.ru_maxrss * 1024};
	if (name && !vec_push(&p->stats.stages, stage))
		log_debug("no memory for the time of stage %s", name);
	if (name)
		log_info("%s: %.3f s, %.3f s of CPU, %.1f MB so far", name, stage.wall_s,
			 stage.cpu_s, (double)stage.peak_bytes / 1e6);
	p->stage_wall = wall;
	p->stage_cpu = cpu;
}

static unsigned pipeline_jobs(const struct options *o)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return o->jobs ? o->jobs : cpus > 0 ? (unsigned)cpus : 1;
}

/* ---- memory ----
 * What grows with the trace are the calls that are kept, and these go to a file: before decoding
 * only the least can be told, so that nothing is refused that would fit; growth is watched. */

enum { MEMORY_LEAST = 8 << 20 };

static enum err pipeline_refuse(const struct pipeline *p, const char *what, uint64_t bytes)
{
	return error_set(p->error, ERR_LIMIT,
			 "%s: %s %.1f MB of memory, --max-memory allows %.1f MB; decode less with "
			 "--time or --cpu",
			 p->o->inputs.items[0], what, (double)bytes / 1e6,
			 (double)p->o->max_memory_bytes / 1e6);
}

/* Before decoding: does it stand a chance? */
static enum err pipeline_check_memory(const struct pipeline *p)
{
	uint64_t need = memory_used() + MEMORY_LEAST;

	if (p->o->max_memory_bytes && need > p->o->max_memory_bytes)
		return pipeline_refuse(p, "needs at least", need);
	return ERR_NONE;
}

/* ---- decoding ---- */

static void pipeline_progress(void *context, uint64_t done, uint64_t all)
{
	struct pipeline *p = context;
	double now = clock_seconds(CLOCK_MONOTONIC), passed = now - p->stage_wall;
	double share = all ? (double)done / (double)all : 1;
	char text[64];

	if (!p->show_progress || now - p->progress_shown < 0.25)
		return;
	p->progress_shown = now;
	snprintf(text, sizeof text, "decoding %3.0f %%, %.0f s left", share * 100,
		 share > 0 ? passed * (1 - share) / share : 0);
	log_status(text);
}

static enum err pipeline_weave(void *context, const struct aux_buffer *buffer,
			       const struct stay *stay)
{
	struct pipeline *p = context;

	if (memory_limit_is_passed(&p->memory))
		return ERR_LIMIT;
	return weaver_events(p->weaver, buffer, stay);
}

static enum err pipeline_schedule(struct pipeline *p)
{
	struct schedule_options how = {.jobs = pipeline_jobs(p->o),
				       .libipt = p->o->engine == ENGINE_LIBIPT,
				       .trees = true,
				       .cpus = p->o->cpus.items,
				       .cpu_count = p->o->cpus.count,
				       .from_ns = p->selection.from_ns,
				       .until_ns = p->selection.until_ns,
				       .progress = pipeline_progress,
				       .progress_context = p};
	enum err err = schedule_run(p->graph, &p->in.sideband, &how, pipeline_weave, p,
				    &p->stats.flow, p->error);

	log_status(NULL);
	return err;
}

/* Where the trace leaves the code again and again, it was recorded with other code. */
#define SUSPECT_MISMATCHES 3

static void pipeline_suspect(struct pipeline *p)
{
	size_t modules = symbolizer_module_count(p->in.symbolizer);
	uint32_t *mismatches = calloc(modules + 1, sizeof *mismatches);

	for (size_t i = 0; mismatches && i < p->trace.threads.count; i++) {
		const struct thread *t = &p->trace.threads.items[i];

		for (size_t j = 0; j < t->joins.count; j++)
			if (t->joins.items[j].cause == LOSS_MISMATCH && t->joins.items[j].lost_at)
				mismatches[graph_tables(p->graph)
						   .cold[t->joins.items[j].lost_at]
						   .module.v]++;
	}
	for (uint32_t id = 1; mismatches && id <= modules; id++) {
		if (mismatches[id] >= SUSPECT_MISMATCHES &&
		    symbolizer_module_suspect(p->in.symbolizer, (module_id){id}))
			log_warn("%s", symbolizer_module_advice(p->in.symbolizer, (module_id){id}));
	}
	free(mismatches);
}

static enum err pipeline_decode(struct pipeline *p)
{
	enum err err = graph_new(&p->in.sideband, p->in.symbolizer,
				 p->o->no_inline ? GRAPH_NO_INLINE : 0, &p->graph, p->error);

	p->trace.memory = &p->memory;
	p->trace.spill_bytes = p->memory.bytes / 2; /* calls are most of what is kept */
	p->trace.from_ns = p->selection.from_ns;
	p->trace.until_ns = p->selection.until_ns;
	if (err == ERR_NONE)
		err = weaver_new(&p->in.sideband, p->in.symbolizer, p->graph, &p->trace,
				 &p->weaver);
	if (err == ERR_NONE)
		err = pipeline_schedule(p);
	if (err == ERR_NONE)
		err = weaver_finish(p->weaver);
	pipeline_stage(p, "decode");
	if (err == ERR_NONE)
		err = join_trace(&p->trace, p->graph);
	if (err == ERR_NONE)
		err = anchor_trace(&p->trace, p->graph, &p->in.sideband);
	if (err == ERR_NONE)
		pipeline_suspect(p);
	pipeline_stage(p, "join");
	return err;
}

/* Where +0 is: the first time of the PT data. Records may reach back much further. */
static enum err pipeline_first_ns(const struct pipeline *p, uint64_t *first_ns)
{
	*first_ns = TIME_NONE;
	for (size_t i = 0; i < p->in.sideband.buffers.count; i++) {
		struct pieces pieces = {0};
		enum err err =
			pieces_find(&p->in.sideband, &p->in.sideband.buffers.items[i], &pieces);

		if (pieces.first_ns < *first_ns)
			*first_ns = pieces.first_ns;
		pieces_done(&pieces);
		if (err != ERR_NONE)
			return err;
	}
	if (*first_ns == TIME_NONE)
		*first_ns = p->in.sideband.first_ns;
	return ERR_NONE;
}

static enum err pipeline_selection(struct pipeline *p)
{
	const struct options *o = p->o;
	uint64_t first = 0;
	enum err err = ERR_NONE;

	if (o->from.relative || o->until.relative)
		err = pipeline_first_ns(p, &first);
	p->selection = (struct selection){.pids = o->pids.items,
					  .pid_count = o->pids.count,
					  .tids = o->tids.items,
					  .tid_count = o->tids.count,
					  .comms = o->comms.items,
					  .comm_count = o->comms.count,
					  .until_ns = TIME_NONE,
					  .between_start = o->between_start,
					  .between_stop = o->between_stop,
					  .kernel_only = o->kernel_only,
					  .user_only = o->user_only};
	if (o->from.given)
		p->selection.from_ns = o->from.ns + (o->from.relative ? first : 0);
	if (o->until.given)
		p->selection.until_ns = o->until.ns + (o->until.relative ? first : 0);
	return err;
}

/* ---- output ---- */

static const char *pipeline_output_path(const struct options *o)
{
	return o->output ? o->output : o->dump ? "-" : "trace.fxt.gz";
}

/* Before any work: what cannot be written should not be decoded first. */
static enum err pipeline_open_output(struct pipeline *p)
{
	const char *paths[] = {pipeline_output_path(p->o), p->o->stats};

	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
		if (paths[i] && input_is(&p->in, p->o, paths[i]))
			return error_set(p->error, ERR_UNSUPPORTED,
					 "%s: is what is decoded; it would be overwritten",
					 paths[i]);
	if (paths[1] && strcmp(paths[0], paths[1]) == 0 && strcmp(paths[0], "-") != 0)
		return error_set(p->error, ERR_USAGE, "%s: for --stats and for the output",
				 paths[1]);
	enum err err =
		output_open(pipeline_output_path(p->o), p->o->dump ? OUTPUT_TEXT : OUTPUT_BINARY,
			    pipeline_jobs(p->o), &p->out, p->error);

	if (err == ERR_NONE && p->o->stats)
		err = output_open(p->o->stats, OUTPUT_TEXT, 1, &p->stats_out, p->error);
	return err;
}

static enum err pipeline_dump_to(struct pipeline *p, FILE *out)
{
	const struct options *o = p->o;
	struct dump_edges_options edges = {.engine = o->engine == ENGINE_LIBIPT ? DUMP_EDGES_LIBIPT
										: DUMP_EDGES_FAST,
					   .selection = &p->selection,
					   .cpus = o->cpus.items,
					   .cpu_count = o->cpus.count};

	switch (o->dump) {
	case DUMP_RECORDS: return dump_records(&p->in.file, out, p->error);
	case DUMP_SIDEBAND: return dump_sideband(&p->in.sideband, p->in.symbolizer, out, p->error);
	case DUMP_PACKETS: return dump_packets(&p->in.sideband, out, p->error);
	default:
		return dump_edges(&p->in.sideband, p->in.symbolizer, &edges, out, &p->stats.flow,
				  p->error);
	}
}

/* Dumps that need no call stacks. */
static enum err pipeline_stream_dump(struct pipeline *p)
{
	FILE *out;
	enum err err = output_stream(p->out, &out, p->error);

	if (err != ERR_NONE)
		return err;
	err = pipeline_dump_to(p, out);
	/* What fclose() meets, output_commit() tells. */
	(void)fclose(out);
	if (err != ERR_NONE && err != ERR_IO)
		return err;
	return output_commit(p->out, p->error);
}

static enum err pipeline_write_text(struct pipeline *p, const struct trace_names *names)
{
	switch (p->o->dump) {
	case DUMP_CALLS: return calls_text_write(&p->trace, names, p->out, p->error);
	case DUMP_SEGMENTS: return segments_text_write(&p->trace, names, p->out, p->error);
	case DUMP_SYMBOLS: return symbols_text_write(&p->trace, names, p->out, p->error);
	default: return joins_text_write(&p->trace, names, p->out, p->error);
	}
}

static bool pipeline_cuts(const struct options *o)
{
	return o->from.given || o->until.given || o->between_start || o->kernel_only ||
	       o->user_only;
}

static enum err pipeline_write(struct pipeline *p)
{
	const struct options *o = p->o;
	static const enum fxt_args args[] = {[ARGS_BASIC] = FXT_ARGS_BASIC,
					     [ARGS_NONE] = FXT_ARGS_NONE,
					     [ARGS_FULL] = FXT_ARGS_FULL};
	struct trace_names names = {&p->in.sideband, p->in.symbolizer, graph_tables(p->graph)};
	struct fxt_options fxt = {.args = args[o->args],
				  .min_duration_ns = o->min_duration_ns,
				  .traced_threads_only =
					  o->pids.count || o->tids.count || o->comms.count};
	enum err err = select_trace(&p->trace, &names, &p->selection, p->error);

	if (err == ERR_NONE && p->trace.threads.count == 0)
		log_warn("nothing is left of the trace: no thread of it was selected%s",
			 o->cpus.count ? " (rings of threads, not of CPUs, have no --cpu)" : "");
	else if (err == ERR_NONE && p->trace.end_ns == 0 && pipeline_cuts(o))
		log_warn("nothing is left of the trace: no call of it was selected");
	fxt.has_wall_clock = input_wall_clock(&p->in, p->trace.start_ns, &fxt.wall_ns);
	if (err == ERR_NONE && o->dump)
		err = pipeline_write_text(p, &names);
	else if (err == ERR_NONE)
		err = trace_fxt_write(&p->trace, &names, &fxt, p->out, &p->stats.fxt, p->error);
	if (err == ERR_NONE)
		err = output_finish(p->out, p->error);
	if (err == ERR_NONE) {
		p->stats.output = pipeline_output_path(o);
		p->stats.output_bytes = output_bytes(p->out);
	}
	pipeline_stage(p, "write");
	return err;
}

static enum err pipeline_report(struct pipeline *p, struct pipeline_result *result)
{
	struct trace_names names = {&p->in.sideband, p->in.symbolizer, graph_tables(p->graph)};
	struct buffer text = {0};
	enum err err = ERR_NONE;

	result->loss_percent = stats_loss_percent(&p->trace);
	if (p->stats_out)
		err = stats_write_json(&p->stats, &p->trace, &names, p->stats_out, p->error);
	/* All outputs or none. */
	if (err == ERR_NONE && p->stats_out)
		err = output_finish(p->stats_out, p->error);
	if (err == ERR_NONE)
		err = output_commit(p->out, p->error);
	if (err == ERR_NONE && p->stats_out)
		err = output_commit(p->stats_out, p->error);
	if (err == ERR_NONE)
		err = stats_summary(&p->stats, &p->trace, &names, &text);
	if (err == ERR_NONE)
		result->summary = strndup((const char *)text.data, text.bytes);
	buffer_done(&text);
	return err;
}

static void pipeline_done(struct pipeline *p)
{
	output_free(p->out);
	output_free(p->stats_out);
	weaver_free(p->weaver);
	trace_done(&p->trace);
	graph_free(p->graph);
	input_done(&p->in);
	vec_done(&p->stats.stages);
}

/* ---- the order ---- */

static enum err pipeline_stages(struct pipeline *p, struct pipeline_result *result)
{
	const struct options *o = p->o;
	enum err err = input_open(&p->in, o, p->error);

	p->stats.input_bytes = p->in.bytes;
	pipeline_stage(p, "open");
	if (err == ERR_NONE)
		err = pipeline_open_output(p);
	if (err == ERR_NONE && o->dump == DUMP_RECORDS)
		return pipeline_stream_dump(p);
	if (err == ERR_NONE)
		err = input_read(&p->in, o, p->error);
	if (err == ERR_NONE)
		err = pipeline_selection(p);
	pipeline_stage(p, "sideband");
	if (err == ERR_NONE &&
	    (o->dump == DUMP_SIDEBAND || o->dump == DUMP_PACKETS || o->dump == DUMP_EDGES))
		return pipeline_stream_dump(p);
	if (err == ERR_NONE)
		err = pipeline_check_memory(p);
	if (err == ERR_NONE)
		err = pipeline_decode(p);
	if (err == ERR_NONE)
		err = pipeline_write(p);
	if (err == ERR_NONE)
		err = pipeline_report(p, result);
	return err;
}

enum err pipeline_run(const struct options *o, struct pipeline_result *result, struct error *error)
{
	struct pipeline p = {.o = o, .error = error, .memory = {.bytes = o->max_memory_bytes}};

	*result = (struct pipeline_result){0};
	p.stats.inputs = o->inputs.items;
	p.stats.input_count = o->inputs.count;
	p.show_progress = o->progress || (o->verbosity >= 0 && isatty(STDERR_FILENO));
	pipeline_stage(&p, NULL);
	enum err err = pipeline_stages(&p, result);
	if (err == ERR_NOMEM)
		error_set(error, ERR_NOMEM, "out of memory");
	if (err != ERR_NONE && p.memory.passed_bytes)
		err = pipeline_refuse(&p, "uses already", p.memory.passed_bytes);
	pipeline_done(&p);
	return err;
}

void pipeline_result_done(struct pipeline_result *result)
{
	free(result->summary);
}
