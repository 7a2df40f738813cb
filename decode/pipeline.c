/* See pipeline.h. pipeline_run() is the table of contents; everything above it is one stage. */
#include "decode/pipeline.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/bundle.h"
#include "common/log.h"
#include "decode/anchor.h"
#include "decode/dump_edges.h"
#include "decode/dump_packets.h"
#include "decode/dump_records.h"
#include "decode/dump_sideband.h"
#include "decode/hits.h"
#include "decode/join.h"
#include "decode/perfdata.h"
#include "decode/schedule.h"
#include "decode/segment.h"
#include "decode/select.h"
#include "writer/calls_text.h"
#include "writer/segments_text.h"
#include "writer/stats.h"
#include "writer/trace_fxt.h"

struct pipeline {
	const struct options *o;
	struct error *error;
	struct bundle bundle;
	struct perfdata file;
	struct symbolizer *symbolizer;
	struct sideband sideband;
	struct graph *graph;
	struct weaver *weaver;
	struct trace trace;
	struct selection selection;
	struct run_stats stats;
	struct output *out;
	double stage_wall, stage_cpu;
	bool file_open, bundle_open, show_progress;
	double progress_shown;
	char kcore[PATH_MAX], kallsyms[PATH_MAX]; /* of a perf.data directory; "" = none */
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
	p->stage_wall = wall;
	p->stage_cpu = cpu;
}

static unsigned pipeline_jobs(const struct options *o)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return o->jobs ? o->jobs : cpus > 0 ? (unsigned)cpus : 1;
}

/* ---- opening ---- */

/* perf record --kcore puts the kernel's code and names beside the data. */
static void pipeline_find_kcore(struct pipeline *p, const char *path,
				struct symbolizer_options *where)
{
	struct {
		const char *name, **option;
		char *found;
	} files[] = {{"kcore", &where->kcore, p->kcore},
		     {"kallsyms", &where->kallsyms, p->kallsyms}};

	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		int n = snprintf(files[i].found, PATH_MAX, "%s/kcore_dir/%s", path, files[i].name);

		if (!*files[i].option && n < PATH_MAX && access(files[i].found, R_OK) == 0)
			*files[i].option = files[i].found;
	}
}

static enum err pipeline_open(struct pipeline *p)
{
	const struct options *o = p->o;
	const char *bundled[1];
	const char *const *paths = o->inputs.items;
	size_t count = o->inputs.count;
	struct symbolizer_options where = {.symfs = o->symfs,
					   .debug_dirs = o->debug_dirs.items,
					   .perf_maps = o->perf_maps.items,
					   .jitdumps = o->jitdumps.items,
					   .kcore = o->kcore,
					   .kallsyms = o->kallsyms,
					   .debuginfod = o->debuginfod,
					   .no_demangle = o->no_demangle,
					   .no_inline = o->no_inline};

	if (count == 1 && bundle_is(paths[0])) {
		enum err err = bundle_open(paths[0], &p->bundle, p->error);

		if (err != ERR_NONE)
			return err;
		p->bundle_open = true;
		bundled[0] = p->bundle.perf_data;
		paths = bundled;
		where.bundle = &p->bundle;
	}
	if (count > 0)
		pipeline_find_kcore(p, paths[0], &where);
	enum err err = perfdata_open(&p->file, paths, count, p->error);
	if (err != ERR_NONE)
		return err;
	p->file_open = true;
	for (size_t i = 0; i < p->file.files.count; i++)
		p->stats.input_bytes += p->file.files.items[i].map.bytes;
	return symbolizer_new(&where, &p->symbolizer, p->error);
}

static void pipeline_warn_damage(const struct pipeline *p)
{
	for (size_t i = 0; i < p->file.damage.count; i++) {
		const struct perfdata_damage *d = &p->file.damage.items[i];

		log_warn("%s: %s at offset %#llx: %llu bytes lost",
			 p->file.files.items[d->file].path, perfdata_damage_name(d->kind),
			 (unsigned long long)d->file_off, (unsigned long long)d->lost_bytes);
	}
	if (p->file.unknown_records)
		log_warn("%llu records of unknown type skipped (%llu bytes)",
			 (unsigned long long)p->file.unknown_records,
			 (unsigned long long)p->file.unknown_bytes);
}

static enum err pipeline_sideband(struct pipeline *p)
{
	enum err err = sideband_read(&p->file, p->symbolizer, &p->sideband, p->error);

	if (err == ERR_NONE && p->bundle_open)
		err = hits_add(&p->sideband, &p->bundle);
	if (err != ERR_NONE)
		return err;
	symbolizer_set_clock(p->symbolizer, p->sideband.clock.time_shift,
			     p->sideband.clock.time_mult, p->sideband.clock.time_zero);
	pipeline_warn_damage(p);
	if (p->sideband.buffers.count == 0)
		return error_set(p->error, ERR_NOT_FOUND,
				 "%s: no Intel PT data in it (was it recorded with -e intel_pt//?)",
				 p->o->inputs.items[0]);
	if (p->sideband.config.no_branches)
		return error_set(p->error, ERR_UNSUPPORTED,
				 "%s: recorded with branch=0: the trace holds no control flow",
				 p->o->inputs.items[0]);
	return ERR_NONE;
}

