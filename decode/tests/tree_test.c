/* Which calls become trees. A story is words, an event each:
 *
 *     m>f   m calls f                 f<m   f returns to m, behind its call
 *     f/g   f jumps to g              f:    execution goes on elsewhere in f (there may be
 *                                           inlined frames)
 *     f@    f calls a place in f      f^g   f returns to g's first byte
 *     !     something unusual
 *
 * and so are the trees: FIRST-END: the events, then the rows, each with "<" and its parent, or
 * "~" and the row that it replaced. Functions are letters; capitals are special. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "decode/tests/fake_code.h"
#include "decode/tree.h"

enum {
	CALL_OFF = 0x10,
	RETURN_OFF = CALL_OFF + CALL_BYTES,
	EXIT_OFF = 0x40,
	STEP_OFF = 0x50,
	POP = 0x58
};

/* Functions and what is inlined: all of `i` from its step on; m's code behind `n` calls. */
static void make_code(void)
{
	static const struct {
		char name;
		uint8_t role;
	} special[] = {{'P', FUNC_PLT},          {'T', FUNC_INDIRECT_THUNK},
		       {'U', FUNC_RETURN_THUNK}, {'E', FUNC_PERSONALITY},
		       {'S', FUNC_SETJMP},       {'L', FUNC_LAZY_RESOLVER},
		       {'X', FUNC_STACK_SWITCH}, {'R', FUNC_RETURN_TRAMPOLINE}};

	memset(&graph, 0, sizeof graph);
	memset(&symbols, 0, sizeof symbols);
	symbols.count = 'z';
	for (uint32_t c = 'A'; c <= 'z'; c++)
		symbols.funcs[c] = (struct func){.module = {1}, .start = (uint64_t)c * FUNC_BYTES};
	for (size_t i = 0; i < sizeof special / sizeof *special; i++)
		symbols.funcs[(uint8_t)special[i].name].role = special[i].role;
	symbols.funcs['M'].module.v = MODULE_MISSING;
	symbols.funcs['O'].module.v = 2; /* another module's */
	symbols.code[0].ip = symbols.funcs['D'].start + STEP_OFF;
	symbols.code[0].bytes[0] = POP;
	symbols.code[0].count = symbols.code_count = 1;
	symbols.inline_count = 2;
	symbols.inlines[1].start = symbols.funcs['i'].start + STEP_OFF;
	symbols.inlines[1].end = symbols.funcs['i'].start + FUNC_BYTES;
	symbols.inlines[1].frame.depth = 1;
	symbols.inlines[2].start = symbols.funcs['j'].start;
	symbols.inlines[2].end = symbols.funcs['j'].start + FUNC_BYTES;
	symbols.inlines[2].frame.depth = 1;
}

static node_id place(char func, uint64_t off)
{
	return graph_node(&graph, (space_id){2}, symbols.funcs[(uint8_t)func].start + off);
}

static struct flow_event event(const char *word)
{
	char a = word[0], b = word[1] ? word[2] : 0;

	switch (word[1]) {
	case '>':
		graph.hot[place(a, CALL_OFF)].kind = NODE_CALL;
		return (struct flow_event){
			.kind = FLOW_CALL, .from = place(a, CALL_OFF), .to = place(b, 0)};
	case '<':
		return (struct flow_event){.kind = FLOW_RETURN,
					   .from = place(a, EXIT_OFF),
					   .to = place(b, RETURN_OFF)};
	case '/':
		graph.hot[place(a, EXIT_OFF)].kind = NODE_JUMP;
		return (struct flow_event){
			.kind = FLOW_JUMP, .from = place(a, EXIT_OFF), .to = place(b, 0)};
	case '@':
		graph.hot[place(a, CALL_OFF)].kind = NODE_CALL;
		return (struct flow_event){
			.kind = FLOW_CALL, .from = place(a, CALL_OFF), .to = place(a, STEP_OFF)};
	case '^':
		return (struct flow_event){
			.kind = FLOW_RETURN, .from = place(a, EXIT_OFF), .to = place(b, 0)};
	case ':': return (struct flow_event){.kind = FLOW_STEP, .to = place(a, STEP_OFF)};
	default: return (struct flow_event){.kind = FLOW_PTWRITE};
	}
}

