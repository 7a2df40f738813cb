/* The facade's generated code: perf maps, jitdumps, kernel symbols that come and go.
 *
 * Which files count for a process: those of its pid; if there are none, all files that the
 * user or the bundle gave, since a container numbers its processes otherwise than its host
 * and addresses tell. So for dumps, then for maps, which have names but no code. A process without
 * any also has its /tmp/perf-PID.map looked at, as perf does (below the symfs if there is one, else
 * the host's if it is ours or root's). */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bundle.h"
#include "common/log.h"
#include "symbolize/symbolizer.h"

static void generated_free(struct generated *g)
{
	if (g)
		jit_done(&g->jit);
	free(g);
}

void generated_done(struct symbolizer *s)
{
	for (size_t i = 0; i < s->generated.count; i++)
		generated_free(s->generated.items[i]);
	vec_done(&s->generated);
	generated_free(s->ksymbols);
	vec_done(&s->dumps);
	map64_done(&s->pids);
}

/* Makes its layers modules and takes it over; frees it on failure. */
static enum err generated_publish(struct symbolizer *s, struct generated *g, const char *path)
{
	struct module_request request = {.path = path, .kernel = g->jit.pid == PID_KERNEL};

	if (!jit_finish(&g->jit) || !vec_reserve(&s->generated, s->generated.count + 1) ||
	    !vec_reserve(&s->modules, s->modules.count + jit_layer_count(&g->jit)))
		goto no_memory;
	g->first_module = (uint32_t)s->modules.count + 1;
	for (size_t layer = 0; layer < jit_layer_count(&g->jit); layer++) {
		struct module_entry *m = arena_alloc(&s->arena, sizeof *m);

		if (!m || module_init(m, &request, &s->strings) != ERR_NONE)
			goto no_memory; /* layers already there answer nothing: no one knows them */
		m->pub.state = MODULE_FOUND;
		m->pub.file = m->pub.path;
		m->jit_layer = (uint32_t)layer;
		s->modules.items[s->modules.count++] = m;
	}
	for (size_t layer = 0; layer < jit_layer_count(&g->jit); layer++)
		s->modules.items[g->first_module - 1 + layer]->jit = &g->jit;
	s->generated.items[s->generated.count++] = g;
	return ERR_NONE;
no_memory:
	generated_free(g);
	return ERR_NOMEM;
}

/* A missing or foreign file is worth a warning if somebody named it. */
static enum err generated_open(struct symbolizer *s, const char *path, bool dump, int32_t pid,
			       bool named)
{
	struct generated *g = calloc(1, sizeof *g);
	struct error error = {0};

	if (!g)
		return ERR_NOMEM;
	g->jit.pid = pid;
	g->named = named;
	g->dump = dump;
	enum err err = file_map_open(path, &g->jit.map, &error);
	if (err == ERR_NONE) {
		struct bytes bytes = bytes_of(g->jit.map.data, g->jit.map.bytes);

		if (dump)
			err = jit_read_dump(&g->jit, bytes, &s->jit_clock);
		else
			err = jit_read_map(&g->jit, bytes) ? ERR_NONE : ERR_NOMEM;
		if (err == ERR_FORMAT || err == ERR_UNSUPPORTED)
			error_set(&error, err, "%s: not a jitdump of version 1 and this machine",
				  path);
	}
	if (err == ERR_NONE)
		return generated_publish(s, g, path);
	generated_free(g);
	if (err == ERR_NOMEM)
		return err;
	if (named)
		log_warn("%s", error.message);
	return ERR_NONE;
}

/* The number in ".../perf-123.map". */
static int32_t pid_of_map(const char *path)
{
	const char *at = strstr(strrchr(path, '/') ? strrchr(path, '/') : path, "perf-");
	char *end;
	long pid = at ? strtol(at + 5, &end, 10) : 0;

	return at && end != at + 5 && pid > 0 && pid <= INT32_MAX && strcmp(end, ".map") == 0
		       ? (int32_t)pid
		       : PID_ANY;
}

static enum err generated_load_named(struct symbolizer *s)
{
	const struct symbolizer_options *o = &s->options;
	const struct bundle *b = o->bundle;
	enum err err = ERR_NONE;

	/* Those of options that are not there were told of before: they may not be asked for. */
	for (size_t i = 0; !err && o->jitdumps && o->jitdumps[i]; i++)
		if (access(o->jitdumps[i], R_OK) == 0)
			err = generated_open(s, o->jitdumps[i], true, PID_ANY, true);
	for (size_t i = 0; !err && o->perf_maps && o->perf_maps[i]; i++)
		if (access(o->perf_maps[i], R_OK) == 0)
			err = generated_open(s, o->perf_maps[i], false,
					     pid_of_map(o->perf_maps[i]), true);
	for (size_t i = 0; !err && b && i < b->jitdumps.count; i++)
		err = generated_open(s, b->jitdumps.items[i], true, PID_ANY, true);
	for (size_t i = 0; !err && b && i < b->perf_maps.count; i++)
		err = generated_open(s, b->perf_maps.items[i].file, false,
				     (int32_t)b->perf_maps.items[i].pid, true);
	return err;
}

