/* See search.h.
 *
 * Both searches offer candidates in order, nearest to the recording first; the first that
 * opens and carries the wanted build id wins, and the best refused one is remembered so that
 * the user can be told why. Layouts by build id: "xx/yyyy.debug" is gdb's, "xx/yyyy/elf",
 * ".../debug", ".../vdso" are perf's cache (also what a capture bundle holds). */
#include "symbolize/search.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#include "common/bundle.h"
#include "symbolize/remote.h"

#define SEARCH_MAX_LINKS 40

struct attempt {
	struct search_result *result;
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0 = any build */
	const uint32_t *crc;   /* of the whole file, by .gnu_debuglink; NULL = not asked */
	enum err err;          /* ERR_NOMEM stops the search */
};

void search_init(struct search *s, const struct symbolizer_options *options)
{
	const char *home = getenv("HOME");

	s->options = options;
	s->cache[0] = '\0';
	if (!options->symfs && home &&
	    snprintf(s->cache, sizeof s->cache, "%s/.debug", home) >= PATH_MAX)
		s->cache[0] = '\0';
}

/* Replaces the component just appended to `at`, a symbolic link, by its target: what is
 * left of the path becomes target + rest. false = too long. */
static bool path_follow(char *at, size_t keep, const char *rest, char todo[PATH_MAX])
{
	char target[PATH_MAX], joined[PATH_MAX];
	ssize_t n = readlink(at, target, sizeof target - 1);

	if (n < 0)
		return false;
	target[n] = '\0';
	if ((size_t)snprintf(joined, sizeof joined, "%s/%s", target, rest) >= sizeof joined)
		return false;
	memcpy(todo, joined, strlen(joined) + 1);
	at[keep] = '\0';
	return true;
}

bool search_path_below(const char *root, const char *path, char result[PATH_MAX])
{
	char todo[PATH_MAX];
	size_t root_length = strlen(root), at;
	int links = 0;

	while (root_length > 1 && root[root_length - 1] == '/')
		root_length--;
	if (root_length >= PATH_MAX || strlen(path) >= PATH_MAX)
		return false;
	memcpy(result, root, root_length);
	result[at = root_length] = '\0';
	strcpy(todo, path);
	for (const char *p = todo;;) {
		char probe[1];

		p += strspn(p, "/");
		size_t n = strcspn(p, "/");
		if (n == 0)
			return true;
		if (n == 2 && memcmp(p, "..", 2) == 0) {
			while (at > root_length && result[at - 1] != '/')
				at--;
			at -= at > root_length;
			result[at] = '\0';
		} else if (n != 1 || *p != '.') {
			if (at + 1 + n >= PATH_MAX)
				return false;
			size_t keep = at;
			result[at++] = '/';
			memcpy(result + at, p, n);
			result[at += n] = '\0';
			if (links < SEARCH_MAX_LINKS && readlink(result, probe, 1) >= 0) {
				links++;
				bool absolute = probe[0] == '/';
				if (!path_follow(result, absolute ? root_length : keep, p + n,
						 todo))
					return false;
				at = strlen(result);
				p = todo;
				continue;
			}
		}
		p += n;
	}
}

static bool attempt_crc_matches(const struct attempt *a, const struct object *o)
{
	uLong crc = 0;

	if (!a->crc)
		return true;
	for (size_t at = 0; at < o->bytes;) {
		uInt n = o->bytes - at < (1u << 30) ? (uInt)(o->bytes - at) : 1u << 30;

		crc = crc32(crc, o->data + at, n);
		at += n;
	}
	return (uint32_t)crc == *a->crc;
}

static void attempt_refuse(struct attempt *a, enum search_outcome why, const char *path)
{
	a->result->outcome = why;
	snprintf(a->result->path, sizeof a->result->path, "%s", path);
}

/* Takes the file at path if it is the wanted one. true = the search is over. */
static bool attempt_path(struct attempt *a, const char *path)
{
	struct search_result *r = a->result;
	struct object *o = NULL;
	struct error error = {0};
	enum err err = object_open(path, &o, &error);

	if (err == ERR_NOMEM) {
		a->err = err;
		return true;
	}
	if (err != ERR_NONE) {
		if (err != ERR_NOT_FOUND && r->outcome == SEARCH_NOTHING) {
			attempt_refuse(a, SEARCH_UNREADABLE, path);
			r->error = error;
		}
		return false;
	}
	if ((a->build_id_bytes && !object_build_id_equal(o->build_id, o->build_id_bytes,
							 a->build_id, a->build_id_bytes)) ||
	    !attempt_crc_matches(a, o)) {
		if (r->outcome != SEARCH_OTHER_BUILD) {
			attempt_refuse(a, SEARCH_OTHER_BUILD, path);
			memcpy(r->other_id, o->build_id, o->build_id_bytes);
			r->other_id_bytes = o->build_id_bytes;
		}
		object_free(o);
		return false;
	}
	attempt_refuse(a, SEARCH_FOUND, path);
	r->object = o;
	return true;
}

