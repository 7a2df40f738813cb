/* See fxt.h. */
#include "writer/fxt.h"

#include <stdlib.h>
#include <string.h>

enum {
	RECORD_METADATA = 0,
	RECORD_INIT = 1,
	RECORD_STRING = 2,
	RECORD_THREAD = 3,
	RECORD_BLOB = 5,
	RECORD_OBJECT = 7,
	METADATA_PROVIDER_INFO = 1,
	OBJECT_PROCESS = 1,
	OBJECT_THREAD = 2,
	BLOB_PERFETTO = 3,
	PROVIDER_ID = 1,
	PROVIDER_NAME_MAX = 255,
	/* Clock ids of Perfetto's builtin_clock.proto. */
	CLOCK_ID_REALTIME = 1,
	CLOCK_ID_BOOTTIME = 6,
};

#define MAGIC_RECORD     0x0016547846040010u
#define TICKS_PER_SECOND 1000000000u
#define REPLACEMENT      "\xef\xbf\xbd" /* U+FFFD */
#define ELLIPSIS         "\xe2\x80\xa6" /* U+2026 */

static size_t word_count(size_t bytes)
{
	return (bytes + 7) / 8;
}

static void fxt_words(struct fxt *f, const uint64_t *words, size_t count)
{
	if (!buffer_reserve(&f->out, count * sizeof *words)) {
		f->out.failed = true;
		return;
	}
	memcpy(f->out.data + f->out.bytes, words, count * sizeof *words);
	f->out.bytes += count * sizeof *words;
}

/* Bytes padded with zeros to whole words. */
static void fxt_stream(struct fxt *f, const void *bytes, size_t count)
{
	size_t padded = word_count(count) * 8;

	if (!buffer_reserve(&f->out, padded)) {
		f->out.failed = true;
		return;
	}
	if (padded)
		memset(f->out.data + f->out.bytes + padded - 8, 0, 8);
	if (count)
		memcpy(f->out.data + f->out.bytes, bytes, count);
	f->out.bytes += padded;
}

/* The length of the valid UTF-8 sequence at p, 0 if there is none. Control characters are
 * refused too: no viewer has a picture for them. */
static size_t utf8_length(const unsigned char *p)
{
	size_t length;
	uint32_t code;

	if (p[0] < 0x80)
		return p[0] >= 0x20 && p[0] != 0x7f;
	if (p[0] >= 0xc2 && p[0] < 0xe0) {
		length = 2;
		code = p[0] & 0x1f;
	} else if (p[0] >= 0xe0 && p[0] < 0xf0) {
		length = 3;
		code = p[0] & 0x0f;
	} else if (p[0] >= 0xf0 && p[0] < 0xf5) {
		length = 4;
		code = p[0] & 0x07;
	} else {
		return 0;
	}
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80) /* the NUL at the end is none either */
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	static const uint32_t smallest[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
	if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ||
	    (code >= 0x80 && code < 0xa0))
		return 0;
	return length;
}

static bool text_is_clean(const char *text, size_t *length)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p >= 0x20 && *p < 0x7f)
		p++;
	*length = (size_t)(p - (const unsigned char *)text);
	return *p == '\0' && *length <= FXT_STRING_BYTES_MAX;
}

/* A copy in f->scratch that is valid UTF-8 and not too long. */
static void text_clean(struct fxt *f, const char *text)
{
	enum { ROOM = FXT_STRING_BYTES_MAX - (sizeof ELLIPSIS - 1) };
	struct buffer *b = &f->scratch;
	size_t cut = 0; /* where the ellipsis goes, should the text not fit */

	b->bytes = 0;
	if (!buffer_reserve(b, FXT_STRING_BYTES_MAX + 8)) {
		f->out.failed = true;
		return;
	}
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		size_t length = utf8_length(p);
		size_t size = length ? length : sizeof REPLACEMENT - 1;

		if (b->bytes <= ROOM)
			cut = b->bytes;
		if (b->bytes + size > FXT_STRING_BYTES_MAX) {
			memcpy(b->data + cut, ELLIPSIS, sizeof ELLIPSIS - 1);
			b->bytes = cut + sizeof ELLIPSIS - 1;
			return;
		}
		if (length)
			memcpy(b->data + b->bytes, p, length);
		else
			memcpy(b->data + b->bytes, REPLACEMENT, size);
		b->bytes += size;
		p += length ? length : 1;
	}
}

static void fxt_new_generation(struct fxt *f)
{
	f->generation++;
	f->last_string = f->fixed_strings;
	/* Fixed strings came first: their ids and indices are 1 .. fixed_strings. */
	memset(f->refs.items + f->fixed_strings + 1, 0,
	       (f->refs.count - f->fixed_strings - 1) * sizeof *f->refs.items);
}

bool fxt_strings_fit(const struct fxt *f, unsigned count)
{
	return f->last_string + count <= FXT_STRINGS_MAX;
}

void fxt_strings_reserve(struct fxt *f, unsigned count)
{
	if (!fxt_strings_fit(f, count))
		fxt_new_generation(f);
}

