/* See flow_state.h: where execution goes on after a gap.
 *
 * TIP.PGE and FUPs tell it. A plain TIP does too, but real CPUs write a TIP after the TNT bits
 * of younger branches: what stands in front of the TIP may belong behind its target.
 *
 *      TNT ...NNTT   TIP bar   TIP main+0x14      bar returns to foo by the last T,
 *                ^                                foo's return is the second TIP
 *
 * A target that is the first byte of a function was called. If the newest call on the return
 * stack is no call of that function, unknown code called it and waits for its return: an
 * unknown entry stands for that.
 *
 * A return out of unknown code is mostly compressed: a bit among those that the unknown code
 * ran. For each set bit before a TIP the code behind the newest waiting call is followed with
 * the bits that remain; one that uses them up at a branch which may go to the TIP's target
 * tells where the return was.
 *
 * A resume by TIP is a guess until the next packet is used. If that is a TIP for a return
 * which contradicts the return stack, the last bits of the TNT before are tried: as many as
 * bring the walk to a return that agrees with the stack. */
#include "decode/flow_state.h"

#include <string.h>

/* The ip that the nth newest entry of the return stack returns to. */
static uint64_t stack_ip(const struct flow *f, unsigned n)
{
	node_id entry = f->stack[(f->top + FLOW_STACK - n) % FLOW_STACK];
	node_id id = entry & ~FLOW_STACK_RETURN_NODE;

	return entry & FLOW_STACK_RETURN_NODE ? f->hot[id].ip : f->cold[id].end_ip;
}

/* Entries of the return stack survive a stay in unknown code; a return to one of them ends
 * those above. */
static void unwind_stack(struct flow *f, uint64_t ip)
{
	for (unsigned i = 0; i < f->depth; i++) {
		if (stack_ip(f, i) != ip)
			continue;
		f->depth -= i + 1;
		f->top = (f->top + FLOW_STACK - i - 1) % FLOW_STACK;
		return;
	}
}

static size_t base_length(const char *name)
{
	return strcspn(name, "@");
}

/* Is `name` (perhaps "f@plt") the linker's name of that function? Called with the lock. */
static bool is_named(const struct flow *f, node_id function, str_id name)
{
	struct symbolizer *s = graph_symbolizer(f->graph);
	const char *wanted = symbolizer_text(s, name);
	const char *is = symbolizer_text(
		s, symbolizer_func_linkage_name(s, (func_id){f->hot[function].func}));

	return base_length(wanted) == base_length(is) && strncmp(wanted, is, base_length(is)) == 0;
}

/* Does the call instruction of this node call that function, directly, by PLT or by GOT? */
static bool calls(const struct flow *f, node_id call, node_id function)
{
	str_id name = {0};

	if (f->hot[call].kind == NODE_CALL &&
	    f->hot[graph_successor(f->graph, call, 1)].func == f->hot[function].func)
		return true;
	if (!graph_callee_name(f->graph, call, &name))
		return false;
	graph_lock(f->graph);
	bool same = is_named(f, function, name);
	graph_unlock(f->graph);
	return same;
}

/* Code that was entered by a call from unknown code returns to unknown code. */
static void note_caller(struct flow *f, node_id function)
{
	node_id newest = f->depth ? f->stack[f->top] : FLOW_STACK_UNKNOWN;

	if (newest == FLOW_STACK_UNKNOWN || newest & FLOW_STACK_RETURN_NODE ||
	    !calls(f, newest, function))
		flow_push(f, FLOW_STACK_UNKNOWN);
}

bool flow_resume(struct flow *f, uint64_t ip, enum flow_resume how)
{
	if (f->gap != LOSS_MISSING_CODE)
		flow_context_resume(f);
	node_id n = flow_target(f, ip);

	if (!n || !flow_has_code(f, n))
		return false;
	bool code_was_missing = f->gap == LOSS_MISSING_CODE;
	if (how == FLOW_RESUME_TIP) {
		uint8_t flags = f->hot[n].flags;

		/* Behind lost bytes LastIP may be wrong: then only likely targets, and one trial:
		 * where it fails, bytes are lost rather than code wrong. */
		if (!code_was_missing &&
		    (f->tried ||
		     (!f->last_ip_certain && !(flags & (NODE_INTO_FUNCTION | NODE_CALL_PRECEDED)))))
			return false;
		f->tried |= !code_was_missing;
		if (code_was_missing && flags & NODE_INTO_FUNCTION)
			note_caller(f, n);
		else if (code_was_missing && flags & NODE_CALL_PRECEDED)
			unwind_stack(f, ip);
		f->guessed = code_was_missing && f->lost_tnt != TNT_EMPTY;
	}
	if (!code_was_missing && f->gap != LOSS_OVERFLOW) {
		f->depth = 0;
		f->bottom_unknown = true;
	}
	f->node = n;
	f->state = FLOW_STATE_ON;
	flow_emit(f, FLOW_RESUME, how, 0, n, 0);
	return true;
}

bool flow_take_bit(struct flow *f, bool taken)
{
	node_id n = f->node, to;

	if (f->hot[n].kind == NODE_COND) {
		uint32_t edge = graph_edge(f->graph, n, taken);
		bool all = taken && f->flags & FLOW_ALL_BRANCHES;

		to = edge & ~NODE_EDGE_EVENT;
		f->ordinal += f->hot[n].insn_count;
		if (taken && f->hot[n].flags & NODE_TAIL_JUMP)
			flow_emit(f, FLOW_JUMP, 0, n, to, 0);
		else if (all || edge & NODE_EDGE_EVENT)
			flow_emit(f, all ? FLOW_BRANCH : FLOW_STEP, 0, n, to, 0);
	} else if (f->hot[n].kind == NODE_RETURN && taken && f->depth) {
		if (f->hot[n].flags & NODE_STACK_SWITCH)
			flow_context_switch(f);
		to = flow_pop(f);
		f->ordinal += f->hot[n].insn_count;
		if (to)
			flow_emit(f, FLOW_RETURN, 0, n, to, 0);
	} else {
		return false;
	}
	f->node = to;
	return to != 0;
}

