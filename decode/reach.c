/* See reach.h. A region is the set of nodes that a frame can come to from a place. Memory that is
 * short counts as code that cannot be followed. */
#include "decode/reach.h"

#include <string.h>

enum {
	REGION_NODES_MAX = 1 << 10,
	REACH_NODES_MAX = 1 << 18, /* of all regions */
	ANSWERS_MAX = 1 << 20,
	JUMPS_MAX = 32, /* functions that jump into each other */
};

enum question { ASK_PLACE, ASK_CALL_BEFORE, ASK_CALL_OF, ASK_ENTERS };

void reach_init(struct reach *r, struct graph *graph)
{
	*r = (struct reach){.graph = graph, .g = graph_tables(graph)};
}

void reach_done(struct reach *r)
{
	map64_done(&r->by_place);
	map64_done(&r->seen);
	map64_done(&r->answers);
	map64_done(&r->setjmps);
	vec_done(&r->regions);
	vec_done(&r->nodes);
}

/* ---- regions ---- */

/* Adds a node to the region that is being made, the last one. */
static void region_add(struct reach *r, node_id node)
{
	uint32_t index = (uint32_t)r->regions.count - 1;
	struct region *region = vec_last(&r->regions);

	if (region->open || (node && map64_get(&r->seen, node) == index))
		return;
	if (node == 0 || region->count == REGION_NODES_MAX || r->nodes.count == REACH_NODES_MAX ||
	    !map64_set(&r->seen, node, index) || !vec_push(&r->nodes, node))
		region->open = true;
	else
		region->count++;
}

/* An exception out of the call that returns to `wait` may land in the same function. */
static void region_add_pad(struct reach *r, node_id wait)
{
	const struct node_cold *cold = &r->g.cold[wait];
	uint64_t pad = 0;

	graph_lock(r->graph);
	bool known =
		symbolizer_landing_pad(graph_symbolizer(r->graph), cold->module, cold->vaddr, &pad);
	graph_unlock(r->graph);
	if (known && pad)
		region_add(r, graph_node(r->graph, cold->space, cold->ip + (pad - cold->vaddr)));
}

/* Adds what may come next in the same frame. */
static void region_follow(struct reach *r, node_id node)
{
	const struct node *hot = &r->g.hot[node];
	const struct node_cold *cold = &r->g.cold[node];
	struct region *region = vec_last(&r->regions);
	node_id next;

	if (cold->is_generated || cold->is_poked || cold->is_later_version ||
	    cold->mode != INSN_64 || cold->branch == INSN_XBEGIN) {
		region->open = true;
		return;
	}
	switch (hot->kind) {
	case NODE_COND: region_add(r, graph_successor(r->graph, node, 0)); /* fall through */
	case NODE_JUMP:
		next = graph_successor(r->graph, node, 1);
		if (!(hot->flags & NODE_TAIL_JUMP))
			region_add(r, next);
		else if (!(r->g.hot[next].flags & NODE_INTO_FUNCTION))
			region->open = true; /* a piece of this function, perhaps */
		break;
	case NODE_CALL:
		if (hot->flags & NODE_CALL_NEXT)
			region_add(r, graph_successor(r->graph, node, 1));
		/* fall through */
	case NODE_CALL_INDIRECT:
		next = graph_successor(r->graph, node, 0);
		region_add(r, next);
		region_add_pad(r, next);
		break;
	case NODE_SYSCALL:
	case NODE_THROUGH: region_add(r, graph_successor(r->graph, node, 0)); break;
	case NODE_RETURN:
	case NODE_SYSRET:
	case NODE_BAD: break;
	default: region->open = true;
	}
}

static struct region reach_region(struct reach *r, node_id from)
{
	static const struct region anything = {.open = true};
	uint32_t at = from ? map64_get(&r->by_place, from) : MAP64_NONE;

	if (at != MAP64_NONE)
		return r->regions.items[at];
	if (!from || !vec_push(&r->regions, ((struct region){.first = (uint32_t)r->nodes.count})))
		return anything;
	struct region *region = vec_last(&r->regions);
	region_add(r, from);
	if (r->g.hot[from].flags & NODE_CALL_PRECEDED)
		region_add_pad(r, from);
	for (uint32_t i = 0; i < region->count && !region->open; i++)
		region_follow(r, r->nodes.items[region->first + i]);
	if (!map64_set(&r->by_place, from, (uint32_t)r->regions.count - 1))
		return anything;
	return *region;
}

/* ---- setjmp: a frame that has called it may go on from there at any time ---- */

static bool is_call(const struct node *hot)
{
	return hot->kind == NODE_CALL || hot->kind == NODE_CALL_INDIRECT;
}

