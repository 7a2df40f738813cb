/* See recording.h. File: magic, two words, then each array as count + items. */
#include "testdata/recording.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char magic[8] = "PTREC 3";

uint32_t recording_add_string(struct recording *r, const char *text)
{
	size_t bytes = strlen(text) + 1;
	size_t at = r->strings.count;

	if (at == 0) { /* offset 0 is "" */
		if (!vec_push(&r->strings, '\0'))
			return UINT32_MAX;
		at = 1;
	}
	if (!vec_reserve(&r->strings, at + bytes))
		return UINT32_MAX;
	memcpy(r->strings.items + at, text, bytes);
	r->strings.count = at + bytes;
	return (uint32_t)at;
}

static bool array_write(FILE *f, const void *items, size_t count, size_t item_bytes)
{
	return fwrite(&count, sizeof count, 1, f) == 1 &&
	       fwrite(items, item_bytes, count, f) == count;
}

enum err recording_save(const struct recording *r, const char *path, struct error *e)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	bool ok = fwrite(magic, sizeof magic, 1, f) == 1 && fwrite(&r->attached, 4, 1, f) == 1 &&
		  fwrite(&r->comm, 4, 1, f) == 1 &&
		  array_write(f, r->events.items, r->events.count, sizeof *r->events.items) &&
		  array_write(f, r->threads.items, r->threads.count, sizeof *r->threads.items) &&
		  array_write(f, r->maps.items, r->maps.count, sizeof *r->maps.items) &&
		  array_write(f, r->strings.items, r->strings.count, 1);
	if (fclose(f) != 0 || !ok)
		return error_set(e, ERR_IO, "%s: cannot write", path);
	return ERR_NONE;
}

#define array_read(f, v) \
	array_read_(f, (void **)&(v)->items, &(v)->count, &(v)->capacity, sizeof *(v)->items)

static bool array_read_(FILE *f, void **items, size_t *count, size_t *capacity, size_t item_bytes)
{
	size_t n;

	if (fread(&n, sizeof n, 1, f) != 1 || n > UINT32_MAX ||
	    !vec_reserve_(items, capacity, n + 1, item_bytes))
		return false;
	*count = n;
	return fread(*items, item_bytes, n, f) == n;
}

enum err recording_load(struct recording *r, const char *path, struct error *e)
{
	FILE *f = fopen(path, "rb");
	char found[sizeof magic];
	struct recording loaded = {0};

	if (!f)
		return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	bool ok = fread(found, sizeof found, 1, f) == 1 &&
		  memcmp(found, magic, sizeof magic) == 0 &&
		  fread(&loaded.attached, 4, 1, f) == 1 && fread(&loaded.comm, 4, 1, f) == 1 &&
		  array_read(f, &loaded.events) && array_read(f, &loaded.threads) &&
		  array_read(f, &loaded.maps) && array_read(f, &loaded.strings);
	fclose(f);
	if (!ok) {
		recording_done(&loaded);
		return error_set(e, ERR_FORMAT, "%s: not a recording of this ptgen", path);
	}
	*r = loaded;
	return ERR_NONE;
}

void recording_done(struct recording *r)
{
	vec_done(&r->events);
	vec_done(&r->threads);
	vec_done(&r->maps);
	vec_done(&r->strings);
}
