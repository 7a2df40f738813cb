/* See symbolize.h. This file: the symbolizer's life, modules, addresses and code. */
#include "symbolize/symbolize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "symbolize/kernel.h"
#include "symbolize/symbolizer.h"

enum err symbolizer_new(const struct symbolizer_options *options, struct symbolizer **result,
			struct error *error)
{
	static const struct symbolizer_options none;
	struct symbolizer *s = calloc(1, sizeof *s);
	str_id empty;

	if (!s || !intern_string(&s->strings, "", &empty)) {
		symbolizer_free(s);
		return error_set(error, ERR_NOMEM, "out of memory");
	}
	s->options = options ? *options : none;
	search_init(&s->search, &s->options);
	*result = s;
	return ERR_NONE;
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->modules.count; i++)
		module_done(s->modules.items[i]);
	if (s->kernel)
		module_done(s->kernel);
	generated_done(s);
	vec_done(&s->modules);
	map64_done(&s->module_at);
	vec_done(&s->funcs);
	vec_done(&s->inlines);
	intern_done(&s->strings);
	arena_done(&s->arena);
	free(s);
}

static uint64_t module_key(const struct module_request *r)
{
	return XXH3_64bits(r->path, strlen(r->path)) ^ XXH3_64bits(r->build_id, r->build_id_bytes) ^
	       r->kernel;
}

static bool module_answers(const struct symbolizer *s, const struct module_entry *m,
			   const struct module_request *r)
{
	/* A file's id stands in where none was recorded: only what was asked must be equal. */
	return m->pub.kernel == r->kernel && m->asked_id_bytes == r->build_id_bytes &&
	       (!r->build_id_bytes ||
		memcmp(m->pub.build_id, r->build_id, r->build_id_bytes) == 0) &&
	       strcmp(intern_text(&s->strings, m->pub.path), r->path) == 0;
}

/* Recorders write zeros where they could not read an id. */
static bool build_id_is_empty(const uint8_t *id, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (id[i])
			return false;
	return true;
}

/* A kernel module has code and names in common with all others. */
static enum err module_open_kernel(struct symbolizer *s, struct module_entry *m,
				   const struct module_request *request)
{
	bool image = strncmp(request->path, "[kernel.kallsyms]", 17) == 0 ||
		     strncmp(request->path, "[guest.kernel.kallsyms", 22) == 0;
	enum err err = module_init(m, request, &s->strings);

	if (err != ERR_NONE)
		return err;
	if (!s->kernel) {
		struct module_entry *kernel = arena_alloc(&s->arena, sizeof *kernel);

		if (!kernel)
			return ERR_NOMEM;
		err = kernel_open(kernel, &s->search, &s->strings);
		if (err != ERR_NONE) {
			module_done(kernel);
			return err;
		}
		s->kernel = kernel;
	}
	if (image)
		err = kernel_open_image(s->kernel, request, &s->search, &s->strings);
	m->shared = s->kernel;
	m->trouble = s->kernel->trouble;
	m->pub.file = s->kernel->pub.file;
	m->pub.state =
		s->kernel->code || s->kernel->symtab.funcs.count || (image && s->kernel->image)
			? MODULE_FOUND
			: MODULE_NOT_FOUND;
	return err;
}

/* Runtimes map their dump executable once, so that the recording knows of it. */
static bool path_is_jitdump(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t length = strlen(path);

	return slash && strncmp(slash, "/jit-", 5) == 0 && length > 5 &&
	       strcmp(path + length - 5, ".dump") == 0;
}

enum err symbolizer_module(struct symbolizer *s, const struct module_request *request,
			   module_id *id)
{
	struct module_request r = *request;

	if (!r.build_id || build_id_is_empty(r.build_id, r.build_id_bytes))
		r.build_id_bytes = 0;
	if (r.build_id_bytes > OBJECT_BUILD_ID_MAX)
		r.build_id_bytes = OBJECT_BUILD_ID_MAX;
	uint64_t key = module_key(&r);
	uint32_t known = map64_get(&s->module_at, key);
	for (; known != MAP64_NONE; known = s->modules.items[known]->next_of_key) {
		if (module_answers(s, s->modules.items[known], &r)) {
			id->v = known + 1;
			return ERR_NONE;
		}
	}
	struct module_entry *m = arena_alloc(&s->arena, sizeof *m);
	if (!m || !vec_reserve(&s->modules, s->modules.count + 1))
		return ERR_NOMEM;
	m->next_of_key = map64_get(&s->module_at, key);
	enum err err = r.kernel ? module_open_kernel(s, m, &r)
				: module_open(m, &r, &s->search, &s->strings);
	if (err == ERR_NONE && !map64_set(&s->module_at, key, (uint32_t)s->modules.count))
		err = ERR_NOMEM;
	if (err != ERR_NONE) {
		module_done(m);
		return err;
	}
	s->modules.items[s->modules.count++] = m;
	id->v = (uint32_t)s->modules.count;
	return path_is_jitdump(r.path) ? generated_add_dump(s, m->pub.path) : ERR_NONE;
}

const struct module *symbolizer_module_get(const struct symbolizer *s, module_id id)
{
	const struct module_entry *m = module_of(s, id);

	return m ? &m->pub : NULL;
}

size_t symbolizer_module_count(const struct symbolizer *s)
{
	return s->modules.count;
}

