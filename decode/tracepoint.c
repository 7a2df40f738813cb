/* See tracepoint.h. The blob is a sequence of files of tracefs, each with its size before:
 *
 *     magic | version | header_page | header_event | ftrace formats | system, formats ... | ...
 *
 * Only the events' formats matter here. libtraceevent parses their field declarations, but
 * it is made for what a kernel writes: on other text it follows null pointers (1.7.1), its
 * parser of "print fmt:" recurses as deep as the text likes, its printers trust offsets. So
 * it gets formats only that have the kernel's shape to the letter, without their print
 * format, and values are read here. */
#include "decode/tracepoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <traceevent/event-parse.h>

#include "common/bytes.h"
#include "common/vec.h"

#define BLOB_MAGIC "\x17\x08\x44tracing"

enum {
	SYSTEMS_MAX = 4096,
	FORMATS_MAX = 1 << 14,      /* in all; a 6.18 kernel has 2323 */
	FIELDS_BYTES_MAX = 1 << 14, /* of one format; the longest there has 1375 */
};

struct tracepoints {
	struct tep_handle *tep;
	VEC(char) format; /* scratch */
	size_t format_count;
};

/* Takes text off the front; false leaves b as it was. */
static bool take_text(struct bytes *b, const char *text)
{
	size_t length = strlen(text);

	if (length > bytes_left(b) || memcmp(b->p, text, length) != 0)
		return false;
	b->p += length;
	return true;
}