static bool PRINTF_LIKE(2, 3) attempt(struct attempt *a, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(path, sizeof path, format, args);
	va_end(args);
	return n >= 0 && n < PATH_MAX && attempt_path(a, path);
}

/* A path whose links stay below root; root NULL = no such place. */
static bool PRINTF_LIKE(3, 4)
	attempt_below(struct attempt *a, const char *root, const char *format, ...)
{
	char below[PATH_MAX], path[PATH_MAX];
	va_list args;

	if (!root)
		return false;
	va_start(args, format);
	int n = vsnprintf(below, sizeof below, format, args);
	va_end(args);
	return n >= 0 && n < PATH_MAX && search_path_below(root, below, path) &&
	       attempt_path(a, path);
}

static const char *bundle_dir(const struct search *s)
{
	return s->options->bundle ? s->options->bundle->dir : NULL;
}

/* "xx/yyyy" of a build id; needs at least two bytes. */
static bool build_id_path(const uint8_t *id, size_t bytes, char text[2 * OBJECT_BUILD_ID_MAX + 2])
{
	if (bytes < 2)
		return false;
	for (size_t i = 0; i < bytes && i < OBJECT_BUILD_ID_MAX; i++)
		text += sprintf(text, i == 1 ? "/%02x" : "%02x", id[i]);
	return true;
}

static bool attempt_remote(const struct search *s, struct attempt *a, enum remote_kind kind)
{
	char path[PATH_MAX];

	return s->options->debuginfod && a->build_id_bytes &&
	       remote_fetch(kind, a->build_id, a->build_id_bytes, path) && attempt_path(a, path);
}

static bool attempt_code_by_build_id(const struct search *s, struct attempt *a, bool vdso)
{
	const struct symbolizer_options *o = s->options;
	char id[2 * OBJECT_BUILD_ID_MAX + 2];
	const char *leaf = vdso ? "vdso" : "elf";

	if (!build_id_path(a->build_id, a->build_id_bytes, id))
		return false;
	if (attempt_below(a, o->symfs, "/usr/lib/debug/.build-id/%s", id))
		return true;
	for (size_t i = 0; o->debug_dirs && o->debug_dirs[i]; i++)
		if (attempt(a, "%s/.build-id/%s/%s", o->debug_dirs[i], id, leaf) ||
		    attempt(a, "%s/.build-id/%s", o->debug_dirs[i], id))
			return true;
	if (o->symfs)
		return false;
	return attempt(a, "/usr/lib/debug/.build-id/%s", id) ||
	       (s->cache[0] && attempt(a, "%s/.build-id/%s/%s", s->cache, id, leaf));
}

static bool attempt_code(const struct search *s, struct attempt *a, const char *path)
{
	const struct symbolizer_options *o = s->options;
	char id[2 * OBJECT_BUILD_ID_MAX + 2];
	bool vdso = strcmp(path, "[vdso]") == 0;

	if (o->bundle && build_id_path(a->build_id, a->build_id_bytes, id) &&
	    (attempt_below(a, bundle_dir(s), "/.build-id/%s/%s", id, vdso ? "vdso" : "elf") ||
	     attempt_below(a, bundle_dir(s), "/.build-id/%s", id)))
		return true;
	const struct bundle_file *file = o->bundle ? bundle_find_path(o->bundle, path) : NULL;
	if (file && file->file && attempt_path(a, file->file))
		return true;
	if (vdso) {
		if (o->bundle && o->bundle->vdso && attempt_path(a, o->bundle->vdso))
			return true;
		if (attempt_below(a, o->symfs, "/vdso.so"))
			return true;
	} else if (path[0] == '/') {
		/* Without a symfs the system follows the links. Merged-/usr systems record
		 * either of /lib and /usr/lib. */
		if (o->symfs ? attempt_below(a, o->symfs, "%s", path) ||
				       attempt_below(a, o->symfs, "/usr%s", path)
			     : attempt_path(a, path))
			return true;
	}
	return attempt_code_by_build_id(s, a, vdso);
}

enum err search_code(const struct search *s, const struct module_request *wanted,
		     struct search_result *result)
{
	static const char deleted[] = " (deleted)";
	struct attempt a = {.result = result,
			    .build_id = wanted->build_id,
			    .build_id_bytes = wanted->build_id ? wanted->build_id_bytes : 0};
	char path[PATH_MAX];
	size_t length = strlen(wanted->path);

	memset(result, 0, sizeof *result);
	if (length >= PATH_MAX)
		return ERR_NONE;
	memcpy(path, wanted->path, length + 1);
	if (length >= sizeof deleted && strcmp(path + length - sizeof deleted + 1, deleted) == 0)
		path[length - sizeof deleted + 1] = '\0';
	if (!attempt_code(s, &a, path))
		attempt_remote(s, &a, REMOTE_EXECUTABLE);
	return a.err;
}