/* Runs the `count` oldest of bits; true when they end at a return that the stack sends to ip. */
static bool try_bits(struct flow *f, uint64_t bits, unsigned count, uint64_t ip)
{
	for (; count; count--, bits <<= 1)
		if (!flow_step_to_branch(f) || !flow_take_bit(f, bits >> 63))
			return false;
	/* An empty stack leaves the CPU no choice but a TIP; what waits unknown may be there. */
	return flow_step_to_branch(f) && f->hot[f->node].kind == NODE_RETURN &&
	       ((f->depth == 0 && !f->bottom_unknown) || f->stack[f->top] == FLOW_STACK_UNKNOWN ||
		stack_ip(f, 0) == ip);
}

void flow_resume_agree(struct flow *f, uint64_t ip)
{
	enum { EVENTS_SPARE = 4096 };
	unsigned count = 63 - (unsigned)__builtin_ctzll(f->lost_tnt);
	size_t events = f->event_count;
	uint64_t ordinal = f->ordinal;
	node_id node = f->node, stack[FLOW_STACK];
	unsigned depth = f->depth, top = f->top;

	/* Guesses are taken back: none of their events may leave the buffer. */
	if (f->hot[node].kind != NODE_RETURN || depth == 0 || stack_ip(f, 0) == ip ||
	    f->event_capacity - events < EVENTS_SPARE)
		return;
	memcpy(stack, f->stack, sizeof stack);
	for (unsigned n = 1; n <= count; n++) {
		if (try_bits(f, f->lost_tnt << (count - n), n, ip))
			return;
		f->event_count = events;
		f->ordinal = ordinal;
		f->node = node;
		f->depth = depth;
		f->top = top;
		memcpy(f->stack, stack, sizeof stack);
	}
}

void flow_note_lost_bits(struct flow *f, uint64_t tnt)
{
	for (; tnt != TNT_EMPTY && tnt != 0; tnt <<= 1) {
		if (f->lost_bit_count == FLOW_LOST_BITS) {
			/* Only the last ones can be of code that is known again. */
			f->lost_bit_count /= 2;
			memmove(f->lost_bits, f->lost_bits + f->lost_bit_count, f->lost_bit_count);
		}
		f->lost_bits[f->lost_bit_count++] = tnt >> 63;
	}
}

/* May the branch at f->node, for which no bit is left, go to `to`? `used` bits led to it. */
static bool may_go_to(struct flow *f, node_id to, unsigned used)
{
	enum { USED_MIN = 3 }; /* fewer lead to some indirect branch by chance */
	const struct node *n = &f->hot[f->node];

	if (n->kind != NODE_CALL_INDIRECT && n->kind != NODE_JUMP_INDIRECT)
		return false;
	for (unsigned i = 0; i < FLOW_ENTERED; i++)
		if (f->entered[i] == to)
			return true; /* known code went there before */
	if (n->kind == NODE_JUMP_INDIRECT && f->hot[to].flags & NODE_INTO_FUNCTION) {
		struct symbolizer *s = graph_symbolizer(f->graph);
		func_id id = {n->func};

		graph_lock(f->graph);
		const struct func *plt = symbolizer_func_get(s, id);
		bool named = plt && plt->role == FUNC_PLT &&
			     is_named(f, to, symbolizer_func_linkage_name(s, id));
		graph_unlock(f->graph);
		if (named)
			return true;
	}
	return used >= USED_MIN &&
	       (f->hot[to].kind == NODE_MISSING || f->hot[to].flags & NODE_INTO_FUNCTION);
}

static bool follow_bits(struct flow *f, unsigned from)
{
	for (unsigned i = from; i < f->lost_bit_count; i++)
		if (!flow_step_to_branch(f) || !flow_take_bit(f, f->lost_bits[i]))
			return false;
	return flow_step_to_branch(f);
}

bool flow_retrace(struct flow *f, uint64_t ip)
{
	enum { EVENTS_SPARE = 8 * FLOW_LOST_BITS };
	bool code_was_missing = f->gap == LOSS_MISSING_CODE || f->gap == LOSS_BAD_IP;
	size_t events = f->event_count;
	uint64_t ordinal = f->ordinal;
	node_id stack[FLOW_STACK];
	unsigned depth = f->depth, top = f->top;

	if (!code_was_missing || depth == 0 || f->stack[top] == FLOW_STACK_UNKNOWN ||
	    f->event_capacity - events < EVENTS_SPARE)
		return false;
	node_id back = flow_target(f, stack_ip(f, 0)), to = flow_target(f, ip);
	if (!back || !to || !flow_has_code(f, back))
		return false;
	memcpy(stack, f->stack, sizeof stack);
	for (unsigned i = 0; i < f->lost_bit_count && f->err == ERR_NONE; i++) {
		if (!f->lost_bits[i])
			continue;
		f->depth = depth - 1;
		f->top = (top + FLOW_STACK - 1) % FLOW_STACK;
		f->node = back;
		flow_emit(f, FLOW_RESUME, FLOW_RESUME_TIP, 0, back, 0);
		if (follow_bits(f, i + 1) && may_go_to(f, to, f->lost_bit_count - i - 1)) {
			f->state = FLOW_STATE_ON;
			return true;
		}
		f->event_count = events;
		f->ordinal = ordinal;
		f->depth = depth;
		f->top = top;
		memcpy(f->stack, stack, sizeof stack);
	}
	return false;
}
