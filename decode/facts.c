/* See facts.h. */
#include "decode/facts.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 4096 };

void facts_init(struct facts *f, struct graph *graph, struct symbolizer *symbolizer)
{
	*f = (struct facts){
		.graph = graph, .symbolizer = symbolizer, .tables = graph_tables(graph)};
}

void facts_done(struct facts *f)
{
	free(f->roles);
	free(f->inline_parents);
	free(f->lines);
	vec_done(&f->line_chains);
	map64_done(&f->drops);
}

/* Room for `need` items; those that are new hold what an own index or zeros say. */
static bool facts_grow(uint32_t **items, size_t *count, size_t need, bool own_index)
{
	size_t grown = need + need / 2 + 64;
	uint32_t *p = realloc(*items, grown * sizeof *p);

	if (!p)
		return false;
	for (size_t i = *count; i < grown; i++)
		p[i] = own_index ? (uint32_t)i : 0;
	*items = p;
	*count = grown;
	return true;
}

static bool facts_grow_roles(struct facts *f, size_t need)
{
	size_t grown = need + need / 2 + 64;
	uint8_t *p = realloc(f->roles, grown);

	if (!p)
		return false;
	memset(p + f->role_count, FUNC_ROLE_UNKNOWN, grown - f->role_count);
	f->roles = p;
	f->role_count = grown;
	return true;
}

enum func_role facts_ask_role(struct facts *f, uint32_t func)
{
	if (func >= f->role_count && !facts_grow_roles(f, (size_t)func + 1)) {
		f->out_of_memory = true;
		return FUNC_PLAIN;
	}
	graph_lock(f->graph);
	const struct func *fn = func ? symbolizer_func_get(f->symbolizer, (func_id){func}) : NULL;
	f->roles[func] = fn ? fn->role : FUNC_PLAIN;
	graph_unlock(f->graph);
	return (enum func_role)f->roles[func];
}

static uint32_t facts_inline_parent(struct facts *f, uint32_t id)
{
	if (id >= f->inline_count &&
	    !facts_grow(&f->inline_parents, &f->inline_count, (size_t)id + 1, true)) {
		f->out_of_memory = true;
		return 0;
	}
	if (f->inline_parents[id] == id) {
		graph_lock(f->graph);
		const struct inline_frame *in =
			symbolizer_inline_get(f->symbolizer, (inline_id){id});
		f->inline_parents[id] = in && in->parent.v != id ? in->parent.v : 0;
		graph_unlock(f->graph);
	}
	return f->inline_parents[id];
}

size_t facts_inline_chain(struct facts *f, uint32_t innermost, uint32_t chain[INLINE_DEPTH_MAX])
{
	size_t depth = 0;

	for (uint32_t id = innermost; id && depth < INLINE_DEPTH_MAX;
	     id = facts_inline_parent(f, id))
		chain[depth++] = id;
	return depth;
}

/* Fills the line of a node, if it is one straight run of bytes: start in line_chains, 0 =
 * memory is short. */
static uint32_t facts_ask_line(struct facts *f, node_id node)
{
	const struct node_cold *cold = &f->tables.cold[node];
	uint64_t vaddr = cold->vaddr, last = cold->vaddr + (cold->branch_ip - cold->ip);
	bool straight = cold->branch_ip >= cold->ip && cold->branch_ip - cold->ip <= LINE_BYTES_MAX;
	bool ok = node < f->line_count ||
		  facts_grow(&f->lines, &f->line_count, (size_t)node + 1, false);

	ok = ok && (f->line_chains.count || vec_push(&f->line_chains, 0));
	uint32_t start = (uint32_t)f->line_chains.count;
	ok = ok && vec_push(&f->line_chains, 0);
	graph_lock(f->graph);
	for (uint64_t until = 0; ok && straight && vaddr <= last; vaddr = until) {
		until = last + 1;
		inline_id id = symbolizer_inline_at(f->symbolizer, cold->module, vaddr, &until);
		ok = vec_push(&f->line_chains, id.v);
		f->line_chains.items[start]++;
		if (until <= vaddr)
			break;
	}
	graph_unlock(f->graph);
	if (!ok) {
		f->out_of_memory = true;
		return 0;
	}
	return f->lines[node] = start;
}

size_t facts_line(struct facts *f, node_id node, const uint32_t **innermost)
{
	uint32_t start = node < f->line_count ? f->lines[node] : 0;

	if (!start)
		start = facts_ask_line(f, node);
	if (!start)
		return 0;
	*innermost = f->line_chains.items + start + 1;
	return f->line_chains.items[start];
}

/* pop %reg; add $8,%rsp; lea 8(%rsp),%rsp. */
static bool facts_ask_drops(const struct facts *f, node_id node)
{
	static const uint8_t add[] = {0x48, 0x83, 0xc4, 8}, lea[] = {0x48, 0x8d, 0x64, 0x24, 8};
	const struct node_cold *cold = &f->tables.cold[node];
	const uint8_t *code = NULL;
	size_t count = graph_code(f->graph, cold->space, cold->ip, &code);

	return (count >= 1 && (code[0] & 0xf8) == 0x58) ||
	       (count >= 2 && code[0] == 0x41 && (code[1] & 0xf8) == 0x58) ||
	       (count >= sizeof add && memcmp(code, add, sizeof add) == 0) ||
	       (count >= sizeof lea && memcmp(code, lea, sizeof lea) == 0);
}

bool facts_drops_return(struct facts *f, node_id node)
{
	uint32_t known = map64_get(&f->drops, node);

	if (known == MAP64_NONE) {
		known = facts_ask_drops(f, node);
		if (!map64_set(&f->drops, node, known))
			f->out_of_memory = true;
	}
	return known;
}