static bool is_word(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static bool take_word(struct bytes *b)
{
	const uint8_t *start = b->p;

	while (b->p < b->end && is_word(*b->p))
		b->p++;
	return b->p > start;
}

static bool take_number(struct bytes *b)
{
	const uint8_t *start = b->p;

	while (b->p < b->end && *b->p >= '0' && *b->p <= '9')
		b->p++;
	return b->p > start && b->p - start < 10;
}

/* "unsigned long args[6]", "const char *const * argv": a type, a name, a length if any. */
static bool take_static_declaration(struct bytes *b)
{
	bool is_word_last = false;
	size_t words = 0;

	for (;;) {
		if (take_text(b, " "))
			continue;
		if (words > 0 && take_text(b, "*")) {
			is_word_last = false;
		} else if (take_word(b)) {
			is_word_last = true;
			words++;
		} else {
			break;
		}
	}
	if (words < 2 || !is_word_last)
		return false;
	return !take_text(b, "[") || (take_word(b) && take_text(b, "]"));
}

/* What follows "__data_loc": "char[] text". */
static bool take_dynamic_declaration(struct bytes *b)
{
	do {
		if (!take_text(b, " ") || !take_word(b))
			return false;
	} while (!take_text(b, "[]"));
	return take_text(b, " ") && take_word(b);
}

static bool take_declaration(struct bytes *b)
{
	if (take_text(b, "__data_loc") || take_text(b, "__rel_loc"))
		return take_dynamic_declaration(b);
	return take_static_declaration(b);
}

/* "\tfield:unsigned char flags;\toffset:2;\tsize:1;\tsigned:0;\n" */
static bool take_field(struct bytes *b)
{
	if (!take_text(b, "\tfield:") || !take_declaration(b) || !take_text(b, ";\toffset:") ||
	    !take_number(b) || !take_text(b, ";\tsize:") || !take_number(b) || !take_text(b, ";"))
		return false;
	if (take_text(b, "\tsigned:") && (!take_number(b) || !take_text(b, ";")))
		return false;
	return take_text(b, "\n");
}

/* A name, an ID, the fields that all events share, a blank line, its own, a blank line. */
static bool is_kernel_format(const uint8_t *text, size_t bytes)
{
	struct bytes b = bytes_of(text, bytes);

	if (!take_text(&b, "name: ") || !take_word(&b) || !take_text(&b, "\nID: ") ||
	    !take_number(&b) || !take_text(&b, "\nformat:\n") || !take_field(&b))
		return false;
	while (!take_text(&b, "\n"))
		if (!take_field(&b))
			return false;
	while (!take_text(&b, "\n"))
		if (!take_field(&b))
			return false;
	return bytes_left(&b) == 0;
}

static const char FORMAT_END[] = "print fmt: \"\"\n";

/* Registers one format file. What cannot be parsed is simply not known later. */
static bool format_add(struct tracepoints *t, const char *system, const uint8_t *text, size_t bytes)
{
	static const char marker[] = "print fmt:";
	const uint8_t *print = memmem(text, bytes, marker, sizeof marker - 1);
	size_t kept = print ? (size_t)(print - text) : bytes;

	if (kept > FIELDS_BYTES_MAX || !is_kernel_format(text, kept))
		return true;
	if (!vec_reserve(&t->format, kept + sizeof FORMAT_END))
		return false;
	memcpy(t->format.items, text, kept);
	memcpy(t->format.items + kept, FORMAT_END, sizeof FORMAT_END);
	/* an error is as good as an unknown event */
	(void)tep_parse_event(t->tep, t->format.items, kept + sizeof FORMAT_END - 1, system);
	return true;
}

/* { u32 count, { u64 size, text } x count }. system NULL: skip them. */
static bool formats_read(struct tracepoints *t, struct bytes *b, const char *system)
{
	uint32_t count = bytes_u32(b);

	if (count > FORMATS_MAX - t->format_count)
		b->failed = true;
	else
		t->format_count += count;
	for (uint32_t i = 0; i < count && !b->failed; i++) {
		uint64_t size = bytes_u64(b);
		const uint8_t *text = size <= bytes_left(b) ? bytes_take(b, (size_t)size) : NULL;

		if (!text)
			b->failed = true;
		else if (system && !format_add(t, system, text, (size_t)size))
			return false;
	}
	return true;
}

/* A named file of tracefs, skipped. */
static void file_skip(struct bytes *b, const char *name)
{
	const char *found = bytes_string(b);

	if (found && strcmp(found, name) != 0)
		b->failed = true;
	uint64_t size = bytes_u64(b);
	if (size > bytes_left(b))
		b->failed = true;
	else
		bytes_take(b, (size_t)size);
}

static enum err blob_read(struct tracepoints *t, const uint8_t *blob, size_t bytes,
			  struct error *error)
{
	struct bytes b = bytes_of(blob, bytes);
	const uint8_t *magic = bytes_take(&b, sizeof BLOB_MAGIC - 1);

	if (!magic || memcmp(magic, BLOB_MAGIC, sizeof BLOB_MAGIC - 1) != 0)
		return error_set(error, ERR_FORMAT, "tracing data: not in its format");
	bytes_string(&b); /* version: 0.5 or 0.6, the same for what is read here */
	bool big_endian = bytes_u8(&b);
	uint8_t long_bytes = bytes_u8(&b);
	bytes_u32(&b); /* page size */
	if (big_endian)
		return error_set(error, ERR_UNSUPPORTED, "tracing data: big-endian");
	if (long_bytes == 4 || long_bytes == 8)
		tep_set_long_size(t->tep, long_bytes);
	file_skip(&b, "header_page");
	file_skip(&b, "header_event");
	bool ok = formats_read(t, &b, NULL);
	uint32_t systems = bytes_u32(&b);
	if (systems > SYSTEMS_MAX)
		b.failed = true;
	for (uint32_t i = 0; i < systems && !b.failed && ok; i++) {
		const char *system = bytes_string(&b);

		ok = !system || formats_read(t, &b, system);
	}
	if (!ok)
		return error_set(error, ERR_NOMEM, "tracing data: out of memory");
	if (b.failed)
		return error_set(error, ERR_FORMAT, "tracing data: %zu bytes are cut short", bytes);
	return ERR_NONE;
}

enum err tracepoints_new(struct tracepoints **out, const uint8_t *blob, size_t bytes,
			 struct error *error)
{
	struct tracepoints *t = calloc(1, sizeof *t);
	enum err err = ERR_NONE;

	if (!t)
		return error_set(error, ERR_NOMEM, "out of memory");
	tep_set_loglevel(TEP_LOG_NONE); /* a library does not print */
	t->tep = tep_alloc();
	if (!t->tep)
		err = error_set(error, ERR_NOMEM, "out of memory");
	else
		err = blob_read(t, blob, bytes, error);
	vec_done(&t->format);
	if (err != ERR_NONE) {
		tracepoints_free(t);
		return err;
	}
	*out = t;
	return ERR_NONE;
}

void tracepoints_free(struct tracepoints *t)
{
	if (!t)
		return;
	if (t->tep)
		tep_free(t->tep);
	free(t);
}

int64_t tracepoints_find(const struct tracepoints *t, const char *system, const char *name)
{
	const struct tep_event *event = tep_find_event_by_name(t->tep, system, name);

	return event ? event->id : -1;
}

static struct tep_event *event_of(const struct tracepoints *t, uint32_t id)
{
	return id <= INT32_MAX ? tep_find_event(t->tep, (int)id) : NULL;
}

bool tracepoints_name(const struct tracepoints *t, uint32_t id, const char **system,
		      const char **name)
{
	const struct tep_event *event = event_of(t, id);

	if (!event)
		return false;
	*system = event->system ? event->system : "";
	*name = event->name ? event->name : "";
	return true;
}

/* Where a field's bytes lie: fixed, or by a {u16 offset, u16 length} word in its place. */
static bool field_bytes(const struct tep_format_field *field, const uint8_t *raw, size_t raw_bytes,
			const uint8_t **data, size_t *length)
{
	if (field->offset < 0 || field->size <= 0)
		return false;
	uint64_t start = (uint64_t)field->offset, size = (uint64_t)field->size;
	if (field->flags & TEP_FIELD_IS_DYNAMIC) {
		if (size != 4 || start + size > raw_bytes)
			return false;
		uint64_t word = load_le(raw + start, 4);

		/* __rel_loc counts from behind its own word */
		start = (word & 0xffff) + (field->flags & TEP_FIELD_IS_RELATIVE ? start + size : 0);
		size = word >> 16;
	}
	if (start + size > raw_bytes)
		return false;
	*data = raw + start;
	*length = (size_t)size;
	return true;
}

static bool field_number(const struct tep_format_field *field, const uint8_t *raw, size_t raw_bytes,
			 uint64_t *value)
{
	const uint8_t *data;
	size_t length;

	if (field->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC | TEP_FIELD_IS_STRING))
		return false;
	if (!field_bytes(field, raw, raw_bytes, &data, &length))
		return false;
	if (length != 1 && length != 2 && length != 4 && length != 8)
		return false;
	uint64_t number = load_le(data, length);
	unsigned unused_bits = 64 - 8 * (unsigned)length;
	if (field->flags & TEP_FIELD_IS_SIGNED)
		number = (uint64_t)((int64_t)(number << unused_bits) >> unused_bits);
	*value = number;
	return true;
}

