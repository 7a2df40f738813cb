/* See perfdata.h for the walk, perfdata_walk.h for a step of it.
 *
 *     file_0: | record | record | AUXTRACE | its payload | COMPRESSED | record |
 *                                                              '-> record, record ...
 *
 * Each record is found by the size of the one before. Behind a header that cannot be the walk goes
 * on where so many records follow each other that it is no chance. What is wrong inside a
 * record concerns nothing else. */
#include "decode/perfdata_walk.h"

#include "common/bytes.h"
#include "decode/compressed.h"

enum {
	RECORD_HEADER = 8,
	TYPES_MAX = 1024,           /* they are numbered one after the other: no time soon */
	CHAIN_RECORDS = 8,          /* that must follow each other, or reach the end */
	RESYNC_BYTES_MAX = 1 << 30, /* in which they are looked for */
};

const char *perfdata_damage_name(enum perfdata_damage_kind kind)
{
	switch (kind) {
	case PERFDATA_TRUNCATED: return "file ends early";
	case PERFDATA_BAD_HEADER: return "impossible record header";
	case PERFDATA_BAD_STREAM: return "damaged zstd stream";
	case PERFDATA_ZSTD_LIMIT: return "too much decompressed data";
	}
	return "damage";
}

static enum step damage_set(struct perfdata_damage *d, enum perfdata_damage_kind kind, uint64_t off,
			    uint64_t lost)
{
	d->kind = kind;
	d->file_off = off;
	d->lost_bytes = lost;
	return STEP_DAMAGE;
}

static void record_view(struct record *r, const uint8_t *data)
{
	r->data = data;
	r->type = (uint32_t)load_le(data, 4);
	r->misc = (uint16_t)load_le(data + 4, 2);
	r->bytes = (size_t)load_le(data + 6, 2);
	r->payload = NULL;
	r->payload_bytes = 0;
}

/* What AUXTRACE and TRACING_DATA say of the bytes behind them. */
static uint64_t payload_claim(const struct record *r)
{
	struct bytes b = bytes_of(r->data + RECORD_HEADER, r->bytes - RECORD_HEADER);

	if (r->type == RECORD_AUXTRACE)
		return bytes_u64(&b);
	if (r->type == RECORD_HEADER_TRACING_DATA)
		return ((uint64_t)bytes_u32(&b) + 7) & ~(uint64_t)7;
	return 0;
}

enum step perfdata_step(const struct perfdata_file *f, struct cursor *c, struct record *r,
			struct perfdata_damage *damage)
{
	uint64_t at = c->pos, left = f->data_end - at;

	if (left == 0 && c->missing == 0)
		return STEP_END;
	if (left < RECORD_HEADER)
		return damage_set(damage, PERFDATA_TRUNCATED, at, left + c->missing);
	record_view(r, f->map.data + at);
	if (r->type == RECORD_COMPRESSED2) {
		uint64_t bytes = compressed2_file_bytes(r->data, (size_t)left);

		r->bytes = bytes <= left ? (size_t)bytes : (size_t)left + 1;
	}
	if (r->bytes > left)
		return damage_set(damage, PERFDATA_TRUNCATED, at, left + c->missing);
	if (r->bytes < RECORD_HEADER || r->type == 0 || r->type >= TYPES_MAX ||
	    (r->type < RECORD_USER_FIRST && r->bytes % 8))
		return damage_set(damage, PERFDATA_BAD_HEADER, at, left);
	uint64_t claim = payload_claim(r), room = left - r->bytes;
	if (claim > 0)
		r->payload = r->data + r->bytes;
	r->payload_bytes = claim < room ? (size_t)claim : (size_t)room;
	r->file_off = at;
	c->pos = at + r->bytes + r->payload_bytes;
	if (claim > room)
		c->missing = claim - room;
	return STEP_RECORD;
}

/* Records written as a whole: these and no others may break off at the end. */
static bool file_is_whole(const struct perfdata *p, const struct perfdata_file *f)
{
	const struct perfdata_file *header = &p->files.items[f->header_file];

	return !f->missing_bytes && !f->is_part && !header->is_unfinished && !header->is_pipe;
}

static bool is_chain(const struct perfdata_file *f, uint64_t pos)
{
	struct cursor c = {.pos = pos};
	struct perfdata_damage damage;
	struct record r;

	for (unsigned i = 0; i < CHAIN_RECORDS; i++) {
		enum step step = perfdata_step(f, &c, &r, &damage);

		if (step == STEP_END)
			return i > 0;
		if (step == STEP_DAMAGE || c.missing || !record_type_name(r.type))
			return false;
	}
	return true;
}

/* Where records go on behind the damage; moves the cursor there. The record before it may be what
 * is damaged, and its size lead astray: the search begins at `from`, its start. */
static void resync(const struct perfdata_file *f, uint64_t from, struct cursor *c,
		   struct perfdata_damage *damage)
{
	uint64_t left = f->data_end - from, skip = 1;

	for (; skip < RESYNC_BYTES_MAX && skip + RECORD_HEADER <= left; skip++) {
		const uint8_t *p = f->map.data + from + skip;
		bool is_type = !(p[1] | p[2] | p[3]) && record_type_name(p[0]);

		if (is_type && is_chain(f, from + skip))
			break;
	}
	if (skip == RESYNC_BYTES_MAX || skip + RECORD_HEADER > left)
		skip = left;
	*c = (struct cursor){.pos = from + skip};
	if (c->pos <= damage->file_off)
		damage->file_off = from;
	damage->lost_bytes = c->pos - damage->file_off;
}

