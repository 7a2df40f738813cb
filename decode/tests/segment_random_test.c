/* Whatever the events are, the builder and the join keep the promises of trace.h, and make the
 * same with trees and without: thousands of random stories, some plausible (returns to where a
 * frame waits), most of them nonsense. */
#include <criterion/criterion.h>
#include <string.h>

#include "decode/anchor.h"
#include "decode/join.h"
#include "decode/segment.h"
#include "decode/tests/fake_code.h"
#include "decode/tests/trace_compare.h"
#include "decode/tests/trace_promises.h"

enum { STORIES = 1500, EVENTS = 250, FUNCS = 14, TASKS = 3, CPUS = 2 };

static uint64_t seed;

static uint32_t chance(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 11) % below;
}

static void make_code(void)
{
	static const uint8_t roles[FUNCS + 1] = {[5] = FUNC_PLT,
						 [6] = FUNC_SETJMP,
						 [7] = FUNC_UNWIND_RESUME,
						 [8] = FUNC_INDIRECT_THUNK,
						 [9] = FUNC_RETURN_THUNK,
						 [10] = FUNC_SIGNAL_RESTORER,
						 [11] = FUNC_RETURN_TRAMPOLINE,
						 [12] = FUNC_STACK_SWITCH};

	memset(&graph, 0, sizeof graph);
	memset(&symbols, 0, sizeof symbols);
	symbols.count = FUNCS;
	for (uint32_t i = 1; i <= FUNCS; i++) {
		symbols.funcs[i] = (struct func){.module = {1 + i % 3}, .role = roles[i]};
		symbols.funcs[i].start = (uint64_t)i * FUNC_BYTES | (i > 11 ? KERNEL_BASE : 0);
	}
	symbols.funcs[4].module.v = MODULE_MISSING;
	symbols.inline_count = 2;
	symbols.inlines[1].start = symbols.funcs[2].start + 0x10;
	symbols.inlines[1].end = symbols.funcs[2].start + 0x40;
	symbols.inlines[1].frame.depth = 1;
	symbols.inlines[2].start = symbols.funcs[2].start + 0x18;
	symbols.inlines[2].end = symbols.funcs[2].start + 0x30;
	symbols.inlines[2].frame = (struct inline_frame){.parent = {1}, .depth = 2};
	symbols.code_count = 1; /* a place in the return thunk that pops its return address */
	symbols.code[0].ip = symbols.funcs[9].start + 0x50;
	symbols.code[0].bytes[0] = 0x58;
	symbols.code[0].count = chance(2);
	symbols.pad_count = 1;
	symbols.pads[0][0] = symbols.funcs[1].start + 0x15;
	symbols.pads[0][1] = symbols.funcs[1].start + 0x40;
}

static node_id some_node(void)
{
	uint64_t ip = symbols.funcs[1 + chance(FUNCS)].start;

	switch (chance(3)) {
	case 0: break;
	case 1: ip += 0x10 + 0x10 * chance(4); break;
	default: ip += 0x15 + 0x10 * chance(4); break; /* behind a call */
	}
	node_id n = graph_node(&graph, (space_id){2 + chance(8) / 7}, ip);
	if (ip % 16 == 5)
		graph.hot[n].flags |= NODE_CALL_PRECEDED;
	return n;
}

/* Calls whose return addresses are remembered, so that some returns fit. */
struct story {
	node_id waits[64];
	size_t depth;
	uint64_t time_ns;
	uint32_t func; /* that runs, in a calm story */
};

static struct flow_event some_event(struct story *s)
{
	struct flow_event e = {.kind = (uint8_t)chance(FLOW_TX_ABORT + 1)};

