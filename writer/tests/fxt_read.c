/* See fxt_read.h. Written from the format's description, apart from the encoder. */
#include "writer/tests/fxt_read.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 512, OPEN = 1 };

struct event {
	uint64_t ts, end, id;
	size_t order;
	uint32_t track;
	uint8_t type;
	char *name, *category, *args;
};

struct reader {
	struct fxt_read *out;
	const uint8_t *p, *end; /* of the record being read */
	char *strings[32768];
	struct {
		uint64_t pid, tid;
		bool set;
	} threads[256];
	VEC(struct event) events;
	VEC(uint64_t) flows; /* ids begun and not ended */
};

static void PRINTF_LIKE(2, 3) problem(struct reader *r, const char *format, ...)
{
	va_list ap;

	if (r->out->error[0])
		return;
	va_start(ap, format);
	vsnprintf(r->out->error, sizeof r->out->error, format, ap);
	va_end(ap);
}

static uint64_t word(struct reader *r)
{
	uint64_t value = 0;

	if (r->end - r->p < 8) {
		problem(r, "content runs past its record");
		return 0;
	}
	memcpy(&value, r->p, 8);
	r->p += 8;
	return value;
}

static uint64_t bits(uint64_t w, unsigned low, unsigned high)
{
	return (w >> low) & (((uint64_t)2 << (high - low)) - 1);
}

static bool utf8_is_valid(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t more = p[i] < 0x80   ? 0
			      : p[i] < 0xc2 ? 9
			      : p[i] < 0xe0 ? 1
			      : p[i] < 0xf0 ? 2
					    : 3;

		if (more == 9 || p[i] < 0x20 || i + more >= n + (more == 0))
			return false;
		for (size_t k = 1; k <= more; k++)
			if ((p[i + k] & 0xc0) != 0x80)
				return false;
		i += more + 1;
	}
	return true;
}

static char *stream(struct reader *r, size_t length)
{
	size_t padded = (length + 7) & ~(size_t)7;

	if (padded > (size_t)(r->end - r->p)) {
		problem(r, "a stream of %zu bytes runs past its record", length);
		return strdup("");
	}
	if (!utf8_is_valid(r->p, length))
		problem(r, "invalid UTF-8");
	for (size_t i = length; i < padded; i++)
		if (r->p[i])
			problem(r, "padding is not zero");
	char *text = strndup((const char *)r->p, length);
	r->p += padded;
	return text;
}

static const char *string_ref(struct reader *r, uint64_t ref)
{
	if (ref == 0)
		return "";
	if (ref & 0x8000) {
		problem(r, "inline string");
		return "?";
	}
	if (!r->strings[ref]) {
		problem(r, "string %" PRIu64 " is not defined", ref);
		return "?";
	}
	return r->strings[ref];
}

static struct fxt_track *track_in(struct fxt_read *out, bool process, uint64_t pid, uint64_t tid,
				  uint32_t *index)
{
	struct fxt_track fresh = {.pid = pid, .tid = tid};

	if (process) {
		for (size_t i = 0; i < out->processes.count; i++)
			if (out->processes.items[i].pid == pid)
				return &out->processes.items[i];
		if (!vec_push(&out->processes, fresh))
			abort();
		return vec_last(&out->processes);
	}
	for (size_t i = 0; i < out->tracks.count; i++) {
		if (out->tracks.items[i].pid == pid && out->tracks.items[i].tid == tid) {
			*index = (uint32_t)i;
			return &out->tracks.items[i];
		}
	}
	if (!vec_push(&out->tracks, fresh))
		abort();
	*index = (uint32_t)out->tracks.count - 1;
	return vec_last(&out->tracks);
}

