/* See tree.h.
 *
 * The builder runs through the events with a stack of the calls that began in this piece and
 * have not returned. It knows the ordinary half of transfer.c by heart: calls, returns to where
 * the top frame waits, tail calls, PLT stubs, inlined frames. At anything else it forgets its
 * stack: what is open then will not be closed, but calls that have returned are spans already.
 *
 *     open      [main>f  spans so far: 0] [f>g  spans so far: 2]
 *     spans      a b | c d                g returns: c and d are its own, it is one span now
 *
 * What it changes with every event is in registers (struct run), for which the rare and long
 * ways get and return a copy. */
#include "decode/tree.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "decode/facts.h"

enum { ROWS_PER_EVENT_MAX = 16 /* beyond it, inlined frames are not worth it */ };

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE      static inline __attribute__((always_inline))

/* A call in this piece that has not returned. */
struct open_call {
	const struct flow_event *call;
	node_id ret;
	uint32_t first_row;
	uint32_t spans; /* there were when it began */
	uint32_t row;   /* of the frame that runs in it; CALL_NONE = it is transparent */
	uint32_t above; /* parent of the rows above it */
	uint32_t func;
	uint32_t inlined, inlined_count; /* its part of open_inlined */
};

struct open_inlined {
	uint32_t row, id;
};

/* A call that has returned, with all in it. */
struct span {
	const struct flow_event *call, *end;
	uint32_t first_row, end_row;
};

struct run {
	uint64_t now_ns;
	struct open_call *top; /* builder.open: none */
	struct call *rows;
	size_t row_count, span_count;
};

struct tree_builder {
	struct facts facts;
	const struct node *hot;
	struct trees *trees;
	VEC(struct span) spans;
	struct open_call
		open[1 + TREE_DEPTH_MAX]; /* the first one is none, and waits for nothing */
	struct open_inlined open_inlined[TREE_DEPTH_MAX];
};

enum err tree_builder_new(struct graph *graph, struct tree_builder **result)
{
	struct tree_builder *b = calloc(1, sizeof *b);

	if (!b)
		return ERR_NOMEM;
	facts_init(&b->facts, graph, graph_symbolizer(graph));
	b->hot = graph_tables(graph).hot;
	b->open[0].row = b->open[0].above = CALL_NONE;
	*result = b;
	return ERR_NONE;
}

void tree_builder_free(struct tree_builder *b)
{
	if (!b)
		return;
	facts_done(&b->facts);
	vec_done(&b->spans);
	free(b);
}

void trees_done(struct trees *trees)
{
	vec_done(&trees->items);
	vec_done(&trees->rows);
}

/* ---- rows ---- */

/* Room for another row. False: memory is short, or there are too many. */
static bool make_room(struct tree_builder *b, struct run *r)
{
	if (!vec_reserve(&b->trees->rows, r->row_count + 1)) {
		b->facts.out_of_memory = true;
		return false;
	}
	r->rows = b->trees->rows.items;
	return r->row_count < UINT32_MAX;
}

/* Opens a row, for which there is room. */
INLINE uint32_t add_row(struct run *r, enum call_kind kind, uint32_t what, node_id site,
			uint32_t parent, unsigned flags)
{
	r->rows[r->row_count] = (struct call){.start_ns = r->now_ns,
					      .end_ns = r->now_ns,
					      .what = what,
					      .site = site,
					      .parent = parent,
					      .flags = (uint16_t)flags,
					      .kind = (uint8_t)kind};
	return (uint32_t)r->row_count++;
}

/* ---- inlined frames ---- */

/* Ends the inlined frames of a call from the nth on. */
INLINE void end_inlined(const struct tree_builder *b, const struct run *r, struct open_call *f,
			uint32_t nth)
{
	while (UNLIKELY(f->inlined_count > nth))
		r->rows[b->open_inlined[f->inlined + --f->inlined_count].row].end_ns = r->now_ns;
}

static void set_inlined(struct tree_builder *b, struct run *r, uint32_t innermost)
{
	struct open_call *f = r->top;
	struct open_inlined *open = &b->open_inlined[f->inlined];
	uint32_t chain[INLINE_DEPTH_MAX];

	if ((f->inlined_count ? open[f->inlined_count - 1].id : 0) == innermost)
		return;
	uint32_t depth = (uint32_t)facts_inline_chain(&b->facts, innermost, chain), same = 0;
	while (same < depth && same < f->inlined_count && open[same].id == chain[depth - 1 - same])
		same++;
	end_inlined(b, r, f, same);
	f->above = same ? open[same - 1].row : f->row;
	for (; same < depth; same++) {
		bool room = f->inlined + same < TREE_DEPTH_MAX &&
			    (r->row_count < b->trees->rows.capacity || make_room(b, r));

		if (!room) {
			r->top = b->open;
			return;
		}
		uint32_t id = chain[depth - 1 - same];
		f->above = add_row(r, CALL_INLINED, id, 0, f->above, 0);
		open[f->inlined_count++] = (struct open_inlined){.row = f->above, .id = id};
	}
}

