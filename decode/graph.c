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

enum {
	NODES_MAX = 1 << 27,   /* ids: 4 GiB of hot and 8 GiB of cold halves */
	NODES_STEP = 1 << 14,  /* made accessible at a time */
	LINE_INSNS_MAX = 1024, /* longer lines go on in another node */
};

struct node_table {
	struct node_table *outgrown;
	size_t mask;
	_Atomic uint32_t ids[];
};

struct graph {
	const struct sideband *sideband;
	struct symbolizer *symbolizer;
	unsigned flags;
	pthread_mutex_t lock;
	struct graph_tables tables;
	size_t ids_max, ids_ready;
	_Atomic uint32_t count; /* ids handed out, 0 included */
	struct node_table *_Atomic table;
};

/* Where code comes from: bytes[0, count) stand at ip and vaddr of the module. */
struct code {
	module_id module;
	uint64_t ip, vaddr;
	const uint8_t *bytes;
	size_t count; /* 0 = none known */
	bool is_generated;
	uint64_t until_ns;
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
	g->sideband = sideband;
	g->symbolizer = symbolizer;
	g->flags = flags;
	g->count = 1;
	atomic_init(&g->table, table_new(4096, NULL));
	if (!atomic_load(&g->table) || !reserve(g) || !make_ready(g)) {
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
	return g->symbolizer;
}

void graph_lock(struct graph *g)
{
	pthread_mutex_lock(&g->lock);
}

void graph_unlock(struct graph *g)
{
	pthread_mutex_unlock(&g->lock);
}

/* The mapping decides; memory that no file backs may still be known as JIT code. */
static struct code code_at(struct graph *g, space_id in, uint64_t ip, uint64_t time_ns)
{
	struct code c = {.ip = ip, .until_ns = TIME_NONE};
	const struct space *space = NULL;
	const struct mapping *m = NULL;

