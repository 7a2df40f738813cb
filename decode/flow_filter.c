/* See flow_filter.h. */
#include "decode/flow_filter.h"

#include <stdlib.h>
#include <string.h>

static bool parse_one(struct flow_filter *f, const char *text, size_t length)
{
	static const char word[] = "filter";
	const char *end = text + length;
	struct flow_filter_range range = {0};
	char *after;

	if (length <= strlen(word) || strncmp(text, word, strlen(word)) != 0)
		return true;
	text += strlen(word);
	range.start = strtoull(text, &after, 0);
	if (after == text || after > end)
		return true;
	range.end = range.start + 1;
	if (after < end && *after == '/')
		range.end = range.start + strtoull(after + 1, &after, 0);
	if (after < end && *after == '@') {
		range.file = after + 1;
		range.file_length = (size_t)(end - range.file);
		while (range.file_length && range.file[range.file_length - 1] == ' ')
			range.file_length--;
	}
	return vec_push(&f->ranges, range);
}

bool flow_filter_parse(struct flow_filter *f, const char *text)
{
	while (*text) {
		text += strspn(text, " ,\n");
		size_t length = strcspn(text, ",\n");

		if (!parse_one(f, text, length))
			return false;
		text += length;
	}
	return true;
}

void flow_filter_done(struct flow_filter *f)
{
	vec_done(&f->ranges);
}

bool flow_filter_passes(const struct flow_filter *f, const struct sideband *s, space_id space,
			uint64_t ip)
{
	const struct mapping *m = NULL;
	const char *path = NULL;
	uint64_t at = ip;

	if (f->ranges.count == 0)
		return true;
	if (!ip_is_kernel(ip)) {
		m = space.v ? space_find(&s->spaces.items[space.v], ip) : NULL;
		if (!m)
			return false;
		path = intern_text(&s->names, m->path);
		at = ip - m->start + m->file_off;
	}
	for (size_t i = 0; i < f->ranges.count; i++) {
		const struct flow_filter_range *r = &f->ranges.items[i];

		if (at < r->start || at >= r->end || !r->file != !path)
			continue;
		if (!path ||
		    (strlen(path) == r->file_length && memcmp(path, r->file, r->file_length) == 0))
			return true;
	}
	return false;
}