/* Where the id of a record stands tells its event; the event tells the rest. */
static void record_resolve(const struct perfdata *p, struct record *r)
{
	const struct perfdata_file *f = &p->files.items[p->files.items[r->file].header_file];

	r->event = -1;
	if (r->type >= RECORD_USER_FIRST || f->event_count == 0) {
		record_parse_id(r, NULL);
		return;
	}
	const struct perfdata_event *first = &p->events.items[f->first_event];
	r->event = (int32_t)f->first_event;
	if (f->event_count > 1 && (r->type == RECORD_SAMPLE || first->sample_id_all)) {
		int at = r->type == RECORD_SAMPLE ? f->id_from_start : f->id_from_end;
		size_t words = (r->bytes - RECORD_HEADER) / 8;

		if (at >= 0 && (size_t)at < words) {
			const uint8_t *body = r->data + RECORD_HEADER;
			const uint8_t *where = r->type == RECORD_SAMPLE
						       ? body + 8 * at
						       : r->data + r->bytes - 8 * (at + 1);
			uint64_t id = load_le(where, 8);

			if (id != 0)
				r->event = perfdata_event_of_id(p, r->file, id);
		}
	}
	record_parse_id(r, r->event >= 0 ? &p->events.items[r->event] : NULL);
}

struct walk {
	struct perfdata *p;
	perfdata_visit *visit;
	void *context;
	struct error *error;
	size_t compressed_count; /* COMPRESSED records so far */
};

static enum err walk_record(struct walk *w, struct record *r)
{
	struct perfdata *p = w->p;

	record_resolve(p, r);
	p->record_count++;
	if (!record_type_name(r->type)) {
		p->unknown_records++;
		p->unknown_bytes += r->bytes;
	}
	return w->visit(w->context, r, w->error);
}

static enum err walk_damage(struct walk *w, const struct perfdata_damage *damage)
{
	if (!vec_push(&w->p->damage, *damage))
		return error_set(w->error, ERR_NOMEM, "out of memory");
	return ERR_NONE;
}

/* One damage per broken stream; what follows of it adds to its bytes. */
static enum err walk_stream_damage(struct walk *w, const struct record *r, enum err cause)
{
	struct perfdata_damage damage = {
		.kind = cause == ERR_LIMIT ? PERFDATA_ZSTD_LIMIT : PERFDATA_BAD_STREAM,
		.file = r->file,
		.file_off = r->file_off,
		.lost_bytes = r->bytes,
	};

	if (w->p->damage.count > 0) {
		struct perfdata_damage *last = vec_last(&w->p->damage);

		if (last->file == damage.file && last->kind == damage.kind) {
			last->lost_bytes += damage.lost_bytes;
			return ERR_NONE;
		}
	}
	return walk_damage(w, &damage);
}

/* The records inside a COMPRESSED one. *tail_bytes: of a record begun but not ended. */
static enum err walk_compressed(struct walk *w, const struct record *outer, size_t *tail_bytes)
{
	const struct compressed_chunk *chunk;
	enum err err = compressed_get(w->p->compressed, w->compressed_count++, outer->file,
				      outer->data, outer->bytes, &chunk);

	if (err != ERR_NONE)
		return error_set(w->error, err, "out of memory");
	*tail_bytes = chunk->tail_bytes;
	for (size_t at = 0; at < chunk->bytes;) {
		struct record r = {.file = outer->file, .file_off = outer->file_off};

		record_view(&r, chunk->data + at);
		at += r.bytes;
		err = walk_record(w, &r);
		if (err != ERR_NONE)
			return err;
	}
	if (chunk->result != ERR_NONE)
		return walk_stream_damage(w, outer, chunk->result);
	return ERR_NONE;
}

static enum err walk_file(struct walk *w, uint32_t file)
{
	const struct perfdata_file *f = &w->p->files.items[file];
	struct perfdata_damage damage = {.file = file};
	struct cursor cursor = {.pos = f->data_start, .missing = f->missing_bytes};
	uint64_t last = f->data_start; /* where the last record began, or its payload ended */
	size_t tail_bytes = 0;

	for (;;) {
		struct record r = {.file = file};
		enum step step = perfdata_step(f, &cursor, &r, &damage);
		enum err err = ERR_NONE;

		if (step == STEP_END)
			break;
		if (step == STEP_DAMAGE && damage.kind == PERFDATA_TRUNCATED) {
			if (!file_is_whole(w->p, f))
				return walk_damage(w, &damage);
			damage.kind = PERFDATA_BAD_HEADER;
		}
		if (step == STEP_DAMAGE) {
			resync(f, last, &cursor, &damage);
			last = cursor.pos;
			err = walk_damage(w, &damage);
		} else {
			last = r.payload && !cursor.missing ? cursor.pos : r.file_off;
			err = walk_record(w, &r);
		}
		if (err == ERR_NONE && step == STEP_RECORD &&
		    (r.type == RECORD_COMPRESSED || r.type == RECORD_COMPRESSED2))
			err = walk_compressed(w, &r, &tail_bytes);
		if (err != ERR_NONE)
			return err;
	}
	if (tail_bytes == 0)
		return ERR_NONE;
	damage_set(&damage, PERFDATA_TRUNCATED, f->data_end, tail_bytes);
	return walk_damage(w, &damage);
}

enum err perfdata_walk(struct perfdata *p, perfdata_visit *visit, void *context,
		       struct error *error)
{
	struct walk w = {.p = p, .visit = visit, .context = context, .error = error};
	enum err err = ERR_NONE;

	p->damage.count = 0;
	p->record_count = p->unknown_records = p->unknown_bytes = 0;
	for (uint32_t i = 0; i < p->files.count && err == ERR_NONE; i++)
		err = walk_file(&w, i);
	return err;
}
