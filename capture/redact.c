/* See redact.h. The hash is a pseudo-random function of the name: without the key not even a
 * guessed name can be confirmed. */
#include "capture/redact.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "capture/perf_file.h"
#include "capture/siphash.h"

/* What decoders look for by name stays: the vdso, anonymous memory, and so on. */
static bool is_special(const char *name)
{
	return name[0] == '[' || strncmp(name, "//anon", 6) == 0 ||
	       strncmp(name, "anon_inode:", 11) == 0 || strcmp(name, "/dev/zero") == 0;
}

static char *hash_part(const struct siphash_key *key, const char *part, size_t bytes, char *out,
		       const char *end)
{
	char hex[17];

	snprintf(hex, sizeof hex, "%016llx", (unsigned long long)siphash(key, part, bytes));
	for (const char *h = hex; *h && out < end; h++)
		*out++ = *h;
	return out;
}

/* Part by part, as much as there is room; a name that does not fit becomes one hash of all
 * of it, cut to the room. */
static void rename_part_by_part(void *context, char *name, size_t room)
{
	const struct siphash_key *key = context;
	char renamed[PATH_MAX * 2], *out = renamed, *end = renamed + sizeof renamed - 1;

	if (room == 0 || !name[0] || is_special(name))
		return;
	for (const char *part = name; *part;) {
		size_t n = strcspn(part, "/");

		if (n > 0)
			out = hash_part(key, part, n, out, end);
		part += n;
		for (; *part == '/' && out < end; part++)
			*out++ = '/';
	}
	if ((size_t)(out - renamed) >= room) {
		size_t whole = strlen(name);
		bool absolute = name[0] == '/';

		out = renamed;
		if (absolute && room > 2)
			*out++ = '/';
		out = hash_part(key, name, whole, out, renamed + room - 1);
	}
	*out = '\0';
	memset(name, 0, room);
	memcpy(name, renamed, (size_t)(out - renamed));
}

static const char *renamed_copy(struct bundle *b, const struct siphash_key *key, const char *text,
				bool *good)
{
	char name[PATH_MAX * 2] = "";
	struct siphash_key k = *key;

	if (!text)
		return NULL;
	snprintf(name, PATH_MAX, "%s", text);
	rename_part_by_part(&k, name, sizeof name);
	const char *copy = arena_copy_string(&b->arena, name, strlen(name));
	*good &= copy != NULL;
	return copy;
}

static enum err save_key(const struct siphash_key *key, const char *target, struct error *error)
{
	char path[PATH_MAX], text[40];

	if (snprintf(path, sizeof path, "%s.redact-key", target) >= (int)sizeof path)
		return error_set(error, ERR_LIMIT, "%s: name too long", target);
	int length = snprintf(text, sizeof text, "%016llx%016llx\n", (unsigned long long)key->k[0],
			      (unsigned long long)key->k[1]);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, text, (size_t)length) != length || close(fd) != 0)
		return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	return ERR_NONE;
}

enum err redact_bundle(struct bundle *b, const char *dir, const char *target, struct error *error)
{
	struct siphash_key key;
	char path[PATH_MAX];
	bool good = true;

	if (getrandom(&key, sizeof key, 0) != sizeof key)
		return error_set(error, ERR_IO, "getrandom: %s", strerror(errno));
	if (snprintf(path, sizeof path, "%s/perf.log", dir) >= (int)sizeof path)
		return error_set(error, ERR_LIMIT, "%s: name too long", dir);
	unlink(path);
	snprintf(path, sizeof path, "%s/perf.data", dir);
	enum err err = perf_file_rename(path, rename_part_by_part, &key, error);
	if (err != ERR_NONE)
		return err;
	for (size_t i = 0; i < b->files.count; i++)
		b->files.items[i].path = renamed_copy(b, &key, b->files.items[i].path, &good);
	for (size_t i = 0; i < b->processes.count; i++) {
		b->processes.items[i].comm =
			renamed_copy(b, &key, b->processes.items[i].comm, &good);
		b->processes.items[i].cmdline = NULL;
	}
	for (size_t i = 0; i < b->hits.count; i++)
		b->hits.items[i].where = renamed_copy(b, &key, b->hits.items[i].where, &good);
	b->perf_command = NULL;
	b->redacted = true;
	if (!good)
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	return save_key(&key, target, error);
}
