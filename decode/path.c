/* See path.h. Calls that were entered are not returned from: the way over them is another. */
#include "decode/path.h"

enum {
	PLACES_MAX = 1 << 12,     /* visited in a search */
	ALL_PLACES_MAX = 1 << 22, /* and in all of a trace */
	FRAMES_OF_A_MAX = 1 << 10,
	PATH_FRAMES_MAX = 1 << 12,
	CALLEES_MAX = 8,
};

void paths_init(struct paths *p, struct graph *graph, const struct callers *callers)
{
	*p = (struct paths){.graph = graph, .g = graph_tables(graph), .callers = callers};
}

void paths_done(struct paths *p)
{
	vec_done(&p->frames);
	vec_done(&p->places);
	map64_done(&p->frame_index);
	map64_done(&p->seen);
}

/* The index of a frame; PATH_NONE = too many. */
static uint32_t paths_frame(struct paths *p, struct path_frame f)
{
	uint64_t key =
		map64_hash((uint64_t)f.outer << 32 | f.wait) ^ ((uint64_t)f.entry << 1 | f.of_a);
	uint32_t at = map64_get(&p->frame_index, key);

	if (at != MAP64_NONE) {
		const struct path_frame *is = &p->frames.items[at];

		if (is->outer == f.outer && is->wait == f.wait && is->entry == f.entry &&
		    is->of_a == f.of_a)
			return at;
	}
	at = (uint32_t)p->frames.count;
	if (at >= PATH_FRAMES_MAX || !vec_push(&p->frames, f) ||
	    !map64_set(&p->frame_index, key, at))
		return PATH_NONE;
	return at;
}

static void paths_arrive(struct paths *p, node_id node, uint32_t frame)
{
	uint64_t key = (uint64_t)frame << 32 | node;

	if (map64_get(&p->seen, key) != MAP64_NONE)
		return;
	if (node == 0 || frame == PATH_NONE || p->places.count >= PLACES_MAX ||
	    !map64_set(&p->seen, key, 0) ||
	    !vec_push(&p->places, ((struct path_place){node, frame})))
		p->open = true;
}

static void paths_jump(struct paths *p, struct path_place at)
{
	node_id to = graph_successor(p->graph, at.node, 1);

	if (p->g.hot[at.node].flags & NODE_TAIL_JUMP) {
		struct path_frame f = p->frames.items[at.frame];

		f.entry = to;
		f.func = p->g.hot[to].func;
		at.frame = paths_frame(p, f);
	}
	paths_arrive(p, to, at.frame);
}

/* An exception out of what is called may lead elsewhere. */
static bool paths_may_throw(const struct paths *p, node_id wait)
{
	const struct node_cold *cold = &p->g.cold[wait];
	uint64_t pad;

	graph_lock(p->graph);
	bool known =
		symbolizer_landing_pad(graph_symbolizer(p->graph), cold->module, cold->vaddr, &pad);
	graph_unlock(p->graph);
	return known;
}

static void paths_call(struct paths *p, struct path_place at)
{
	bool direct = p->g.hot[at.node].kind == NODE_CALL;
	node_id wait = graph_successor(p->graph, at.node, 0), entries[CALLEES_MAX];
	node_id to = direct ? graph_successor(p->graph, at.node, 1) : 0;

	if (p->g.hot[at.node].flags & NODE_CALL_NEXT) {
		paths_arrive(p, to, at.frame);
		return;
	}
	size_t count = callers_callees(p->callers, at.node, entries, CALLEES_MAX);
	if (count == 0 && direct)
		entries[count++] = to;
	p->open = p->open || !direct || paths_may_throw(p, wait);
	for (size_t i = 0; i < count; i++) {
		struct path_frame f = {.outer = at.frame,
				       .func = p->g.hot[entries[i]].func,
				       .depth = p->frames.items[at.frame].depth + 1,
				       .wait = wait,
				       .site = at.node,
				       .entry = entries[i]};

		paths_arrive(p, entries[i], paths_frame(p, f));
	}
	paths_arrive(p, wait, at.frame);
}