static bool field_text(const struct tep_format_field *field, const uint8_t *raw, size_t raw_bytes,
		       const char **text, size_t *length)
{
	const uint8_t *data;
	size_t room;

	if (!(field->flags & TEP_FIELD_IS_STRING) ||
	    !field_bytes(field, raw, raw_bytes, &data, &room))
		return false;
	*text = (const char *)data;
	*length = strnlen(*text, room);
	return true;
}

static const struct tep_format_field *field_of(const struct tracepoints *t, uint32_t id,
					       const char *name)
{
	struct tep_event *event = event_of(t, id);

	return event ? tep_find_any_field(event, name) : NULL;
}

bool tracepoints_number(const struct tracepoints *t, uint32_t id, const uint8_t *raw,
			size_t raw_bytes, const char *name, uint64_t *value)
{
	const struct tep_format_field *field = field_of(t, id, name);

	return field && field_number(field, raw, raw_bytes, value);
}

bool tracepoints_text(const struct tracepoints *t, uint32_t id, const uint8_t *raw,
		      size_t raw_bytes, const char *name, const char **text, size_t *length)
{
	const struct tep_format_field *field = field_of(t, id, name);

	return field && field_text(field, raw, raw_bytes, text, length);
}

/* " name=value" at text; how long it is, as snprintf says. */
static int field_format(const struct tep_format_field *field, const uint8_t *raw, size_t raw_bytes,
			const char *separator, char *text, size_t size)
{
	const char *string;
	const uint8_t *data;
	size_t length;
	uint64_t number;

	if (field_text(field, raw, raw_bytes, &string, &length))
		return snprintf(text, size, "%s%s=%.*s", separator, field->name, (int)length,
				string);
	if (field_number(field, raw, raw_bytes, &number)) {
		if (field->flags & TEP_FIELD_IS_SIGNED)
			return snprintf(text, size, "%s%s=%" PRId64, separator, field->name,
					(int64_t)number);
		if (field->flags & TEP_FIELD_IS_POINTER)
			return snprintf(text, size, "%s%s=0x%" PRIx64, separator, field->name,
					number);
		return snprintf(text, size, "%s%s=%" PRIu64, separator, field->name, number);
	}
	if (field_bytes(field, raw, raw_bytes, &data, &length))
		return snprintf(text, size, "%s%s=[%zu bytes]", separator, field->name, length);
	return snprintf(text, size, "%s%s=?", separator, field->name);
}

void tracepoints_format(const struct tracepoints *t, uint32_t id, const uint8_t *raw,
			size_t raw_bytes, char *text, size_t size)
{
	const struct tep_event *event = event_of(t, id);
	size_t at = 0;

	if (size == 0)
		return;
	text[0] = '\0';
	if (!event)
		return;
	for (const struct tep_format_field *f = event->format.fields; f; f = f->next) {
		int added =
			field_format(f, raw, raw_bytes, at > 0 ? " " : "", text + at, size - at);

		if (added < 0 || (size_t)added >= size - at)
			return;
		at += (size_t)added;
	}
}