/* ---- decoding ---- */

static void pipeline_progress(void *context, uint64_t done, uint64_t all)
{
	struct pipeline *p = context;
	double now = clock_seconds(CLOCK_MONOTONIC);

	if (now - p->progress_shown < 0.25)
		return;
	p->progress_shown = now;
	double share = all ? (double)done / (double)all : 1;
	fprintf(stderr, "\r\033[Kdecoding %3.0f %%, %.0f s left", share * 100,
		share > 0 ? (now - p->stage_wall) * (1 - share) / share : 0);
}

static enum err pipeline_schedule(struct pipeline *p, unsigned flow_flags,
				  schedule_consumer *consume, void *context)
{
	struct schedule_options how = {.jobs = pipeline_jobs(p->o),
				       .flow_flags = flow_flags,
				       .libipt = p->o->engine == ENGINE_LIBIPT,
				       .cpus = p->o->cpus.items,
				       .cpu_count = p->o->cpus.count,
				       .from_ns = p->selection.from_ns,
				       .until_ns = p->selection.until_ns,
				       .progress = p->show_progress ? pipeline_progress : NULL,
				       .progress_context = p};
	enum err err = schedule_run(p->graph, &p->sideband, &how, consume, context, &p->stats.flow,
				    p->error);

	if (p->show_progress)
		fputs("\r\033[K", stderr);
	return err;
}

static enum err pipeline_weave(void *context, const struct aux_buffer *buffer,
			       const struct flow_event *events, size_t count,
			       const uint64_t *payloads)
{
	return weaver_events(context, buffer, events, count, payloads);
}

/* Where the trace leaves the code again and again, it was recorded with other code. */
#define SUSPECT_MISMATCHES 3

static void pipeline_suspect(struct pipeline *p)
{
	size_t modules = symbolizer_module_count(p->symbolizer);
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
		    symbolizer_module_suspect(p->symbolizer, (module_id){id}))
			log_warn("%s", symbolizer_module_advice(p->symbolizer, (module_id){id}));
	}
	free(mismatches);
}

static enum err pipeline_decode(struct pipeline *p)
{
	enum err err = graph_new(&p->sideband, p->symbolizer, p->o->no_inline ? GRAPH_NO_INLINE : 0,
				 &p->graph, p->error);

	if (err == ERR_NONE)
		err = weaver_new(&p->sideband, p->symbolizer, p->graph, &p->trace, &p->weaver);
	if (err == ERR_NONE)
		err = pipeline_schedule(p, 0, pipeline_weave, p->weaver);
	if (err == ERR_NONE)
		err = weaver_finish(p->weaver);
	pipeline_stage(p, "decode");
	if (err == ERR_NONE)
		err = join_trace(&p->trace, p->graph, &p->sideband);
	if (err == ERR_NONE)
		err = anchor_trace(&p->trace, p->graph, &p->sideband);
	if (err == ERR_NONE)
		pipeline_suspect(p);
	pipeline_stage(p, "join");
	return err;
}

static void pipeline_selection(struct pipeline *p)
{
	const struct options *o = p->o;
	uint64_t first = p->sideband.first_ns;

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
}

/* ---- output ---- */

static const char *pipeline_output_path(const struct options *o)
{
	return o->output ? o->output : o->dump ? "-" : "trace.fxt.gz";
}

/* Before any work: what cannot be written should not be decoded first. */
static enum err pipeline_open_output(struct pipeline *p)
{
	return output_open(pipeline_output_path(p->o), p->o->dump ? OUTPUT_TEXT : OUTPUT_BINARY,
			   pipeline_jobs(p->o), &p->out, p->error);
}

/* Dumps that need no decoding, or write while they decode, through stdio. */
static enum err pipeline_stream_dump(struct pipeline *p)
{
	const struct options *o = p->o;
	FILE *out;
	enum err err = output_stream(p->out, &out, p->error);

	if (err != ERR_NONE)
		return err;
	switch (o->dump) {
	case DUMP_RECORDS: err = dump_records(&p->file, out, p->error); break;
	case DUMP_SIDEBAND: err = dump_sideband(&p->sideband, p->symbolizer, out, p->error); break;
	case DUMP_PACKETS: err = dump_packets(&p->sideband, out, p->error); break;
	default:
		err = dump_edges(&p->sideband, p->symbolizer,
				 o->engine == ENGINE_LIBIPT ? DUMP_EDGES_LIBIPT : DUMP_EDGES_FAST,
				 out, &p->stats.flow, p->error);
	}
	/* What fclose() meets, output_commit() tells. */
	(void)fclose(out);
	return err == ERR_NONE ? output_commit(p->out, p->error) : err;
}