static void paths_return(struct paths *p, struct path_place at)
{
	const struct path_frame *f = &p->frames.items[at.frame];

	if (f->of_a)
		paths_arrive(p, f->outer == PATH_NONE ? 0 : f->wait, f->outer);
}

static void paths_follow(struct paths *p, struct path_place at)
{
	const struct node_cold *cold = &p->g.cold[at.node];

	p->open = p->open || cold->is_generated || cold->is_poked || cold->branch == INSN_XBEGIN;
	switch (p->g.hot[at.node].kind) {
	case NODE_COND:
		paths_arrive(p, graph_successor(p->graph, at.node, 0), at.frame);
		paths_jump(p, at);
		break;
	case NODE_JUMP: paths_jump(p, at); break;
	case NODE_CALL:
	case NODE_CALL_INDIRECT: paths_call(p, at); break;
	case NODE_RETURN: paths_return(p, at); break;
	case NODE_SYSCALL:
	case NODE_THROUGH: paths_arrive(p, graph_successor(p->graph, at.node, 0), at.frame); break;
	default: p->open = true;
	}
}

/* Do B's levels fit the frames from this one out? */
static bool paths_fit(const struct paths *p, const struct aligner *a, uint32_t frame)
{
	const struct path_frame *f = &p->frames.items[frame];

	for (size_t i = 0; i < a->levels.count && f->outer != PATH_NONE; i++) {
		const struct level *l = &a->levels.items[i];

		if (l->landed && f->wait && l->landed != f->wait)
			return false;
		f = &p->frames.items[f->outer];
		if (l->func && f->func && l->func != f->func)
			return false;
	}
	return true;
}

/* Returns the number of A's frames that are taken. */
static uint32_t paths_start(struct paths *p, const struct aligner *a)
{
	size_t count = a->chain.count < FRAMES_OF_A_MAX ? a->chain.count : FRAMES_OF_A_MAX;

	p->frames.count = p->places.count = 0;
	p->open = false;
	map64_done(&p->frame_index);
	map64_done(&p->seen);
	if (!vec_reserve(&p->frames, count))
		return 0;
	for (size_t i = count; i-- > 0;) {
		const struct chain_frame *x = &a->chain.items[i];

		p->frames.items[p->frames.count] = (struct path_frame){
			.outer = p->frames.count ? (uint32_t)p->frames.count - 1 : PATH_NONE,
			.func = x->func,
			.depth = (long)(a->chain.count - 1 - i),
			.wait = x->wait,
			.of_a = true};
		p->frames.count++;
	}
	return (uint32_t)count;
}

bool paths_find(struct paths *p, const struct aligner *a, struct path *found)
{
	*found = (struct path){.frame = PATH_NONE, .kept = -1};
	if (!a->lost_at || !a->resumed_at || a->chain.count == 0 || p->visited >= ALL_PLACES_MAX ||
	    p->g.hot[a->lost_at].func != a->chain.items[0].func ||
	    p->g.hot[a->resumed_at].func != a->first_func)
		return true;
	uint32_t count = paths_start(p, a), frame;
	uint64_t goal = p->g.cold[a->resumed_at].branch_ip;
	if (count == 0)
		return false;
	paths_follow(p, (struct path_place){a->lost_at, count - 1});
	/* One way that is not the only one is enough. */
	for (size_t i = 0; i < p->places.count && !(p->open && found->frame != PATH_NONE); i++) {
		struct path_place at = p->places.items[i];

		if (p->g.cold[at.node].branch_ip == goal && paths_fit(p, a, at.frame)) {
			p->open =
				p->open || (found->frame != PATH_NONE && found->frame != at.frame);
			found->frame = found->frame == PATH_NONE ? at.frame : found->frame;
		}
		paths_follow(p, at);
	}
	found->only = found->frame != PATH_NONE && !p->open;
	p->visited += p->places.count;
	for (frame = found->frame; frame != PATH_NONE && frame >= count;)
		frame = p->frames.items[frame].outer;
	if (frame != PATH_NONE)
		found->kept = p->frames.items[frame].depth;
	return true;
}
