/* See tree.h.
 *
 * The builder runs through the events with a stack of the calls that began in this piece and
 * have not returned. It knows the ordinary half of transfer.c by heart: calls, returns to where
 * the top frame waits, tail calls, PLT stubs, inlined frames. At anything else it forgets its
 * stack: what is open then will not be closed, but calls that have returned are trees already.
 *
 *     open     [main>f  trees so far: 0] [f>g  trees so far: 2]
 *     trees     a b | c d                 g returns: c and d are its own, it is one tree now */
#include "decode/tree.h"

#include <stdlib.h>

#include "decode/facts.h"

enum { ROWS_PER_EVENT_MAX = 16 /* beyond it, inlined frames are not worth it */ };

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE      static inline __attribute__((always_inline))

/* A frame of a call in this piece, or an inlined one in it. */
struct open_frame {
	uint32_t row;   /* CALL_NONE = not drawn */
	uint32_t above; /* parent of the rows above it */
	uint32_t func;  /* or inline_id.v */
	bool is_inlined, is_transparent;
	/* of a physical one */
	node_id ret, site;
	uint32_t below; /* index of the physical frame beneath */
	uint32_t first_event, first_row, trees;
};

struct tree_builder {
	struct facts facts;
	const struct node *hot;
	const struct flow_event *events;
	struct trees *trees;
	size_t rows_max;
	uint64_t now_ns;
	uint32_t depth, top; /* of `open`; the topmost physical frame */
	struct open_frame open[TREE_DEPTH_MAX];
};

enum err tree_builder_new(struct graph *graph, struct tree_builder **result)
{
	struct tree_builder *b = malloc(sizeof *b);

	if (!b)
		return ERR_NOMEM;
	facts_init(&b->facts, graph, graph_symbolizer(graph));
	b->hot = graph_tables(graph).hot;
	*result = b;
	return ERR_NONE;
}

void tree_builder_free(struct tree_builder *b)
{
	if (!b)
		return;
	facts_done(&b->facts);
	free(b);
}

void trees_done(struct trees *trees)
{
	vec_done(&trees->items);
	vec_done(&trees->rows);
}

INLINE void builder_forget(struct tree_builder *b)
{
	b->depth = 0;
}

/* ---- rows ---- */

INLINE uint32_t builder_row(struct tree_builder *b, enum call_kind kind, uint32_t what,
			    node_id site, uint32_t parent, unsigned flags)
{
	struct trees *t = b->trees;

	if (UNLIKELY(t->rows.count == t->rows.capacity) &&
	    (t->rows.count >= b->rows_max || !vec_reserve(&t->rows, t->rows.count + 1))) {
		b->facts.out_of_memory |= t->rows.count < b->rows_max;
		b->rows_max = 0;
		return CALL_NONE;
	}
	t->rows.items[t->rows.count] = (struct call){.start_ns = b->now_ns,
						     .what = what,
						     .site = site,
						     .parent = parent,
						     .flags = (uint16_t)flags,
						     .kind = (uint8_t)kind};
	return (uint32_t)t->rows.count++;
}

/* Ends the frames from `first` on. */
INLINE void builder_end(struct tree_builder *b, uint32_t first)
{
	for (uint32_t i = b->depth; i-- > first;)
		if (b->open[i].row != CALL_NONE)
			b->trees->rows.items[b->open[i].row].end_ns = b->now_ns;
	b->depth = first;
}

/* ---- inlined frames ---- */

static void builder_inline_set(struct tree_builder *b, uint32_t innermost)
{
	const struct open_frame *last = &b->open[b->depth - 1];
	uint32_t chain[INLINE_DEPTH_MAX];

	if ((last->is_inlined ? last->func : 0) == innermost)
		return;
	uint32_t depth = (uint32_t)facts_inline_chain(&b->facts, innermost, chain);
	uint32_t same = 0, base = b->top + 1;
	while (same < depth && base + same < b->depth &&
	       b->open[base + same].func == chain[depth - 1 - same])
		same++;
	builder_end(b, base + same);
	if (depth > TREE_DEPTH_MAX - base) {
		builder_forget(b);
		return;
	}
	for (; same < depth; same++) {
		uint32_t id = chain[depth - 1 - same], above = b->open[b->depth - 1].above;
		uint32_t row = builder_row(b, CALL_INLINED, id, 0, above, 0);

		b->open[b->depth++] = (struct open_frame){
			.row = row, .above = row, .func = id, .is_inlined = true};
	}
}