static __attribute__((noinline)) struct run walk_inlined(struct tree_builder *b, struct run r,
							 node_id node)
{
	const struct node *n = &b->hot[node];
	const uint32_t *innermost = NULL;
	size_t count = n->flags & NODE_INLINE_CHANGES ? facts_line(&b->facts, node, &innermost) : 0;

	set_inlined(b, &r, n->start_inline);
	for (size_t i = 0; i < count && r.top > b->open; i++)
		set_inlined(b, &r, innermost[i]);
	if (r.top > b->open)
		set_inlined(b, &r, n->end_inline);
	return r;
}

/* As strand_inline_to(). */
INLINE void inline_to(struct tree_builder *b, struct run *r, node_id node)
{
	const struct node *n = &b->hot[node];

	if (LIKELY(!(n->start_inline | n->end_inline | r->top->inlined_count |
		     (n->flags & NODE_INLINE_CHANGES))))
		return;
	if (r->top->row != CALL_NONE)
		*r = walk_inlined(b, *r, node);
}

/* ---- calls, jumps, returns ---- */

/* Roles without rules of their own. */
INLINE bool role_is_ordinary(enum func_role role)
{
	return role == FUNC_PLAIN || role == FUNC_PERSONALITY || role_is_transparent(role);
}

INLINE bool is_same_ip(const struct tree_builder *b, node_id x, node_id y)
{
	return LIKELY(x == y) || b->hot[x].ip == b->hot[y].ip;
}

/* The node behind a call. */
INLINE node_id return_node(struct tree_builder *b, node_id call)
{
	node_id n = atomic_load_explicit(&b->hot[call].succ[0], memory_order_acquire);

	return LIKELY(n) ? n : graph_successor(b->facts.graph, call, 0);
}

/* `node` runs in the call on top, maybe in place of the row `replaced`. */
INLINE void enter(struct tree_builder *b, struct run *r, node_id node, enum func_role role,
		  uint32_t replaced)
{
	struct open_call *f = r->top;
	uint32_t parent = f[-1].above;

	f->func = b->hot[node].func;
	if (UNLIKELY(role_is_transparent(role))) {
		f->row = CALL_NONE;
		f->above = parent;
		return;
	}
	node_id site = f->call->from;
	f->row = f->above = replaced == CALL_NONE
				    ? add_row(r, CALL_FRAME, node, site, parent, 0)
				    : add_row(r, CALL_FRAME, node, site, replaced, CALL_TAIL);
	inline_to(b, r, node);
}

INLINE void take_call(struct tree_builder *b, struct run *r, const struct flow_event *e)
{
	const struct node *from = &b->hot[e->from], *to = &b->hot[e->to];
	enum func_role role = facts_role(&b->facts, to->func);
	bool is_local = !(to->flags & NODE_INTO_FUNCTION) && to->func && to->func == from->func;

	if (UNLIKELY(from->flags & NODE_CALL_NEXT))
		return;
	node_id ret = return_node(b, e->from);
	if (UNLIKELY(!role_is_ordinary(role) || is_local || to->kind == NODE_MISSING || !ret)) {
		r->top = b->open;
		return;
	}
	if (UNLIKELY(r->top == &b->open[TREE_DEPTH_MAX]))
		r->top = b->open;
	struct open_call *f = ++r->top;
	f->call = e;
	f->ret = ret;
	f->first_row = (uint32_t)r->row_count;
	f->spans = (uint32_t)r->span_count;
	f->inlined = f[-1].inlined + f[-1].inlined_count;
	f->inlined_count = 0;
	enter(b, r, e->to, role, CALL_NONE);
}

/* May a jump to an ordinary function that leaves a frame that is drawn be more than a tail
 * call? Behind its return address; inside a function; to a namesake in the dynamic linker. */
static bool is_odd_jump(const struct tree_builder *b, const struct open_call *f,
			const struct flow_event *e)
{
	const struct node *from = &b->hot[e->from], *to = &b->hot[e->to];
	const struct node_cold *cold = b->facts.tables.cold;

	return !(to->flags & NODE_INTO_FUNCTION) ||
	       (from->kind != NODE_JUMP && is_same_ip(b, f->ret, e->to)) ||
	       (f->func && f->func == from->func && to->func &&
		cold[e->from].module.v != cold[e->to].module.v);
}

