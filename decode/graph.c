/* See graph.h.
 *
 * Node ids index two arrays of reserved address space that are made accessible step by step,
 * so nodes never move. A hash table of ids (by space, mode and ip) finds them:
 *
 *     graph_node_at(ip)  --hash-->  id  --hot[id]-->  { successors, kind, counts }
 *                                       --cold[id]--> { addresses, module, space }
 *
 * Readers take no lock. A writer (under the lock) fills both halves of a node before it
 * publishes the id with a release store, in the table or in a successor slot; outgrown tables
 * are kept until the end, for readers that still look at them. */
#include "decode/graph.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/map64.h"
#include "decode/line.h"

enum {
	NODES_MAX = 1 << 27,  /* ids: 4 GiB of hot and 8 GiB of cold halves */
	NODES_STEP = 1 << 14, /* made accessible at a time */
};

struct node_table {
	struct node_table *outgrown;
	size_t mask;
	_Atomic uint32_t ids[];
};

struct graph {
	struct code_map code;
	pthread_mutex_t lock;
	struct graph_tables tables;
	size_t ids_max, ids_ready;
	_Atomic uint32_t count; /* ids handed out, 0 included */
	struct node_table *_Atomic table;
};

static struct node_table *table_new(size_t slots, struct node_table *outgrown)
{
	struct node_table *t = calloc(1, sizeof *t + slots * sizeof *t->ids);

	if (t) {
		t->mask = slots - 1;
		t->outgrown = outgrown;
	}
	return t;
}