/* "name=value name=value" */
static char *arguments(struct reader *r, unsigned count, uint64_t *process, uint64_t *first_value)
{
	struct buffer text = {0};

	for (unsigned i = 0; i < count; i++) {
		const uint8_t *start = r->p;
		uint64_t h = word(r), size = bits(h, 4, 15);
		const char *name = string_ref(r, bits(h, 16, 31));

		buffer_printf(&text, "%s%s=", i ? " " : "", name);
		switch (bits(h, 0, 3)) {
		case 1: buffer_printf(&text, "%" PRId32, (int32_t)bits(h, 32, 63)); break;
		case 2:
			*first_value = bits(h, 32, 63);
			buffer_printf(&text, "%" PRIu64, *first_value);
			break;
		case 4: buffer_printf(&text, "%" PRIu64, word(r)); break;
		case 6: buffer_text(&text, string_ref(r, bits(h, 32, 47))); break;
		case 7: buffer_printf(&text, "0x%" PRIx64, word(r)); break;
		case 8:
			*process = word(r);
			buffer_printf(&text, "koid %" PRIu64, *process);
			break;
		default: problem(r, "argument type %d", (int)bits(h, 0, 3));
		}
		if (r->p != start + size * 8)
			problem(r, "argument %s: size %" PRIu64 " words", name, size);
	}
	if (!buffer_reserve(&text, 1))
		abort();
	text.data[text.bytes] = '\0';
	return (char *)text.data;
}

static void read_event(struct reader *r, uint64_t h)
{
	uint64_t thread = bits(h, 24, 31), unused = 0, value = 0;
	struct event e = {.type = (uint8_t)bits(h, 16, 19), .order = r->events.count};

	e.ts = word(r);
	if (thread == 0 || !r->threads[thread].set) {
		problem(r, "thread %" PRIu64 " is not defined", thread);
		return;
	}
	e.category = strdup(string_ref(r, bits(h, 32, 47)));
	e.name = strdup(string_ref(r, bits(h, 48, 63)));
	e.args = arguments(r, (unsigned)bits(h, 20, 23), &unused, &value);
	if (e.type == 4)
		e.end = word(r);
	else if (e.type == 1 || e.type >= 5)
		e.id = word(r);
	if (e.type == 4 && e.end < e.ts)
		problem(r, "%s ends before it starts", e.name);
	if (e.type != 3 && !e.name[0])
		problem(r, "event without a name");
	if (e.ts >> 63 || e.end >> 63)
		problem(r, "time beyond 63 bits");
	track_in(r->out, false, r->threads[thread].pid, r->threads[thread].tid, &e.track);
	struct fxt_track *track = &r->out->tracks.items[e.track];
	if (e.ts < track->last_ts)
		problem(r, "%s at %" PRIu64 " comes after %" PRIu64, e.name, e.ts, track->last_ts);
	track->last_ts = e.ts;
	if (e.type == 1)
		buffer_printf(&r->out->counters, "%s:%s:%" PRIu64 " @%" PRIu64 "\n", e.name, e.args,
			      e.id, e.ts);
	if (!vec_push(&r->events, e))
		abort();
	r->out->events++;
}

static void read_object(struct reader *r, uint64_t h)
{
	uint64_t koid = word(r), pid = UINT64_MAX, unused = 0;
	uint32_t index;
	char *name = strdup(string_ref(r, bits(h, 24, 39)));

	free(arguments(r, (unsigned)bits(h, 40, 43), &pid, &unused));
	bool process = bits(h, 16, 23) == 1;
	if (!process && pid == UINT64_MAX)
		problem(r, "thread %" PRIu64 " has no process argument", koid);
	struct fxt_track *track = process ? track_in(r->out, true, koid, 0, NULL)
					  : track_in(r->out, false, pid, koid, &index);
	free(track->name);
	track->name = name;
}

static void read_record(struct reader *r, uint64_t h)
{
	uint64_t index;

	switch (bits(h, 0, 3)) {
	case 0:
		if (bits(h, 16, 19) == 1)
			free(stream(r, bits(h, 52, 59)));
		else if (h != 0x0016547846040010u)
			problem(r, "metadata %#" PRIx64, h);
		break;
	case 1:
		if (word(r) != 1000000000)
			problem(r, "ticks per second are not 1e9");
		break;
	case 2:
		index = bits(h, 16, 30);
		free(r->strings[index]);
		r->strings[index] = stream(r, bits(h, 32, 46));
		if (index == 0 || !r->strings[index][0])
			problem(r, "string %" PRIu64 " is empty or at index 0", index);
		r->out->strings_defined++;
		if (index > r->out->max_string_index)
			r->out->max_string_index = index;
		break;
	case 3:
		index = bits(h, 16, 23);
		r->threads[index].pid = word(r);
		r->threads[index].tid = word(r);
		r->threads[index].set = index > 0;
		r->out->threads_defined++;
		break;
	case 4: read_event(r, h); break;
	case 5:
		string_ref(r, bits(h, 16, 31));
		r->p += (bits(h, 32, 46) + 7) & ~(uint64_t)7;
		r->out->blobs++;
		break;
	case 7: read_object(r, h); break;
	default: problem(r, "record type %d", (int)bits(h, 0, 3));
	}
}