fxt_ref fxt_string(struct fxt *f, const char *text)
{
	size_t length;
	str_id id;

	if (!text_is_clean(text, &length)) {
		text_clean(f, text);
		text = (const char *)f->scratch.data;
		length = f->scratch.bytes;
	}
	if (length == 0 || f->out.failed)
		return 0;
	if (!intern_bytes(&f->texts, text, length, &id)) {
		f->out.failed = true;
		return 0;
	}
	while (f->refs.count <= id.v) {
		if (!vec_push(&f->refs, 0)) {
			f->out.failed = true;
			return 0;
		}
	}
	if (f->refs.items[id.v])
		return f->refs.items[id.v];
	fxt_strings_reserve(f, 1);
	uint64_t index = ++f->last_string;
	uint64_t header = RECORD_STRING | (1 + word_count(length)) << 4 | index << 16 |
			  (uint64_t)length << 32;
	fxt_words(f, &header, 1);
	fxt_stream(f, text, length);
	f->string_records++;
	f->refs.items[id.v] = (fxt_ref)index;
	return (fxt_ref)index;
}

fxt_ref fxt_string_fixed(struct fxt *f, const char *text)
{
	fxt_ref ref = fxt_string(f, text);

	f->fixed_strings = f->last_string;
	return ref;
}

void fxt_init(struct fxt *f, const char *provider)
{
	size_t length = strnlen(provider, PROVIDER_NAME_MAX);
	uint64_t magic = MAGIC_RECORD;
	uint64_t info = RECORD_METADATA | (1 + word_count(length)) << 4 |
			METADATA_PROVIDER_INFO << 16 | PROVIDER_ID << 20 | (uint64_t)length << 52;
	uint64_t rate[2] = {RECORD_INIT | 2 << 4, TICKS_PER_SECOND};

	fxt_words(f, &magic, 1);
	fxt_words(f, &info, 1);
	fxt_stream(f, provider, length);
	fxt_words(f, rate, 2);
}

void fxt_done(struct fxt *f)
{
	buffer_done(&f->out);
	buffer_done(&f->scratch);
	intern_done(&f->texts);
	vec_done(&f->refs);
}

uint8_t fxt_thread(struct fxt *f, uint64_t pid, uint64_t tid)
{
	uint32_t count = f->threads_full ? FXT_THREADS_MAX : f->last_thread;

	for (uint32_t i = 1; i <= count; i++)
		if (f->threads[i].pid == pid && f->threads[i].tid == tid)
			return (uint8_t)i;
	if (f->last_thread == FXT_THREADS_MAX) {
		f->threads_full = true;
		f->last_thread = 0;
	}
	uint64_t index = ++f->last_thread;
	uint64_t words[3] = {RECORD_THREAD | 3 << 4 | index << 16, pid, tid};
	f->threads[index] = (struct fxt_thread){pid, tid};
	fxt_words(f, words, 3);
	return (uint8_t)index;
}

void fxt_name_process(struct fxt *f, uint64_t pid, fxt_ref name)
{
	uint64_t words[2] = {RECORD_OBJECT | 2 << 4 | OBJECT_PROCESS << 16 | (uint64_t)name << 24,
			     pid};

	fxt_words(f, words, 2);
}

void fxt_name_thread(struct fxt *f, uint64_t pid, uint64_t tid, fxt_ref name, fxt_ref process_arg)
{
	uint64_t words[4] = {RECORD_OBJECT | 4 << 4 | OBJECT_THREAD << 16 | (uint64_t)name << 24 |
				     (uint64_t)1 << 40,
			     tid};

	fxt_arg_long(words + 2, FXT_ARG_KOID, process_arg, pid);
	fxt_words(f, words, 4);
}

static uint8_t *varint_put(uint8_t *p, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*p++ = (uint8_t)(value | 0x80);
	*p++ = (uint8_t)value;
	return p;
}

/* Field with a nested message of `length` bytes at `from`; the length fits one byte. */
static uint8_t *message_put(uint8_t *p, unsigned field, const uint8_t *from, size_t length)
{
	p = varint_put(p, field << 3 | 2);
	p = varint_put(p, length);
	memcpy(p, from, length);
	return p + length;
}

static uint8_t *clock_put(uint8_t *p, unsigned clock_id, uint64_t ns)
{
	uint8_t clock[32], *end = clock;

	end = varint_put(end, 1 << 3); /* clock_id */
	end = varint_put(end, clock_id);
	end = varint_put(end, 2 << 3); /* timestamp */
	end = varint_put(end, ns);
	return message_put(p, 1, clock, (size_t)(end - clock)); /* ClockSnapshot.clocks */
}

void fxt_wall_clock(struct fxt *f, fxt_ref name, uint64_t ts, uint64_t real_ns)
{
	uint8_t snapshot[80], packet[96], trace[112];
	uint8_t *end = clock_put(snapshot, CLOCK_ID_BOOTTIME, ts);

	end = clock_put(end, CLOCK_ID_REALTIME, real_ns);
	end = message_put(packet, 6, snapshot, (size_t)(end - snapshot)); /* .clock_snapshot */
	end = message_put(trace, 1, packet, (size_t)(end - packet));      /* Trace.packet */
	size_t bytes = (size_t)(end - trace);
	uint64_t header = RECORD_BLOB | (1 + word_count(bytes)) << 4 | (uint64_t)name << 16 |
			  (uint64_t)bytes << 32 | (uint64_t)BLOB_PERFETTO << 48;
	fxt_words(f, &header, 1);
	fxt_stream(f, trace, bytes);
}
