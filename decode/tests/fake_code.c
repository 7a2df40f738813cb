/* See fake_code.h. */
#include "decode/tests/fake_code.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct graph graph;
struct symbolizer symbols;

void graph_lock(struct graph *g)
{
	(void)g;
}

void graph_unlock(struct graph *g)
{
	(void)g;
}

struct symbolizer *graph_symbolizer(const struct graph *g)
{
	(void)g;
	return &symbols;
}

struct graph_tables graph_tables(struct graph *g)
{
	return (struct graph_tables){g->hot, g->cold};
}

static uint32_t func_of_ip(uint64_t ip)
{
	return (uint32_t)((ip & ~KERNEL_BASE) / FUNC_BYTES);
}

inline_id symbolizer_inline_at(struct symbolizer *s, module_id module, uint64_t vaddr,
			       uint64_t *until)
{
	inline_id innermost = {0};

	(void)module;
	*until = UINT64_MAX;
	for (uint32_t i = 1; i <= s->inline_count; i++) {
		uint64_t start = s->inlines[i].start, end = s->inlines[i].end;

		if (vaddr >= start && vaddr < end)
			innermost.v = i; /* inner ones come later */
		if (vaddr < start && start < *until)
			*until = start;
		if (vaddr < end && end < *until)
			*until = end;
	}
	return innermost;
}

node_id graph_node(struct graph *g, space_id space, uint64_t ip)
{
	uint32_t func = func_of_ip(ip);
	uint64_t until;

	for (uint32_t i = 1; i <= g->count; i++)
		if (g->cold[i].ip == ip && g->cold[i].space.v == space.v)
			return i;
	node_id n = ++g->count;
	struct node *hot = &g->hot[n];
	struct node_cold *cold = &g->cold[n];
	hot->ip = ip;
	*cold = (struct node_cold){
		.ip = ip, .branch_ip = ip, .end_ip = ip + CALL_BYTES, .vaddr = ip, .space = space};
	for (size_t i = 0; i < symbols.line_count; i++)
		if (symbols.lines[i].ip == ip) {
			cold->branch_ip = symbols.lines[i].branch_ip;
			cold->end_ip = cold->branch_ip + CALL_BYTES;
		}
	if (func <= symbols.count && symbols.funcs[func].module.v != MODULE_MISSING) {
		hot->func = func;
		cold->module = symbols.funcs[func].module;
		hot->kind = NODE_COND;
	} else {
		hot->kind = NODE_MISSING;
		cold->module = (module_id){MODULE_MISSING};
	}
	for (size_t i = 0; i < symbols.branch_count; i++)
		if (symbols.branches[i].ip == cold->branch_ip) {
			hot->kind = symbols.branches[i].kind;
			cold->target_ip = symbols.branches[i].target_ip;
			if ((hot->kind == NODE_COND || hot->kind == NODE_JUMP) &&
			    func_of_ip(cold->target_ip) != func)
				hot->flags |= NODE_TAIL_JUMP;
		}
	if (ip % FUNC_BYTES == 0)
		hot->flags |= NODE_INTO_FUNCTION;
	if (ip & KERNEL_BASE)
		hot->flags |= NODE_KERNEL;
	for (size_t i = 0; i < symbols.called_count; i++)
		if (symbols.called[i] == ip)
			hot->flags |= NODE_CALL_PRECEDED;
	hot->start_inline = symbolizer_inline_at(&symbols, cold->module, cold->ip, &until).v;
	if (until <= cold->branch_ip)
		hot->flags |= NODE_INLINE_CHANGES;
	hot->end_inline = symbolizer_inline_at(&symbols, cold->module, cold->branch_ip, &until).v;
	return n;
}

node_id graph_successor(struct graph *g, node_id node, int slot)
{
	const struct node_cold *cold = &g->cold[node];

	if (cold->target_ip == 0 && (slot || g->hot[node].kind == NODE_COND))
		return 0;
	return graph_node(g, cold->space, slot ? cold->target_ip : cold->end_ip);
}

bool graph_callee_name(struct graph *g, node_id call, str_id *name)
{
	(void)g;
	(void)call;
	(void)name;
	return false;
}

const char *symbolizer_text(const struct symbolizer *s, str_id id)
{
	return s->names[id.v];
}

uint32_t graph_edge(struct graph *g, node_id node, int slot)
{
	return graph_successor(g, node, slot);
}

uint32_t graph_node_count(const struct graph *g)
{
	return g->count;
}

size_t graph_code(struct graph *g, space_id space, uint64_t ip, const uint8_t **bytes)
{
	(void)g;
	(void)space;
	for (size_t i = 0; i < symbols.code_count; i++)
		if (symbols.code[i].ip == ip) {
			*bytes = symbols.code[i].bytes;
			return symbols.code[i].count;
		}
	return 0;
}

const struct func *symbolizer_func_get(const struct symbolizer *s, func_id id)
{
	return id.v <= s->count ? &s->funcs[id.v] : NULL;
}

const struct inline_frame *symbolizer_inline_get(const struct symbolizer *s, inline_id id)
{
	return id.v && id.v <= s->inline_count ? &s->inlines[id.v].frame : NULL;
}

/* What stands behind @ in a name tells functions of one name apart. */
str_id symbolizer_func_linkage_name(struct symbolizer *s, func_id id)
{
	size_t length = strcspn(s->names[id.v], "@");

	for (uint32_t i = 1; i <= s->count; i++)
		if (strcspn(s->names[i], "@") == length &&
		    memcmp(s->names[i], s->names[id.v], length) == 0)
			return (str_id){i};
	return (str_id){0};
}

bool symbolizer_landing_pad(struct symbolizer *s, module_id module, uint64_t return_vaddr,
			    uint64_t *pad)
{
	(void)module;
	for (size_t i = 0; i < s->pad_count; i++)
		if (s->pads[i][0] == return_vaddr) {
			*pad = s->pads[i][1];
			return true;
		}
	return false;
}

void fake_reset(uint32_t count)
{
	memset(&graph, 0, sizeof graph);
	memset(&symbols, 0, sizeof symbols);
	symbols.count = count;
	for (uint32_t i = 1; i <= count; i++)
		symbols.funcs[i].start = fake_ip(i, 0);
}

uint64_t fake_ip(uint32_t func, uint64_t off)
{
	return (uint64_t)func * FUNC_BYTES + off;
}

node_id fake_node(uint32_t func, uint64_t off)
{
	return graph_node(&graph, (space_id){2}, fake_ip(func, off));
}

void fake_branch(enum node_kind kind, uint64_t ip, uint64_t target_ip)
{
	size_t i = symbols.branch_count++;

	assert(i < sizeof symbols.branches / sizeof *symbols.branches);
	symbols.branches[i].ip = ip;
	symbols.branches[i].target_ip = target_ip;
	symbols.branches[i].kind = (uint8_t)kind;
	if (kind == NODE_CALL || kind == NODE_CALL_INDIRECT)
		symbols.called[symbols.called_count++] = ip + CALL_BYTES;
}

uint32_t fake_call(struct thread *thread, uint32_t func, node_id site, uint32_t parent,
		   uint64_t start_ns, uint64_t end_ns)
{
	struct call c = {.start_ns = start_ns,
			 .end_ns = end_ns,
			 .what = fake_node(func, 0),
			 .site = site,
			 .parent = parent,
			 .kind = CALL_FRAME};

	if (site)
		graph.hot[site].kind = NODE_CALL;
	if (!vec_push(&thread->calls, c))
		abort();
	return (uint32_t)thread->calls.count - 1;
}