static int event_compare(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	if (x->ts != y->ts)
		return x->ts < y->ts ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* The open slices of a track, by index into its slices; end = UINT64_MAX while not ended. */
struct stack {
	uint32_t slices[DEPTH_MAX];
	uint32_t depth;
};

/* What ended is taken off; a new slice of known length must fit into what is left. */
static void stack_close(struct reader *r, struct fxt_track *t, struct stack *s, uint64_t ts,
			const struct event *new_slice)
{
	bool pending = false;

	for (uint32_t i = s->depth; i-- > 0;) {
		const struct fxt_slice *slice = &t->slices.items[s->slices[i]];
		bool zero = slice->start == slice->end && new_slice && new_slice->type != 2 &&
			    new_slice->end == ts;

		if (slice->end == UINT64_MAX) {
			pending = true;
		} else if (pending) {
			if (ts > slice->end)
				problem(r, "%s is crossed by a pair inside", slice->name);
		} else if (slice->end < ts || (slice->end == ts && !zero)) {
			s->depth = i;
		} else if (new_slice && new_slice->type == 4 && ts < slice->end &&
			   new_slice->end > slice->end) {
			problem(r, "%s [%" PRIu64 ",%" PRIu64 ") overlaps %s that ends at %" PRIu64,
				new_slice->name, ts, new_slice->end, slice->name, slice->end);
		}
	}
}

static void view_flow(struct reader *r, struct fxt_track *t, struct stack *s, const struct event *e)
{
	struct fxt_slice *top = s->depth ? &t->slices.items[s->slices[s->depth - 1]] : NULL;

	if (!top || top->end < e->ts) {
		problem(r, "flow %" PRIu64 " is not on a slice", e->id);
		return;
	}
	/* A step ends one arrow and begins the next. */
	if ((e->type != 8 && !vec_push(&top->flows, e->id | (uint64_t)1 << 63)) ||
	    (e->type != 10 && !vec_push(&top->flows, e->id)))
		abort();
	if (e->type == 8) {
		if (!vec_push(&r->flows, e->id))
			abort();
		return;
	}
	for (size_t i = 0; i < r->flows.count; i++) {
		if (r->flows.items[i] != e->id)
			continue;
		if (e->type == 10)
			r->flows.items[i] = r->flows.items[--r->flows.count];
		return;
	}
	problem(r, "flow %" PRIu64 " was not begun", e->id);
}

static void view_event(struct reader *r, struct fxt_track *t, struct stack *s, struct event *e)
{
	if (e->type == 0)
		e->end = e->ts;
	if (e->type == 0 || e->type == 2 || e->type == 4) {
		struct fxt_slice slice = {
			.start = e->ts,
			.end = e->type == 2 ? UINT64_MAX : e->end,
			.type = e->type,
			.name = strdup(e->name),
			.category = strdup(e->category),
			.args = strdup(e->args),
		};

		stack_close(r, t, s, e->ts, e);
		slice.depth = s->depth;
		if (!vec_push(&t->slices, slice))
			abort();
		if (s->depth == DEPTH_MAX) {
			problem(r, "%s is nested too deep", e->name);
			return;
		}
		s->slices[s->depth++] = (uint32_t)t->slices.count - 1;
		if (s->depth > r->out->max_depth)
			r->out->max_depth = s->depth;
	} else if (e->type == 3) {
		stack_close(r, t, s, e->ts, NULL);
		if (s->depth == 0 || t->slices.items[s->slices[s->depth - 1]].end != UINT64_MAX) {
			problem(r, "an end at %" PRIu64 " has no begin on top", e->ts);
			return;
		}
		t->slices.items[s->slices[--s->depth]].end = e->ts;
	} else if (e->type >= 8) {
		view_flow(r, t, s, e);
	}
}

static void view(struct reader *r)
{
	struct stack stack = {0};

	if (r->events.count)
		qsort(r->events.items, r->events.count, sizeof *r->events.items, event_compare);
	for (size_t i = 0; i < r->events.count; i++) {
		struct event *e = &r->events.items[i];
		struct fxt_track *track = &r->out->tracks.items[e->track];

		view_event(r, track, &stack, e);
		if (i + 1 < r->events.count && e[1].track == e->track)
			continue;
		for (uint32_t k = 0; k < stack.depth; k++)
			if (track->slices.items[stack.slices[k]].end == UINT64_MAX)
				problem(r, "%s never ends",
					track->slices.items[stack.slices[k]].name);
		stack.depth = 0;
		if (!track->name)
			problem(r, "thread %" PRIu64 " has no name", track->tid);
	}
	if (r->flows.count)
		problem(r, "flow %" PRIu64 " has no end", r->flows.items[0]);
}

bool fxt_read(struct fxt_read *out, const uint8_t *data, size_t bytes)
{
	struct reader *r = calloc(1, sizeof *r);
	uint64_t header = 0;

	if (!r)
		abort();
	*out = (struct fxt_read){0};
	r->out = out;
	for (size_t at = 0; at < bytes && !out->error[0];) {
		if (bytes - at >= 8)
			memcpy(&header, data + at, 8);
		uint64_t size = bits(header, 4, 15) * 8;
		if (bytes - at < 8 || size == 0 || size > bytes - at) {
			problem(r, "record of %" PRIu64 " bytes at %zu", size, at);
			break;
		}
		if (at == 0 && header != 0x0016547846040010u)
			problem(r, "no magic");
		r->p = data + at + 8;
		r->end = data + at + size;
		read_record(r, header);
		if (bits(header, 0, 3) == 4)
			out->event_bytes += size;
		if (r->p != r->end)
			problem(r, "record at %zu: %td bytes left over", at, r->end - r->p);
		at += size;
	}
	view(r);
	for (size_t i = 0; i < r->events.count; i++) {
		free(r->events.items[i].name);
		free(r->events.items[i].category);
		free(r->events.items[i].args);
	}
	vec_done(&r->events);
	vec_done(&r->flows);
	for (size_t i = 0; i < 32768; i++)
		free(r->strings[i]);
	free(r);
	return !out->error[0];
}

void fxt_read_show(const struct fxt_read *r, struct buffer *text)
{
	for (size_t i = 0; i < r->tracks.count; i++) {
		const struct fxt_track *t = &r->tracks.items[i];

		if (t->slices.count == 0)
			continue;
		buffer_printf(text, "%" PRIu64 "/%" PRIu64 " %s\n", t->pid, t->tid,
			      t->name ? t->name : "?");
		for (size_t k = 0; k < t->slices.count; k++) {
			const struct fxt_slice *s = &t->slices.items[k];

			buffer_printf(text, "%*s%" PRIu64 "+%" PRIu64 " %s %s",
				      (int)s->depth * 2 + 2, "", s->start, s->end - s->start,
				      s->category, s->name);
			if (s->args[0])
				buffer_printf(text, " {%s}", s->args);
			for (size_t f = 0; f < s->flows.count; f++)
				buffer_printf(text, " %s%" PRIu64,
					      s->flows.items[f] >> 63 ? "<-" : "->",
					      s->flows.items[f] & INT64_MAX);
			buffer_text(text, "\n");
		}
	}
}

bool fxt_gunzip(const uint8_t *data, size_t bytes, struct buffer *result, size_t *members)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
	enum { ROOM = 64 << 20 };
	bool sound = true;

	*members = 0;
	for (size_t at = 0; at < bytes && sound;) {
		size_t used = 0, made = 0;

		if (!buffer_reserve(result, ROOM))
			abort();
		sound = libdeflate_gzip_decompress_ex(d, data + at, bytes - at,
						      result->data + result->bytes, ROOM, &used,
						      &made) == LIBDEFLATE_SUCCESS;
		result->bytes += made;
		at += used;
		++*members;
	}
	libdeflate_free_decompressor(d);
	return sound;
}

void fxt_read_done(struct fxt_read *r)
{
	for (size_t i = 0; i < r->tracks.count; i++) {
		struct fxt_track *t = &r->tracks.items[i];

		for (size_t k = 0; k < t->slices.count; k++) {
			free(t->slices.items[k].name);
			free(t->slices.items[k].category);
			free(t->slices.items[k].args);
			vec_done(&t->slices.items[k].flows);
		}
		vec_done(&t->slices);
		free(t->name);
	}
	for (size_t i = 0; i < r->processes.count; i++)
		free(r->processes.items[i].name);
	vec_done(&r->tracks);
	vec_done(&r->processes);
	buffer_done(&r->counters);
}