static __attribute__((noinline)) void builder_inline_walk(struct tree_builder *b, node_id node)
{
	const struct node *n = &b->hot[node];
	const uint32_t *innermost = NULL;
	size_t count = 0;

	builder_inline_set(b, n->start_inline);
	if (n->flags & NODE_INLINE_CHANGES)
		count = facts_line(&b->facts, node, &innermost);
	for (size_t i = 0; i < count && b->depth; i++)
		builder_inline_set(b, innermost[i]);
	if (b->depth)
		builder_inline_set(b, n->end_inline);
}

/* As strand_inline_to(). */
INLINE void builder_inline_to(struct tree_builder *b, node_id node)
{
	const struct node *n = &b->hot[node];

	if (LIKELY(!(n->start_inline | n->end_inline) && b->depth == b->top + 1 &&
		   !(n->flags & NODE_INLINE_CHANGES)))
		return;
	if (!b->open[b->top].is_transparent)
		builder_inline_walk(b, node);
}

/* ---- calls, jumps, returns ---- */

/* Roles without rules of their own. */
INLINE bool role_is_ordinary(enum func_role role)
{
	return role == FUNC_PLAIN || role_is_transparent(role) || role == FUNC_PERSONALITY;
}

/* Pushes the frame that runs `node`; it takes the place of the row `replaced`. */
INLINE void builder_push(struct tree_builder *b, struct open_frame f, node_id node,
			 enum func_role role, uint32_t replaced)
{
	uint32_t parent = b->depth ? b->open[b->depth - 1].above : CALL_NONE;
	bool is_tail = replaced != CALL_NONE;

	f.func = b->hot[node].func;
	f.is_transparent = role_is_transparent(role);
	f.row = CALL_NONE;
	f.above = parent;
	if (!f.is_transparent)
		f.above = f.row = builder_row(b, CALL_FRAME, node, f.site,
					      is_tail ? replaced : parent, is_tail ? CALL_TAIL : 0);
	b->top = b->depth;
	b->open[b->depth++] = f;
	builder_inline_to(b, node);
}

INLINE void builder_call(struct tree_builder *b, const struct flow_event *e)
{
	const struct node *from = &b->hot[e->from], *to = &b->hot[e->to];
	enum func_role role = facts_role(&b->facts, to->func);
	bool is_local = !(to->flags & NODE_INTO_FUNCTION) && to->func && to->func == from->func;

	if (UNLIKELY(from->flags & NODE_CALL_NEXT))
		return;
	node_id ret = graph_successor(b->facts.graph, e->from, 0);
	if (UNLIKELY(is_local || to->kind == NODE_MISSING || !role_is_ordinary(role) || !ret)) {
		builder_forget(b);
		return;
	}
	if (UNLIKELY(b->depth == TREE_DEPTH_MAX))
		builder_forget(b);
	struct open_frame f = {.ret = ret,
			       .site = e->from,
			       .below = b->top,
			       .first_event = (uint32_t)(e - b->events),
			       .first_row = (uint32_t)b->trees->rows.count,
			       .trees = (uint32_t)b->trees->items.count};
	builder_push(b, f, e->to, role, CALL_NONE);
}

INLINE bool is_same_ip(const struct tree_builder *b, node_id x, node_id y)
{
	return x == y || b->hot[x].ip == b->hot[y].ip;
}

static void builder_jump(struct tree_builder *b, const struct flow_event *e)
{
	const struct node *from = &b->hot[e->from], *to = &b->hot[e->to];
	enum func_role role = facts_role(&b->facts, to->func);
	struct open_frame f = b->open[b->top];

	if (role == FUNC_INDIRECT_THUNK || role == FUNC_RETURN_THUNK)
		return;
	bool ordinary = to->kind != NODE_MISSING && role_is_ordinary(role);
	if (!f.is_transparent) {
		const struct node_cold *cold = b->facts.tables.cold;
		bool returns = from->kind != NODE_JUMP && is_same_ip(b, f.ret, e->to);
		/* Perhaps a namesake in the dynamic linker. */
		bool forwarded = f.func && f.func == from->func && to->func &&
				 cold[e->from].module.v != cold[e->to].module.v;

		ordinary = ordinary && to->flags & NODE_INTO_FUNCTION && !returns && !forwarded;
	}
	if (!ordinary) {
		builder_forget(b);
		return;
	}
	builder_end(b, b->top);
	builder_push(b, f, e->to, role, f.row);
}

