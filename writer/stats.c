/* See stats.h. Both outputs are made from the same totals. */
#include "writer/stats.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_text.h"
#include "writer/call_order.h"
#include "writer/names.h"

enum { MODULES_SHOWN = 5 };

/* Code that could not be followed, by module. */
struct unresolved {
	uint64_t lost_ns, gaps;
	module_id module;
};

struct losses {
	uint64_t count[LOSS_COUNT], lost_ns[LOSS_COUNT];
};

struct totals {
	uint64_t traced_ns, lost_ns, calls, segments, edges, gaps, joined, ambiguous, clamped;
	uint64_t by_code; /* joins about which the code has decided something */
	struct losses losses;
	uint64_t evidence[JOIN_EVIDENCE_COUNT];
	VEC(struct unresolved) unresolved; /* most time first */
};

/* How often is counted for every loss; how long is known where trace followed. */
static void losses_add(struct losses *losses, const struct trace *trace, const struct thread *t)
{
	for (int i = 0; i < LOSS_COUNT; i++)
		losses->count[i] += t->losses[i];
	for (size_t i = 0; i < t->joins.count; i++) {
		const struct join *join = &t->joins.items[i];

		if (join->cause < LOSS_COUNT)
			losses->lost_ns[join->cause] +=
				trace_counted_ns(trace, join->lost_ns, join->resumed_ns);
	}
}

static void totals_add_thread(struct totals *totals, const struct trace *trace,
			      const struct thread *t)
{
	totals->traced_ns += t->traced_ns;
	totals->lost_ns += t->lost_ns;
	totals->segments += t->segments.count;
	totals->clamped += t->clamped_times;
	losses_add(&totals->losses, trace, t);
	for (size_t i = 0; i < t->segments.count; i++)
		totals->edges += t->segments.items[i].edges;
	for (size_t i = 0; i < t->joins.count; i++) {
		const struct join *join = &t->joins.items[i];

		if (join->evidence >= JOIN_EVIDENCE_COUNT || join->evidence == JOIN_BARRIER ||
		    !trace_counts(trace, join->lost_ns, join->resumed_ns))
			continue;
		totals->gaps++;
		totals->evidence[join->evidence]++;
		totals->joined += join->evidence < JOIN_BARRIER;
		totals->ambiguous += join->ambiguous != 0;
		totals->by_code += join->proven || join->returned || join->excluded;
	}
}

static int unresolved_compare(const void *a, const void *b)
{
	const struct unresolved *x = a, *y = b;

	if (x->lost_ns != y->lost_ns)
		return x->lost_ns > y->lost_ns ? -1 : 1;
	if (x->gaps != y->gaps)
		return x->gaps > y->gaps ? -1 : 1;
	return x->module.v < y->module.v ? -1 : x->module.v > y->module.v;
}

static struct unresolved *totals_unresolved(struct totals *totals, module_id module)
{
	for (size_t i = 0; i < totals->unresolved.count; i++)
		if (totals->unresolved.items[i].module.v == module.v)
			return &totals->unresolved.items[i];
	if (!vec_push(&totals->unresolved, (struct unresolved){.module = module}))
		return NULL;
	return vec_last(&totals->unresolved);
}

static bool bracket_is_missing_code(const struct bracket *b)
{
	return b->kind == BRACKET_MISSING_CODE || b->kind == BRACKET_MISSING_FRAME;
}

/* The bracket of missing code that this call is; NULL = it is something else. */
static const struct bracket *missing_code(const struct trace *trace, const struct thread *t,
					  uint32_t index)
{
	const struct call *call = &t->calls.items[index];

	if (call->kind != CALL_BRACKET || call->flags & CALL_HIDDEN ||
	    call->what >= trace->brackets.count ||
	    !bracket_is_missing_code(&trace->brackets.items[call->what]))
		return NULL;
	return &trace->brackets.items[call->what];
}

/* Missing code calls code that is there, and other missing code: what is below a bracket is
 * no time of its own. */