static bool attempt_debug_by_build_id(const struct search *s, struct attempt *a)
{
	const struct symbolizer_options *o = s->options;
	char id[2 * OBJECT_BUILD_ID_MAX + 2];

	if (!build_id_path(a->build_id, a->build_id_bytes, id))
		return false;
	if (attempt_below(a, bundle_dir(s), "/.build-id/%s/debug", id) ||
	    attempt_below(a, bundle_dir(s), "/.build-id/%s.debug", id) ||
	    attempt_below(a, o->symfs, "/usr/lib/debug/.build-id/%s.debug", id))
		return true;
	for (size_t i = 0; o->debug_dirs && o->debug_dirs[i]; i++)
		if (attempt(a, "%s/.build-id/%s/debug", o->debug_dirs[i], id) ||
		    attempt(a, "%s/.build-id/%s.debug", o->debug_dirs[i], id))
			return true;
	if (o->symfs)
		return false;
	return attempt(a, "/usr/lib/debug/.build-id/%s.debug", id) ||
	       (s->cache[0] && attempt(a, "%s/.build-id/%s/debug", s->cache, id));
}

/* .gnu_debuglink: a file name, padding to 4 bytes, the CRC-32 of that file. */
static bool attempt_debuglink(const struct search *s, struct attempt *a, const struct object *code,
			      const char *code_path)
{
	const struct symbolizer_options *o = s->options;
	const struct object_section *section = object_find_section(code, ".gnu_debuglink");
	struct bytes b = section ? object_section_bytes(code, section) : (struct bytes){0};
	const uint8_t *start = b.p;
	const char *name = bytes_left(&b) ? bytes_string(&b) : NULL;
	const char *slash = strrchr(code_path, '/');

	if (!name || !*name || strchr(name, '/') || !slash)
		return false;
	bytes_take(&b, (4 - (size_t)(b.p - start) % 4) % 4);
	uint32_t crc = bytes_u32(&b);
	if (b.failed)
		return false;
	/* The links of a path below a symfs are resolved already: the rest is as recorded. */
	size_t root = o->symfs ? strlen(o->symfs) : 0;
	bool inside = strncmp(code_path, o->symfs ? o->symfs : "", root) == 0;
	const char *dir = inside ? code_path + root : code_path;
	int length = slash > dir ? (int)(slash - dir) : 0;

	a->crc = &crc;
	bool done =
		o->symfs && inside
			? attempt_below(a, o->symfs, "/%.*s/%s", length, dir, name) ||
				  attempt_below(a, o->symfs, "/%.*s/.debug/%s", length, dir, name)
			: attempt(a, "%.*s/%s", length, dir, name) ||
				  attempt(a, "%.*s/.debug/%s", length, dir, name);
	done = done || attempt_below(a, o->symfs, "/usr/lib/debug/%.*s/%s", length, dir, name);
	for (size_t i = 0; !done && o->debug_dirs && o->debug_dirs[i]; i++)
		done = attempt(a, "%s/%.*s/%s", o->debug_dirs[i], length, dir, name) ||
		       attempt(a, "%s/%s", o->debug_dirs[i], name);
	if (!done && !o->symfs)
		done = attempt(a, "/usr/lib/debug%.*s/%s", length, dir, name);
	a->crc = NULL;
	return done;
}

enum err search_debug(const struct search *s, const struct object *code, const char *code_path,
		      struct search_result *result)
{
	struct attempt a = {.result = result,
			    .build_id = code->build_id,
			    .build_id_bytes = code->build_id_bytes};

	memset(result, 0, sizeof *result);
	if (!attempt_debug_by_build_id(s, &a) && !attempt_debuglink(s, &a, code, code_path))
		attempt_remote(s, &a, REMOTE_DEBUG);
	return a.err;
}