static size_t read_story(const char *story, struct flow_event *events)
{
	char words[512];
	size_t count = 0;

	snprintf(words, sizeof words, "%s", story);
	for (char *w = strtok(words, " "); w; w = strtok(NULL, " "), count++) {
		events[count] = event(w);
		events[count].time_ns = 10 * count;
	}
	return count;
}

static void print_name(FILE *out, const struct call *c)
{
	if (c->kind == CALL_FRAME)
		fputc((char)graph.hot[c->what].func, out);
	else
		fprintf(out, "(%u)", c->what);
}

static void print_trees(FILE *out, const struct trees *trees)
{
	for (size_t i = 0; i < trees->items.count; i++) {
		const struct tree *t = &trees->items.items[i];

		fprintf(out, "%s%u-%u:", i ? " " : "", t->first_event, t->end_event);
		for (uint32_t row = t->first_row; row < t->end_row; row++) {
			const struct call *c = &trees->rows.items[row];

			fputc(' ', out);
			print_name(out, c);
			if (c->parent < t->first_row || c->parent >= t->end_row)
				continue;
			fputc(c->flags & CALL_TAIL ? '~' : '<', out);
			print_name(out, &trees->rows.items[c->parent]);
		}
	}
}

static void check(const char *story, const char *wanted)
{
	struct flow_event events[128];
	struct trees trees = {0};
	struct tree_builder *b = NULL;
	char *got = NULL;
	size_t bytes;

	make_code();
	size_t count = read_story(story, events);
	cr_assert_eq(tree_builder_new(&graph, &b), ERR_NONE);
	cr_assert_eq(trees_build(b, events, count, &trees), ERR_NONE);
	FILE *out = open_memstream(&got, &bytes);
	print_trees(out, &trees);
	fclose(out);
	cr_expect_str_eq(got, wanted, "%s -> %s, wanted %s", story, got, wanted);
	free(got);
	trees_done(&trees);
	tree_builder_free(b);
}

Test(tree, calls_that_have_returned)
{
	check("", "");
	check("m>f f<m", "0-2: f");
	check("m>f f>g g<f f<m", "0-4: f g<f");
	check("m>f f>g g<f f>h h<f f<m", "0-6: f g<f h<f");
	check("m>f f>f f>f f<f f<f f<m", "0-6: f f<f f<f");
}

Test(tree, calls_that_have_not)
{
	check("m>f", "");
	check("m>f f>g g<f", "1-3: g");
	check("m>f f>g g<f f>h h>k k<h", "1-3: g 4-6: k");
	/* Nor those that had begun before. */
	check("f<m m>g g<m m<a a>h h<a", "1-3: g 4-6: h");
	check("f/g f: g<m", "");
}

Test(tree, neighbours_are_one)
{
	check("m>f f<m m>E E<m m>h h>k k<h h<m", "0-8: f E h k<h");
	/* Not when something happens between, or the frame's inlined frames may change. */
	check("m>f f<m m: m>g g<m", "0-2: f 3-5: g");
	check("j>f f<j j>g g<j", "0-4: f g");
	check("i: i>f f<i i>g g<i", "1-5: f g");
}

Test(tree, jumps)
{
	check("m>f f/g g<m", "0-3: f g~f");
	check("m>f f/g g/h h>k k<h h<m", "0-6: f g~f h~g k<h");
	check("m>f f>g g/h h<f f<m", "0-5: f g<f h~g");
	/* To a function of another module: may be its namesake. */
	check("m>f f>g g<f f/O O<m", "1-3: g");
}