	if (in.v && in.v < g->sideband->spaces.count) {
		space = &g->sideband->spaces.items[in.v];
		m = space_find(space, ip);
	}
	if (m && !(m->flags & MAPPING_ANONYMOUS)) {
		c.module = m->module;
		if (symbolizer_vaddr(g->symbolizer, m->module, m->start, m->file_off, ip, &c.vaddr))
			c.count = symbolizer_code(g->symbolizer, m->module, c.vaddr, &c.bytes);
		if (c.count > m->end - ip)
			c.count = m->end - ip;
	}
	if (c.count == 0 && space) {
		module_id module;

		if (symbolizer_jit(g->symbolizer, space->pid, ip, time_ns, &module, &c.until_ns)) {
			c.is_generated = true;
			c.module = module;
			c.vaddr = ip;
			c.count = symbolizer_code(g->symbolizer, module, ip, &c.bytes);
		}
	}
	if (m && !c.module.v)
		c.module = m->module;
	return c;
}

static space_id space_for(space_id space, uint64_t ip)
{
	return ip_is_kernel(ip) ? SPACE_KERNEL : space;
}

/* A line under construction. */
struct line {
	struct graph *g;
	struct node *hot;
	struct node_cold *cold;
	uint64_t time_ns;
	struct code code; /* holds `ip` */
	uint64_t ip;      /* the next instruction */
	uint64_t func_start, func_end;
	bool switches_stacks;
	uint64_t inline_from, inline_until; /* vaddrs for which `inlined` holds */
	uint32_t inlined;
};

/* Decodes the instruction at l->ip, gathering it where it straddles two mappings. */
static bool line_decode(struct line *l, struct insn *insn, bool *have_bytes)
{
	uint8_t gathered[INSN_MAX_BYTES];
	struct code *c = &l->code;

	if (l->ip < c->ip || l->ip - c->ip >= c->count)
		*c = code_at(l->g, l->cold->space, l->ip, l->time_ns);
	size_t skip = l->ip - c->ip, count = c->count > skip ? c->count - skip : 0;
	*have_bytes = count > 0;
	if (!count)
		return false;
	if (insn_decode(c->bytes + skip, count, l->cold->mode, insn))
		return true;
	if (count >= INSN_MAX_BYTES)
		return false;
	memcpy(gathered, c->bytes + skip, count);
	while (count < INSN_MAX_BYTES) {
		struct code more = code_at(l->g, l->cold->space, l->ip + count, l->time_ns);

		if (!more.count)
			break;
		size_t take = INSN_MAX_BYTES - count;
		if (take > more.count)
			take = more.count;
		memcpy(gathered + count, more.bytes, take);
		count += take;
	}
	return insn_decode(gathered, count, l->cold->mode, insn);
}

static uint64_t line_vaddr(const struct line *l)
{
	return l->ip - l->code.ip + l->code.vaddr;
}

/* Follows the chain of inlined frames to the next instruction. */
static void line_inline(struct line *l, bool is_first)
{
	struct symbolizer *s = l->g->symbolizer;
	uint64_t vaddr = line_vaddr(l);

	if (l->g->flags & GRAPH_NO_INLINE)
		return;
	if (!is_first && vaddr >= l->inline_from && vaddr < l->inline_until)
		return;
	l->inline_from = vaddr;
	l->inline_until = vaddr;
	uint32_t inlined = symbolizer_inline_at(s, l->code.module, vaddr, &l->inline_until).v;
	if (is_first)
		l->hot->start_inline = inlined;
	else if (inlined != l->inlined)
		l->hot->flags |= NODE_INLINE_CHANGES;
	l->inlined = inlined;
}

/* Is the target of a jump part of this line's function? Pieces of one function (.cold) have
 * one id. */
static bool line_stays(struct line *l, uint64_t target)
{
	uint64_t vaddr = target - l->code.ip + l->code.vaddr;

	if (vaddr >= l->func_start && vaddr < l->func_end)
		return true;
	struct code c = code_at(l->g, l->cold->space, target, l->time_ns);
	if (!l->hot->func || !c.count || c.module.v != l->code.module.v)
		return !l->hot->func && c.module.v == l->code.module.v;
	return symbolizer_func(l->g->symbolizer, c.module, c.vaddr).v == l->hot->func;
}

static uint8_t node_kind_of(uint8_t insn_kind)
{
	static const uint8_t kinds[] = {
		[INSN_OTHER] = NODE_THROUGH,
		[INSN_COND] = NODE_COND,
		[INSN_JUMP] = NODE_JUMP,
		[INSN_JUMP_INDIRECT] = NODE_JUMP_INDIRECT,
		[INSN_CALL] = NODE_CALL,
		[INSN_CALL_INDIRECT] = NODE_CALL_INDIRECT,
		[INSN_RETURN] = NODE_RETURN,
		[INSN_SYSCALL] = NODE_SYSCALL,
		[INSN_INT] = NODE_SYSCALL,
		[INSN_SYSRET] = NODE_SYSRET,
		[INSN_IRET] = NODE_SYSRET,
		[INSN_FAR_CALL] = NODE_FAR,
		[INSN_FAR_JUMP] = NODE_FAR,
		[INSN_FAR_RETURN] = NODE_SYSRET,
		/* A guest's VMCALL leaves for the host, whose code is not ours to see. */
		[INSN_VMCALL] = NODE_THROUGH,
		[INSN_VMENTRY] = NODE_SYSRET,
		[INSN_XBEGIN] = NODE_THROUGH,
		[INSN_XEND] = NODE_THROUGH,
		[INSN_XABORT] = NODE_THROUGH,
		[INSN_PTWRITE] = NODE_THROUGH,
	};

	return kinds[insn_kind];
}

/* Ends the line at this instruction, or says that it goes on at l->ip. */
static bool line_take(struct line *l, const struct insn *insn)
{
	struct node *hot = l->hot;
	struct node_cold *cold = l->cold;
	uint64_t end = l->ip + insn->length;

	hot->insn_count++;
	cold->branch_ip = l->ip;
	cold->end_ip = cold->mode == INSN_32 ? end & 0xffffffff : end;
	cold->branch = insn->kind;
	hot->kind = node_kind_of(insn->kind);
	switch (insn->kind) {
	case INSN_OTHER:
	case INSN_VMCALL: l->ip = end; return hot->insn_count >= LINE_INSNS_MAX;
	case INSN_JUMP:
		cold->target_ip = insn_target(insn, l->ip, cold->mode);
		bool stays = line_stays(l, cold->target_ip);
		if (!stays)
			hot->flags |= NODE_TAIL_JUMP;
		if (!stays || l->g->flags & GRAPH_SPLIT_JUMPS)
			return true;
		if (hot->insn_count >= LINE_INSNS_MAX)
			return true;
		l->ip = cold->target_ip;
		return false;
	case INSN_COND:
		cold->target_ip = insn_target(insn, l->ip, cold->mode);
		if (!line_stays(l, cold->target_ip))
			hot->flags |= NODE_TAIL_JUMP;
		return true;
	case INSN_CALL:
		cold->target_ip = insn_target(insn, l->ip, cold->mode);
		if (cold->target_ip == cold->end_ip)
			hot->flags |= NODE_CALL_NEXT;
		return true;
	case INSN_XBEGIN:
	case INSN_XEND:
	case INSN_XABORT: return true;
	case INSN_PTWRITE: hot->flags |= NODE_PTWRITE; return true;
	}
	return true;
}

/* The first instruction has no bytes, or is none: the node is that fact. Later ones make a
 * node of their own. */
static void line_breaks(struct line *l, bool have_bytes)
{
	l->cold->target_ip = 0;
	if (l->hot->insn_count == 0) {
		l->hot->kind = have_bytes ? NODE_BAD : NODE_MISSING;
		l->cold->branch_ip = l->cold->end_ip = l->ip;
		l->cold->module = l->code.module;
		return;
	}
	l->hot->kind = NODE_THROUGH;
	l->cold->end_ip = l->ip;
}

static bool is_call_preceded(struct graph *g, space_id space, enum insn_mode mode, uint64_t end_ip,
			     uint64_t time_ns)
{
	enum { LONGEST = 10 };
	struct code c = code_at(g, space, end_ip - LONGEST, time_ns);
	struct insn insn;

	/* A module may begin less than a call's length before. */
	for (size_t length = LONGEST; length >= 2; length--) {
		uint64_t at = end_ip - length;

		if (at - c.ip >= c.count)
			c = code_at(g, space, at, time_ns);
		size_t skip = at - c.ip;
		if (c.count < skip + length)
			continue;
		if (insn_decode(c.bytes + skip, length, mode, &insn) && insn.length == length &&
		    (insn.kind == INSN_CALL || insn.kind == INSN_CALL_INDIRECT))
			return true;
	}
	return false;
}

/* Fills both halves of a new node. */
static void discover(struct graph *g, space_id space, enum insn_mode mode, uint64_t ip,
		     uint64_t time_ns, node_id id)
{
	struct line l = {.g = g,
			 .hot = &g->tables.hot[id],
			 .cold = &g->tables.cold[id],
			 .time_ns = time_ns,
			 .ip = ip};
	struct insn insn;
	bool have_bytes, done = false;

	l.hot->ip = l.cold->ip = ip;
	l.hot->flags = ip_is_kernel(ip) ? NODE_KERNEL : 0;
	l.cold->space = space;
	l.cold->mode = (uint8_t)mode;
	while (!done) {
		bool is_first = l.hot->insn_count == 0;

		if (!line_decode(&l, &insn, &have_bytes)) {
			line_breaks(&l, have_bytes);
			break;
		}
		if (is_first) {
			const struct func *f;
			func_id func = symbolizer_func(g->symbolizer, l.code.module, l.code.vaddr);

			l.cold->module = l.code.module;
			l.cold->vaddr = l.code.vaddr;
			l.cold->is_generated = l.code.is_generated;
			if (l.code.is_generated)
				l.cold->from_ns = time_ns == TIME_NONE ? TIME_NONE - 1 : time_ns;
			l.cold->until_ns = l.code.until_ns;
			l.hot->func = func.v;
			f = func.v ? symbolizer_func_get(g->symbolizer, func) : NULL;
			if (f) {
				l.func_start = f->start;
				l.func_end = f->end;
				l.switches_stacks = f->role == FUNC_STACK_SWITCH;
				if (f->start == l.code.vaddr)
					l.hot->flags |= NODE_INTO_FUNCTION;
			}
		}
		line_inline(&l, is_first);
		done = line_take(&l, &insn);
	}
	l.hot->end_inline = l.inlined;
	if (l.switches_stacks && (l.hot->kind == NODE_RETURN ||
				  (l.hot->kind == NODE_JUMP && l.hot->flags & NODE_TAIL_JUMP)))
		l.hot->flags |= NODE_STACK_SWITCH;
	if (l.hot->insn_count && is_call_preceded(g, space, mode, ip, time_ns))
		l.hot->flags |= NODE_CALL_PRECEDED;
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
		struct code code = code_at(g, cold->space, cold->ip, time_ns);

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
		discover(g, space, mode, ip, time_ns, id);
		g->tables.cold[id].is_later_version = last != 0;
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

		/* Generated code leads to code of its own time. */
		uint64_t from_ns = atomic_load_explicit(&cold->from_ns, memory_order_relaxed);
		edge = graph_node_at(g, cold->space, cold->mode,
				     slot ? cold->target_ip : cold->end_ip,
				     cold->is_generated && from_ns ? from_ns : TIME_NONE);
		if (edge && is_edge_event(g, node, edge, slot))
			edge |= NODE_EDGE_EVENT;
		atomic_store_explicit(succ, edge, memory_order_release);
	}
	return edge;
}

