/* See replay.h. */
#include "decode/replay.h"

#include <string.h>

#include "common/bytes.h"
#include "common/log.h"

enum { EVENT_TYPE_TRACEPOINT = 2 }; /* PERF_TYPE_TRACEPOINT */
enum { CPUS_MAX = 1 << 16 };        /* whose losses have a beginning */

enum err replay_init(struct replay *r, struct perfdata *file, struct symbolizer *symbolizer,
		     struct sideband *result)
{
	*r = (struct replay){
		.file = file, .symbolizer = symbolizer, .s = result, .sched_switch = -1};
	if (!task_table_init(&r->tasks, result) || !space_table_init(&r->spaces, result))
		return ERR_NOMEM;
	for (size_t i = 0; i < file->info.build_ids.count; i++)
		if (!replay_add_build_id(r, &file->info.build_ids.items[i]))
			return ERR_NOMEM;
	return ERR_NONE;
}

void replay_done(struct replay *r)
{
	task_table_done(&r->tasks);
	space_table_done(&r->spaces);
	aux_builder_done(&r->aux);
	switch_builder_done(&r->switches);
	tracepoints_free(r->tracepoints);
	vec_done(&r->build_ids);
	vec_done(&r->ksymbols);
	vec_done(&r->seen_ns);
	map64_done(&r->build_id_by_path);
	map64_done(&r->ksymbol_by_start);
}

/* The path by which the build-id table knows a file: "[kernel.kallsyms]_text" is there as
 * "[kernel.kallsyms]". */
static size_t build_id_path_length(const char *path)
{
	const char *end = path[0] == '[' ? strchr(path, ']') : NULL;

	return end ? (size_t)(end + 1 - path) : strlen(path);
}

bool replay_add_build_id(struct replay *r, const struct record_build_id *record)
{
	struct build_id id = {.length = record->build_id_bytes};
	str_id path;

	if (record->build_id_bytes == 0 || record->build_id_bytes > BUILD_ID_MAX)
		return true;
	memcpy(id.bytes, record->build_id, id.length);
	if (!intern_bytes(&r->s->names, record->path, build_id_path_length(record->path), &path))
		return false;
	/* the first wins: later ones are of guests or of other files of a series */
	if (map64_get(&r->build_id_by_path, path.v) != MAP64_NONE)
		return true;
	return vec_push(&r->build_ids, id) &&
	       map64_set(&r->build_id_by_path, path.v, (uint32_t)r->build_ids.count - 1);
}

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool path_is_anonymous(const char *path)
{
	return path[0] == '\0' || strcmp(path, "//anon") == 0 || strcmp(path, "[heap]") == 0 ||
	       starts_with(path, "[stack") || starts_with(path, "[anon") ||
	       starts_with(path, "/dev/zero") || starts_with(path, "/anon_hugepage") ||
	       starts_with(path, "/SYSV");
}

static bool replay_module(struct replay *r, const struct record_mmap *mmap, bool kernel,
			  module_id *module, enum err *err)
{
	struct module_request request = {.path = mmap->path, .kernel = kernel};
	str_id path;

	if (mmap->build_id_bytes) {
		request.build_id = mmap->build_id;
		request.build_id_bytes = mmap->build_id_bytes;
	} else {
		if (!intern_bytes(&r->s->names, mmap->path, build_id_path_length(mmap->path),
				  &path))
			return false;
		uint32_t at = map64_get(&r->build_id_by_path, path.v);
		if (at != MAP64_NONE) {
			request.build_id = r->build_ids.items[at].bytes;
			request.build_id_bytes = r->build_ids.items[at].length;
		}
	}
	*err = symbolizer_module(r->symbolizer, &request, module);
	return *err == ERR_NONE;
}

static enum err replay_mmap(struct replay *r, const struct record *record, uint64_t time_ns)
{
	enum { PROT_EXECUTE = 4, MODE_KERNEL = 1, MODE_GUEST_KERNEL = 4, MODE_GUEST_USER = 5 };
	unsigned mode = record->misc & RECORD_MISC_CPUMODE;
	struct record_mmap mmap;
	enum err err = ERR_NOMEM;