static enum err pipeline_write_text(struct pipeline *p, const struct trace_names *names)
{
	switch (p->o->dump) {
	case DUMP_CALLS: return calls_text_write(&p->trace, names, p->out, p->error);
	case DUMP_SEGMENTS: return segments_text_write(&p->trace, names, p->out, p->error);
	default: return joins_text_write(&p->trace, names, p->out, p->error);
	}
}

/* Wall time at the trace's start, if the capture tells how it relates to perf's clock. */
static void pipeline_wall_clock(const struct pipeline *p, struct fxt_options *fxt)
{
	const struct bundle_clock *clock = &p->bundle.clock;
	const struct perfdata_info *info = &p->file.info;
	uint64_t start_ns = p->trace.start_ns;

	fxt->has_wall_clock = true;
	if (p->bundle_open && clock->known)
		fxt->wall_ns = clock->realtime_ns + (start_ns - clock->perf_ns);
	else if (info->wall_clock_ns)
		fxt->wall_ns = info->wall_clock_ns + (start_ns - info->clockid_ns);
	else
		fxt->has_wall_clock = false;
}

static enum err pipeline_write(struct pipeline *p)
{
	const struct options *o = p->o;
	static const enum fxt_args args[] = {[ARGS_BASIC] = FXT_ARGS_BASIC,
					     [ARGS_NONE] = FXT_ARGS_NONE,
					     [ARGS_FULL] = FXT_ARGS_FULL};
	struct trace_names names = {&p->sideband, p->symbolizer, graph_tables(p->graph)};
	struct fxt_options fxt = {.args = args[o->args],
				  .min_duration_ns = o->min_duration_ns,
				  .traced_threads_only =
					  o->pids.count || o->tids.count || o->comms.count};
	enum err err = select_trace(&p->trace, &names, &p->selection, p->error);

	pipeline_wall_clock(p, &fxt);
	if (err == ERR_NONE && o->dump)
		err = pipeline_write_text(p, &names);
	else if (err == ERR_NONE)
		err = trace_fxt_write(&p->trace, &names, &fxt, p->out, &p->stats.fxt, p->error);
	if (err == ERR_NONE)
		err = output_commit(p->out, p->error);
	if (err == ERR_NONE) {
		p->stats.output = pipeline_output_path(o);
		p->stats.output_bytes = output_bytes(p->out);
	}
	pipeline_stage(p, "write");
	return err;
}

static enum err pipeline_report(struct pipeline *p, struct pipeline_result *result)
{
	struct trace_names names = {&p->sideband, p->symbolizer, graph_tables(p->graph)};
	struct output *out = NULL;
	struct buffer text = {0};
	enum err err = ERR_NONE;

	result->loss_percent = stats_loss_percent(&p->trace);
	if (p->o->stats) {
		err = output_open(p->o->stats, OUTPUT_TEXT, 1, &out, p->error);
		if (err == ERR_NONE)
			err = stats_write_json(&p->stats, &p->trace, &names, out, p->error);
		if (err == ERR_NONE)
			err = output_commit(out, p->error);
		output_free(out);
	}
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
	weaver_free(p->weaver);
	trace_done(&p->trace);
	graph_free(p->graph);
	sideband_done(&p->sideband);
	symbolizer_free(p->symbolizer);
	if (p->file_open)
		perfdata_done(&p->file);
	if (p->bundle_open)
		bundle_done(&p->bundle);
	vec_done(&p->stats.stages);
}

enum err pipeline_run(const struct options *o, struct pipeline_result *result, struct error *error)
{
	struct pipeline p = {.o = o, .error = error};
	bool streams = o->dump == DUMP_RECORDS || o->dump == DUMP_SIDEBAND ||
		       o->dump == DUMP_PACKETS || o->dump == DUMP_EDGES;

	*result = (struct pipeline_result){0};
	p.stats.inputs = o->inputs.items;
	p.stats.input_count = o->inputs.count;
	p.show_progress = o->progress || (o->verbosity >= 0 && isatty(STDERR_FILENO));
	pipeline_stage(&p, NULL);

	enum err err = pipeline_open(&p);
	if (err == ERR_NONE)
		err = pipeline_open_output(&p);
	if (err == ERR_NONE && o->dump == DUMP_RECORDS) {
		err = pipeline_stream_dump(&p);
		goto done;
	}
	if (err == ERR_NONE)
		err = pipeline_sideband(&p);
	pipeline_stage(&p, "sideband");
	pipeline_selection(&p);
	if (err == ERR_NONE && streams) {
		err = pipeline_stream_dump(&p);
		goto done;
	}
	if (err == ERR_NONE)
		err = pipeline_decode(&p);
	if (err == ERR_NONE)
		err = pipeline_write(&p);
	if (err == ERR_NONE)
		err = pipeline_report(&p, result);
done:
	if (err == ERR_NOMEM)
		error_set(error, ERR_NOMEM, "out of memory");
	pipeline_done(&p);
	return err;
}

void pipeline_result_done(struct pipeline_result *result)
{
	free(result->summary);
}