node_id graph_successor(struct graph *g, node_id node, int slot)
{
	return graph_edge(g, node, slot) & ~NODE_EDGE_EVENT;
}

bool graph_is_call_preceded(struct graph *g, space_id space, uint64_t end_ip)
{
	pthread_mutex_lock(&g->lock);
	bool result = is_call_preceded(g, space_for(space, end_ip), INSN_64, end_ip, TIME_NONE);
	pthread_mutex_unlock(&g->lock);
	return result;
}

size_t graph_code(struct graph *g, space_id space, uint64_t ip, const uint8_t **bytes)
{
	pthread_mutex_lock(&g->lock);
	struct code c = code_at(g, space_for(space, ip), ip, TIME_NONE);
	pthread_mutex_unlock(&g->lock);
	if (c.count)
		*bytes = c.bytes;
	return c.count;
}

bool graph_node_has_instruction(struct graph *g, node_id node, uint64_t ip)
{
	const struct node_cold *cold = &g->tables.cold[node];
	struct node scratch_hot = {0};
	struct node_cold scratch = *cold;
	struct line l = {.g = g,
			 .hot = &scratch_hot,
			 .cold = &scratch,
			 .time_ns = TIME_NONE,
			 .ip = cold->ip};
	struct insn insn;
	bool have_bytes;

	if (ip == cold->ip || ip == cold->branch_ip)
		return true;
	pthread_mutex_lock(&g->lock);
	bool found = false;
	for (unsigned i = 0; i < g->tables.hot[node].insn_count && !found; i++) {
		found = l.ip == ip;
		if (!line_decode(&l, &insn, &have_bytes))
			break;
		l.ip = insn.kind == INSN_JUMP ? insn_target(&insn, l.ip, cold->mode)
					      : l.ip + insn.length;
	}
	pthread_mutex_unlock(&g->lock);
	return found;
}