INLINE void take_jump(struct tree_builder *b, struct run *r, const struct flow_event *e)
{
	const struct node *to = &b->hot[e->to];
	enum func_role role = facts_role(&b->facts, to->func);
	uint32_t row = r->top->row;

	if (role == FUNC_INDIRECT_THUNK || role == FUNC_RETURN_THUNK)
		return;
	if (UNLIKELY(to->kind == NODE_MISSING || !role_is_ordinary(role) ||
		     (row != CALL_NONE && is_odd_jump(b, r->top, e)))) {
		r->top = b->open;
		return;
	}
	end_inlined(b, r, r->top, 0);
	if (row != CALL_NONE)
		r->rows[row].end_ns = r->now_ns;
	enter(b, r, e->to, role, row);
}

INLINE void take_return(struct tree_builder *b, struct run *r, const struct flow_event *e)
{
	struct open_call *f = r->top;

	if (UNLIKELY(!is_same_ip(b, f->ret, e->to))) {
		r->top = b->open;
		return;
	}
	end_inlined(b, r, f, 0);
	if (LIKELY(f->row != CALL_NONE))
		r->rows[f->row].end_ns = r->now_ns;
	b->spans.items[f->spans] =
		(struct span){f->call, e + 1, f->first_row, (uint32_t)r->row_count};
	r->span_count = f->spans + 1;
	r->top--;
	inline_to(b, r, e->to);
}

/* Runs through the events; returns how many spans there are. */
static size_t find_spans(struct tree_builder *b, const struct flow_event *events, size_t count)
{
	size_t rows_max = count * ROWS_PER_EVENT_MAX;
	struct run r = {.top = b->open, .rows = b->trees->rows.items};

	for (const struct flow_event *e = events, *end = e + count; e < end; e++) {
		if (UNLIKELY(e->time_ns < r.now_ns))
			r.top = b->open;
		r.now_ns = e->time_ns;
		if (e->kind == FLOW_CALL || e->kind == FLOW_JUMP) {
			if (UNLIKELY(r.row_count == b->trees->rows.capacity)) {
				struct run copy = r;

				if (r.row_count > rows_max || !make_room(b, &copy))
					break;
				r = copy;
			}
			if (e->kind == FLOW_CALL)
				take_call(b, &r, e);
			else if (r.top > b->open)
				take_jump(b, &r, e);
		} else if (r.top == b->open) {
			continue;
		} else if (LIKELY(e->kind == FLOW_RETURN)) {
			take_return(b, &r, e);
		} else if (e->kind == FLOW_STEP) {
			inline_to(b, &r, e->to);
		} else {
			r.top = b->open;
		}
	}
	b->trees->rows.count = r.row_count;
	return r.span_count;
}

/* ---- the whole ---- */

/* Makes one of a tree and the next span, when nothing happens to the frame between them. */
static bool tree_extend(const struct tree_builder *b, struct tree *t,
			const struct flow_event *events, const struct span *next)
{
	const struct flow_event *ret = &events[t->end_event - 1], *call = ret + 1;
	const struct node *n = &b->hot[ret->to];

	if (call != next->call || t->end_row != next->first_row || call->time_ns < ret->time_ns)
		return false;
	bool same = n->start_inline == n->end_inline && !(n->flags & NODE_INLINE_CHANGES) &&
		    b->hot[call->from].end_inline == n->end_inline &&
		    (t->inlined == TREE_ANY_CHAIN || t->inlined == n->end_inline);
	if (!same)
		return false;
	t->inlined = n->end_inline;
	t->end_event = (uint32_t)(next->end - events);
	t->end_row = next->end_row;
	return true;
}

enum err trees_build(struct tree_builder *b, const struct flow_event *events, size_t count,
		     struct trees *trees)
{
	trees->items.count = trees->rows.count = 0;
	if (count == 0 || count > UINT32_MAX / 2 / ROWS_PER_EVENT_MAX)
		return ERR_NONE;
	if (!vec_reserve(&b->spans, count / 2 + 1)) /* a call and a return each */
		return ERR_NOMEM;
	b->trees = trees;
	size_t span_count = find_spans(b, events, count);
	for (const struct span *s = b->spans.items; s < b->spans.items + span_count; s++) {
		struct tree t = {.first_event = (uint32_t)(s->call - events),
				 .end_event = (uint32_t)(s->end - events),
				 .first_row = s->first_row,
				 .end_row = s->end_row,
				 .inlined = TREE_ANY_CHAIN};
		bool is_part =
			trees->items.count && tree_extend(b, vec_last(&trees->items), events, s);

		if (!is_part && !vec_push(&trees->items, t))
			return ERR_NOMEM;
	}
	return b->facts.out_of_memory ? ERR_NOMEM : ERR_NONE;
}