	if (!record_mmap(record, &mmap) || mode == MODE_GUEST_KERNEL || mode == MODE_GUEST_USER)
		return ERR_NONE;
	/* data, or code that cannot be run */
	if ((record->misc & RECORD_MISC_MMAP_DATA) || !(mmap.prot & PROT_EXECUTE))
		return ERR_NONE;
	bool kernel = mode == MODE_KERNEL || mmap.pid == -1;
	struct mapping mapping = {.start = mmap.start,
				  .end = mmap.start + mmap.length,
				  .file_off = mmap.file_off,
				  .from_ns = time_ns};
	if (mapping.end < mapping.start)
		mapping.end = UINT64_MAX;
	if (kernel)
		mapping.flags = MAPPING_KERNEL;
	else if (strcmp(mmap.path, "[vdso]") == 0)
		mapping.flags = MAPPING_VDSO;
	else if (strcmp(mmap.path, "[uprobes]") == 0)
		mapping.flags = MAPPING_UPROBES;
	else if (path_is_anonymous(mmap.path))
		mapping.flags = MAPPING_ANONYMOUS;
	if (!replay_module(r, &mmap, kernel, &mapping.module, &err) ||
	    !intern_string(&r->s->names, mmap.path, &mapping.path) ||
	    !space_map(&r->spaces, mmap.pid, &mapping))
		return err == ERR_NONE ? ERR_NOMEM : err;
	return ERR_NONE;
}

static bool replay_fork(struct replay *r, const struct record *record, uint64_t time_ns)
{
	struct record_task fork;
	task_id task;

	if (!record_task(record, &fork))
		return true;
	/* synthesized, maybe in each file of a series: the thread exists, no more is told */
	if (fork.time == 0 || (record->misc & RECORD_MISC_FORK_EXEC))
		return task_find(&r->tasks, fork.pid, fork.tid, 0, &task);
	return task_fork(&r->tasks, &fork, time_ns) &&
	       space_fork(&r->spaces, fork.parent_pid, fork.pid, time_ns);
}

static bool replay_comm(struct replay *r, const struct record *record, uint64_t time_ns)
{
	struct record_comm comm;

	if (!record_comm(record, &comm))
		return true;
	return task_comm(&r->tasks, &comm, time_ns) &&
	       (!comm.exec || comm.pid <= 0 || space_exec(&r->spaces, comm.pid, time_ns));
}

/* Remembers the time of a CPU's newest record. */
static bool replay_see(struct replay *r, int32_t cpu, uint64_t time_ns)
{
	if (cpu < 0 || cpu >= CPUS_MAX)
		return true;
	if (!vec_reserve(&r->seen_ns, (size_t)cpu + 1))
		return false;
	while (r->seen_ns.count <= (size_t)cpu)
		r->seen_ns.items[r->seen_ns.count++] = 0;
	r->seen_ns.items[cpu] = time_ns;
	return true;
}

/* Where and by whom a record was written. */
static bool replay_note(struct replay *r, const struct record *record, uint64_t time_ns,
			struct switch_note *note)
{
	*note = (struct switch_note){
		.time_ns = time_ns,
		.stream_off = UINT64_MAX,
		.cpu = record->id.has & SAMPLE_ID_CPU ? record->id.cpu : -1,
	};
	if (!replay_see(r, note->cpu, time_ns))
		return false;
	return !(record->id.has & SAMPLE_ID_TID) ||
	       task_find(&r->tasks, record->id.pid, record->id.tid, time_ns, &note->task);
}

static bool replay_switch(struct replay *r, const struct record *record, uint64_t time_ns)
{
	struct record_switch change;
	struct switch_note note;

	if (!record_switch(record, &change))
		return true;
	if (!replay_note(r, record, time_ns, &note) ||
	    (change.has_other &&
	     !task_find(&r->tasks, change.other_pid, change.other_tid, time_ns, &note.other)))
		return false;
	note.kind = change.in ? SWITCH_IN : SWITCH_OUT;
	note.has_other = change.has_other;
	note.preempted = change.preempted;
	return !(record->id.has & SAMPLE_ID_TID) || switch_add(&r->switches, note);
}

static bool replay_itrace_start(struct replay *r, const struct record *record, uint64_t time_ns)
{
	struct record_itrace_start start;
	struct switch_note note;

	if (!record_itrace_start(record, &start))
		return true;
	if (!replay_note(r, record, time_ns, &note) ||
	    !task_find(&r->tasks, start.pid, start.tid, time_ns, &note.task))
		return false;
	note.kind = SWITCH_STARTS;
	return switch_add(&r->switches, note);
}

static bool replay_aux(struct replay *r, const struct record *record, uint64_t time_ns)
{
	struct record_aux aux;
	struct switch_note note;

	if (!record_aux(record, &aux))
		return true;
	bool has_time = record->id.has & SAMPLE_ID_TIME;
	if (!aux_add_note(&r->aux, &aux, &record->id, has_time ? time_ns : TIME_NONE) ||
	    !replay_note(r, record, time_ns, &note))
		return false;
	note.kind = SWITCH_AUX;
	if (!(aux.flags & AUX_FLAG_OVERWRITE))
		note.stream_off = aux.offset;
	return !(record->id.has & SAMPLE_ID_TID) || switch_add(&r->switches, note);
}

