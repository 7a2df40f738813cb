/* See strand.h. */
#include "decode/strand.h"

#include <stdlib.h>
#include <string.h>

#include "decode/away.h"
#include "decode/call_store.h"
#include "decode/doubt.h"
#include "decode/parked.h"

/* The number that `mov $N,%eax` right before the SYSCALL of this node loads; -1 = not seen. */
static int32_t weave_syscall_number(struct weave *w, node_id node)
{
	const struct node_cold *cold = &w->tables.cold[node];
	const uint8_t *code = NULL;
	uint64_t line_bytes = cold->branch_ip - cold->ip;
	int32_t number = -1;

	if (line_bytes >= 5 && line_bytes < 4096 &&
	    graph_code(w->graph, cold->space, cold->branch_ip - 5, &code) >= 5 && code[0] == 0xb8)
		memcpy(&number, code + 1, 4);
	else if (line_bytes >= 7 && line_bytes < 4096 &&
		 graph_code(w->graph, cold->space, cold->branch_ip - 7, &code) >= 7 &&
		 code[0] == 0x48 && code[1] == 0xc7 && code[2] == 0xc0)
		memcpy(&number, code + 3, 4);
	else if (line_bytes >= 2 && line_bytes < 4096 &&
		 graph_code(w->graph, cold->space, cold->branch_ip - 2, &code) >= 2 &&
		 (code[0] == 0x31 || code[0] == 0x33) && code[1] == 0xc0)
		number = 0;
	return number >= 0 && number < 1024 ? number : -1;
}

uint32_t weave_bracket(struct weave *w, enum bracket_kind kind, node_id node, unsigned cause)
{
	uint64_t key = (uint64_t)kind << 40 | (uint64_t)cause << 32 | node;
	uint32_t known = map64_get(&w->bracket_ids, key);

	if (known != MAP64_NONE)
		return known;
	struct bracket b = {.kind = (uint8_t)kind,
			    .cause = (uint8_t)cause,
			    .number = -1,
			    .node = node,
			    .module = node ? w->tables.cold[node].module : (module_id){0}};
	if (kind == BRACKET_SYSCALL && node)
		b.number = weave_syscall_number(w, node);
	uint32_t index = (uint32_t)w->trace->brackets.count;
	if (!vec_push(&w->trace->brackets, b) || !map64_set(&w->bracket_ids, key, index)) {
		w->out_of_memory = true;
		return 0;
	}
	return index;
}

void weave_done(struct weave *w)
{
	facts_done(&w->facts);
	map64_done(&w->landings);
	map64_done(&w->bracket_ids);
	for (size_t i = 0; w->cpus && i < w->cpu_count; i++)
		vec_done(&w->cpus[i].spans);
	free(w->cpus);
}