Test(tree, transparent_code_is_not_drawn)
{
	check("m>P P/f f<m", "0-3: f");
	check("m>f f/P P/g g<m", "0-4: f g");
	check("m>f f>P P/O O>h h<O O<f f<m", "0-7: f O<f h<O");
	check("m>T T/f f<m", "0-3: f");
	check("m>f f/T T/g g<m", "0-4: f g~f");
}

Test(tree, thunks_act_for_their_callers)
{
	check("m>T T@ T^g g<m", "0-4: g");
	check("m>f f/T T@ T^g g<m", "0-5: f g~f");
	check("m>f f/U U@ U<m", "0-4: f");
	check("m>f f>g g/U U@ U<f f<m", "0-6: f g<f");
	check("m>f f>g g<f f@ f^g g<m", "1-3: g"); /* no thunk */
	check("T@ T^g g>h h<g g<m", "2-4: h");
}

Test(tree, calls_inside_a_function)
{
	check("m>f f@ f<f f<m", "0-4: f f<f");
	check("m>D D@ D<m", "0-3: D"); /* pops its return address */
}

Test(tree, inlined_frames)
{
	check("m>i i: i<m", "0-3: i (1)<i");
	check("m>i i: i>f f<i i<m", "0-5: i (1)<i f<(1)");
	check("m>j j>f f<j j<m", "0-4: j (2)<j f<(2)");
	check("m>j j/k k<m", "0-3: j (2)<j k~j");
}

Test(tree, what_is_unusual_opens_the_calls_around_it)
{
	check("m>f f>g g<f ! f<m", "1-3: g");
	check("m>f f>S S<f f<m", "");
	check("m>f f>h h<f f>L L/g g<f f<m", "1-3: h");
	check("m>X X<m m>f f<m", "2-4: f");
	check("m>R R<m", "");
	check("m>M M<m", "");
	check("m>f f>g g<m", "");               /* past a frame */
	check("m>f f>g g<k k>h h<k", "3-5: h"); /* to nobody */
}

Test(tree, times_that_step_back)
{
	struct flow_event events[8];
	struct trees trees = {0};
	struct tree_builder *b = NULL;

	make_code();
	size_t count = read_story("m>f f<m m>g g<m", events);
	events[2].time_ns = events[3].time_ns = 1;
	cr_assert_eq(tree_builder_new(&graph, &b), ERR_NONE);
	cr_assert_eq(trees_build(b, events, count, &trees), ERR_NONE);
	cr_assert_eq(trees.items.count, 2);
	cr_expect_eq(trees.items.items[0].end_event, 2);
	cr_expect_eq(trees.items.items[1].first_event, 2);
	events[3].time_ns = 0;
	cr_assert_eq(trees_build(b, events, count, &trees), ERR_NONE);
	cr_expect_eq(trees.items.count, 1);
	trees_done(&trees);
	tree_builder_free(b);
}

/* What is too deep stays open, what was called there does not. */
Test(tree, too_deep)
{
	static struct flow_event events[2 * TREE_DEPTH_MAX + 8];
	struct trees trees = {0};
	struct tree_builder *b = NULL;
	size_t count = 0;

	make_code();
	for (size_t i = 0; i < TREE_DEPTH_MAX + 1; i++)
		events[count++] = event("f>f");
	events[count++] = event("f>g");
	events[count++] = event("g<f");
	for (size_t i = 0; i < TREE_DEPTH_MAX + 1; i++)
		events[count++] = event("f<f");
	cr_assert_eq(tree_builder_new(&graph, &b), ERR_NONE);
	cr_assert_eq(trees_build(b, events, count, &trees), ERR_NONE);
	cr_assert_eq(trees.items.count, 1);
	cr_expect_eq(trees.items.items[0].first_event, TREE_DEPTH_MAX);
	cr_expect_eq(trees.items.items[0].end_row - trees.items.items[0].first_row, 2);
	trees_done(&trees);
	tree_builder_free(b);
}