static bool replay_lost(struct replay *r, const struct record *record, uint64_t time_ns)
{
	int32_t cpu = record->id.has & SAMPLE_ID_CPU ? record->id.cpu : -1;
	uint64_t from_ns = cpu >= 0 && (size_t)cpu < r->seen_ns.count ? r->seen_ns.items[cpu] : 0;
	struct switch_note where;
	struct record_lost lost;

	if (!record_lost(record, &lost) || lost.count == 0)
		return true;
	if (!replay_note(r, record, time_ns, &where))
		return false;
	struct sideband_loss loss = {.from_ns = from_ns,
				     .time_ns = time_ns,
				     .count = lost.count,
				     .cpu = cpu,
				     .task = where.task,
				     .cause = LOSS_DATA_LOST};
	return vec_push(&r->s->losses, loss);
}

/* Kernel code that appears at run time: BPF programs, trampolines. */
static enum err replay_ksymbol(struct replay *r, const struct record *record, uint64_t time_ns)
{
	enum { UNREGISTER = 1 };
	struct record_ksymbol symbol;

	if (!record_ksymbol(record, &symbol) || symbol.bytes == 0)
		return ERR_NONE;
	if (symbol.flags & UNREGISTER) {
		uint32_t at = map64_get(&r->ksymbol_by_start, symbol.address);

		if (at != MAP64_NONE)
			r->ksymbols.items[at].until_ns = time_ns;
		return ERR_NONE;
	}
	struct ksymbol item = {.start = symbol.address,
			       .bytes = symbol.bytes,
			       .from_ns = time_ns,
			       .until_ns = TIME_NONE,
			       .name = symbol.name};
	if (r->ksymbols.count >= MAP64_NONE || !vec_push(&r->ksymbols, item) ||
	    !map64_set(&r->ksymbol_by_start, item.start, (uint32_t)r->ksymbols.count - 1))
		return ERR_NOMEM;
	/* not "_text" behind it, whose place tells where the kernel was loaded */
	struct record_mmap mmap = {.start = symbol.address,
				   .length = symbol.bytes,
				   .file_off = symbol.address,
				   .path = "[kernel.kallsyms]"};
	struct mapping mapping = {.start = mmap.start,
				  .end = mmap.start + mmap.length,
				  .file_off = mmap.file_off,
				  .from_ns = time_ns,
				  .flags = MAPPING_KERNEL};
	enum err err = ERR_NOMEM;
	if (!replay_module(r, &mmap, true, &mapping.module, &err) ||
	    !intern_string(&r->s->names, mmap.path, &mapping.path) ||
	    !space_map(&r->spaces, -1, &mapping))
		return err == ERR_NONE ? ERR_NOMEM : err;
	return ERR_NONE;
}

static bool replay_text_poke(struct replay *r, const struct record *record, uint64_t time_ns)
{
	struct record_text_poke poke;

	if (!record_text_poke(record, &poke) || (poke.new_bytes == 0 && poke.old_bytes == 0))
		return true;
	struct text_poke item = {.time_ns = time_ns,
				 .ip = poke.address,
				 .bytes = poke.new_code,
				 .old_bytes = poke.old_code,
				 .count = poke.new_bytes,
				 .old_count = poke.old_bytes};
	return vec_push(&r->s->text_pokes, item);
}

/* sched_switch samples, in recordings that have no switch records. */
static bool replay_sched_switch(struct replay *r, const struct record *record,
				const struct sample *sample, uint64_t time_ns)
{
	uint32_t id = (uint32_t)r->sched_switch;
	uint64_t next, state = 1;
	struct switch_note note;

	if (!tracepoints_number(r->tracepoints, id, sample->raw, sample->raw_bytes, "next_pid",
				&next))
		return true;
	if (!tracepoints_number(r->tracepoints, id, sample->raw, sample->raw_bytes, "prev_state",
				&state))
		state = 1;
	if (!replay_note(r, record, time_ns, &note) ||
	    !task_find(&r->tasks, -1, (int32_t)next, time_ns, &note.other))
		return false;
	note.kind = SWITCH_OUT;
	note.has_other = true;
	note.preempted = state == 0;
	return switch_add(&r->switches, note);
}

