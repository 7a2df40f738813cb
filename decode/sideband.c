/* See sideband.h.
 *
 *     file order                            time order
 *     records ──► collect ──► sort by time ──► replay ──► tasks, spaces, switches, ...
 *                   │
 *                   └► set-up, AUXTRACE, build ids: taken as they come
 *
 * Records of different CPUs are not in time order in the file. A record without a time was
 * synthesized by perf: those before the first timed record describe the start and come first,
 * the others (--tail-synthesize, --overwrite, the next file of a series) keep their place.
 * The sort is stable, so what one CPU wrote stays in its order. */
#include "decode/sideband.h"

#include <string.h>

#include "common/bytes.h"
#include "decode/perfdata.h"
#include "decode/replay.h"

struct pending {
	uint64_t time_ns, order;
	const uint8_t *data;
	uint64_t file_off;
	uint32_t bytes, file;
	int32_t event;
	uint32_t type;
};
_Static_assert(sizeof(struct pending) == 48, "one per sideband record");

struct reader {
	struct replay replay;
	VEC(struct pending) pending;
	uint64_t latest_ns; /* of the walk so far */
	/* Records of a round are not earlier than those of the one before the last. */
	uint64_t round_ns[2]; /* the latest time at the ends of the last two rounds */
	size_t damage_count;  /* met so far */
	size_t open_losses;   /* the last ones of the losses, whose time_ns is not known */
	unsigned open_rounds; /* that have ended since */
	bool stream_broken;   /* what was compressed is lost to the end */
	uint32_t other_kind;  /* of an AUXTRACE_INFO that is not Intel PT's; 0 = none */
	bool has_conversion;
	struct record_time_conv conversion;
	struct record_id_index ids; /* the first one, of file ids_file; count 0 = none */
	uint32_t ids_file;
};

static bool reader_keep(struct reader *r, const struct record *record)
{
	struct sideband *s = r->replay.s;
	uint64_t time_ns = record->id.has & SAMPLE_ID_TIME ? record->id.time : 0;

	if (time_ns) {
		if (s->first_ns == 0 || time_ns < s->first_ns)
			s->first_ns = time_ns;
		if (time_ns > s->last_ns)
			s->last_ns = time_ns;
		if (time_ns > r->latest_ns)
			r->latest_ns = time_ns;
	}
	if (record->type == RECORD_SWITCH || record->type == RECORD_SWITCH_CPU_WIDE)
		r->replay.has_switch_records = true;
	if (record->bytes > UINT32_MAX)
		return true;
	struct pending p = {.time_ns = time_ns ? time_ns : r->latest_ns,
			    .order = r->pending.count,
			    .data = record->data,
			    .bytes = (uint32_t)record->bytes,
			    .file = record->file,
			    .file_off = record->file_off,
			    .event = record->event,
			    .type = record->type};
	return vec_push(&r->pending, p);
}

static void reader_take_info(struct reader *r, const struct record_auxtrace_info *info)
{
	if (info->kind != AUXTRACE_INTEL_PT) {
		r->other_kind = info->kind;
	} else if (!r->replay.has_info) {
		trace_info_read(info, &r->replay.info);
		r->replay.has_info = true;
	}
}

/* Records are lost in the file: between which times? */
static bool reader_note_damage(struct reader *r)
{
	struct sideband *s = r->replay.s;
	struct sideband_loss loss = {.from_ns = r->round_ns[1],
				     .time_ns = TIME_NONE,
				     .count = 1,
				     .cpu = -1,
				     .cause = LOSS_DATA_LOST};

	if (r->damage_count == r->replay.file->damage.count)
		return true;
	r->damage_count = r->replay.file->damage.count;
	r->stream_broken |= vec_last(&r->replay.file->damage)->kind != PERFDATA_BAD_HEADER;
	r->open_losses++;
	r->open_rounds = 0;
	return vec_push(&s->losses, loss);
}

static void reader_end_round(struct reader *r)
{
	struct sideband *s = r->replay.s;

	r->round_ns[1] = r->round_ns[0];
	r->round_ns[0] = r->latest_ns;
	if (!r->open_losses || r->stream_broken || ++r->open_rounds < 2)
		return;
	for (; r->open_losses; r->open_losses--)
		s->losses.items[s->losses.count - r->open_losses].time_ns = r->latest_ns;
}

/* Set-up and bulk data, in file order. */
static bool reader_take(struct reader *r, const struct record *record)
{
	struct record_auxtrace_info info;
	struct record_auxtrace auxtrace;
	struct record_build_id build_id;
	struct record_id_index ids;
	struct record_time_conv conversion;

	switch (record->type) {
	case RECORD_FINISHED_ROUND: reader_end_round(r); return true;
	case RECORD_AUXTRACE_INFO:
		if (record_auxtrace_info(record, &info))
			reader_take_info(r, &info);
		return true;
	case RECORD_TIME_CONV:
		if (!r->has_conversion && record_time_conv(record, &conversion)) {
			r->conversion = conversion;
			r->has_conversion = true;
		}
		return true;
	case RECORD_ID_INDEX:
		if (r->ids.count == 0 && record_id_index(record, &ids)) {
			r->ids = ids;
			r->ids_file = record->file;
		}
		return true;
	case RECORD_AUXTRACE:
		return !record_auxtrace(record, &auxtrace) || !record->payload ||
		       aux_add_chunk(&r->replay.aux, &auxtrace, record->payload,
				     record->payload_bytes);
	case RECORD_HEADER_BUILD_ID:
		return !record_build_id(record, &build_id) ||
		       replay_add_build_id(&r->replay, &build_id);
	default: return true;
	}
}