static bool reserve(struct graph *g)
{
	for (size_t max = NODES_MAX; max >= NODES_STEP; max /= 2) {
		void *hot = mmap(NULL, max * sizeof *g->tables.hot, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (hot == MAP_FAILED)
			continue;
		void *cold = mmap(NULL, max * sizeof *g->tables.cold, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (cold != MAP_FAILED) {
			g->tables = (struct graph_tables){.hot = hot, .cold = cold};
			g->ids_max = max;
			return true;
		}
		munmap(hot, max * sizeof *g->tables.hot);
	}
	return false;
}

static bool make_ready(struct graph *g)
{
	size_t n = g->ids_ready + NODES_STEP;

	if (n > g->ids_max ||
	    mprotect(g->tables.hot, n * sizeof *g->tables.hot, PROT_READ | PROT_WRITE) != 0 ||
	    mprotect(g->tables.cold, n * sizeof *g->tables.cold, PROT_READ | PROT_WRITE) != 0)
		return false;
	g->ids_ready = n;
	return true;
}

enum err graph_new(const struct sideband *sideband, struct symbolizer *symbolizer, unsigned flags,
		   struct graph **result, struct error *error)
{
	struct graph *g = calloc(1, sizeof *g);

	if (!g || pthread_mutex_init(&g->lock, NULL) != 0) {
		free(g);
		return error_set(error, ERR_NOMEM, "out of memory");
	}
	g->code = (struct code_map){.sideband = sideband, .symbolizer = symbolizer, .flags = flags};
	g->count = 1;
	atomic_init(&g->table, table_new(4096, NULL));
	if (!atomic_load(&g->table) || !reserve(g) || !make_ready(g) ||
	    !pokes_init(&g->code.pokes, sideband)) {
		graph_free(g);
		return error_set(error, ERR_NOMEM, "out of memory for the code graph");
	}
	*result = g;
	return ERR_NONE;
}

void graph_free(struct graph *g)
{
	if (!g)
		return;
	if (g->tables.hot) {
		munmap(g->tables.hot, g->ids_max * sizeof *g->tables.hot);
		munmap(g->tables.cold, g->ids_max * sizeof *g->tables.cold);
	}
	for (struct node_table *t = atomic_load(&g->table), *next; t; t = next) {
		next = t->outgrown;
		free(t);
	}
	pokes_done(&g->code.pokes);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

struct graph_tables graph_tables(struct graph *g)
{
	return g->tables;
}

uint32_t graph_node_count(const struct graph *g)
{
	return atomic_load(&g->count);
}

struct symbolizer *graph_symbolizer(const struct graph *g)
{
	return g->code.symbolizer;
}

void graph_lock(struct graph *g)
{
	pthread_mutex_lock(&g->lock);
}

void graph_unlock(struct graph *g)
{
	pthread_mutex_unlock(&g->lock);
}

static space_id space_for(space_id space, uint64_t ip)
{
	return ip_is_kernel(ip) ? SPACE_KERNEL : space;
}

static size_t table_start(const struct node_table *t, space_id space, enum insn_mode mode,
			  uint64_t ip)
{
	return map64_hash(ip + ((uint64_t)space.v << 40) + ((uint64_t)mode << 63)) & t->mask;
}

static node_id table_find(const struct graph *g, const struct node_table *t, space_id space,
			  enum insn_mode mode, uint64_t ip)
{
	for (size_t at = table_start(t, space, mode, ip);; at = (at + 1) & t->mask) {
		uint32_t id = atomic_load_explicit(&t->ids[at], memory_order_acquire);

		if (!id)
			return 0;
		if (g->tables.hot[id].ip == ip && g->tables.cold[id].space.v == space.v &&
		    g->tables.cold[id].mode == mode)
			return id;
	}
}

static void table_insert(struct graph *g, struct node_table *t, node_id id)
{
	const struct node_cold *cold = &g->tables.cold[id];
	size_t at = table_start(t, cold->space, cold->mode, cold->ip);

	while (atomic_load_explicit(&t->ids[at], memory_order_relaxed))
		at = (at + 1) & t->mask;
	atomic_store_explicit(&t->ids[at], id, memory_order_release);
}

/* Room for one more node in arrays and table. */
static bool make_room(struct graph *g)
{
	struct node_table *t = atomic_load_explicit(&g->table, memory_order_relaxed);
	uint32_t count = atomic_load_explicit(&g->count, memory_order_relaxed);

	if (count >= g->ids_ready && !make_ready(g))
		return false;
	if (count <= t->mask / 2)
		return true;
	struct node_table *grown = table_new((t->mask + 1) * 2, t);
	if (!grown)
		return false;
	for (node_id id = 1; id < count; id++)
		if (!g->tables.cold[id].is_later_version)
			table_insert(g, grown, id);
	atomic_store_explicit(&g->table, grown, memory_order_release);
	return true;
}

/* The node of this chain of versions that holds at time_ns; 0 = none that is known to. */
static node_id version_at(const struct graph *g, node_id id, uint64_t time_ns)
{
	while (id) {
		const struct node_cold *cold = &g->tables.cold[id];

		if (!cold->is_generated || time_ns == TIME_NONE ||
		    (time_ns >= atomic_load_explicit(&cold->from_ns, memory_order_relaxed) &&
		     time_ns < cold->until_ns))
			return id;
		id = atomic_load_explicit(&cold->next_version, memory_order_acquire);
	}
	return 0;
}

/* The same under the lock, where the symbolizer can be asked: two times of one version are
 * told by the same code until the same time. Else *last is the end of the chain. */
static node_id version_found(struct graph *g, node_id id, uint64_t time_ns, node_id *last)
{
	if (version_at(g, id, time_ns))
		return version_at(g, id, time_ns);
	for (*last = 0; id;
	     id = atomic_load_explicit(&g->tables.cold[id].next_version, memory_order_relaxed)) {
		struct node_cold *cold = &g->tables.cold[id];
		struct code code = code_at(&g->code, cold->space, cold->ip, time_ns);

		*last = id;
		if (code.module.v != cold->module.v || code.until_ns != cold->until_ns)
			continue;
		if (time_ns < atomic_load_explicit(&cold->from_ns, memory_order_relaxed))
			atomic_store_explicit(&cold->from_ns, time_ns, memory_order_relaxed);
		return id;
	}
	return 0;
}

node_id graph_node_at(struct graph *g, space_id space, enum insn_mode mode, uint64_t ip,
		      uint64_t time_ns)
{
	node_id last = 0;

	space = space_for(space, ip);
	node_id id = table_find(g, atomic_load_explicit(&g->table, memory_order_acquire), space,
				mode, ip);
	id = version_at(g, id, time_ns);
	if (id)
		return id;
	pthread_mutex_lock(&g->lock);
	id = table_find(g, atomic_load_explicit(&g->table, memory_order_relaxed), space, mode, ip);
	id = version_found(g, id, time_ns, &last);
	if (!id && make_room(g)) {
		id = atomic_load_explicit(&g->count, memory_order_relaxed);
		struct node *hot = &g->tables.hot[id];
		struct node_cold *cold = &g->tables.cold[id];

		cold->space = space;
		cold->mode = (uint8_t)mode;
		cold->ip = ip;
		if (line_discover(&g->code, hot, cold, time_ns))
			line_discover_poked(&g->code, hot, cold);
		cold->is_later_version = last != 0;
		if (last)
			atomic_store_explicit(&g->tables.cold[last].next_version, id,
					      memory_order_release);
		else
			table_insert(g, atomic_load_explicit(&g->table, memory_order_relaxed), id);
		atomic_store_explicit(&g->count, id + 1, memory_order_release);
	}
	pthread_mutex_unlock(&g->lock);
	return id;
}

node_id graph_node(struct graph *g, space_id space, uint64_t ip)
{
	return graph_node_at(g, space, INSN_64, ip, TIME_NONE);
}

/* Does the branch from one node to another matter beyond the branch itself? */
static bool is_edge_event(const struct graph *g, node_id from, node_id to, int slot)
{
	const struct node *a = &g->tables.hot[from], *b = &g->tables.hot[to];

	if (a->kind != NODE_COND && a->kind != NODE_JUMP && a->kind != NODE_THROUGH)
		return false;
	return (slot && a->flags & NODE_TAIL_JUMP) || a->end_inline != b->start_inline ||
	       b->flags & NODE_INLINE_CHANGES;
}

uint32_t graph_edge(struct graph *g, node_id node, int slot)
{
	_Atomic uint32_t *succ = &g->tables.hot[node].succ[slot];
	uint32_t edge = atomic_load_explicit(succ, memory_order_acquire);

	if (!edge) {
		const struct node_cold *cold = &g->tables.cold[node];

		if (cold->is_poked)
			return graph_version(g, node, TIME_NONE);
		/* Generated code leads to code of its own time. */
		edge = graph_node_at(g, cold->space, cold->mode,
				     slot ? cold->target_ip : cold->end_ip, line_time(cold));
		if (edge && is_edge_event(g, node, edge, slot))
			edge |= NODE_EDGE_EVENT;
		atomic_store_explicit(succ, edge, memory_order_release);
	}
	return edge;
}

/* The version of a poked node that holds at time_ns; *last: the newest, or the node itself. */
static node_id poked_version_at(const struct graph *g, node_id node, uint64_t time_ns,
				node_id *last)
{
	const struct node_cold *cold = &g->tables.cold[node];
	node_id id;

	*last = node;
	while ((id = atomic_load_explicit(&cold->next_version, memory_order_acquire))) {
		cold = &g->tables.cold[id];
		if (time_ns >= line_time(cold) && time_ns < cold->until_ns)
			return id;
		*last = id;
	}
	return 0;
}

uint32_t graph_version(struct graph *g, node_id node, uint64_t time_ns)
{
	const struct node_cold *common = &g->tables.cold[node];
	node_id last;

	if (time_ns == TIME_NONE)
		time_ns = TIME_NONE - 1;
	else if (time_ns == 0)
		time_ns = 1;
	node_id id = poked_version_at(g, node, time_ns, &last);
	if (!id) {
		pthread_mutex_lock(&g->lock);
		id = poked_version_at(g, node, time_ns, &last);
		if (!id && make_room(g)) {
			id = atomic_load_explicit(&g->count, memory_order_relaxed);
			struct node_cold *cold = &g->tables.cold[id];

			cold->space = common->space;
			cold->mode = common->mode;
			cold->ip = common->ip;
			cold->is_later_version = true;
			(void)line_discover(&g->code, &g->tables.hot[id], cold, time_ns);
			atomic_store_explicit(&g->tables.cold[last].next_version, id,
					      memory_order_release);
			atomic_store_explicit(&g->count, id + 1, memory_order_release);
		}
		pthread_mutex_unlock(&g->lock);
	}
	return id && is_edge_event(g, node, id, 0) ? id | NODE_EDGE_EVENT : id;
}

node_id graph_successor(struct graph *g, node_id node, int slot)
{
	return graph_edge(g, node, slot) & ~NODE_EDGE_EVENT;
}

bool graph_is_call_preceded(struct graph *g, space_id space, uint64_t end_ip)
{
	pthread_mutex_lock(&g->lock);
	bool result = line_is_call_preceded(&g->code, space_for(space, end_ip), INSN_64, end_ip,
					    TIME_NONE);
	pthread_mutex_unlock(&g->lock);
	return result;
}

size_t graph_code(struct graph *g, space_id space, uint64_t ip, const uint8_t **bytes)
{
	return graph_code_at(g, space, ip, TIME_NONE, bytes);
}

size_t graph_code_at(struct graph *g, space_id space, uint64_t ip, uint64_t time_ns,
		     const uint8_t **bytes)
{
	pthread_mutex_lock(&g->lock);
	struct code c = code_at(&g->code, space_for(space, ip), ip, time_ns);
	pthread_mutex_unlock(&g->lock);
	if (c.count)
		*bytes = c.bytes;
	return c.count;
}

bool graph_node_has_instruction(struct graph *g, node_id node, uint64_t ip)
{
	const struct node_cold *cold = &g->tables.cold[node];

	if (ip == cold->ip || ip == cold->branch_ip)
		return true;
	pthread_mutex_lock(&g->lock);
	bool found = line_has_instruction(&g->code, &g->tables.hot[node], cold, ip);
	pthread_mutex_unlock(&g->lock);
	return found;
}

/* Where `call *disp32(%rip)` finds its target. */
static bool call_slot(struct graph *g, const struct node_cold *cold, uint64_t *slot_vaddr)
{
	const uint8_t *code;
	int32_t displacement;

	if (graph_code(g, cold->space, cold->branch_ip, &code) < 6 || code[0] != 0xff ||
	    code[1] != 0x15)
		return false;
	memcpy(&displacement, code + 2, sizeof displacement);
	*slot_vaddr = cold->vaddr + (cold->end_ip - cold->ip) + (uint64_t)(int64_t)displacement;
	return true;
}

bool graph_callee_name(struct graph *g, node_id call, str_id *name)
{
	struct symbolizer *s = g->code.symbolizer;
	const struct node_cold *cold = &g->tables.cold[call];
	uint64_t slot;
	bool found = false;

	if (g->tables.hot[call].kind == NODE_CALL) {
		func_id stub = {g->tables.hot[graph_successor(g, call, 1)].func};

		pthread_mutex_lock(&g->lock);
		const struct func *plt = symbolizer_func_get(s, stub);
		found = plt && plt->role == FUNC_PLT;
		if (found)
			*name = symbolizer_func_linkage_name(s, stub);
		pthread_mutex_unlock(&g->lock);
	} else if (call_slot(g, cold, &slot)) {
		pthread_mutex_lock(&g->lock);
		found = symbolizer_got_target(s, cold->module, slot, name);
		pthread_mutex_unlock(&g->lock);
	}
	return found;
}