static bool totals_add_missing(struct totals *totals, const struct trace *trace,
			       const struct thread *t)
{
	for (uint32_t i = 0; i < t->calls.count; i++) {
		const struct call *call = &t->calls.items[i];
		const struct bracket *self = missing_code(trace, t, i), *around = NULL;
		uint32_t parent =
			call->parent == CALL_NONE ? CALL_NONE : call_drawn(t, call->parent);

		if (parent != CALL_NONE && !(call->flags & CALL_HIDDEN))
			around = missing_code(trace, t, parent);
		for (int outer = 0; outer < 2; outer++) {
			const struct bracket *bracket = outer ? around : self;
			struct unresolved *u =
				bracket ? totals_unresolved(totals, bracket->module) : NULL;

			if (!bracket)
				continue;
			if (!u)
				return false;
			u->gaps += !outer;
			u->lost_ns += outer ? call->start_ns - call->end_ns
					    : call->end_ns - call->start_ns;
		}
	}
	return true;
}

/* The brackets say which code is missing, the calls for how long. */
static bool totals_find_missing(struct totals *totals, const struct trace *trace)
{
	bool any = false;

	for (size_t i = 0; i < trace->brackets.count && !any; i++)
		any = bracket_is_missing_code(&trace->brackets.items[i]);
	for (size_t i = 0; any && i < trace->threads.count; i++)
		if (!totals_add_missing(totals, trace, &trace->threads.items[i]))
			return false;
	/* Children that stick out of their parent could take more than there was. */
	for (size_t i = 0; i < totals->unresolved.count; i++)
		if (totals->unresolved.items[i].lost_ns > INT64_MAX)
			totals->unresolved.items[i].lost_ns = 0;
	if (totals->unresolved.count)
		qsort(totals->unresolved.items, totals->unresolved.count,
		      sizeof *totals->unresolved.items, unresolved_compare);
	return true;
}

/* Functions drawn. */
static uint64_t thread_calls(const struct thread *t)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < t->calls.count; i++)
		calls += t->calls.items[i].kind == CALL_FRAME &&
			 !(t->calls.items[i].flags & CALL_HIDDEN);
	return calls;
}

static bool totals_make(struct totals *totals, const struct run_stats *run,
			const struct trace *trace)
{
	totals->calls = run->fxt.calls; /* else, or if there are none, they are counted here */
	for (size_t i = 0; i < trace->threads.count; i++)
		totals_add_thread(totals, trace, &trace->threads.items[i]);
	for (size_t i = 0; run->fxt.calls == 0 && i < trace->threads.count; i++)
		totals->calls += thread_calls(&trace->threads.items[i]);
	return totals_find_missing(totals, trace);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

double stats_loss_percent(const struct trace *trace)
{
	uint64_t traced_ns = 0, lost_ns = 0;

	for (size_t i = 0; i < trace->threads.count; i++) {
		traced_ns += trace->threads.items[i].traced_ns;
		lost_ns += trace->threads.items[i].lost_ns;
	}
	return percent(lost_ns, traced_ns + lost_ns);
}

static const char *unresolved_name(const struct trace_names *names, module_id module)
{
	const char *name = name_module(names, module);

	return name[0] ? name : "[unknown]";
}

static const char *unresolved_advice(const struct trace_names *names, module_id module)
{
	return module.v ? symbolizer_module_advice(names->symbolizer, module)
			: "no mapping of the recording holds these addresses";
}

/* ---- JSON ---- */

static json_t *json_count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

/* jansson's *_new functions take the reference and refuse a NULL value, so a chain of them
 * needs one check; json_pack() checks its own. */
static json_t *json_losses(const struct losses *losses, bool *ok)
{
	json_t *object = json_object();

	for (int i = 1; i < LOSS_COUNT; i++) {
		if (losses->count[i] == 0)
			continue;
		json_t *loss = json_pack("{s:I, s:I}", "count", (json_int_t)losses->count[i],
					 "lost_ns", (json_int_t)losses->lost_ns[i]);
		if (json_object_set_new(object, loss_name((enum loss)i), loss) != 0)
			*ok = false;
	}
	return object;
}

static json_t *json_threads(const struct trace *trace, const struct trace_names *names, bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; i < trace->threads.count; i++) {
		const struct thread *t = &trace->threads.items[i];
		const struct task *task = t->task.v < names->sideband->tasks.count
						  ? &names->sideband->tasks.items[t->task.v]
						  : NULL;
		char scratch[NAME_SCRATCH_BYTES];
		struct losses losses = {0};
		uint64_t edges = 0;

		losses_add(&losses, trace, t);
		for (size_t k = 0; k < t->segments.count; k++)
			edges += t->segments.items[k].edges;
		json_t *object = json_pack(
			"{s:i, s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "pid",
			task ? task->pid : -1, "tid", task ? task->tid : -1, "name",
			json_text(name_task(names, t->task, trace->end_ns, scratch)), "calls",
			(json_int_t)thread_calls(t), "segments", (json_int_t)t->segments.count,
			"edges", (json_int_t)edges, "traced_ns", (json_int_t)t->traced_ns,
			"lost_ns", (json_int_t)t->lost_ns, "clamped_times",
			(json_int_t)t->clamped_times, "losses", json_losses(&losses, ok));
		if (json_array_append_new(array, object) != 0)
			*ok = false;
	}
	return array;
}

