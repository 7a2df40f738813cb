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
 * The ways that are taken most are kept short: what they change is in registers (struct run),
 * what they need to know of a function's entry is one byte. */
#include "decode/tree.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

/* What is known of a node to call or jump to. */
enum entry {
	ENTRY_UNKNOWN,
	ENTRY_PLAIN, /* a function without any role, and nothing is inlined here */
	ENTRY_OTHER,
};

/* What changes with every event. */
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
	size_t rows_max;
	uint8_t *entries; /* indexed by node_id: enum entry */
	size_t entry_count;
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
	free(b->entries);
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
static __attribute__((noinline)) bool make_room(struct tree_builder *b, size_t row_count)
{
	if (row_count >= b->rows_max)
		return false;
	if (vec_reserve(&b->trees->rows, row_count + 1))
		return true;
	b->facts.out_of_memory = true;
	return false;
}

INLINE struct call new_row(uint64_t now_ns, enum call_kind kind, uint32_t what, node_id site,
			   uint32_t parent, unsigned flags)
{
	return (struct call){.start_ns = now_ns,
			     .end_ns = now_ns,
			     .what = what,
			     .site = site,
			     .parent = parent,
			     .flags = (uint16_t)flags,
			     .kind = (uint8_t)kind};
}

/* ---- inlined frames ---- */

/* Ends the inlined frames of a call from the nth on. */
INLINE void end_inlined(const struct tree_builder *b, struct call *rows, struct open_call *f,
			uint32_t nth, uint64_t now_ns)
{
	while (UNLIKELY(f->inlined_count > nth))
		rows[b->open_inlined[f->inlined + --f->inlined_count].row].end_ns = now_ns;
}

/* Opens an inlined frame in the call f. False: there is no room. */
static bool open_inlined(struct tree_builder *b, struct open_call *f, uint32_t id, uint64_t now_ns)
{
	struct trees *t = b->trees;

	if (f->inlined + f->inlined_count == TREE_DEPTH_MAX ||
	    (t->rows.count == t->rows.capacity && !make_room(b, t->rows.count)))
		return false;
	t->rows.items[t->rows.count] = new_row(now_ns, CALL_INLINED, id, 0, f->above, 0);
	f->above = (uint32_t)t->rows.count++;
	b->open_inlined[f->inlined + f->inlined_count++] =
		(struct open_inlined){.row = f->above, .id = id};
	return true;
}

/* As strand_inline_set(), where that is more than nothing. */
static __attribute__((noinline)) bool change_inlined(struct tree_builder *b, struct open_call *f,
						     uint32_t innermost, uint64_t now_ns)
{
	const struct open_inlined *open = &b->open_inlined[f->inlined];
	uint32_t chain[INLINE_DEPTH_MAX];

	if (!innermost) {
		end_inlined(b, b->trees->rows.items, f, 0, now_ns);
		f->above = f->row;
		return true;
	}
	uint32_t depth = (uint32_t)facts_inline_chain(&b->facts, innermost, chain), same = 0;
	while (same < depth && same < f->inlined_count && open[same].id == chain[depth - 1 - same])
		same++;
	end_inlined(b, b->trees->rows.items, f, same, now_ns);
	f->above = same ? open[same - 1].row : f->row;
	for (; same < depth; same++)
		if (!open_inlined(b, f, chain[depth - 1 - same], now_ns))
			return false;
	return true;
}

INLINE bool set_inlined(struct tree_builder *b, struct open_call *f, uint32_t innermost,
			uint64_t now_ns)
{
	const struct open_inlined *open = &b->open_inlined[f->inlined];
	uint32_t now = f->inlined_count ? open[f->inlined_count - 1].id : 0;

	return now == innermost || change_inlined(b, f, innermost, now_ns);
}

/* As strand_inline_to(), where that is more than nothing. False: there is no room. */
static __attribute__((noinline)) bool walk_inlined(struct tree_builder *b, struct open_call *f,
						   node_id node, uint64_t now_ns)
{
	const struct node *n = &b->hot[node];
	const uint32_t *innermost = NULL;
	size_t count = n->flags & NODE_INLINE_CHANGES ? facts_line(&b->facts, node, &innermost) : 0;
	bool ok = set_inlined(b, f, n->start_inline, now_ns);

	for (size_t i = 0; i < count && ok; i++)
		ok = set_inlined(b, f, innermost[i], now_ns);
	return ok && set_inlined(b, f, n->end_inline, now_ns);
}

INLINE bool has_inlined(const struct node *n)
{
	return n->start_inline | n->end_inline | (n->flags & NODE_INLINE_CHANGES);
}