static enum err generated_load_mapped(struct symbolizer *s, const char *path)
{
	char below[PATH_MAX];

	if (!s->options.symfs)
		return generated_open(s, path, true, PID_ANY, false);
	return search_path_below(s->options.symfs, path, below)
		       ? generated_open(s, below, true, PID_ANY, false)
		       : ERR_NONE;
}

/* On the first question, when the clock is known. */
static bool generated_load(struct symbolizer *s)
{
	if (!s->generated_named && generated_load_named(s) != ERR_NONE)
		return false;
	s->generated_named = true;
	for (; s->dumps_loaded < s->dumps.count; s->dumps_loaded++)
		if (generated_load_mapped(
			    s, intern_text(&s->strings, s->dumps.items[s->dumps_loaded])) !=
		    ERR_NONE)
			return false;
	return true;
}

enum err generated_add_dump(struct symbolizer *s, str_id path)
{
	if (s->options.bundle)
		return ERR_NONE; /* it brings its dumps along */
	return vec_push(&s->dumps, path) ? ERR_NONE : ERR_NOMEM;
}

static enum err generated_look_for_map(struct symbolizer *s, int32_t pid)
{
	char name[64], path[PATH_MAX];
	struct stat st;

	if (pid <= 0 || map64_get(&s->pids, (uint64_t)pid) != MAP64_NONE)
		return ERR_NONE;
	if (!map64_set(&s->pids, (uint64_t)pid, 0))
		return ERR_NOMEM;
	snprintf(name, sizeof name, "/tmp/perf-%d.map", (int)pid);
	if (!search_path_below(s->options.symfs ? s->options.symfs : "", name, path) ||
	    stat(path, &st) != 0 || (!s->options.symfs && st.st_uid && st.st_uid != geteuid()))
		return ERR_NONE;
	return generated_open(s, path, false, pid, false);
}

enum wanted { OF_PID, OF_ANY_NAMED };

/* Code that is there counts before a name without code. */
static bool generated_find(const struct symbolizer *s, int32_t pid, enum wanted wanted,
			   bool with_code, uint64_t ip, uint64_t time_ns, module_id *module,
			   uint64_t *until)
{
	for (size_t i = 0; i < s->generated.count; i++) {
		const struct generated *g = s->generated.items[i];

		if (wanted == OF_PID ? g->jit.pid != pid : !g->named)
			continue;
		const struct jit_code *code = jit_find(&g->jit, ip, time_ns, until);
		if (code && (code->bytes || !with_code)) {
			module->v = g->first_module + code->layer;
			return true;
		}
	}
	return false;
}

static bool generated_has(const struct symbolizer *s, int32_t pid, bool with_code)
{
	for (size_t i = 0; i < s->generated.count; i++)
		if (s->generated.items[i]->jit.pid == pid &&
		    (s->generated.items[i]->dump || !with_code))
			return true;
	return false;
}

bool symbolizer_jit(struct symbolizer *s, int32_t pid, uint64_t ip, uint64_t time_ns,
		    module_id *module, uint64_t *valid_until_ns)
{
	module_id found;
	uint64_t until = UINT64_MAX;

	if (ip >> 63)
		pid = PID_KERNEL;
	if (!generated_load(s))
		return false;
	if (pid == PID_KERNEL && s->ksymbols) {
		struct generated *g = s->ksymbols;

		s->ksymbols = NULL;
		if (generated_publish(s, g, "[bpf]") != ERR_NONE)
			return false;
	}
	bool user = pid != PID_KERNEL;
	if (user && !generated_has(s, pid, false) && generated_look_for_map(s, pid) != ERR_NONE)
		return false;
	if (!generated_find(s, pid, OF_PID, true, ip, time_ns, &found, &until) &&
	    !(user && !generated_has(s, pid, true) &&
	      generated_find(s, pid, OF_ANY_NAMED, true, ip, time_ns, &found, &until)) &&
	    !generated_find(s, pid, OF_PID, false, ip, time_ns, &found, &until) &&
	    !(user && !generated_has(s, pid, false) &&
	      generated_find(s, pid, OF_ANY_NAMED, false, ip, time_ns, &found, &until)))
		return false;
	*module = found;
	*valid_until_ns = until;
	return true;
}

enum err symbolizer_add_ksymbol(struct symbolizer *s, uint64_t ip, uint64_t bytes, const char *name,
				const uint8_t *code, uint64_t from_ns, uint64_t until_ns)
{
	if (bytes > UINT64_MAX - ip)
		return ERR_NONE;
	if (!s->ksymbols) {
		s->ksymbols = calloc(1, sizeof *s->ksymbols);
		if (!s->ksymbols)
			return ERR_NOMEM;
		s->ksymbols->jit.pid = PID_KERNEL;
	}
	struct jit *j = &s->ksymbols->jit;
	struct jit_code entry = {.start = ip,
				 .end = ip + bytes,
				 .from_ns = from_ns,
				 .until_ns = until_ns,
				 .name = arena_copy_string(&j->names, name, strlen(name)),
				 .bytes = code};
	return entry.name && jit_add(j, entry) ? ERR_NONE : ERR_NOMEM;
}
