/* See dump_sideband.h. */
#include "decode/dump_sideband.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "decode/record.h"

struct dump {
	const struct sideband *s;
	const struct symbolizer *symbolizer;
	FILE *out;
};

struct time_text {
	char text[32];
};

static struct time_text time_text(uint64_t ns)
{
	struct time_text t;

	if (ns == 0)
		strcpy(t.text, "start");
	else if (ns == TIME_NONE)
		strcpy(t.text, "end");
	else
		snprintf(t.text, sizeof t.text, "%" PRIu64 ".%09" PRIu64, ns / 1000000000,
			 ns % 1000000000);
	return t;
}

static const char *dump_name(const struct dump *d, str_id id)
{
	return intern_text(&d->s->names, id);
}

/* "1234/1235 name" */
static void dump_task(const struct dump *d, task_id id, uint64_t time_ns)
{
	const struct task *task = &d->s->tasks.items[id.v];
	const char *comm = dump_name(d, sideband_comm_at(d->s, id, time_ns));

	if (id.v == 0)
		fputs("-", d->out);
	else
		fprintf(d->out, "%" PRId32 "/%" PRId32 " %s", task->pid, task->tid,
			comm[0] ? comm : "?");
}

static void dump_config(const struct dump *d)
{
	const struct trace_config *c = &d->s->config;
	const struct clock *k = &d->s->clock;

	fprintf(d->out, "config cpu %s %u/%u/%u tsc %d mtc %d period %" PRIu32 " cyc %d",
		c->cpu_is_intel ? "intel" : "unknown", c->cpu_family, c->cpu_model, c->cpu_stepping,
		c->has_tsc, c->has_mtc, c->mtc_period, c->has_cyc);
	fprintf(d->out, " ctc %" PRIu32 "/%" PRIu32 " nominal %" PRIu32 "%s%s%s%s%s%s%s",
		c->tsc_ctc_numerator, c->tsc_ctc_denominator, c->max_non_turbo_ratio,
		c->no_return_compression ? " noretcomp" : "", c->no_branches ? " nobranch" : "",
		c->user ? " user" : "", c->kernel ? " kernel" : "", c->per_cpu ? " per-cpu" : "",
		c->snapshot ? " snapshot" : "", c->sample_mode ? " samples" : "");
	if (c->filter.v)
		fprintf(d->out, " filter %s", dump_name(d, c->filter));
	fprintf(d->out, "\nclock %s shift %u mult %" PRIu32 " zero %" PRIu64,
		k->valid ? "yes" : "no", k->time_shift, k->time_mult, k->time_zero);
	if (k->is_short)
		fprintf(d->out, " cycles %" PRIu64 " mask 0x%" PRIx64, k->time_cycles,
			k->time_mask);
	fprintf(d->out, "\nclock from %s to %s\n", time_text(d->s->first_ns).text,
		time_text(d->s->last_ns).text);
}

static void dump_tasks(const struct dump *d)
{
	for (size_t i = 1; i < d->s->tasks.count; i++) {
		const struct task *task = &d->s->tasks.items[i];

		fprintf(d->out, "task %zu %" PRId32 "/%" PRId32 " %s .. %s%s", i, task->pid,
			task->tid, time_text(task->start_ns).text, time_text(task->end_ns).text,
			task->exit_seen ? " exited" : "");
		if (task->forked_from.v)
			fprintf(d->out, " %s task %" PRIu32,
				task->is_new_process ? "forked from" : "started by",
				task->forked_from.v);
		fputc('\n', d->out);
	}
	for (size_t i = 0; i < d->s->task_names.count; i++) {
		const struct task_name *name = &d->s->task_names.items[i];

		fprintf(d->out, "comm task %" PRIu32 " %s %s%s\n", name->task.v,
			time_text(name->time_ns).text, dump_name(d, name->comm),
			name->exec ? " exec" : "");
	}
}

static void dump_mapping(const struct dump *d, size_t space, const struct mapping *m)
{
	static const char *const states[] = {"found", "not found", "other build", "unreadable",
					     "anonymous"};
	const struct module *module =
		m->module.v ? symbolizer_module_get(d->symbolizer, m->module) : NULL;

	fprintf(d->out, "map %zu 0x%" PRIx64 "-0x%" PRIx64 " @ 0x%" PRIx64 " since %s%s%s%s%s %s",
		space, m->start, m->end, m->file_off, time_text(m->from_ns).text,
		m->flags & MAPPING_KERNEL ? " kernel" : "",
		m->flags & MAPPING_ANONYMOUS ? " anonymous" : "",
		m->flags & MAPPING_VDSO ? " vdso" : "",
		m->flags & MAPPING_UPROBES ? " uprobes" : "", dump_name(d, m->path));
	if (module) {
		if (module->build_id_bytes)
			fputc(' ', d->out);
		for (int i = 0; i < module->build_id_bytes; i++)
			fprintf(d->out, "%02x", module->build_id[i]);
		if (module->state < sizeof states / sizeof *states)
			fprintf(d->out, " (%s)", states[module->state]);
	}
	fputc('\n', d->out);
}

static void dump_spaces(const struct dump *d)
{
	for (size_t i = 1; i < d->s->spaces.count; i++) {
		const struct space *space = &d->s->spaces.items[i];

		fprintf(d->out, "space %zu pid %" PRId32 " %s .. %s\n", i, space->pid,
			time_text(space->from_ns).text, time_text(space->until_ns).text);
		for (size_t m = 0; m < space->mappings.count; m++)
			dump_mapping(d, i, &space->mappings.items[m]);
	}
	for (size_t i = 0; i < d->s->space_periods.count; i++) {
		const struct space_period *p = &d->s->space_periods.items[i];

		fprintf(d->out, "runs %" PRId32 " from %s in space %" PRIu32 "\n", p->pid,
			time_text(p->from_ns).text, p->space.v);
	}
}