static bool reach_is_setjmp(struct reach *r, node_id call)
{
	const struct symbolizer *s = graph_symbolizer(r->graph);
	node_id entry = r->g.hot[call].kind == NODE_CALL ? graph_successor(r->graph, call, 1) : 0;
	str_id name;

	if (graph_callee_name(r->graph, call, &name)) {
		graph_lock(r->graph);
		bool is = strstr(symbolizer_text(s, name), "setjmp") != NULL;
		graph_unlock(r->graph);
		return is;
	}
	if (entry == 0)
		return false;
	graph_lock(r->graph);
	const struct func *f = symbolizer_func_get(s, (func_id){r->g.hot[entry].func});
	bool is = f && f->role == FUNC_SETJMP;
	graph_unlock(r->graph);
	return is;
}

/* Does the function at this place call setjmp, as far as it can be followed from its begin? */
static bool reach_has_setjmp(struct reach *r, node_id place)
{
	const struct node_cold *cold = &r->g.cold[place];
	uint32_t id = r->g.hot[place].func, known = map64_get(&r->setjmps, id);
	uint64_t start = cold->vaddr;

	if (known != MAP64_NONE)
		return known;
	graph_lock(r->graph);
	const struct func *f = symbolizer_func_get(graph_symbolizer(r->graph), (func_id){id});
	if (f)
		start = f->start;
	graph_unlock(r->graph);
	node_id entry = graph_node(r->graph, cold->space, cold->ip + (start - cold->vaddr));
	struct region region = reach_region(r, entry);
	known = 0;
	for (uint32_t i = 0; i < region.count && !known; i++) {
		node_id node = r->nodes.items[region.first + i];

		known = is_call(&r->g.hot[node]) && reach_is_setjmp(r, node);
	}
	return map64_set(&r->setjmps, id, known) ? known : true;
}

/* ---- questions ---- */

static bool reach_ask(struct reach *r, enum question what, node_id from, uint32_t about);

/* May what is called at `entry` become a call of function `func`? */
static bool reach_enters(struct reach *r, node_id entry, uint32_t func)
{
	node_id entries[JUMPS_MAX] = {entry};
	size_t count = 1;

	for (size_t at = 0; at < count; at++) {
		struct region region = reach_region(r, entries[at]);

		if (region.open || r->g.hot[entries[at]].func == func)
			return true;
		for (uint32_t i = 0; i < region.count; i++) {
			node_id node = r->nodes.items[region.first + i];
			size_t k = 0;

			if (!(r->g.hot[node].flags & NODE_TAIL_JUMP))
				continue;
			node_id next = graph_successor(r->graph, node, 1);
			while (k < count && entries[k] != next)
				k++;
			if (k == JUMPS_MAX || next == 0)
				return true;
			entries[k] = next;
			count = k == count ? count + 1 : count;
		}
	}
	return false;
}

/* Is a node of a region what a question is about? */
static bool reach_is(struct reach *r, enum question what, node_id node, uint32_t about)
{
	const struct node *hot = &r->g.hot[node];
	const struct node_cold *cold = &r->g.cold[node];

	switch (what) {
	case ASK_PLACE: return cold->branch_ip == r->g.cold[about].branch_ip;
	case ASK_CALL_BEFORE: return is_call(hot) && cold->end_ip == r->g.cold[about].ip;
	case ASK_CALL_OF:
		return hot->kind == NODE_CALL_INDIRECT ||
		       (hot->kind == NODE_CALL &&
			reach_ask(r, ASK_ENTERS, graph_successor(r->graph, node, 1), about));
	case ASK_ENTERS: break;
	}
	return true;
}

static bool reach_find(struct reach *r, enum question what, node_id from, uint32_t about)
{
	struct region region = reach_region(r, from);
	bool found = region.open || reach_has_setjmp(r, from);

	for (uint32_t i = 0; i < region.count && !found; i++)
		found = reach_is(r, what, r->nodes.items[region.first + i], about);
	return found;
}

static bool reach_ask(struct reach *r, enum question what, node_id from, uint32_t about)
{
	uint64_t key = (uint64_t)what << 62 | (uint64_t)from << 31 | about;
	uint32_t answer = map64_get(&r->answers, key);

	if (answer != MAP64_NONE)
		return answer;
	answer = what == ASK_ENTERS ? reach_enters(r, from, about)
				    : reach_find(r, what, from, about);
	return r->answers.count >= ANSWERS_MAX || !map64_set(&r->answers, key, answer) ? true
										       : answer;
}

bool reach_place(struct reach *r, node_id from, node_id to)
{
	return reach_ask(r, ASK_PLACE, from, to);
}

bool reach_call_before(struct reach *r, node_id from, node_id wait)
{
	if (!(r->g.hot[wait].flags & NODE_CALL_PRECEDED))
		return true; /* interrupted there */
	return reach_ask(r, ASK_CALL_BEFORE, from, wait);
}

bool reach_call_of(struct reach *r, node_id from, uint32_t func)
{
	return func == 0 || reach_ask(r, ASK_CALL_OF, from, func);
}

bool reach_jump_out(struct reach *r, node_id from)
{
	struct region region = reach_region(r, from);
	bool found = region.open;

	for (uint32_t i = 0; i < region.count && !found; i++)
		found = r->g.hot[r->nodes.items[region.first + i]].flags & NODE_TAIL_JUMP;
	return found;
}