/* The first switch of a task or one behind it. */
static size_t weave_first_switch(const struct weave *w, task_id task)
{
	size_t low = 0, high = w->sideband->task_switches.count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (w->sideband->task_switches.items[mid].task.v < task.v)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void strand_init(struct strand *s, struct weave *w, struct thread *thread, task_id task)
{
	memset(s, 0, sizeof *s);
	s->weave = w;
	s->thread = thread;
	s->task = task;
	s->next_switch = weave_first_switch(w, task);
}

void strand_done(struct strand *s)
{
	vec_done(&s->stack);
	vec_done(&s->parked_frames);
	vec_done(&s->parked);
	free(s->guess.frames);
	vec_done(&s->jump_buffers);
	vec_done(&s->transaction);
	strand_doubt_done(s);
}

/* ---- rows and frames ---- */

inline uint32_t strand_open_call(struct strand *s, enum call_kind kind, uint32_t what, node_id site,
				 unsigned flags)
{
	struct thread *t = s->thread;
	uint32_t parent = strand_top_row(s);

	if (t->calls.count >= CALL_NONE - 1 ||
	    !calls_reserve(s->weave->trace, t, t->calls.count + 1)) {
		s->weave->out_of_memory = true;
		return CALL_NONE;
	}
	uint32_t index = (uint32_t)t->calls.count++;
	t->calls.items[index] = (struct call){.start_ns = s->now_ns,
					      .end_ns = TIME_NONE,
					      .what = what,
					      .site = site,
					      .parent = parent,
					      .flags = (uint16_t)flags,
					      .kind = (uint8_t)kind};
	if (parent == CALL_NONE && !vec_push(&t->bases, index))
		s->weave->out_of_memory = true;
	return index;
}

inline void strand_push_frame(struct strand *s, struct frame frame)
{
	if (!vec_push(&s->stack, frame)) {
		s->weave->out_of_memory = true;
		return;
	}
	if (frame.kind != FRAME_INLINED)
		s->top = s->stack.count - 1;
}

void strand_push(struct strand *s, node_id node, node_id ret, node_id site, unsigned flags)
{
	const struct node *n = strand_node(s, node);
	enum func_role role = weave_role(s->weave, n->func);
	struct frame f = {.call = CALL_NONE,
			  .ret = ret,
			  .func = n->func,
			  .site = site,
			  .role = (uint8_t)role};

	if (n->kind == NODE_MISSING) {
		f.kind = FRAME_MISSING;
		f.call = strand_open_call(s, CALL_BRACKET,
					  weave_bracket(s->weave, BRACKET_MISSING_FRAME, node, 0),
					  site, flags);
	} else if (role_is_transparent(role)) {
		f.kind = FRAME_TRANSPARENT;
	} else {
		f.kind = flags & CALL_SIGNAL      ? FRAME_SIGNAL
			 : flags & CALL_INTERRUPT ? FRAME_KERNEL
						  : FRAME_PHYSICAL;
		f.call = strand_open_call(s, CALL_FRAME, node, site, flags);
	}
	strand_push_frame(s, f);
	strand_inline_to(s, node);
}

static void strand_find_top(struct strand *s)
{
	size_t i = s->stack.count;

	while (i > 0 && s->stack.items[i - 1].kind == FRAME_INLINED)
		i--;
	s->top = i ? i - 1 : 0;
}

inline void strand_pop_to(struct strand *s, size_t first, unsigned flags)
{
	struct call *calls = s->thread->calls.items;

	for (size_t i = s->stack.count; i-- > first;) {
		uint32_t row = s->stack.items[i].call;

		if (row != CALL_NONE) {
			calls[row].end_ns = s->now_ns;
			calls[row].flags |= (uint16_t)flags;
		}
	}
	s->stack.count = first;
	strand_find_top(s);
}

void strand_replace_top(struct strand *s, node_id node)
{
	struct frame old = s->stack.items[s->top];
	enum func_role role = weave_role(s->weave, old.func);
	/* The dynamic linker's way to a function is no call of the program's. */
	bool is_tail_call = old.call != CALL_NONE && role != FUNC_LAZY_RESOLVER;
	unsigned flags = is_tail_call ? CALL_TAIL : 0;

	strand_pop_to(s, s->top, 0);
	if (old.kind == FRAME_SIGNAL)
		flags |= CALL_SIGNAL; /* the new frame still returns to the restorer */
	strand_push(s, node, old.ret, old.site, flags);
	struct frame *f = &s->stack.items[s->top];
	if (old.role == FUNC_SETJMP || old.role == FUNC_LONGJMP)
		f->role = old.role;
	if (is_tail_call && f->call != CALL_NONE) {
		struct arrow arrow = {.from = old.call, .to = f->call};

		if (!vec_push(&s->thread->arrows, arrow))
			s->weave->out_of_memory = true;
	}
}

void strand_add_root(struct strand *s, node_id node)
{
	struct thread *t = s->thread;
	size_t first_base = s->first_base;
	uint64_t start = t->segments.count ? vec_last(&t->segments)->start_ns : s->now_ns;
	bool missing = strand_node(s, node)->kind == NODE_MISSING;
	struct call row = {.start_ns = start,
			   .end_ns = TIME_NONE,
			   .what = missing ? weave_bracket(s->weave, BRACKET_MISSING_FRAME, node, 0)
					   : node,
			   .parent = CALL_NONE,
			   .flags = CALL_ROOT | CALL_START_INFERRED,
			   .kind = missing ? CALL_BRACKET : CALL_FRAME};

	strand_pop_to(s, 0, 0);
	if (s->switched) {
		strand_push(s, node, 0, 0, CALL_START_INFERRED);
		return;
	}
	if (t->calls.count >= CALL_NONE - 1 || !calls_add(s->weave->trace, t, row)) {
		s->weave->out_of_memory = true;
		return;
	}
	uint32_t index = (uint32_t)t->calls.count - 1;
	for (size_t i = first_base; i < t->bases.count; i++)
		t->calls.items[t->bases.items[i]].parent = index;
	t->bases.count = first_base;
	if (!vec_push(&t->bases, index) || !vec_push(&t->roots, index))
		s->weave->out_of_memory = true;
	strand_push_frame(
		s, (struct frame){.call = index,
				  .func = strand_node(s, node)->func,
				  .role = (uint8_t)weave_role(s->weave, strand_node(s, node)->func),
				  .kind = missing ? FRAME_MISSING : FRAME_PHYSICAL});
	strand_inline_to(s, node);
}

/* ---- inlined frames ---- */

static void strand_inline_set(struct strand *s, uint32_t innermost)
{
	uint32_t chain[INLINE_DEPTH_MAX];

	if (strand_innermost(s) == innermost)
		return;
	size_t depth = facts_inline_chain(&s->weave->facts, innermost, chain);
	size_t same = 0, base = s->top + 1;
	while (same < depth && base + same < s->stack.count &&
	       s->stack.items[base + same].func == chain[depth - 1 - same])
		same++;
	if (base + same < s->stack.count)
		strand_pop_to(s, base + same, 0);
	for (; same < depth; same++) {
		uint32_t id = chain[depth - 1 - same];

		strand_push_frame(
			s, (struct frame){.call = strand_open_call(s, CALL_INLINED, id, 0, 0),
					  .func = id,
					  .kind = FRAME_INLINED});
	}
}

/* Walks the chain changes inside a node. */
static void strand_inline_replay(struct strand *s, node_id node)
{
	const uint32_t *innermost = NULL;
	size_t count = facts_line(&s->weave->facts, node, &innermost);

	for (size_t i = 0; i < count; i++)
		strand_inline_set(s, innermost[i]);
}

void strand_inline_to(struct strand *s, node_id node)
{
	const struct node *n = strand_node(s, node);

	if (n->start_inline == 0 && n->end_inline == 0 && s->stack.count == s->top + 1 &&
	    !(n->flags & NODE_INLINE_CHANGES))
		return;
	if (s->stack.items[s->top].kind == FRAME_TRANSPARENT)
		return;
	strand_inline_set(s, n->start_inline);
	if (n->flags & NODE_INLINE_CHANGES)
		strand_inline_replay(s, node);
	strand_inline_set(s, n->end_inline);
}

/* ---- segments ---- */

void strand_start_segment(struct strand *s, node_id node, uint32_t join)
{
	struct thread *t = s->thread;
	uint32_t bracket = CALL_NONE;

	s->first_root = t->roots.count;
	const struct join *j = join == CALL_NONE ? NULL : &t->joins.items[join];
	/* Nothing to draw where no time was lost: exec, an unwind beyond what is known. */
	if (j && (j->cause != LOSS_NONE || j->lost_ns < j->resumed_ns)) {
		enum bracket_kind kind =
			j->cause == LOSS_MISSING_CODE ? BRACKET_MISSING_CODE : BRACKET_LOST;

		/* The last row of the segment before: it begins before this one does. */
		strand_bracket(s, weave_bracket(s->weave, kind, j->lost_at, j->cause), j->lost_ns);
		bracket = (uint32_t)t->calls.count - 1;
		t->bases.count--;
		if (t->segments.count)
			vec_last(&t->segments)->end_call = (uint32_t)t->calls.count;
	}
	s->first_base = t->bases.count;
	struct segment seg = {.start_ns = s->now_ns,
			      .first_call = (uint32_t)t->calls.count,
			      .first_root = (uint32_t)t->roots.count,
			      .first_base = (uint32_t)t->bases.count,
			      .top_call = CALL_NONE,
			      .bracket = bracket,
			      .first_node = node,
			      .join = join};
	if (!vec_push(&t->segments, seg)) {
		s->weave->out_of_memory = true;
		return;
	}
	bool entry = strand_node(s, node)->flags & NODE_INTO_FUNCTION;
	strand_push(s, node, 0, 0, entry ? 0 : CALL_START_INFERRED);
}

void strand_end_segment(struct strand *s)
{
	struct thread *t = s->thread;

	if (t->segments.count == 0)
		return;
	struct segment *seg = vec_last(&t->segments);
	seg->end_ns = s->now_ns;
	seg->end_call = (uint32_t)t->calls.count;
	seg->end_root = (uint32_t)t->roots.count;
	seg->end_base = (uint32_t)t->bases.count;
	seg->top_call = strand_top_row(s);
	strand_forget_parked(s);
	strand_pop_to(s, 0, CALL_END_INFERRED);
	s->jump_buffers.count = 0;
	s->in_transaction = s->switched = false;
}

void strand_bracket(struct strand *s, uint32_t bracket, uint64_t start_ns)
{
	uint32_t row = strand_open_call(s, CALL_BRACKET, bracket, 0, 0);

	if (row != CALL_NONE) {
		s->thread->calls.items[row].start_ns = start_ns < s->now_ns ? start_ns : s->now_ns;
		s->thread->calls.items[row].end_ns = s->now_ns;
	}
}

size_t strand_floor(const struct strand *s)
{
	for (size_t i = s->stack.count; i-- > 0;)
		if (s->stack.items[i].kind == FRAME_KERNEL)
			return i;
	return 0;
}