/* The call of frame f has returned: one tree in place of those of its own calls. */
INLINE void builder_close(struct tree_builder *b, const struct open_frame *f, uint32_t end_event)
{
	struct trees *t = b->trees;

	t->items.items[f->trees] = (struct tree){.first_event = f->first_event,
						 .end_event = end_event,
						 .first_row = f->first_row,
						 .end_row = (uint32_t)t->rows.count,
						 .inlined = TREE_ANY_CHAIN};
	t->items.count = f->trees + 1;
}

INLINE void builder_return(struct tree_builder *b, const struct flow_event *e)
{
	const struct open_frame *f = &b->open[b->top];

	if (UNLIKELY(!is_same_ip(b, f->ret, e->to))) {
		builder_forget(b);
		return;
	}
	builder_end(b, b->top);
	builder_close(b, f, (uint32_t)(e - b->events) + 1);
	b->top = f->below;
	if (b->depth)
		builder_inline_to(b, e->to);
}

/* ---- the whole ---- */

/* Makes one of two trees, when nothing happens to the frame between them. */
static bool trees_merge(const struct tree_builder *b, struct tree *a, const struct tree *next)
{
	if (a->end_event != next->first_event || a->end_row != next->first_row)
		return false;
	const struct flow_event *ret = &b->events[a->end_event - 1], *call = ret + 1;
	const struct node *n = &b->hot[ret->to];
	bool same = n->start_inline == n->end_inline && !(n->flags & NODE_INLINE_CHANGES) &&
		    b->hot[call->from].end_inline == n->end_inline &&
		    (a->inlined == TREE_ANY_CHAIN || a->inlined == n->end_inline);
	if (!same || call->time_ns < ret->time_ns)
		return false;
	a->inlined = n->end_inline;
	a->end_event = next->end_event;
	a->end_row = next->end_row;
	return true;
}

static void trees_merge_neighbours(const struct tree_builder *b)
{
	struct tree *items = b->trees->items.items;
	size_t kept = 0;

	for (size_t i = 0; i < b->trees->items.count; i++)
		if (kept == 0 || !trees_merge(b, &items[kept - 1], &items[i]))
			items[kept++] = items[i];
	b->trees->items.count = kept;
}

enum err trees_build(struct tree_builder *b, const struct flow_event *events, size_t count,
		     struct trees *trees)
{
	trees->items.count = trees->rows.count = 0;
	if (count > UINT32_MAX / 2 / ROWS_PER_EVENT_MAX)
		return ERR_NONE;
	if (!vec_reserve(&trees->items, count / 2 + 1)) /* a call and a return each */
		return ERR_NOMEM;
	b->events = events;
	b->trees = trees;
	b->rows_max = count * ROWS_PER_EVENT_MAX;
	b->now_ns = 0;
	b->depth = b->top = 0;
	for (const struct flow_event *e = events; e < events + count; e++) {
		if (UNLIKELY(e->time_ns < b->now_ns))
			builder_forget(b);
		b->now_ns = e->time_ns;
		if (e->kind == FLOW_CALL)
			builder_call(b, e);
		else if (b->depth == 0)
			continue;
		else if (e->kind == FLOW_RETURN)
			builder_return(b, e);
		else if (e->kind == FLOW_JUMP)
			builder_jump(b, e);
		else if (e->kind == FLOW_STEP)
			builder_inline_to(b, e->to);
		else
			builder_forget(b);
		if (UNLIKELY(b->rows_max == 0))
			break; /* a row is missing in what is open */
	}
	trees_merge_neighbours(b);
	return b->facts.out_of_memory ? ERR_NOMEM : ERR_NONE;
}
