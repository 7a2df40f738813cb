/* See symbolize.h.
 *
 * The facade hands out ids and remembers answers; what a module holds is in module.c. Ids
 * index vectors of pointers into an arena, so that what was handed out never moves. */
#include "symbolize/symbolize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/map64.h"
#include "symbolize/demangle.h"
#include "symbolize/module.h"
#include "symbolize/role.h"

struct func_entry {
	struct func pub;
	const char *name; /* the linker's; NULL = made from module and address */
	str_id linkage, display;
	bool plt; /* "@plt" follows the name */
	bool named;
};

struct inline_entry {
	struct inline_frame pub;
	struct module_entry *module;
	uint32_t node; /* of the module's table */
};

struct symbolizer {
	struct symbolizer_options options;
	struct search search;
	struct arena arena;
	struct intern strings;
	VEC(struct module_entry *) modules;
	VEC(struct func_entry *) funcs;
	VEC(struct inline_entry *) inlines;
};

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
	vec_done(&s->modules);
	vec_done(&s->funcs);
	vec_done(&s->inlines);
	intern_done(&s->strings);
	arena_done(&s->arena);
	free(s);
}

static struct module_entry *module_of(const struct symbolizer *s, module_id id)
{
	return id.v && id.v <= s->modules.count ? s->modules.items[id.v - 1] : NULL;
}

