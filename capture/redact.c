/* See redact.h. The hash is SipHash-2-4 (Aumasson, Bernstein 2012) under a 128-bit key: a
 * pseudo-random function, so without the key not even a guessed name can be confirmed. */
#include "capture/redact.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "capture/perf_file.h"

struct key {
	uint64_t k[2];
};

static uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

static uint64_t sip_hash(const struct key *key, const void *data, size_t bytes)
{
	uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575, key->k[1] ^ 0x646f72616e646f6d,
			 key->k[0] ^ 0x6c7967656e657261, key->k[1] ^ 0x7465646279746573};
	const uint8_t *p = data;

	for (size_t left = bytes;; left -= 8, p += 8) {
		uint64_t word = 0;
		bool last = left < 8;

		memcpy(&word, p, last ? left : 8);
		if (last)
			word |= (uint64_t)bytes << 56;
		v[3] ^= word;
		sip_round(v);
		sip_round(v);
		v[0] ^= word;
		if (last)
			break;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* What decoders look for by name stays: the vdso, anonymous memory, and so on. */
static bool is_special(const char *name)
{
	return name[0] == '[' || strncmp(name, "//anon", 6) == 0 ||
	       strncmp(name, "anon_inode:", 11) == 0 || strcmp(name, "/dev/zero") == 0;
}

static char *hash_part(const struct key *key, const char *part, size_t bytes, char *out,
		       const char *end)
{
	char hex[17];

	snprintf(hex, sizeof hex, "%016llx", (unsigned long long)sip_hash(key, part, bytes));
	for (const char *h = hex; *h && out < end; h++)
		*out++ = *h;
	return out;
}

/* Part by part, as much as there is room; a name that does not fit becomes one hash of all
 * of it, cut to the room. */
static void rename_part_by_part(void *context, char *name, size_t room)
{
	const struct key *key = context;
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

static const char *renamed_copy(struct bundle *b, const struct key *key, const char *text,
				bool *good)
{
	char name[PATH_MAX * 2] = "";
	struct key k = *key;

	if (!text)
		return NULL;
	snprintf(name, PATH_MAX, "%s", text);
	rename_part_by_part(&k, name, sizeof name);
	const char *copy = arena_copy_string(&b->arena, name, strlen(name));
	*good &= copy != NULL;
	return copy;
}

static enum err save_key(const struct key *key, const char *target, struct error *error)
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
	struct key key;
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