	if (chance(3))
		e.kind = FLOW_CALL + (uint8_t)chance(3);
	s->time_ns += chance(20);
	e.time_ns = s->time_ns - (chance(30) == 0 && s->time_ns > 9 ? 9 : 0);
	e.from = some_node();
	e.to = some_node();
	switch (e.kind) {
	case FLOW_TASK: e.data = chance(TASKS + 1); break;
	case FLOW_CALL:
		graph.hot[e.from].kind = NODE_CALL + (uint8_t)chance(2);
		if (s->depth < 64)
			s->waits[s->depth++] = graph_successor(&graph, e.from, 0);
		break;
	case FLOW_RETURN:
		graph.hot[e.from].kind = NODE_RETURN;
		if (s->depth && chance(4))
			e.to = s->waits[s->depth -= 1 + (chance(6) == 0 && s->depth > 1)];
		break;
	case FLOW_JUMP: graph.hot[e.from].kind = NODE_JUMP + 3 * (uint8_t)chance(2); break;
	case FLOW_END: e.cause = (uint8_t)chance(FLOW_END_BRANCH + 1); break;
	case FLOW_GAP:
		e.cause = (uint8_t)chance(LOSS_COUNT);
		e.from = chance(2) ? e.from : 0;
		break;
	case FLOW_ENTRY: graph.hot[e.from].kind = NODE_SYSCALL; break;
	case FLOW_TX_ABORT: e.to = chance(2) ? e.to : 0; break;
	default: break;
	}
	return e;
}

static node_id calm_node(uint32_t func, uint64_t off)
{
	return graph_node(&graph, (space_id){2}, symbols.funcs[func].start + off);
}

static void calm_call(struct story *s, struct flow_event *e, node_id to)
{
	e->kind = FLOW_CALL;
	e->to = to;
	graph.hot[e->from].kind = NODE_CALL;
	s->waits[s->depth++] = graph_successor(&graph, e->from, 0);
}

/* What programs do: functions run, call, return and go on where they called. Thunks call a
 * place of their own and return to where they never came from. */
static struct flow_event calm_event(struct story *s)
{
	static const uint32_t callees[] = {1, 2, 3, 5, 8, 9, 13, 1, 2, 3};
	uint32_t callee = callees[chance(sizeof callees / sizeof *callees)];
	bool thunk = s->func == 8 || s->func == 9;
	struct flow_event e = {.from = calm_node(s->func, 0x10 + 0x10 * chance(4))};

	s->time_ns += chance(20);
	e.time_ns = s->time_ns;
	if (s->depth < 60 && (thunk ? chance(2) : chance(5) < 2)) {
		calm_call(s, &e, thunk ? calm_node(s->func, 0x50) : calm_node(callee, 0));
	} else if (chance(5) == 0) {
		e.kind = FLOW_STEP;
		e.to = calm_node(s->func, 0x10 * chance(5));
	} else if (chance(thunk ? 2 : 8) == 0) {
		e.kind = thunk ? FLOW_RETURN : FLOW_JUMP;
		e.to = calm_node(callee, 0);
		graph.hot[e.from].kind = thunk ? NODE_RETURN : NODE_JUMP;
		s->depth -= thunk && s->depth;
	} else if (s->depth) {
		e.kind = FLOW_RETURN;
		e.to = s->waits[--s->depth];
		graph.hot[e.from].kind = NODE_RETURN;
	} else {
		calm_call(s, &e, calm_node(callee, 0));
	}
	s->func = graph.hot[e.to].func;
	return e;
}

/* Weaves the events, in pieces: runs of one buffer. Without trees one by one. */
static size_t weave(struct weaver *w, const struct aux_buffer *buffers, const uint8_t *cpus,
		    const struct flow_event *events, struct tree_builder *b)
{
	struct trees trees = {0};
	size_t tree_count = 0;

	for (size_t i = 0, end; i < EVENTS; i = end) {
		for (end = i + 1; b && end < EVENTS && cpus[end] == cpus[i]; end++)
			;
		if (b)
			cr_assert_eq(trees_build(b, events + i, end - i, &trees), ERR_NONE);
		struct stay stay = {.events = events + i,
				    .count = end - i,
				    .trees = trees.items.items,
				    .tree_count = trees.items.count,
				    .rows = trees.rows.items};
		cr_assert_eq(weaver_events(w, &buffers[cpus[i]], &stay), ERR_NONE);
		tree_count += trees.items.count;
	}
	trees_done(&trees);
	return tree_count;
}