INLINE void inline_to(struct tree_builder *b, struct run *r, node_id node)
{
	struct open_call *f = r->top;

	if (LIKELY(!has_inlined(&b->hot[node]) && !f->inlined_count) || f->row == CALL_NONE)
		return;
	b->trees->rows.count = r->row_count;
	if (!walk_inlined(b, f, node, r->now_ns))
		r->top = b->open;
	r->rows = b->trees->rows.items;
	r->row_count = b->trees->rows.count;
}

/* ---- calls, jumps, returns ---- */

/* Roles without rules of their own. */
static bool role_is_ordinary(enum func_role role)
{
	return role == FUNC_PLAIN || role == FUNC_PERSONALITY || role_is_transparent(role);
}

static __attribute__((noinline)) enum entry ask_entry(struct tree_builder *b, node_id node)
{
	const struct node *n = &b->hot[node];
	size_t grown = (size_t)node + node / 2 + 1024;

	if (node >= b->entry_count) {
		uint8_t *p = realloc(b->entries, grown);

		if (!p) {
			b->facts.out_of_memory = true;
			return ENTRY_OTHER;
		}
		memset(p + b->entry_count, ENTRY_UNKNOWN, grown - b->entry_count);
		b->entries = p;
		b->entry_count = grown;
	}
	bool plain = n->flags & NODE_INTO_FUNCTION && n->kind != NODE_MISSING && !has_inlined(n) &&
		     facts_role(&b->facts, n->func) == FUNC_PLAIN;
	return b->entries[node] = plain ? ENTRY_PLAIN : ENTRY_OTHER;
}

