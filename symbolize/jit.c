/* See jit.h. */
#include "symbolize/jit.h"

#include <stdlib.h>
#include <string.h>

#define JITDUMP_MAGIC        0x4a695444u /* "JiTD" as the writer's u32 */
#define JITDUMP_SWAPPED      0x4454694au
#define JITDUMP_HEADER_BYTES 40
#define JITDUMP_TSC          1u /* flag: time stamps count TSC ticks */

enum {
	JITDUMP_LOAD = 0,
	JITDUMP_MOVE = 1,
};

bool jit_add(struct jit *j, struct jit_code code)
{
	if (code.end <= code.start || j->codes.count >= JIT_MAX_ENTRIES)
		return true;
	code.order = (uint32_t)j->codes.count;
	return vec_push(&j->codes, code);
}

/* A hexadecimal number, "0x" or not, and the blanks behind it. */
static bool map_number(const char **p, const char *end, uint64_t *value)
{
	const char *at = *p;
	int digits = 0;

	if (end - at >= 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	*value = 0;
	for (; at < end; at++, digits++) {
		char c = *at | 0x20;

		if (*at >= '0' && *at <= '9')
			*value = *value << 4 | (uint64_t)(*at - '0');
		else if (c >= 'a' && c <= 'f')
			*value = *value << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	if (digits == 0 || digits > 16 || at == end || (*at != ' ' && *at != '\t'))
		return false;
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	*p = at;
	return true;
}

bool jit_read_map(struct jit *j, struct bytes text)
{
	while (bytes_left(&text)) {
		const char *line = (const char *)text.p;
		const uint8_t *newline = memchr(text.p, '\n', bytes_left(&text));
		const char *end = newline ? (const char *)newline : (const char *)text.end;
		struct jit_code code = {.until_ns = UINT64_MAX};
		uint64_t size;

		text.p = newline ? newline + 1 : text.end;
		if (!map_number(&line, end, &code.start) || !map_number(&line, end, &size) ||
		    size > UINT64_MAX - code.start)
			continue;
		while (end > line && (end[-1] == '\r' || end[-1] == ' '))
			end--;
		code.end = code.start + size;
		code.name = arena_copy_string(&j->names, line, (size_t)(end - line));
		if (!code.name || !jit_add(j, code))
			return false;
	}
	return true;
}

static uint64_t dump_time(uint64_t stamp, uint64_t flags, const struct jit_clock *clock)
{
	if (!(flags & JITDUMP_TSC))
		return stamp;
	if (!clock || !clock->time_mult || clock->time_shift > 63)
		return 0;
	uint64_t mask = ((uint64_t)1 << clock->time_shift) - 1;
	return clock->time_zero + (stamp >> clock->time_shift) * clock->time_mult +
	       ((stamp & mask) * clock->time_mult >> clock->time_shift);
}

static bool dump_load(struct jit *j, struct bytes record, uint64_t time)
{
	struct jit_code code = {.from_ns = time, .until_ns = UINT64_MAX};

	bytes_take(&record, 4 + 4 + 8); /* pid, tid, vma */
	code.start = bytes_u64(&record);
	uint64_t size = bytes_u64(&record);
	bytes_u64(&record); /* index */
	code.name = bytes_string(&record);
	code.bytes = bytes_take(&record, size);
	if (record.failed || size > UINT64_MAX - code.start)
		return true;
	code.end = code.start + size;
	return jit_add(j, code);
}

/* The newest code that starts there: a move names it by address. */
static struct jit_code *dump_newest(struct jit *j, uint64_t start)
{
	for (size_t i = j->codes.count; i > 0; i--)
		if (j->codes.items[i - 1].start == start)
			return &j->codes.items[i - 1];
	return NULL;
}

static bool dump_move(struct jit *j, struct bytes record, uint64_t time)
{
	bytes_take(&record, 4 + 4 + 8); /* pid, tid, vma */
	uint64_t old = bytes_u64(&record), start = bytes_u64(&record), size = bytes_u64(&record);
	struct jit_code *moved = record.failed ? NULL : dump_newest(j, old);

	if (!moved || size > moved->end - moved->start || size > UINT64_MAX - start)
		return true;
	struct jit_code code = *moved;
	moved->until_ns = time;
	code.start = start;
	code.end = start + size;
	code.from_ns = time;
	return jit_add(j, code);
}

enum err jit_read_dump(struct jit *j, struct bytes dump, const struct jit_clock *clock)
{
	struct bytes header = dump;
	uint32_t magic = bytes_u32(&header), version = bytes_u32(&header);
	uint32_t header_bytes = bytes_u32(&header);

	bytes_take(&header, 8); /* machine, padding */
	int32_t pid = (int32_t)bytes_u32(&header);
	bytes_u64(&header); /* time of the file */
	uint64_t flags = bytes_u64(&header);
	if (magic == JITDUMP_SWAPPED)
		return ERR_UNSUPPORTED;
	if (magic != JITDUMP_MAGIC || header.failed || header_bytes < JITDUMP_HEADER_BYTES ||
	    !bytes_take(&dump, header_bytes))
		return ERR_FORMAT;
	if (version != 1)
		return ERR_UNSUPPORTED;
	j->pid = pid;
	while (bytes_left(&dump) >= 16) {
		uint32_t id = bytes_u32(&dump), bytes = bytes_u32(&dump);
		uint64_t time = dump_time(bytes_u64(&dump), flags, clock);

		if (bytes < 16 || bytes - 16 > bytes_left(&dump))
			break;
		struct bytes record = bytes_of(bytes_take(&dump, bytes - 16), bytes - 16);
		if ((id == JITDUMP_LOAD && !dump_load(j, record, time)) ||
		    (id == JITDUMP_MOVE && !dump_move(j, record, time)))
			return ERR_NOMEM;
	}
	return ERR_NONE;
}

static int start_compare(const void *left, const void *right)
{
	const struct jit_code *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int layer_compare(const void *left, const void *right)
{
	const struct jit_code *a = left, *b = right;

	if (a->layer != b->layer)
		return a->layer < b->layer ? -1 : 1;
	return start_compare(left, right);
}

/* In order of address, each into the first layer that is free there. */
bool jit_finish(struct jit *j)
{
	uint64_t layer_end[JIT_MAX_LAYERS];
	size_t layers = 0, kept = 0;

	if (j->codes.count)
		qsort(j->codes.items, j->codes.count, sizeof *j->codes.items, start_compare);
	for (size_t i = 0; i < j->codes.count; i++) {
		struct jit_code *code = &j->codes.items[i];
		uint32_t layer = 0;

		while (layer < layers && layer_end[layer] > code->start)
			layer++;
		if (layer == JIT_MAX_LAYERS)
			continue;
		if (layer == layers)
			layers++;
		layer_end[layer] = code->end;
		code->layer = layer;
		j->codes.items[kept++] = *code;
	}
	j->codes.count = kept;
	if (kept)
		qsort(j->codes.items, kept, sizeof *j->codes.items, layer_compare);
	for (size_t i = 0; i < kept; i++)
		if ((i == 0 || j->codes.items[i].layer != j->codes.items[i - 1].layer) &&
		    !vec_push(&j->layer_start, (uint32_t)i))
			return false;
	return !kept || vec_push(&j->layer_start, (uint32_t)kept);
}

void jit_done(struct jit *j)
{
	file_map_done(&j->map);
	arena_done(&j->names);
	vec_done(&j->codes);
	vec_done(&j->layer_start);
}

const struct jit_code *jit_find_in(const struct jit *j, size_t layer, uint64_t ip, uint64_t *start,
				   uint64_t *end)
{
	const struct jit_code *codes = j->codes.items;
	size_t first = j->layer_start.items[layer], last = j->layer_start.items[layer + 1];
	size_t low = first, high = last;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (codes[middle].start <= ip)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > first && ip < codes[low - 1].end)
		return &codes[low - 1];
	*start = low > first ? codes[low - 1].end : 0;
	*end = low < last ? codes[low].start : UINT64_MAX;
	return NULL;
}

static bool code_is_newer(const struct jit_code *a, const struct jit_code *b)
{
	return a->from_ns != b->from_ns ? a->from_ns > b->from_ns : a->order > b->order;
}

const struct jit_code *jit_find(const struct jit *j, uint64_t ip, uint64_t time_ns,
				uint64_t *until_ns)
{
	const struct jit_code *now = NULL, *next = NULL;
	uint64_t start, end, until = UINT64_MAX;

	for (size_t layer = 0; layer < jit_layer_count(j); layer++) {
		const struct jit_code *code = jit_find_in(j, layer, ip, &start, &end);

		if (!code || (code->until_ns <= time_ns && code->until_ns != UINT64_MAX))
			continue;
		if (code->from_ns > time_ns) {
			if (!next || code_is_newer(next, code))
				next = code;
			if (until > code->from_ns)
				until = code->from_ns;
		} else if (!now || code_is_newer(code, now)) {
			now = code;
		}
	}
	if (now && until > now->until_ns)
		until = now->until_ns;
	*until_ns = until;
	return now ? now : next;
}