static bool attempt_vmlinux(const struct search *s, struct attempt *a)
{
	const struct symbolizer_options *o = s->options;
	char id[2 * OBJECT_BUILD_ID_MAX + 2];
	bool have_id = build_id_path(a->build_id, a->build_id_bytes, id);
	struct utsname host;

	if (have_id && attempt_below(a, bundle_dir(s), "/.build-id/%s/elf", id))
		return true;
	if ((have_id && attempt_below(a, o->symfs, "/usr/lib/debug/.build-id/%s.debug", id)) ||
	    attempt_below(a, o->symfs, "/vmlinux") || attempt_below(a, o->symfs, "/boot/vmlinux"))
		return true;
	if (!have_id)
		return false;
	for (size_t i = 0; o->debug_dirs && o->debug_dirs[i]; i++)
		if (attempt(a, "%s/.build-id/%s/elf", o->debug_dirs[i], id) ||
		    attempt(a, "%s/.build-id/%s.debug", o->debug_dirs[i], id) ||
		    attempt(a, "%s/vmlinux", o->debug_dirs[i]))
			return true;
	if (o->symfs || uname(&host) != 0)
		return false;
	return attempt(a, "/usr/lib/debug/.build-id/%s.debug", id) ||
	       attempt(a, "/boot/vmlinux-%s", host.release) ||
	       attempt(a, "/usr/lib/debug/boot/vmlinux-%s", host.release) ||
	       attempt(a, "/usr/lib/debug/lib/modules/%s/vmlinux", host.release) ||
	       attempt(a, "/lib/modules/%s/build/vmlinux", host.release) ||
	       (s->cache[0] && (attempt(a, "%s/.build-id/%s/vmlinux", s->cache, id) ||
				attempt(a, "%s/.build-id/%s/elf", s->cache, id)));
}

enum err search_vmlinux(const struct search *s, const struct module_request *wanted,
			struct search_result *result)
{
	struct attempt a = {.result = result,
			    .build_id = wanted->build_id,
			    .build_id_bytes = wanted->build_id_bytes};

	memset(result, 0, sizeof *result);
	attempt_vmlinux(s, &a);
	return a.err;
}

/* The running kernel's build id is a note in sysfs. */
static bool host_kernel_is(const uint8_t *build_id, size_t bytes)
{
	uint8_t notes[4096];
	struct object o = {0};
	FILE *f = fopen("/sys/kernel/notes", "re");

	if (!f)
		return false;
	size_t count = fread(notes, 1, sizeof notes, f);
	fclose(f);
	return object_read_notes(&o, bytes_of(notes, count)) &&
	       object_build_id_equal(o.build_id, o.build_id_bytes, build_id, bytes);
}

bool search_kallsyms(const struct search *s, const struct module_request *wanted,
		     char path[PATH_MAX])
{
	char id[2 * OBJECT_BUILD_ID_MAX + 2];

	if (s->options->bundle && s->options->bundle->kallsyms)
		return snprintf(path, PATH_MAX, "%s", s->options->bundle->kallsyms) < PATH_MAX;
	if (s->options->symfs || !build_id_path(wanted->build_id, wanted->build_id_bytes, id))
		return false;
	if (s->cache[0] &&
	    snprintf(path, PATH_MAX, "%s/.build-id/%s/kallsyms", s->cache, id) < PATH_MAX &&
	    access(path, R_OK) == 0)
		return true;
	strcpy(path, "/proc/kallsyms");
	return host_kernel_is(wanted->build_id, wanted->build_id_bytes);
}

/* At a path as the compiler or linker wrote it, or beside the debug file. `directory` (NULL =
 * not known) is what a relative name starts from. */
static bool attempt_written(const struct search *s, struct attempt *a, const char *debug_path,
			    const char *directory, const char *name)
{
	const char *root = s->options->symfs ? s->options->symfs : "";
	const char *leaf = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	const char *slash = strrchr(debug_path, '/');
	int length = slash ? (int)(slash - debug_path) : 0;

	if (name[0] == '/' ? attempt_below(a, root, "%s", name)
			   : directory && attempt_below(a, root, "/%s/%s", directory, name))
		return true;
	return (name[0] != '/' && attempt(a, "%.*s/%s", length, debug_path, name)) ||
	       attempt(a, "%.*s/%s", length, debug_path, leaf);
}

struct object *search_supplement(const struct search *s, const struct object *debug,
				 const char *debug_path)
{
	const struct object_section *section = object_find_section(debug, ".gnu_debugaltlink");
	struct bytes b = section ? object_section_bytes(debug, section) : (struct bytes){0};
	const char *name = bytes_left(&b) ? bytes_string(&b) : NULL;
	struct search_result result = {0};
	struct attempt a = {.result = &result, .build_id = b.p, .build_id_bytes = bytes_left(&b)};

	if (!name || !*name || !a.build_id_bytes || a.build_id_bytes > OBJECT_BUILD_ID_MAX)
		return NULL;
	if (!attempt_debug_by_build_id(s, &a))
		attempt_written(s, &a, debug_path, NULL, name);
	return result.object;
}

struct object *search_package(const struct search *s, const char *debug_path)
{
	struct search_result result = {0};
	struct attempt a = {.result = &result};

	(void)s; /* beside a file that was found: inside the symfs already */
	attempt(&a, "%s.dwp", debug_path);
	return result.object;
}

struct object *search_split(const struct search *s, const char *debug_path, const char *comp_dir,
			    const char *dwo_name)
{
	struct search_result result = {0};
	struct attempt a = {.result = &result};

	attempt_written(s, &a, debug_path, comp_dir, dwo_name);
	return result.object;
}