INLINE bool entry_is_plain(struct tree_builder *b, node_id node)
{
	enum entry known = node < b->entry_count ? b->entries[node] : ENTRY_UNKNOWN;

	if (UNLIKELY(known == ENTRY_UNKNOWN))
		known = ask_entry(b, node);
	return known == ENTRY_PLAIN;
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
INLINE void enter(struct tree_builder *b, struct run *r, node_id node, bool is_plain,
		  uint32_t replaced)
{
	struct open_call *f = r->top;
	uint32_t parent = f[-1].above;

	f->func = b->hot[node].func;
	if (!is_plain && role_is_transparent(facts_role(&b->facts, f->func))) {
		f->row = CALL_NONE;
		f->above = parent;
		return;
	}
	r->rows[r->row_count] =
		replaced == CALL_NONE
			? new_row(r->now_ns, CALL_FRAME, node, f->call->from, parent, 0)
			: new_row(r->now_ns, CALL_FRAME, node, f->call->from, replaced, CALL_TAIL);
	f->row = f->above = (uint32_t)r->row_count++;
	if (!is_plain)
		inline_to(b, r, node);
}

/* May a call or jump to this node open a frame like any other? */
static bool is_ordinary_entry(struct tree_builder *b, node_id node)
{
	const struct node *n = &b->hot[node];

	return n->kind != NODE_MISSING && role_is_ordinary(facts_role(&b->facts, n->func));
}

/* Does a call leave no frame behind? */
static bool drops_frame(struct tree_builder *b, const struct flow_event *e)
{
	const struct node *from = &b->hot[e->from], *to = &b->hot[e->to];

	return !(to->flags & NODE_INTO_FUNCTION) && to->func && to->func == from->func &&
	       facts_drops_return(&b->facts, e->to);
}

/* The call at e, of a plain entry, returns at once. */
INLINE const struct flow_event *take_leaf(struct tree_builder *b, struct run *r,
					  const struct flow_event *e)
{
	uint32_t row = (uint32_t)r->row_count++;

	r->rows[row] = new_row(r->now_ns, CALL_FRAME, e->to, e->from, r->top->above, 0);
	r->rows[row].end_ns = r->now_ns = e[1].time_ns;
	b->spans.items[r->span_count++] = (struct span){e, e + 2, row, row + 1};
	inline_to(b, r, e[1].to);
	return e + 1;
}

/* Takes a call, which is not the last event. Returns the last event taken. */
INLINE const struct flow_event *take_call(struct tree_builder *b, struct run *r,
					  const struct flow_event *e)
{
	if (UNLIKELY(b->hot[e->from].flags & NODE_CALL_NEXT))
		return e;
	node_id ret = return_node(b, e->from);
	bool is_plain = entry_is_plain(b, e->to);
	if (UNLIKELY(!is_plain) && drops_frame(b, e)) {
		inline_to(b, r, e->to);
		return e;
	}
	if (UNLIKELY(!ret || (!is_plain && !is_ordinary_entry(b, e->to)))) {
		r->top = b->open;
		return e;
	}
	if (is_plain && e[1].kind == FLOW_RETURN && e[1].to == ret && e[1].time_ns >= r->now_ns)
		return take_leaf(b, r, e);
	if (UNLIKELY(r->top == &b->open[TREE_DEPTH_MAX]))
		r->top = b->open;
	struct open_call *f = ++r->top;
	f->call = e;
	f->ret = ret;
	f->first_row = (uint32_t)r->row_count;
	f->spans = (uint32_t)r->span_count;
	f->inlined = f[-1].inlined + f[-1].inlined_count;
	f->inlined_count = 0;
	enter(b, r, e->to, is_plain, CALL_NONE);
	return e;
}

/* May a jump to an ordinary entry that leaves a frame that is drawn be more than a tail call?
 * Behind its return address; inside a function; to a namesake in the dynamic linker. */
INLINE bool is_odd_jump(const struct tree_builder *b, const struct open_call *f,
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
	struct open_call *f = r->top;
	bool is_plain = entry_is_plain(b, e->to);

	if (!is_plain) {
		enum func_role role = facts_role(&b->facts, b->hot[e->to].func);

		if (role == FUNC_INDIRECT_THUNK || role == FUNC_RETURN_THUNK)
			return;
		if (!is_ordinary_entry(b, e->to)) {
			r->top = b->open;
			return;
		}
	}
	if (f->row != CALL_NONE) {
		if (UNLIKELY(is_odd_jump(b, f, e))) {
			r->top = b->open;
			return;
		}
		end_inlined(b, r->rows, f, 0, r->now_ns);
		r->rows[f->row].end_ns = r->now_ns;
	}
	enter(b, r, e->to, is_plain, f->row);
}

/* The call that a return, for which the top frame does not wait, acts for, as in
 * strand_return_in_thunk(); builder.open: none. A thunk's indirect jump is such a return. */
static __attribute__((noinline)) struct open_call *
leave_thunk(struct tree_builder *b, struct open_call *f, const struct flow_event *e, bool *jumps)
{
	enum func_role role = FUNC_PLAIN;

	*jumps = true;
	for (; f > b->open && f->row == CALL_NONE; f--) {
		role = facts_role(&b->facts, b->hot[f->ret].func);
		if (role == FUNC_INDIRECT_THUNK)
			return f - 1;
		if (role != FUNC_RETURN_THUNK)
			break;
		if (f - 1 > b->open && is_same_ip(b, f[-1].ret, e->to)) {
			*jumps = false;
			return f - 1;
		}
	}
	role = facts_role(&b->facts, b->hot[e->from].func);
	return role == FUNC_INDIRECT_THUNK ? f : b->open;
}

INLINE void take_return(struct tree_builder *b, struct run *r, const struct flow_event *e)
{
	struct open_call *f = r->top;

	if (LIKELY(f->row != CALL_NONE)) {
		end_inlined(b, r->rows, f, 0, r->now_ns);
		r->rows[f->row].end_ns = r->now_ns;
	}
	b->spans.items[f->spans] =
		(struct span){f->call, e + 1, f->first_row, (uint32_t)r->row_count};
	r->span_count = f->spans + 1;
	r->top--;
	inline_to(b, r, e->to);
}

/* Runs through the events; returns how many spans there are. */
static size_t find_spans(struct tree_builder *b, const struct flow_event *events, size_t count)
{
	struct run r = {.top = b->open, .rows = b->trees->rows.items};

	b->rows_max = count * ROWS_PER_EVENT_MAX;
	for (const struct flow_event *e = events, *end = e + count; e < end; e++) {
		if (UNLIKELY(e->time_ns < r.now_ns))
			r.top = b->open;
		r.now_ns = e->time_ns;
		bool jumps = e->kind == FLOW_JUMP;
		if (e->kind == FLOW_RETURN && r.top > b->open) {
			if (UNLIKELY(!is_same_ip(b, r.top->ret, e->to)))
				r.top = leave_thunk(b, r.top, e, &jumps);
			if (LIKELY(!jumps)) {
				take_return(b, &r, e);
				continue;
			}
		}
		if (e->kind == FLOW_CALL || jumps) {
			if (UNLIKELY(r.row_count == b->trees->rows.capacity)) {
				if (!make_room(b, r.row_count))
					break;
				r.rows = b->trees->rows.items;
			}
			if (!jumps && e + 1 < end)
				e = take_call(b, &r, e);
			else if (jumps && r.top > b->open)
				take_jump(b, &r, e);
		} else if (e->kind == FLOW_STEP && r.top > b->open) {
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
