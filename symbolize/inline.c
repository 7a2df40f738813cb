/* The facade's inlined frames and source lines. See symbolize.h. */
#include <stdlib.h>

#include "symbolize/demangle.h"
#include "symbolize/symbolizer.h"

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

/* The entry whose DWARF describes the module, and what to take off a vaddr; NULL = none. */
static struct module_entry *module_inlines(struct symbolizer *s, module_id module, uint64_t *bias)
{
	struct module_entry *m = module_of(s, module);

	*bias = 0;
	if (m && m->shared) {
		m = m->shared;
		*bias = m->slide;
		if (!m->slide_known)
			return NULL;
	}
	if (!m || !module_load_inlines(m, &s->search, &s->strings) || !m->inlines)
		return NULL;
	return m;
}

inline_id symbolizer_inline_at(struct symbolizer *s, module_id module, uint64_t vaddr,
			       uint64_t *until_vaddr)
{
	uint64_t bias;
	struct module_entry *m = s->options.no_inline ? NULL : module_inlines(s, module, &bias);

	*until_vaddr = UINT64_MAX;
	if (!m)
		return (inline_id){0};
	uint32_t node = inline_table_find(m->inlines, vaddr - bias, until_vaddr);
	if (*until_vaddr != UINT64_MAX)
		*until_vaddr += bias;
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
	struct inline_entry *e = inline_of(s, id);
	char path[PATH_MAX];

	if (!e)
		return (str_id){0};
	if (!e->call_file_known && inline_table_call_file(e->module->inlines, e->node, path) &&
	    !intern_string(&s->strings, path, &e->call_file))
		return (str_id){0};
	e->call_file_known = true;
	return e->call_file;
}

bool symbolizer_line(struct symbolizer *s, module_id module, uint64_t vaddr, str_id *file,
		     uint32_t *line)
{
	uint64_t bias;
	struct module_entry *m = module_inlines(s, module, &bias);
	char path[PATH_MAX];

	return m && inline_table_line(m->inlines, vaddr - bias, path, line) &&
	       intern_string(&s->strings, path, file);
}