bool symbolizer_vaddr(struct symbolizer *s, module_id module, uint64_t map_start,
		      uint64_t map_file_off, uint64_t ip, uint64_t *vaddr)
{
	const struct module_entry *m = module_of(s, module);

	if (m && (m->shared || m->jit)) {
		if (m->shared)
			kernel_slide_by_map(m->shared, symbolizer_text(s, m->pub.path),
					    map_file_off);
		*vaddr = ip;
		return true;
	}
	return m && m->code && object_vaddr(m->code, ip - map_start + map_file_off, vaddr);
}

static struct bytes module_code(const struct module_entry *m, uint64_t vaddr)
{
	uint64_t start, end;

	if (m->jit) {
		const struct jit_code *code =
			jit_find_in(m->jit, m->jit_layer, vaddr, &start, &end);

		if (!code || !code->bytes)
			return (struct bytes){0};
		return bytes_of(code->bytes + (vaddr - code->start), code->end - vaddr);
	}
	if (m->shared) {
		const struct module_entry *k = m->shared;

		if (k->code)
			return object_code(k->code, vaddr);
		return k->image && k->slide_known ? object_code(k->image, vaddr - k->slide)
						  : (struct bytes){0};
	}
	return m->code ? object_code(m->code, vaddr) : (struct bytes){0};
}

size_t symbolizer_code(struct symbolizer *s, module_id module, uint64_t vaddr,
		       const uint8_t **bytes)
{
	const struct module_entry *m = module_of(s, module);
	struct bytes code = m ? module_code(m, vaddr) : (struct bytes){0};

	if (bytes_left(&code))
		*bytes = code.p;
	return bytes_left(&code);
}

void symbolizer_set_clock(struct symbolizer *s, uint16_t time_shift, uint32_t time_mult,
			  uint64_t time_zero)
{
	s->jit_clock = (struct jit_clock){
		.time_zero = time_zero, .time_mult = time_mult, .time_shift = time_shift};
}

const char *symbolizer_text(const struct symbolizer *s, str_id id)
{
	return intern_text(&s->strings, id);
}

static void build_id_text(const uint8_t *id, size_t bytes, char text[2 * OBJECT_BUILD_ID_MAX + 1])
{
	text[0] = '\0';
	for (size_t i = 0; i < bytes && i < OBJECT_BUILD_ID_MAX; i++)
		sprintf(text + 2 * i, "%02x", id[i]);
}

const char *symbolizer_module_advice(struct symbolizer *s, module_id id)
{
	struct module_entry *m = module_of(s, id);
	char recorded[2 * OBJECT_BUILD_ID_MAX + 1], other[2 * OBJECT_BUILD_ID_MAX + 1];
	char *text = NULL;
	int n = 0;
	str_id kept;

	if (!m || m->advice)
		return m ? m->advice : "";
	const char *name = intern_text(&s->strings, m->pub.basename);
	const char *file = intern_text(&s->strings, m->pub.file);
	const char *path = intern_text(&s->strings, m->pub.path);
	build_id_text(m->pub.build_id, m->pub.build_id_bytes, recorded);
	build_id_text(m->other_id, m->other_id_bytes, other);
	switch (m->pub.state) {
	case MODULE_FOUND:
		if (m->suspect) {
			n = asprintf(
				&text,
				"%s: the trace contradicts %s: probably another build (none was "
				"recorded); put the one that ran under --symfs",
				name, file);
			break;
		}
		if (m->code && m->symbols_loaded && !m->symtab.funcs.count)
			n = asprintf(&text,
				     "%s build-id %s: no symbols; install its debug file, or use "
				     "--debug-dir or --debuginfod",
				     name, *recorded ? recorded : "(none)");
		break;
	case MODULE_NOT_FOUND:
		if (m->pub.kernel) {
			n = asprintf(&text,
				     "%s build-id %s: no kernel code; record with --kcore, or give "
				     "--kcore and --kallsyms%s%s",
				     name, *recorded ? recorded : "(not recorded)",
				     *m->trouble ? ": " : "", m->trouble);
			break;
		}
		n = asprintf(&text,
			     "%s build-id %s: not found; put it under --symfs as %s, or run "
			     "\"pt-capture bundle\" where it was recorded",
			     name, *recorded ? recorded : "(not recorded)",
			     strcmp(path, "[vdso]") == 0 ? "/vdso.so" : path);
		break;
	case MODULE_OTHER_BUILD:
		n = asprintf(&text,
			     "%s build-id %s: %s is another build (%s); put the recorded one under "
			     "--symfs",
			     name, recorded, file, *other ? other : "without build-id");
		break;
	case MODULE_UNREADABLE: n = asprintf(&text, "%s: cannot use %s", name, m->trouble); break;
	case MODULE_ANONYMOUS:
		n = asprintf(&text,
			     "%s: generated code; give its --jitdump (code and names) or "
			     "--perf-map (names)",
			     *name ? name : "anonymous memory");
		break;
	}
	if (n >= 0 && intern_string(&s->strings, text ? text : "", &kept))
		m->advice = intern_text(&s->strings, kept);
	free(n >= 0 ? text : NULL);
	return m->advice ? m->advice : "";
}

bool symbolizer_module_suspect(struct symbolizer *s, module_id id)
{
	struct module_entry *m = module_of(s, id);

	if (!m || !m->code || m->asked_id_bytes)
		return false;
	if (!m->suspect)
		m->advice = NULL;
	m->suspect = true;
	return true;
}