static void dump_switches(const struct dump *d)
{
	for (size_t i = 0; i < d->s->cpu_switches.count; i++) {
		const struct cpu_switch *item = &d->s->cpu_switches.items[i];

		fprintf(d->out, "cpu %" PRId32 " %s ", item->cpu, time_text(item->time_ns).text);
		dump_task(d, item->task, item->time_ns);
		if (item->inferred)
			fprintf(d->out, " (inferred: %s .. %s)", time_text(item->earliest_ns).text,
				time_text(item->latest_ns).text);
		fputc('\n', d->out);
	}
	for (size_t i = 0; i < d->s->task_switches.count; i++) {
		const struct task_switch *item = &d->s->task_switches.items[i];

		fprintf(d->out, "switch ");
		dump_task(d, item->task, item->time_ns);
		fprintf(d->out, " %s %s cpu %" PRId32 "%s%s\n", time_text(item->time_ns).text,
			item->in ? "in" : "out", item->cpu, item->preempted ? " preempted" : "",
			item->inferred ? " inferred" : "");
	}
}

static void dump_buffer(const struct dump *d, const struct aux_buffer *b)
{
	fprintf(d->out, "buffer %" PRIu32 " cpu %" PRId32 " task ", b->index, b->cpu);
	dump_task(d, b->task, TIME_NONE - 1);
	fprintf(d->out, " reference 0x%" PRIx64 " switches %zu\n", b->reference_tsc,
		b->last_switch - b->first_switch);
	for (size_t i = 0; i < b->extents.count; i++)
		fprintf(d->out, "extent 0x%" PRIx64 " bytes 0x%zx\n",
			b->extents.items[i].stream_off, b->extents.items[i].bytes);
	for (size_t i = 0; i < b->cuts.count; i++) {
		const struct aux_cut *cut = &b->cuts.items[i];

		fprintf(d->out, "cut 0x%" PRIx64 " %s at %s lost %" PRIu64 "\n", cut->stream_off,
			cut->cause == LOSS_NONE ? "new snapshot" : loss_name(cut->cause),
			cut->time_ns == TIME_NONE ? "?" : time_text(cut->time_ns).text,
			cut->lost_bytes);
	}
	for (size_t i = 0; i < b->known.count; i++) {
		const struct aux_interval *known = &b->known.items[i];

		fprintf(d->out, "known 0x%" PRIx64 "-0x%" PRIx64 " %s .. %s\n", known->stream_off,
			known->stream_end, time_text(known->from_ns).text,
			time_text(known->until_ns).text);
	}
}

static void dump_instants(const struct dump *d)
{
	for (size_t i = 0; i < d->s->instants.count; i++) {
		const struct instant *item = &d->s->instants.items[i];

		fprintf(d->out, "event %s cpu %" PRId32 " ", time_text(item->time_ns).text,
			item->cpu);
		dump_task(d, item->task, item->time_ns);
		fprintf(d->out, " %s ip 0x%" PRIx64, dump_name(d, item->name), item->ip);
		for (uint32_t c = 0; c < item->callchain_count; c++)
			fprintf(d->out, "%s0x%" PRIx64, c ? "," : " chain ", item->callchain[c]);
		fprintf(d->out, "%s%s\n", item->detail.v ? " " : "", dump_name(d, item->detail));
	}
	for (size_t i = 0; i < d->s->text_pokes.count; i++) {
		const struct text_poke *poke = &d->s->text_pokes.items[i];

		fprintf(d->out, "poke %s 0x%" PRIx64 " bytes %" PRIu32 "\n",
			time_text(poke->time_ns).text, poke->ip, poke->count);
	}
}

static void dump_losses(const struct dump *d)
{
	const struct sideband_counts *counts = &d->s->counts;

	for (size_t i = 0; i < d->s->losses.count; i++) {
		const struct sideband_loss *loss = &d->s->losses.items[i];

		fprintf(d->out, "loss %s .. %s cpu %" PRId32 " ", time_text(loss->from_ns).text,
			time_text(loss->time_ns).text, loss->cpu);
		dump_task(d, loss->task, loss->time_ns);
		fprintf(d->out, " %s %" PRIu64 "\n", loss_name(loss->cause), loss->count);
	}
	for (uint32_t type = 0; type < sizeof counts->by_type / sizeof *counts->by_type; type++) {
		const char *name = record_type_name(type);

		if (counts->by_type[type] && name)
			fprintf(d->out, "count %s %" PRIu64 "\n", name, counts->by_type[type]);
		else if (counts->by_type[type])
			fprintf(d->out, "count %" PRIu32 " %" PRIu64 "\n", type,
				counts->by_type[type]);
	}
	fprintf(d->out, "count records %" PRIu64 " unknown %" PRIu64 " skipped bytes %" PRIu64 "\n",
		counts->records, counts->unknown_records, counts->skipped_bytes);
}

enum err dump_sideband(const struct sideband *s, const struct symbolizer *symbolizer, FILE *out,
		       struct error *error)
{
	struct dump d = {.s = s, .symbolizer = symbolizer, .out = out};

	dump_config(&d);
	dump_tasks(&d);
	dump_spaces(&d);
	dump_switches(&d);
	for (size_t i = 0; i < s->buffers.count; i++)
		dump_buffer(&d, &s->buffers.items[i]);
	dump_instants(&d);
	dump_losses(&d);
	if (fflush(out) || ferror(out))
		return error_set(error, ERR_IO, "cannot write: %s", strerror(errno));
	return ERR_NONE;
}