static json_t *json_joins(const struct totals *totals, bool *ok)
{
	json_t *by_evidence = json_object();

	for (int i = 0; i < JOIN_BARRIER; i++)
		if (json_object_set_new(by_evidence, join_evidence_name((enum join_evidence)i),
					json_count(totals->evidence[i])) != 0)
			*ok = false;
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "gaps", (json_int_t)totals->gaps,
			 "joined", (json_int_t)totals->joined, "not_joined",
			 (json_int_t)(totals->gaps - totals->joined), "ambiguous",
			 (json_int_t)totals->ambiguous, "with_code_evidence",
			 (json_int_t)totals->by_code, "by_evidence", by_evidence);
}

static json_t *json_unresolved(const struct totals *totals, const struct trace_names *names,
			       bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; i < totals->unresolved.count; i++) {
		const struct unresolved *u = &totals->unresolved.items[i];
		const struct module *module =
			u->module.v ? symbolizer_module_get(names->symbolizer, u->module) : NULL;
		const char *path = module ? symbolizer_text(names->symbolizer, module->path) : "";
		char build_id[2 * sizeof module->build_id + 1] = "";

		for (size_t k = 0; module && k < module->build_id_bytes; k++)
			snprintf(build_id + 2 * k, 3, "%02x", module->build_id[k]);
		json_t *object =
			json_pack("{s:o, s:o, s:s, s:s, s:I, s:I, s:f, s:o}", "module",
				  json_text(unresolved_name(names, u->module)), "path",
				  json_text(path), "build_id", build_id, "state",
				  module ? name_module_state(module->state) : "unmapped", "gaps",
				  (json_int_t)u->gaps, "lost_ns", (json_int_t)u->lost_ns, "percent",
				  percent(u->lost_ns, totals->traced_ns + totals->lost_ns),
				  "advice", json_text(unresolved_advice(names, u->module)));
		if (json_array_append_new(array, object) != 0)
			*ok = false;
	}
	return array;
}

static json_t *json_stages(const struct run_stats *run, bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; i < run->stages.count; i++) {
		const struct stage_stats *stage = &run->stages.items[i];

		if (json_array_append_new(array, json_pack("{s:s, s:f, s:f, s:I}", "name",
							   stage->name, "wall_s", stage->wall_s,
							   "cpu_s", stage->cpu_s, "peak_bytes",
							   (json_int_t)stage->peak_bytes)) != 0)
			*ok = false;
	}
	return array;
}

static json_t *json_inputs(const struct run_stats *run, bool *ok)
{
	json_t *array = json_array();

	for (size_t i = 0; i < run->input_count; i++)
		if (json_array_append_new(array, json_text(run->inputs[i])) != 0)
			*ok = false;
	return array;
}

static json_t *json_sideband(const struct sideband *sideband, bool *ok)
{
	json_t *lost = json_object(); /* records or bytes, as the cause says */
	uint64_t counts[LOSS_COUNT] = {0};

	for (size_t i = 0; i < sideband->losses.count; i++)
		if (sideband->losses.items[i].cause < LOSS_COUNT)
			counts[sideband->losses.items[i].cause] += sideband->losses.items[i].count;
	for (int i = 1; i < LOSS_COUNT; i++)
		if (counts[i] &&
		    json_object_set_new(lost, loss_name((enum loss)i), json_count(counts[i])) != 0)
			*ok = false;
	return json_pack("{s:I, s:I, s:I, s:o}", "records", (json_int_t)sideband->counts.records,
			 "unknown_records", (json_int_t)sideband->counts.unknown_records,
			 "skipped_bytes", (json_int_t)sideband->counts.skipped_bytes, "losses",
			 lost);
}