static bool replay_callchain(struct replay *r, const struct sample *sample, struct instant *item)
{
	size_t count = (size_t)sample->callchain_count;

	if (!sample->callchain || count == 0 || count > UINT32_MAX)
		return true;
	uint64_t *chain = arena_alloc(&r->s->arena, count * sizeof *chain);
	if (!chain)
		return false;
	memcpy(chain, sample->callchain, count * sizeof *chain);
	item->callchain = chain;
	item->callchain_count = (uint32_t)count;
	return true;
}

static bool replay_instant(struct replay *r, const struct record *record,
			   const struct perfdata_event *event, const struct sample *sample,
			   uint64_t time_ns)
{
	enum { DETAIL_MAX = 1024 };
	struct instant item = {.time_ns = time_ns, .ip = sample->ip};
	const char *system = NULL, *name = NULL;
	char detail[DETAIL_MAX] = "";
	struct switch_note where;

	if (!replay_note(r, record, time_ns, &where))
		return false;
	item.task = where.task;
	item.cpu = where.cpu;
	bool is_described =
		event->type == EVENT_TYPE_TRACEPOINT && r->tracepoints &&
		event->config <= UINT32_MAX &&
		tracepoints_name(r->tracepoints, (uint32_t)event->config, &system, &name);
	if (is_described)
		tracepoints_format(r->tracepoints, (uint32_t)event->config, sample->raw,
				   sample->raw_bytes, detail, sizeof detail);
	return intern_string(&r->s->names,
			     event->name[0] ? event->name
			     : name         ? name
					    : "event",
			     &item.name) &&
	       intern_string(&r->s->names, detail, &item.detail) &&
	       replay_callchain(r, sample, &item) && vec_push(&r->s->instants, item);
}

static bool replay_sample(struct replay *r, const struct record *record, uint64_t time_ns)
{
	struct sample sample;

	if (record->event < 0)
		return true;
	const struct perfdata_event *event = &r->file->events.items[record->event];
	if (!record_sample(record, event, &sample))
		return true;
	if (sample.aux && sample.aux_bytes) {
		r->s->config.sample_mode = true;
		if (!aux_add_sample(&r->aux, &sample, time_ns))
			return false;
	}
	bool is_switch = event->type == EVENT_TYPE_TRACEPOINT && r->sched_switch >= 0 &&
			 event->config == (uint64_t)r->sched_switch;
	if (is_switch)
		return replay_sched_switch(r, record, &sample, time_ns);
	if (trace_config_is_pt(r->file, r->has_info ? &r->info : NULL, event))
		return true;
	return replay_instant(r, record, event, &sample, time_ns);
}

/* Records that switch nothing still tell who runs. */
static bool replay_seen(struct replay *r, const struct record *record, uint64_t time_ns)
{
	struct switch_note note;

	if (!(record->id.has & SAMPLE_ID_TID) || !(record->id.has & SAMPLE_ID_CPU))
		return true;
	/* perf's own synthesized records carry zeros there */
	if (!(record->id.has & SAMPLE_ID_TIME) || record->id.time == 0)
		return true;
	if (!replay_note(r, record, time_ns, &note))
		return false;
	note.kind = SWITCH_SEEN;
	return switch_add(&r->switches, note);
}

enum err replay_record(struct replay *r, const struct record *record, uint64_t time_ns)
{
	bool ok = true;

	switch (record->type) {
	case RECORD_SWITCH:
	case RECORD_SWITCH_CPU_WIDE: ok = replay_switch(r, record, time_ns); break;
	case RECORD_ITRACE_START: ok = replay_itrace_start(r, record, time_ns); break;
	case RECORD_AUX: ok = replay_aux(r, record, time_ns); break;
	case RECORD_SAMPLE:
		ok = replay_seen(r, record, time_ns) && replay_sample(r, record, time_ns);
		break;
	case RECORD_COMM:
		ok = replay_seen(r, record, time_ns) && replay_comm(r, record, time_ns);
		break;
	case RECORD_FORK:
		ok = replay_seen(r, record, time_ns) && replay_fork(r, record, time_ns);
		break;
	case RECORD_EXIT: {
		struct record_task task;

		ok = replay_seen(r, record, time_ns) &&
		     (!record_task(record, &task) || task_exit(&r->tasks, &task, time_ns));
		break;
	}
	case RECORD_MMAP:
	case RECORD_MMAP2:
		if (!replay_seen(r, record, time_ns))
			return ERR_NOMEM;
		return replay_mmap(r, record, time_ns);
	case RECORD_KSYMBOL: return replay_ksymbol(r, record, time_ns);
	case RECORD_TEXT_POKE: ok = replay_text_poke(r, record, time_ns); break;
	case RECORD_LOST: ok = replay_lost(r, record, time_ns); break;
	default: break;
	}
	return ok ? ERR_NONE : ERR_NOMEM;
}

