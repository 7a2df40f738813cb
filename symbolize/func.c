/* The facade's functions and their names. See symbolize.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/demangle.h"
#include "symbolize/role.h"
#include "symbolize/symbolizer.h"

static struct func_entry *func_of(const struct symbolizer *s, func_id id)
{
	return id.v && id.v <= s->funcs.count ? s->funcs.items[id.v - 1] : NULL;
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

/* The function that no symbol names and that starts at f->pub.start, known or new. */
static func_id func_of_start(struct symbolizer *s, struct module_entry *m, module_id module,
			     struct func_entry f)
{
	uint32_t id = map64_get(&m->gap_funcs, f.pub.start);

	if (id != MAP64_NONE)
		return (func_id){id};
	f.pub.module = module;
	id = func_add(s, f);
	if (id && !map64_set(&m->gap_funcs, f.pub.start, id))
		id = 0;
	return (func_id){id};
}

/* The function of symtab index `at`, which counts in addresses that are `bias` too low. */
static func_id func_of_symbol(struct symbolizer *s, struct module_entry *m, module_id module,
			      uint32_t at, uint64_t bias)
{
	const struct symtab_func *f = &m->symtab.funcs.items[at];

	if (!m->func_ids[at])
		m->func_ids[at] = func_add(s, (struct func_entry){.pub = {.module = module,
									  .start = f->start + bias,
									  .end = f->end + bias,
									  .role = f->role},
								  .name = f->name});
	return (func_id){m->func_ids[at]};
}

static func_id func_of_jit(struct symbolizer *s, struct module_entry *m, module_id module,
			   uint64_t vaddr)
{
	struct func_entry f = {.pub = {.source = FUNC_FROM_BOUNDARY}};
	const struct jit_code *code =
		jit_find_in(m->jit, m->jit_layer, vaddr, &f.pub.start, &f.pub.end);

	if (code) {
		f.pub.start = code->start;
		f.pub.end = code->end;
		f.pub.source = FUNC_FROM_SYMBOL;
		f.name = code->name;
		f.whole_name = true;
	}
	return func_of_start(s, m, module, f);
}

static func_id func_of_kernel(struct symbolizer *s, struct module_entry *m, module_id module,
			      uint64_t vaddr)
{
	struct module_entry *k = m->shared;
	struct func_entry f = {.pub = {.source = FUNC_FROM_BOUNDARY}};

	if (!module_load_symbols(k, &s->search, &s->strings))
		return (func_id){0};
	uint64_t bias = k->names_of_image ? k->slide : 0;
	uint32_t at = symtab_find(&k->symtab, vaddr - bias, &f.pub.start, &f.pub.end);
	if (at != SYMTAB_NONE)
		return func_of_symbol(s, k, module, at, bias);
	if (f.pub.start)
		f.pub.start += bias;
	if (f.pub.end != UINT64_MAX)
		f.pub.end += bias;
	return func_of_start(s, m, module, f);
}

func_id symbolizer_func(struct symbolizer *s, module_id module, uint64_t vaddr)
{
	struct module_entry *m = module_of(s, module);
	uint64_t gap_start, gap_end;

	if (!m || m->pub.state != MODULE_FOUND)
		return (func_id){0};
	if (m->jit)
		return func_of_jit(s, m, module, vaddr);
	if (m->shared)
		return func_of_kernel(s, m, module, vaddr);
	if (!module_load_symbols(m, &s->search, &s->strings))
		return (func_id){0};
	uint32_t at = symtab_find(&m->symtab, vaddr, &gap_start, &gap_end);
	if (at != SYMTAB_NONE)
		return func_of_symbol(s, m, module, at, 0);
	if (!module_load_got(m) || !module_load_eh_frame(m))
		return (func_id){0};
	return func_of_start(s, m, module, func_of_gap(m, vaddr, gap_start, gap_end));
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

	if (base) {
		bool whole = readable || f->whole_name;
		int length = (int)(whole ? strlen(base) : strcspn(base, "@"));

		n = asprintf(&text, "%.*s%s", length, base, f->plt ? "@plt" : "");
	} else {
		n = asprintf(&text, "%s+0x%llx%s", module, (unsigned long long)f->pub.start,
			     f->plt ? "@plt" : "");
	}
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

struct func_search {
	const char *name, *word;
	size_t word_length;
	func_id *ids;
	size_t max, found;
};

static void func_search_add(struct func_search *f, func_id func)
{
	for (size_t i = 0; i < f->found && i < f->max; i++)
		if (f->ids[i].v == func.v)
			return;
	if (!func.v)
		return;
	if (f->found < f->max)
		f->ids[f->found] = func;
	f->found++;
}

/* All symbols of an object, aliases too: read again, since this is asked a few times only. */
static void func_search_object(struct symbolizer *s, struct func_search *f, module_id id,
			       const struct object *o)
{
	struct symtab all = {0};

	if (o && symtab_add(&all, o))
		for (size_t i = 0; i < all.symbols.count; i++)
			if (name_matches(all.symbols.items[i].name, f->name, f->word,
					 f->word_length))
				func_search_add(f,
						symbolizer_func(s, id, all.symbols.items[i].start));
	symtab_done(&all);
}

static void func_search_kernel(struct symbolizer *s, struct func_search *f, module_id id,
			       const struct module_entry *k)
{
	uint64_t bias = k->names_of_image ? k->slide : 0;

	for (size_t i = 0; i < k->symtab.funcs.count; i++)
		if (name_matches(k->symtab.funcs.items[i].name, f->name, f->word, f->word_length))
			func_search_add(
				f, symbolizer_func(s, id, k->symtab.funcs.items[i].start + bias));
}

static void func_search_jit(struct symbolizer *s, struct func_search *f, module_id id,
			    const struct module_entry *m)
{
	for (size_t i = m->jit->layer_start.items[m->jit_layer];
	     i < m->jit->layer_start.items[m->jit_layer + 1]; i++)
		if (name_matches(m->jit->codes.items[i].name, f->name, f->word, f->word_length))
			func_search_add(f, symbolizer_func(s, id, m->jit->codes.items[i].start));
}

size_t symbolizer_func_find(struct symbolizer *s, const char *name, func_id *ids, size_t max)
{
	struct func_search f = {.name = name, .ids = ids, .max = max};
	bool kernel_searched = false;

	f.word = name_longest_word(name, &f.word_length);
	for (size_t i = 0; i < s->modules.count; i++) {
		struct module_entry *m = s->modules.items[i];
		module_id id = {(uint32_t)i + 1};

		if (m->pub.state != MODULE_FOUND)
			continue;
		if (m->jit) {
			func_search_jit(s, &f, id, m);
		} else if (m->shared) {
			if (!kernel_searched &&
			    module_load_symbols(m->shared, &s->search, &s->strings))
				func_search_kernel(s, &f, id, m->shared);
			kernel_searched = true;
		} else if (module_load_symbols(m, &s->search, &s->strings)) {
			func_search_object(s, &f, id, m->code);
			func_search_object(s, &f, id, m->debug);
			func_search_object(s, &f, id, m->mini);
		}
	}
	return f.found;
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