static enum err reader_visit(void *context, const struct record *record, struct error *error)
{
	struct reader *r = context;
	struct sideband_counts *counts = &r->replay.s->counts;
	bool ok;

	(void)error;
	if (!reader_note_damage(r))
		return ERR_NOMEM;
	counts->records++;
	if (record->type < sizeof counts->by_type / sizeof *counts->by_type)
		counts->by_type[record->type]++;
	ok = replay_wants(record->type) ? reader_keep(r, record) : reader_take(r, record);
	return ok ? ERR_NONE : ERR_NOMEM;
}

static int pending_compare(const void *left, const void *right)
{
	const struct pending *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static enum err reader_replay(struct reader *r)
{
	struct perfdata *file = r->replay.file;
	enum err err = ERR_NONE;

	if (r->pending.count)
		qsort(r->pending.items, r->pending.count, sizeof *r->pending.items,
		      pending_compare);
	for (size_t i = 0; i < r->pending.count && !err; i++) {
		const struct pending *p = &r->pending.items[i];
		struct record record = {.type = p->type,
					.misc = (uint16_t)load_le(p->data + 4, 2),
					.file = p->file,
					.file_off = p->file_off,
					.data = p->data,
					.bytes = p->bytes,
					.event = p->event};

		record_parse_id(&record, p->event >= 0 ? &file->events.items[p->event] : NULL);
		err = replay_record(&r->replay, &record, p->time_ns);
	}
	return err;
}

/* Is the PT event opened for threads? System-wide it has tid -1 on every CPU. */
static bool reader_is_per_task(const struct reader *r)
{
	const struct replay *replay = &r->replay;

	for (uint64_t i = 0; i < r->ids.count; i++) {
		const uint8_t *entry = r->ids.entries + 32 * i;
		int32_t at = perfdata_event_of_id(replay->file, r->ids_file, load_le(entry, 8));

		if (at >= 0 &&
		    trace_config_is_pt(replay->file, replay->has_info ? &replay->info : NULL,
				       &replay->file->events.items[at]))
			return load_le(entry + 24, 8) != UINT64_MAX;
	}
	return false;
}

static const char *trace_kind_name(uint32_t kind)
{
	static const char *const names[] = {"an unknown",      "an Intel PT", "an Intel BTS",
					    "a CoreSight ETM", "an Arm SPE",  "an s390 CPU-MF",
					    "a HiSilicon PTT"};

	return names[kind < sizeof names / sizeof *names ? kind : 0];
}

static enum err reader_run(struct reader *r, struct error *error)
{
	struct replay *replay = &r->replay;
	struct perfdata *file = replay->file;
	enum err err = perfdata_walk(file, reader_visit, r, error);

	if (!err && !reader_note_damage(r)) /* behind the last record */
		err = ERR_NOMEM;
	if (!err && r->other_kind && !replay->has_info)
		return error_set(error, ERR_UNSUPPORTED,
				 "%s holds %s trace (kind %u), not Intel PT",
				 file->files.count ? file->files.items[0].path : "the recording",
				 trace_kind_name(r->other_kind), r->other_kind);
	if (!err)
		err = trace_config_read(file, replay->has_info ? &replay->info : NULL,
					r->has_conversion ? &r->conversion : NULL, replay->s);
	replay->switches.is_per_task = reader_is_per_task(r);
	if (!err)
		err = replay_start(replay);
	if (!err)
		err = reader_replay(r);
	vec_done(&r->pending);
	if (!err)
		err = replay_finish(replay);
	return err;
}

enum err sideband_read(struct perfdata *file, struct symbolizer *symbolizer,
		       struct sideband *result, struct error *error)
{
	struct sideband built = {0};
	struct reader r = {0};
	enum err err;

	err = replay_init(&r.replay, file, symbolizer, &built);
	if (!err)
		err = reader_run(&r, error);
	if (err == ERR_NOMEM)
		error_set(error, err, "out of memory for the sideband");
	replay_done(&r.replay);
	vec_done(&r.pending);
	if (err) {
		sideband_done(&built);
		return err;
	}
	*result = built;
	return ERR_NONE;
}

void sideband_done(struct sideband *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->spaces.count; i++)
		vec_done(&s->spaces.items[i].mappings);
	for (size_t i = 0; i < s->buffers.count; i++) {
		vec_done(&s->buffers.items[i].extents);
		vec_done(&s->buffers.items[i].cuts);
		vec_done(&s->buffers.items[i].known);
	}
	vec_done(&s->tasks);
	vec_done(&s->task_names);
	vec_done(&s->spaces);
	vec_done(&s->space_periods);
	vec_done(&s->cpu_switches);
	vec_done(&s->task_switches);
	vec_done(&s->buffers);
	vec_done(&s->instants);
	vec_done(&s->text_pokes);
	vec_done(&s->losses);
	intern_done(&s->names);
	arena_done(&s->arena);
	memset(s, 0, sizeof *s);
}