/* Code of a kernel symbol, out of the BPF programs that perf saved. */
static const uint8_t *replay_bpf_code(const struct replay *r, const struct ksymbol *symbol)
{
	for (size_t i = 0; i < r->file->info.bpf_programs.count; i++) {
		const struct perfdata_bpf_program *p = &r->file->info.bpf_programs.items[i];
		uint64_t at = 0;

		for (uint32_t f = 0; p->code && f < p->function_count; f++) {
			uint64_t length =
				p->lengths ? load_le(p->lengths + 4 * (size_t)f, 4) : p->code_bytes;

			if (length > p->code_bytes - at)
				break;
			if (load_le(p->addresses + 8 * (size_t)f, 8) == symbol->start &&
			    length >= symbol->bytes)
				return p->code + at;
			at += length;
		}
	}
	return NULL;
}

static enum err replay_add_ksymbols(struct replay *r)
{
	for (size_t i = 0; i < r->ksymbols.count; i++) {
		const struct ksymbol *k = &r->ksymbols.items[i];
		enum err err =
			symbolizer_add_ksymbol(r->symbolizer, k->start, k->bytes, k->name,
					       replay_bpf_code(r, k), k->from_ns, k->until_ns);

		if (err)
			return err;
	}
	return ERR_NONE;
}

bool replay_wants(uint32_t type)
{
	switch (type) {
	case RECORD_MMAP:
	case RECORD_MMAP2:
	case RECORD_LOST:
	case RECORD_COMM:
	case RECORD_FORK:
	case RECORD_EXIT:
	case RECORD_SAMPLE:
	case RECORD_AUX:
	case RECORD_ITRACE_START:
	case RECORD_SWITCH:
	case RECORD_SWITCH_CPU_WIDE:
	case RECORD_KSYMBOL:
	case RECORD_TEXT_POKE: return true;
	default: return false;
	}
}

/* Tracepoints are extra: without a readable description their samples have no details. */
enum err replay_start(struct replay *r)
{
	const struct perfdata_info *info = &r->file->info;
	struct error why = {0};

	r->sched_switch = -1;
	if (!info->tracing_data)
		return ERR_NONE;
	enum err err = tracepoints_new(&r->tracepoints, info->tracing_data,
				       info->tracing_data_bytes, &why);
	if (err == ERR_NOMEM)
		return err;
	if (err) {
		log_warn("tracepoints are not described: %s", why.message);
		return ERR_NONE;
	}
	if (!r->has_switch_records)
		r->sched_switch = tracepoints_find(r->tracepoints, "sched", "sched_switch");
	return ERR_NONE;
}

static int task_name_compare(const void *left, const void *right)
{
	const struct task_name *const *a = left, *const *b = right;

	if ((*a)->task.v != (*b)->task.v)
		return (*a)->task.v < (*b)->task.v ? -1 : 1;
	return *a < *b ? -1 : *a > *b; /* they came in time order */
}

/* Sorts task_names by (task, time). */
static bool replay_sort_names(struct sideband *s)
{
	size_t count = s->task_names.count;
	const struct task_name **order = calloc(count ? count : 1, sizeof *order);
	struct task_name *sorted = calloc(count ? count : 1, sizeof *sorted);
	bool ok = order && sorted;

	if (ok && count) {
		for (size_t i = 0; i < count; i++)
			order[i] = &s->task_names.items[i];
		qsort(order, count, sizeof *order, task_name_compare);
		for (size_t i = 0; i < count; i++)
			sorted[i] = *order[i];
		memcpy(s->task_names.items, sorted, count * sizeof *sorted);
	}
	free(order);
	free(sorted);
	return ok;
}

enum err replay_finish(struct replay *r)
{
	struct sideband *s = r->s;
	enum err err;

	space_finish(&r->spaces);
	if (!replay_sort_names(s))
		return ERR_NOMEM;
	if (r->spaces.refused) {
		struct sideband_loss loss = {
			.count = r->spaces.refused, .cpu = -1, .cause = LOSS_INTERNAL_LIMIT};

		if (!vec_push(&s->losses, loss))
			return ERR_NOMEM;
	}
	r->aux.is_snapshot |= s->config.snapshot;
	err = aux_finish(&r->aux, s);
	if (!err)
		err = switch_finish(&r->switches, s);
	if (!err)
		err = replay_add_ksymbols(r);
	s->config.snapshot |= r->aux.is_snapshot;
	s->has_switches = r->has_switch_records || r->sched_switch >= 0;
	s->counts.unknown_records = r->file->unknown_records;
	s->counts.skipped_bytes = r->file->unknown_bytes;
	return err;
}