static json_t *json_flow(const struct flow_stats *flow)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "bytes", (json_int_t)flow->bytes,
			 "packets", (json_int_t)flow->packets, "tnt_bits",
			 (json_int_t)flow->tnt_bits, "tips", (json_int_t)flow->tips, "instructions",
			 (json_int_t)flow->instructions, "bad_times", (json_int_t)flow->bad_times);
}

static json_t *json_output(const struct run_stats *run)
{
	const struct fxt_counts *fxt = &run->fxt;

	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "file",
			 run->output ? json_text(run->output) : json_null(), "bytes",
			 (json_int_t)run->output_bytes, "fxt_bytes", (json_int_t)fxt->bytes,
			 "slices", (json_int_t)fxt->slices, "zero_length",
			 (json_int_t)fxt->zero_length, "too_short", (json_int_t)fxt->too_short,
			 "too_deep", (json_int_t)fxt->too_deep, "clamped", (json_int_t)fxt->clamped,
			 "flows", (json_int_t)fxt->flows, "instants", (json_int_t)fxt->instants,
			 "counters", (json_int_t)fxt->counters, "string_records",
			 (json_int_t)fxt->string_records);
}

static json_t *json_all(const struct run_stats *run, const struct totals *totals,
			const struct trace *trace, const struct trace_names *names)
{
	bool ok = true;
	json_t *root = json_pack(
		"{s:o, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:o, s:o, s:o, s:o, s:o, "
		"s:o}",
		"inputs", json_inputs(run, &ok), "input_bytes", (json_int_t)run->input_bytes, "pt",
		json_flow(&run->flow), "sideband", json_sideband(names->sideband, &ok), "edges",
		(json_int_t)totals->edges, "calls", (json_int_t)totals->calls, "segments",
		(json_int_t)totals->segments, "traced_ns", (json_int_t)totals->traced_ns, "lost_ns",
		(json_int_t)totals->lost_ns, "loss_percent", stats_loss_percent(trace),
		"clamped_times", (json_int_t)totals->clamped, "losses",
		json_losses(&totals->losses, &ok), "joins", json_joins(totals, &ok), "unresolved",
		json_unresolved(totals, names, &ok), "threads", json_threads(trace, names, &ok),
		"output", json_output(run), "stages", json_stages(run, &ok));

	if (!ok) {
		json_decref(root);
		return NULL;
	}
	return root;
}

enum err stats_write_json(const struct run_stats *run, const struct trace *trace,
			  const struct trace_names *names, struct output *output,
			  struct error *error)
{
	struct totals totals = {0};
	struct buffer text = {0};
	enum err err = ERR_NONE;
	bool ok = totals_make(&totals, run, trace);
	json_t *root = ok ? json_all(run, &totals, trace, names) : NULL;
	char *dumped = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;

	if (!dumped) {
		err = error_set(error, ERR_NOMEM, "out of memory for the statistics");
	} else {
		buffer_text(&text, dumped);
		buffer_text(&text, "\n");
		err = output_put(output, &text, error);
	}
	free(dumped);
	json_decref(root);
	buffer_done(&text);
	vec_done(&totals.unresolved);
	return err;
}

/* ---- the summary ---- */

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* Three digits, in the unit that leaves up to three before the point. */
static void summary_number(struct buffer *text, double number, const char *const *units,
			   size_t unit_count)
{
	size_t unit = 0;

	for (; number >= 999.5 && unit + 1 < unit_count; unit++)
		number /= 1000;
	buffer_printf(text, number >= 999.5 ? "%.0f %s" : "%.3g %s", number, units[unit]);
}

static void summary_time(struct buffer *text, uint64_t ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};

	summary_number(text, (double)ns, units, sizeof units / sizeof units[0]);
}

/* " (0.04 %)", " (3.2 %)", " (47 %)" */
static void summary_percent(struct buffer *text, uint64_t part, uint64_t whole)
{
	double share = percent(part, whole);

	buffer_printf(text, " (%.*f %%)", share >= 10 ? 0 : share >= 1 ? 1 : 2, share);
}

static void summary_size(struct buffer *text, uint64_t bytes)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};

	summary_number(text, (double)bytes, units, sizeof units / sizeof units[0]);
}

