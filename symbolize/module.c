/* See module.h. */
#include "symbolize/module.h"

#include <stdlib.h>
#include <string.h>

#include "symbolize/minidebug.h"

/* Memory that belongs to no file, as the kernel and runtimes name it. */
static bool path_is_anonymous(const char *path)
{
	static const char *const starts[] = {
		"//anon",    "[heap]", "[stack",  "[anon",     "anon_inode:", "/anon_hugepage",
		"/dev/zero", "/SYSV",  "/memfd:", "/dev/shm/", "[uprobes]",   "[vsyscall]"};

	if (!*path)
		return true;
	for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
		if (strncmp(path, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

const char *module_basename(const char *path, size_t *length)
{
	static const char deleted[] = " (deleted)";
	const char *slash = strrchr(path, '/');
	const char *base = slash && path[0] == '/' && slash[1] ? slash + 1 : path;

	*length = strlen(base);
	if (*length > sizeof deleted - 1 &&
	    strcmp(base + *length - (sizeof deleted - 1), deleted) == 0)
		*length -= sizeof deleted - 1;
	if (strncmp(base, "[kernel.kallsyms]", 17) == 0) {
		*length = strlen("vmlinux");
		return "vmlinux";
	}
	return base;
}

static bool module_keep_error(struct module_entry *m, const char *message, struct intern *strings)
{
	str_id id;

	if (!intern_string(strings, message, &id))
		return false;
	m->trouble = intern_text(strings, id);
	return true;
}

enum err module_init(struct module_entry *m, const struct module_request *request,
		     struct intern *strings)
{
	size_t length;
	const char *base = module_basename(request->path, &length);

	m->trouble = "";
	m->pub.kernel = request->kernel;
	m->asked_id_bytes = (uint8_t)request->build_id_bytes;
	if (request->build_id_bytes) {
		m->pub.build_id_bytes = m->asked_id_bytes;
		memcpy(m->pub.build_id, request->build_id, m->asked_id_bytes);
	}
	if (!intern_string(strings, request->path, &m->pub.path) ||
	    !intern_bytes(strings, base, length, &m->pub.basename))
		return ERR_NOMEM;
	return ERR_NONE;
}

enum err module_open(struct module_entry *m, const struct module_request *request,
		     const struct search *search, struct intern *strings)
{
	struct search_result found;
	enum err err = module_init(m, request, strings);

	if (err != ERR_NONE)
		return err;
	err = search_code(search, request, &found);
	if (err != ERR_NONE)
		return err;
	switch (found.outcome) {
	case SEARCH_FOUND:
		m->pub.state = MODULE_FOUND;
		m->code = found.object;
		if (!m->pub.build_id_bytes) {
			m->pub.build_id_bytes = m->code->build_id_bytes;
			memcpy(m->pub.build_id, m->code->build_id, sizeof m->pub.build_id);
		}
		break;
	case SEARCH_OTHER_BUILD:
		m->pub.state = MODULE_OTHER_BUILD;
		memcpy(m->other_id, found.other_id, sizeof m->other_id);
		m->other_id_bytes = found.other_id_bytes;
		break;
	case SEARCH_UNREADABLE: m->pub.state = MODULE_UNREADABLE; break;
	case SEARCH_NOTHING: m->pub.state = MODULE_NOT_FOUND; break;
	}
	/* A device or a directory under such a name is no broken object file. */
	if (m->pub.state != MODULE_FOUND && path_is_anonymous(request->path))
		m->pub.state = MODULE_ANONYMOUS;
	if (!module_keep_error(m, found.error.message, strings) ||
	    !intern_string(strings, found.path, &m->pub.file))
		return ERR_NOMEM;
	return ERR_NONE;
}

void module_done(struct module_entry *m)
{
	symtab_done(&m->symtab);
	got_done(&m->got);
	eh_frame_done(&m->eh_frame);
	free(m->func_ids);
	free(m->names_text);
	map64_done(&m->gap_funcs);
	inline_table_free(m->inlines);
	map64_done(&m->inline_ids);
	object_free(m->image);
	object_free(m->debug);
	object_free(m->mini);
	object_free(m->code);
}

bool module_load_debug(struct module_entry *m, const struct search *search, struct intern *strings)
{
	struct search_result found;

	if (m->debug_searched || !m->code)
		return true;
	if (search_debug(search, m->code, intern_text(strings, m->pub.file), &found) != ERR_NONE)
		return false;
	if (found.outcome == SEARCH_FOUND) {
		if (!intern_string(strings, found.path, &m->pub.debug_file)) {
			object_free(found.object);
			return false;
		}
		m->debug = found.object;
	}
	m->debug_searched = true;
	return true;
}

bool module_load_symbols(struct module_entry *m, const struct search *search,
			 struct intern *strings)
{
	const struct object *code = m->image ? m->image : m->code;

	if (m->symbols_loaded)
		return true;
	if (code) {
		struct symtab table = {0};
		/* A file with a symbol table of its own gains nothing from another. */
		bool whole = m->image || object_find_section(code, ".symtab");

		if ((!whole && !module_load_debug(m, search, strings)) ||
		    (!whole && !m->debug && !m->mini &&
		     minidebug_open(code, &m->mini) == ERR_NOMEM) ||
		    (m->mini && !symtab_add(&table, m->mini)) || !symtab_add(&table, code) ||
		    (!whole && m->debug && !symtab_add(&table, m->debug)) ||
		    !symtab_finish(&table)) {
			symtab_done(&table);
			return false;
		}
		m->func_ids =
			calloc(table.funcs.count ? table.funcs.count : 1, sizeof *m->func_ids);
		if (!m->func_ids) {
			symtab_done(&table);
			return false;
		}
		m->symtab = table;
		m->names_of_image = m->image != NULL;
	}
	m->symbols_loaded = true;
	return true;
}

bool module_load_got(struct module_entry *m)
{
	struct got got = {0};

	if (m->got_loaded)
		return true;
	if (m->code && !got_load(&got, m->code)) {
		got_done(&got);
		return false;
	}
	m->got = got;
	m->got_loaded = true;
	return true;
}

bool module_load_eh_frame(struct module_entry *m)
{
	struct eh_frame eh = {0};

	if (m->eh_frame_loaded)
		return true;
	if (m->code && !eh_frame_load(&eh, m->code)) {
		eh_frame_done(&eh);
		return false;
	}
	m->eh_frame = eh;
	m->eh_frame_loaded = true;
	return true;
}

bool module_load_inlines(struct module_entry *m, const struct search *search,
			 struct intern *strings)
{
	if (m->inlines_loaded)
		return true;
	const struct object *code = m->image ? m->image : m->code;

	if (code) {
		const struct object *debug = code;
		str_id path = m->image ? m->image_file : m->pub.file;

		if (!m->image && !debug_file_has_units(code)) {
			if (!module_load_debug(m, search, strings))
				return false;
			debug = m->debug;
			path = m->pub.debug_file;
		}
		if (debug && inline_table_new(debug, intern_text(strings, path), code, search,
					      &m->inlines) == ERR_NOMEM)
			return false;
	}
	m->inlines_loaded = true; /* damaged DWARF costs its inlined frames, nothing else */
	return true;
}