static struct func_entry *func_of(const struct symbolizer *s, func_id id)
{
	return id.v && id.v <= s->funcs.count ? s->funcs.items[id.v - 1] : NULL;
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

enum err symbolizer_module(struct symbolizer *s, const struct module_request *request,
			   module_id *id)
{
	struct module_request r = *request;

	if (!r.build_id || build_id_is_empty(r.build_id, r.build_id_bytes))
		r.build_id_bytes = 0;
	if (r.build_id_bytes > OBJECT_BUILD_ID_MAX)
		r.build_id_bytes = OBJECT_BUILD_ID_MAX;
	for (size_t i = 0; i < s->modules.count; i++) {
		if (module_answers(s, s->modules.items[i], &r)) {
			id->v = (uint32_t)i + 1;
			return ERR_NONE;
		}
	}
	struct module_entry *m = arena_alloc(&s->arena, sizeof *m);
	if (!m || !vec_reserve(&s->modules, s->modules.count + 1))
		return ERR_NOMEM;
	enum err err = module_open(m, &r, &s->search, &s->strings);
	if (err != ERR_NONE) {
		module_done(m);
		return err;
	}
	s->modules.items[s->modules.count++] = m;
	id->v = (uint32_t)s->modules.count;
	return ERR_NONE;
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

	return m && m->code && object_vaddr(m->code, ip - map_start + map_file_off, vaddr);
}

size_t symbolizer_code(struct symbolizer *s, module_id module, uint64_t vaddr,
		       const uint8_t **bytes)
{
	const struct module_entry *m = module_of(s, module);
	struct bytes code = m && m->code ? object_code(m->code, vaddr) : (struct bytes){0};

	if (bytes_left(&code))
		*bytes = code.p;
	return bytes_left(&code);
}

bool symbolizer_jit(struct symbolizer *s, int32_t pid, uint64_t ip, uint64_t time_ns,
		    module_id *module, uint64_t *valid_until_ns)
{
	(void)s, (void)pid, (void)ip, (void)time_ns, (void)module, (void)valid_until_ns;
	return false;
}

enum err symbolizer_add_ksymbol(struct symbolizer *s, uint64_t ip, uint64_t bytes, const char *name,
				const uint8_t *code, uint64_t from_ns, uint64_t until_ns)
{
	(void)s, (void)ip, (void)bytes, (void)name, (void)code, (void)from_ns, (void)until_ns;
	return ERR_NONE;
}

/* The id of a new function, 0 when memory is short. */
static uint32_t func_add(struct symbolizer *s, struct func_entry entry)
{
	struct func_entry *kept = arena_alloc(&s->arena, sizeof *kept);

	if (!kept || s->funcs.count >= UINT32_MAX - 1 || !vec_push(&s->funcs, kept))
		return 0;
	*kept = entry;
	return (uint32_t)s->funcs.count;
}

/* A function of a place that no symbol covers: PLT stub, FDE, or what lies between. */
static struct func_entry func_of_gap(const struct module_entry *m, uint64_t vaddr, uint64_t start,
				     uint64_t end)
{
	struct func_entry f = {.pub = {.start = start, .end = end, .source = FUNC_FROM_BOUNDARY}};
	const struct object_section *section = object_code_section(m->code, vaddr);
	struct plt_stub stub;

	if (plt_find(&m->got, m->code, vaddr, &stub)) {
		const struct got_slot *slot = got_find(&m->got, stub.slot);

		f.pub.start = stub.start > start ? stub.start : start;
		f.pub.end = stub.end < end ? stub.end : end;
		f.pub.role = FUNC_PLT;
		f.plt = true;
		if (stub.header) {
			f.name = "_dl_runtime_resolve";
		} else if (slot && slot->symbol[0]) {
			f.name = slot->symbol;
			f.pub.source = FUNC_FROM_SYMBOL;
		} else if (slot) {
			uint64_t gap[2];
			uint32_t at = symtab_find(&m->symtab, slot->target, &gap[0], &gap[1]);

			if (at != SYMTAB_NONE)
				f.name = m->symtab.funcs.items[at].name;
		}
		return f;
	}
	const struct eh_range *range = eh_frame_find(&m->eh_frame, vaddr, &f.pub.start, &f.pub.end);
	if (range) {
		f.pub.source = FUNC_FROM_FDE;
		f.pub.headless = range->headless;
		if (f.pub.start < range->start)
			f.pub.start = range->start;
		if (f.pub.end > range->end)
			f.pub.end = range->end;
	} else if (section) {
		if (f.pub.start < section->vaddr)
			f.pub.start = section->vaddr;
		if (f.pub.end > section->vaddr + section->bytes)
			f.pub.end = section->vaddr + section->bytes;
	}
	struct bytes code = object_code(m->code, f.pub.start);
	f.pub.role = role_of_code(code.p, bytes_left(&code));
	return f;
}

func_id symbolizer_func(struct symbolizer *s, module_id module, uint64_t vaddr)
{
	struct module_entry *m = module_of(s, module);
	uint64_t gap_start, gap_end;

	if (!m || !m->code || !module_load_symbols(m, &s->search, &s->strings))
		return (func_id){0};
	uint32_t at = symtab_find(&m->symtab, vaddr, &gap_start, &gap_end);
	if (at != SYMTAB_NONE) {
		const struct symtab_func *f = &m->symtab.funcs.items[at];

		if (!m->func_ids[at])
			m->func_ids[at] = func_add(s, (struct func_entry){.pub = {.module = module,
										  .start = f->start,
										  .end = f->end,
										  .role = f->role},
									  .name = f->name});
		return (func_id){m->func_ids[at]};
	}
	if (!module_load_got(m) || !module_load_eh_frame(m))
		return (func_id){0};
	struct func_entry f = func_of_gap(m, vaddr, gap_start, gap_end);
	uint32_t id = map64_get(&m->gap_funcs, f.pub.start);
	if (id != MAP64_NONE)
		return (func_id){id};
	f.pub.module = module;
	id = func_add(s, f);
	if (id && !map64_set(&m->gap_funcs, f.pub.start, id))
		id = 0;
	return (func_id){id};
}

const struct func *symbolizer_func_get(const struct symbolizer *s, func_id id)
{
	const struct func_entry *f = func_of(s, id);

	return f ? &f->pub : NULL;
}

/* "name", "name@VERSION" cut to name, "name@plt", "libc.so.6+0x1234". */
static char *func_text(const struct symbolizer *s, const struct func_entry *f, bool demangled)
{
	const char *module =
		intern_text(&s->strings, s->modules.items[f->pub.module.v - 1]->pub.basename);
	char *readable = f->name && demangled ? demangle_name(f->name) : NULL;
	const char *base = readable ? readable : f->name;
	char *text = NULL;
	int n;

	if (base)
		n = asprintf(&text, "%.*s%s",
			     readable ? (int)strlen(base) : (int)strcspn(base, "@"), base,
			     f->plt ? "@plt" : "");
	else
		n = asprintf(&text, "%s+0x%llx%s", module, (unsigned long long)f->pub.start,
			     f->plt ? "@plt" : "");
	free(readable);
	return n < 0 ? NULL : text;
}

static void func_name(struct symbolizer *s, struct func_entry *f)
{
	if (f->named)
		return;
	char *linkage = func_text(s, f, false);
	char *display = s->options.no_demangle ? NULL : func_text(s, f, true);

	if (linkage && intern_string(&s->strings, linkage, &f->linkage) &&
	    (s->options.no_demangle || display) &&
	    intern_string(&s->strings, display ? display : linkage, &f->display))
		f->named = true;
	free(linkage);
	free(display);
}

str_id symbolizer_func_name(struct symbolizer *s, func_id id)
{
	struct func_entry *f = func_of(s, id);

	if (!f)
		return (str_id){0};
	func_name(s, f);
	return f->display;
}

str_id symbolizer_func_linkage_name(struct symbolizer *s, func_id id)
{
	struct func_entry *f = func_of(s, id);

	if (!f)
		return (str_id){0};
	func_name(s, f);
	return f->linkage;
}

/* The longest identifier of a name: whatever mangling does, it stands in it as it is. */
static const char *name_longest_word(const char *name, size_t *length)
{
	const char *best = name;

	*length = 0;
	for (const char *p = name; *p;) {
		size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789_");

		if (n > *length) {
			best = p;
			*length = n;
		}
		p += n ? n : 1;
	}
	return best;
}

static bool name_matches(const char *linkage, const char *wanted, const char *word,
			 size_t word_length)
{
	size_t length = strcspn(linkage, "@");

	if (strlen(wanted) == length && strncmp(linkage, wanted, length) == 0)
		return true;
	if (!memmem(linkage, length, word, word_length))
		return false;
	char *readable = demangle_name(linkage);
	bool equal = readable && strcmp(readable, wanted) == 0;
	free(readable);
	return equal;
}

static size_t func_find_in(struct symbolizer *s, module_id id, const struct object *o,
			   const char *name, func_id *ids, size_t max, size_t found)
{
	struct symtab all = {0};
	size_t word_length;
	const char *word = name_longest_word(name, &word_length);

	if (o && symtab_add(&all, o)) {
		for (size_t i = 0; i < all.symbols.count; i++) {
			const struct symtab_symbol *symbol = &all.symbols.items[i];

			if (!name_matches(symbol->name, name, word, word_length))
				continue;
			func_id func = symbolizer_func(s, id, symbol->start);
			size_t known = 0;
			while (known < found && known < max && ids[known].v != func.v)
				known++;
			if (known < found && known < max)
				continue;
			if (found < max)
				ids[found] = func;
			found++;
		}
	}
	symtab_done(&all);
	return found;
}

size_t symbolizer_func_find(struct symbolizer *s, const char *name, func_id *ids, size_t max)
{
	size_t found = 0;

	for (size_t i = 0; i < s->modules.count; i++) {
		struct module_entry *m = s->modules.items[i];
		module_id id = {(uint32_t)i + 1};

		if (!m->code || !module_load_symbols(m, &s->search, &s->strings))
			continue;
		found = func_find_in(s, id, m->code, name, ids, max, found);
		found = func_find_in(s, id, m->debug, name, ids, max, found);
	}
	return found;
}

bool symbolizer_landing_pad(struct symbolizer *s, module_id module, uint64_t return_vaddr,
			    uint64_t *pad_vaddr)
{
	struct module_entry *m = module_of(s, module);
	uint64_t start, end;

	if (!m || !m->code || !module_load_eh_frame(m))
		return false;
	const struct eh_range *range = eh_frame_find(&m->eh_frame, return_vaddr - 1, &start, &end);
	return range && eh_frame_landing_pad(m->code, range, return_vaddr, pad_vaddr);
}

bool symbolizer_got_target(struct symbolizer *s, module_id module, uint64_t slot_vaddr,
			   str_id *linkage_name)
{
	struct module_entry *m = module_of(s, module);

	if (!m || !m->code || !module_load_got(m))
		return false;
	const struct got_slot *slot = got_find(&m->got, slot_vaddr);
	if (!slot)
		return false;
	if (slot->symbol[0])
		return intern_bytes(&s->strings, slot->symbol, strcspn(slot->symbol, "@"),
				    linkage_name);
	func_id func = symbolizer_func(s, module, slot->target);
	const struct func *f = symbolizer_func_get(s, func);
	if (!f || f->start != slot->target)
		return false;
	*linkage_name = symbolizer_func_linkage_name(s, func);
	return true;
}

/* The id of a node and, first, of what encloses it; 0 when memory is short. */
static uint32_t inline_add(struct symbolizer *s, struct module_entry *m, uint32_t node)
{
	uint32_t id = 0;

	/* Outermost first: each frame's parent must have an id. Depth bounds the loop. */
	for (uint32_t depth = 1; depth <= inline_table_node(m->inlines, node)->depth; depth++) {
		uint32_t at = node;

		while (inline_table_node(m->inlines, at)->depth > depth)
			at = inline_table_node(m->inlines, at)->parent;
		uint32_t known = map64_get(&m->inline_ids, at);
		if (known != MAP64_NONE) {
			id = known;
			continue;
		}
		struct inline_entry *kept = arena_alloc(&s->arena, sizeof *kept);
		const char *name = inline_table_name(m->inlines, at);
		char *readable = name && !s->options.no_demangle ? demangle_name(name) : NULL;
		bool ok = kept && s->inlines.count < UINT32_MAX - 1 &&
			  intern_string(&s->strings,
					readable ? readable
					: name   ? name
						 : "[inlined]",
					&kept->pub.name);

		free(readable);
		if (!ok || !vec_push(&s->inlines, kept))
			return 0;
		kept->module = m;
		kept->node = at;
		kept->pub.parent = (inline_id){id};
		kept->pub.call_line = inline_table_node(m->inlines, at)->call_line;
		kept->pub.depth = depth;
		id = (uint32_t)s->inlines.count;
		if (!map64_set(&m->inline_ids, at, id))
			return 0;
	}
	return id;
}

inline_id symbolizer_inline_at(struct symbolizer *s, module_id module, uint64_t vaddr,
			       uint64_t *until_vaddr)
{
	struct module_entry *m = module_of(s, module);

	*until_vaddr = UINT64_MAX;
	if (!m || s->options.no_inline || !module_load_inlines(m, &s->search, &s->strings) ||
	    !m->inlines)
		return (inline_id){0};
	uint32_t node = inline_table_find(m->inlines, vaddr, until_vaddr);
	return (inline_id){node ? inline_add(s, m, node) : 0};
}

static struct inline_entry *inline_of(const struct symbolizer *s, inline_id id)
{
	return id.v && id.v <= s->inlines.count ? s->inlines.items[id.v - 1] : NULL;
}

const struct inline_frame *symbolizer_inline_get(const struct symbolizer *s, inline_id id)
{
	const struct inline_entry *e = inline_of(s, id);

	return e ? &e->pub : NULL;
}

str_id symbolizer_inline_call_file(struct symbolizer *s, inline_id id)
{
	const struct inline_entry *e = inline_of(s, id);
	const char *name = e ? inline_table_call_file(e->module->inlines, e->node) : NULL;
	str_id file;

	return name && intern_string(&s->strings, name, &file) ? file : (str_id){0};
}

bool symbolizer_line(struct symbolizer *s, module_id module, uint64_t vaddr, str_id *file,
		     uint32_t *line)
{
	struct module_entry *m = module_of(s, module);
	const char *name;

	return m && module_load_inlines(m, &s->search, &s->strings) && m->inlines &&
	       inline_table_line(m->inlines, vaddr, &name, line) &&
	       intern_string(&s->strings, name, file);
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
	build_id_text(m->pub.build_id, m->pub.build_id_bytes, recorded);
	build_id_text(m->other_id, m->other_id_bytes, other);
	switch (m->pub.state) {
	case MODULE_FOUND:
		if (m->symbols_loaded && !m->symtab.funcs.count)
			n = asprintf(&text,
				     "%s build-id %s: no symbols; install its debug file, or use "
				     "--debug-dir or --debuginfod",
				     name, *recorded ? recorded : "(none)");
		break;
	case MODULE_NOT_FOUND:
		n = asprintf(&text,
			     "%s build-id %s: not found; put it under --symfs, or capture with "
			     "--archive",
			     name, *recorded ? recorded : "(not recorded)");
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