static void summary_losses(const struct totals *totals, struct buffer *text)
{
	const char *before = ": ";

	if (totals->lost_ns == 0 && totals->gaps == 0)
		return;
	buffer_text(text, "lost ");
	summary_time(text, totals->lost_ns);
	summary_percent(text, totals->lost_ns, totals->traced_ns + totals->lost_ns);
	for (int i = 1; i < LOSS_COUNT; i++) {
		if (totals->losses.count[i] == 0)
			continue;
		buffer_printf(text, "%s%" PRIu64 " %s", before, totals->losses.count[i],
			      loss_name((enum loss)i));
		before = ", ";
	}
	buffer_text(text, "\n");
}

static void summary_joins(const struct totals *totals, struct buffer *text)
{
	const char *before = " (";

	if (totals->gaps == 0)
		return;
	buffer_printf(text, "%" PRIu64 " gap%s: %" PRIu64 " joined", totals->gaps,
		      plural(totals->gaps), totals->joined);
	for (int i = 0; i < JOIN_BARRIER; i++) {
		if (totals->evidence[i] == 0)
			continue;
		buffer_printf(text, "%s%" PRIu64 " by %s", before, totals->evidence[i],
			      join_evidence_name((enum join_evidence)i));
		before = ", ";
	}
	buffer_printf(text, "%s, %" PRIu64 " not joined", totals->joined ? ")" : "",
		      totals->gaps - totals->joined);
	if (totals->by_code)
		buffer_printf(text, "; code evidence in %" PRIu64, totals->by_code);
	if (totals->ambiguous)
		buffer_printf(text, "; %" PRIu64 " ambiguous", totals->ambiguous);
	buffer_text(text, "\n");
}

static void summary_unresolved(const struct totals *totals, const struct trace_names *names,
			       struct buffer *text)
{
	size_t shown =
		totals->unresolved.count < MODULES_SHOWN ? totals->unresolved.count : MODULES_SHOWN;

	for (size_t i = 0; i < shown; i++) {
		const struct unresolved *u = &totals->unresolved.items[i];
		const char *advice = unresolved_advice(names, u->module);

		buffer_printf(text, "missing code in %s: %" PRIu64 " time%s, ",
			      unresolved_name(names, u->module), u->gaps, plural(u->gaps));
		summary_time(text, u->lost_ns);
		summary_percent(text, u->lost_ns, totals->traced_ns + totals->lost_ns);
		if (advice[0])
			buffer_printf(text, "; %s", advice);
		buffer_text(text, "\n");
	}
	if (totals->unresolved.count > shown)
		buffer_printf(text, "missing code in %zu more modules: see --stats\n",
			      totals->unresolved.count - shown);
}

static void summary_output(const struct run_stats *run, struct buffer *text)
{
	if (run->fxt.too_deep)
		buffer_printf(text,
			      "%" PRIu64
			      " call%s deeper than the viewer's %d levels %s not drawn\n",
			      run->fxt.too_deep, plural(run->fxt.too_deep), FXT_DEPTH_MAX,
			      run->fxt.too_deep == 1 ? "is" : "are");
	/* A dump to standard output needs no word about it. */
	if (!run->output || (run->fxt.bytes == 0 && strcmp(run->output, "-") == 0))
		return;
	buffer_printf(text, "wrote %s: ",
		      strcmp(run->output, "-") == 0 ? "standard output" : run->output);
	if (run->fxt.bytes)
		buffer_printf(text, "%" PRIu64 " slice%s, ", run->fxt.slices,
			      plural(run->fxt.slices));
	summary_size(text, run->output_bytes);
	buffer_text(text, run->fxt.bytes ? "; open it in https://ui.perfetto.dev\n" : "\n");
}

enum err stats_summary(const struct run_stats *run, const struct trace *trace,
		       const struct trace_names *names, struct buffer *text)
{
	struct totals totals = {0};
	bool ok = totals_make(&totals, run, trace);

	if (ok) {
		buffer_printf(text, "%zu thread%s, %" PRIu64 " call%s in ", trace->threads.count,
			      plural(trace->threads.count), totals.calls, plural(totals.calls));
		summary_time(text, totals.traced_ns);
		buffer_text(text, " of traced time\n");
		summary_losses(&totals, text);
		summary_joins(&totals, text);
		summary_unresolved(&totals, names, text);
		summary_output(run, text);
	}
	vec_done(&totals.unresolved);
	return ok && !text->failed ? ERR_NONE : ERR_NOMEM;
}