/* `near` = how many frames of a stack the joins look at; 0 = all. */
static void make_trace(const struct sideband *sideband, const uint8_t *cpus,
		       const struct flow_event *events, uint32_t near, struct trace *trace,
		       size_t *tree_count)
{
	struct tree_builder *b = NULL;
	struct weaver *w = NULL;

	if (tree_count)
		cr_assert_eq(tree_builder_new(&graph, &b), ERR_NONE);
	cr_assert_eq(weaver_new(sideband, &symbols, &graph, trace, &w), ERR_NONE);
	size_t trees = weave(w, sideband->buffers.items, cpus, events, b);
	if (tree_count)
		*tree_count += trees;
	cr_assert_eq(weaver_finish(w), ERR_NONE);
	struct join_limits limits = {.frames = near ? 0 : UINT64_MAX, .near = near};
	cr_assert_eq(join_trace_within(trace, &graph, limits), ERR_NONE);
	cr_assert_eq(anchor_trace(trace, &graph, sideband), ERR_NONE);
	weaver_free(w);
	tree_builder_free(b);
}

static size_t tell(uint64_t story_seed, uint32_t near)
{
	struct task tasks[TASKS + 1] = {{0}};
	struct aux_buffer buffers[CPUS] = {{.cpu = 0}, {.cpu = 1}};
	struct space spaces[4] = {{0}};
	struct task_switch switches[TASKS * 4];
	struct sideband sideband = {.clock = {.valid = true}};
	struct trace trace = {0}, without = {0};
	struct story s = {.time_ns = 100};
	struct flow_event events[EVENTS];
	uint8_t cpus[EVENTS];
	size_t trees = 0;

	seed = story_seed * 0x9e3779b97f4a7c15u | 1;
	make_code();
	for (int32_t i = 1; i <= TASKS; i++)
		tasks[i] = (struct task){.pid = i, .tid = i, .end_ns = TIME_NONE};
	tasks[2].forked_from.v = 1;
	tasks[2].is_new_process = true;
	tasks[2].start_ns = chance(400);
	for (uint32_t i = 0; i < TASKS * 4; i++)
		switches[i] = (struct task_switch){.task = {1 + i / 4},
						   .time_ns = i % 4 * 200 + chance(200),
						   .cpu = (int32_t)chance(CPUS),
						   .in = i % 2};
	sideband.tasks.items = tasks;
	sideband.tasks.count = TASKS + 1;
	sideband.buffers.items = buffers;
	sideband.buffers.count = CPUS;
	sideband.spaces.items = spaces;
	sideband.spaces.count = 4;
	sideband.task_switches.items = switches;
	sideband.task_switches.count = TASKS * 4;
	sideband.config.filter.v = chance(2);
	sideband.config.kernel = chance(2);
	s.func = chance(3);
	bool calm = s.func;
	for (int i = 0; i < EVENTS; i++) {
		events[i] = calm && chance(100) ? calm_event(&s) : some_event(&s);
		cpus[i] = calm ? 0 : chance(20) == 0;
	}
	if (calm) {
		events[0] = (struct flow_event){.kind = FLOW_TASK, .data = 1};
		events[1] = (struct flow_event){.kind = FLOW_BEGIN, .to = calm_node(1, 0)};
	}
	make_trace(&sideband, cpus, events, near, &without, NULL);
	make_trace(&sideband, cpus, events, near, &trace, &trees);
	const char *broken = trace_broken_promise(&trace);
	cr_assert_null(broken, "story %llu: %s", (unsigned long long)story_seed, broken);
	const char *differs = trace_difference(&trace, &without);
	cr_assert_null(differs, "story %llu: trees change the %s", (unsigned long long)story_seed,
		       differs);
	trace_done(&trace);
	trace_done(&without);
	return trees;
}

Test(segment_random, promises_are_kept_and_trees_change_nothing)
{
	size_t trees = 0;

	for (uint64_t i = 1; i <= STORIES; i++)
		trees += tell(i, 0);
	cr_expect_gt(trees, 10 * STORIES, "%zu", trees);
}

Test(segment_random, promises_are_kept_when_joins_look_at_few_frames)
{
	for (uint64_t i = 1; i <= STORIES; i++)
		tell(i, 1 + (uint32_t)(i % 4));
}
