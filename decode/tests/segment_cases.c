/* Golden cases of the segment builder and the join: tests/cases/NAME.case.
 *
 * A case is prose (# lines), functions, events in execution order, and the tree they must
 * give. Addresses are NAME or NAME+HEX. A call is 5 bytes long, so it returns to its ip + 5.
 *
 *     func NAME [ROLE] [module N]     ROLE as in enum func_role, lower case ("plt", "setjmp")
 *     calls NAME+HEX                  a call instruction ends here (a place to return to)
 *     pad NAME+HEX NAME+HEX           the LSDA sends the call that returns to the first there
 *     syscall NAME+HEX NUMBER         mov $NUMBER,%eax before the syscall at that ip
 *     exec TIME / switch TIME out|in  sideband
 *     TIME begin|sync|resume TO
 *     TIME end syscall|async|branch FROM
 *     TIME call|icall|ret|jmp|ijmp|step|entry|intr|exit FROM TO
 *     TIME gap CAUSE [FROM]           CAUSE: overflow, truncated, missing, mismatch, lost
 *     TIME tx begin|commit|abort [TO]
 *     expect
 *     START..END NAME [marks]         two blanks a level
 *
 * "segment_cases --accept" rewrites the expectations; read the diff. Speaks TAP. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/join.h"
#include "decode/segment.h"

enum { NODES_MAX = 4096, FUNCS_MAX = 256, FUNC_BYTES = 0x1000, CALL_BYTES = 5 };

/* ---- a graph and a symbolizer made of the case's text ---- */

struct graph {
	struct node hot[NODES_MAX];
	struct node_cold cold[NODES_MAX];
	uint32_t count;
};

struct symbolizer {
	struct func funcs[FUNCS_MAX];
	char names[FUNCS_MAX][64];
	uint32_t count;
	uint64_t pads[64][2], called[256];
	size_t pad_count, called_count;
	struct {
		uint64_t ip;
		uint8_t code[5];
	} syscalls[64];
	size_t syscall_count;
};

static struct graph graph;
static struct symbolizer symbols;

void graph_lock(struct graph *g)
{
	(void)g;
}

void graph_unlock(struct graph *g)
{
	(void)g;
}

struct graph_tables graph_tables(struct graph *g)
{
	return (struct graph_tables){g->hot, g->cold};
}

node_id graph_node(struct graph *g, space_id space, uint64_t ip)
{
	uint32_t func = (uint32_t)(ip / FUNC_BYTES);

	for (uint32_t i = 1; i <= g->count; i++)
		if (g->cold[i].ip == ip)
			return i;
	node_id n = ++g->count;
	g->cold[n] = (struct node_cold){
		.ip = ip, .branch_ip = ip, .end_ip = ip + CALL_BYTES, .vaddr = ip, .space = space};
	if (func <= symbols.count && symbols.funcs[func].module.v != 99) {
		g->hot[n].func = func;
		g->cold[n].module = symbols.funcs[func].module;
		g->hot[n].kind = NODE_COND;
	} else {
		g->hot[n].kind = NODE_MISSING;
		g->cold[n].module = (module_id){99};
	}
	if (ip % FUNC_BYTES == 0)
		g->hot[n].flags |= NODE_INTO_FUNCTION;
	for (size_t i = 0; i < symbols.called_count; i++)
		if (symbols.called[i] == ip)
			g->hot[n].flags |= NODE_CALL_PRECEDED;
	return n;
}

node_id graph_successor(struct graph *g, node_id node, int slot)
{
	(void)slot;
	return graph_node(g, g->cold[node].space, g->cold[node].end_ip);
}

size_t graph_code(struct graph *g, space_id space, uint64_t ip, const uint8_t **bytes)
{
	(void)g;
	(void)space;
	for (size_t i = 0; i < symbols.syscall_count; i++)
		if (symbols.syscalls[i].ip == ip + 5) {
			*bytes = symbols.syscalls[i].code;
			return 5;
		}
	return 0;
}

const struct func *symbolizer_func_get(const struct symbolizer *s, func_id id)
{
	return id.v <= s->count ? &s->funcs[id.v] : NULL;
}

const struct inline_frame *symbolizer_inline_get(const struct symbolizer *s, inline_id id)
{
	(void)s;
	(void)id;
	return NULL;
}

inline_id symbolizer_inline_at(struct symbolizer *s, module_id module, uint64_t vaddr,
			       uint64_t *until)
{
	(void)s;
	(void)module;
	(void)vaddr;
	*until = UINT64_MAX;
	return (inline_id){0};
}

bool symbolizer_landing_pad(struct symbolizer *s, module_id module, uint64_t return_vaddr,
			    uint64_t *pad)
{
	(void)module;
	for (size_t i = 0; i < s->pad_count; i++)
		if (s->pads[i][0] == return_vaddr) {
			*pad = s->pads[i][1];
			return true;
		}
	return false;
}

/* ---- reading a case ---- */

static const char *const role_names[] = {"plain",           "plt",          "lazy_resolver",
					 "indirect_thunk",  "return_thunk", "return_trampoline",
					 "signal_restorer", "stack_switch", "unwind_resume",
					 "unwinder",        "longjmp",      "setjmp"};

struct story {
	struct sideband sideband;
	struct flow_event events[NODES_MAX];
	size_t count;
	const char *file;
	int line;
};

static void story_fail(const struct story *s, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", s->file, s->line, what);
	exit(2);
}

static uint64_t story_ip(const struct story *s, const char *word)
{
	char name[64];
	size_t length = strcspn(word, "+");

	snprintf(name, sizeof name, "%.*s", (int)length, word);
	for (uint32_t i = 1; i <= symbols.count; i++)
		if (strcmp(symbols.names[i], name) == 0)
			return (uint64_t)i * FUNC_BYTES +
			       (word[length] ? strtoull(word + length + 1, NULL, 16) : 0);
	story_fail(s, "no such function");
	return 0;
}

static node_id story_node(const struct story *s, const char *word)
{
	return graph_node(&graph, (space_id){2}, story_ip(s, word));
}

static void story_func(struct story *s, char **words, int count)
{
	uint32_t f = ++symbols.count;

	snprintf(symbols.names[f], sizeof symbols.names[f], "%s", words[1]);
	symbols.funcs[f] = (struct func){.module = {1}, .start = f * FUNC_BYTES};
	for (int i = 2; i < count; i++) {
		if (strcmp(words[i], "missing") == 0) {
			symbols.funcs[f].module.v = 99;
			continue;
		}
		if (strcmp(words[i], "module") == 0 && i + 1 < count) {
			symbols.funcs[f].module.v = (uint32_t)atoi(words[++i]);
			continue;
		}
		size_t role = 0;
		while (role < sizeof role_names / sizeof *role_names &&
		       strcmp(role_names[role], words[i]) != 0)
			role++;
		if (role == sizeof role_names / sizeof *role_names)
			story_fail(s, "no such role");
		symbols.funcs[f].role = (uint8_t)role;
	}
}

static void story_call_site(struct story *s, uint64_t return_ip)
{
	if (symbols.called_count == sizeof symbols.called / sizeof *symbols.called)
		story_fail(s, "too many call sites");
	symbols.called[symbols.called_count++] = return_ip;
	for (uint32_t i = 1; i <= graph.count; i++)
		if (graph.cold[i].ip == return_ip)
			graph.hot[i].flags |= NODE_CALL_PRECEDED;
}

static uint8_t story_cause(const struct story *s, const char *word)
{
	static const struct {
		const char *word;
		enum loss loss;
	} causes[] = {{"overflow", LOSS_OVERFLOW},    {"truncated", LOSS_AUX_TRUNCATED},
		      {"missing", LOSS_MISSING_CODE}, {"mismatch", LOSS_MISMATCH},
		      {"lost", LOSS_AUX_LOST},        {"overwritten", LOSS_OVERWRITTEN}};

	for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
		if (strcmp(word, causes[i].word) == 0)
			return (uint8_t)causes[i].loss;
	story_fail(s, "no such cause");
	return 0;
}

static void story_event(struct story *s, char **words, int count)
{
	static const struct {
		const char *word;
		enum flow_kind kind;
		enum node_kind from;
	} kinds[] = {{"call", FLOW_CALL, NODE_CALL},
		     {"icall", FLOW_CALL, NODE_CALL_INDIRECT},
		     {"ret", FLOW_RETURN, NODE_RETURN},
		     {"jmp", FLOW_JUMP, NODE_JUMP},
		     {"ijmp", FLOW_JUMP, NODE_JUMP_INDIRECT},
		     {"step", FLOW_STEP, NODE_COND},
		     {"entry", FLOW_ENTRY, NODE_SYSCALL},
		     {"intr", FLOW_INTERRUPT, NODE_COND},
		     {"exit", FLOW_EXIT, NODE_SYSRET},
		     {"begin", FLOW_BEGIN, 0},
		     {"sync", FLOW_SYNC, 0},
		     {"resume", FLOW_RESUME, 0},
		     {"end", FLOW_END, 0},
		     {"gap", FLOW_GAP, 0},
		     {"tx", FLOW_TX_BEGIN, 0}};
	struct flow_event e = {.time_ns = strtoull(words[0], NULL, 10)};
	size_t k = 0;

	while (k < sizeof kinds / sizeof *kinds && strcmp(words[1], kinds[k].word) != 0)
		k++;
	if (k == sizeof kinds / sizeof *kinds || count < 3)
		story_fail(s, "no such event");
	e.kind = kinds[k].kind;
	switch (e.kind) {
	case FLOW_BEGIN:
	case FLOW_SYNC:
	case FLOW_RESUME: e.to = story_node(s, words[2]); break;
	case FLOW_END:
		e.cause = strcmp(words[2], "syscall") == 0 ? FLOW_END_SYSCALL
			  : strcmp(words[2], "async") == 0 ? FLOW_END_ASYNC
							   : FLOW_END_BRANCH;
		e.from = story_node(s, words[3]);
		if (e.cause == FLOW_END_SYSCALL) {
			graph.hot[e.from].kind = NODE_SYSCALL;
			graph.cold[e.from].end_ip = graph.cold[e.from].ip + 2;
			graph.cold[e.from].ip -= 5; /* the mov is part of the line */
		}
		break;
	case FLOW_GAP:
		e.cause = story_cause(s, words[2]);
		e.from = count > 3 ? story_node(s, words[3]) : 0;
		break;
	case FLOW_TX_BEGIN:
		e.kind = strcmp(words[2], "begin") == 0    ? FLOW_TX_BEGIN
			 : strcmp(words[2], "commit") == 0 ? FLOW_TX_COMMIT
							   : FLOW_TX_ABORT;
		e.to = count > 3 ? story_node(s, words[3]) : 0;
		break;
	default:
		if (count < 4)
			story_fail(s, "an edge needs FROM and TO");
		e.from = story_node(s, words[2]);
		e.to = story_node(s, words[3]);
		if (e.kind != FLOW_INTERRUPT)
			graph.hot[e.from].kind = (uint8_t)kinds[k].from;
		if (e.kind == FLOW_CALL)
			story_call_site(s, graph.cold[e.from].end_ip);
	}
	s->events[s->count++] = e;
}

static void story_line(struct story *s, char *line)
{
	char *words[8];
	int count = 0;

	for (char *w = strtok(line, " \t\n"); w && count < 8; w = strtok(NULL, " \t\n"))
		words[count++] = w;
	if (count == 0 || words[0][0] == '#')
		return;
	if (strcmp(words[0], "func") == 0 && count > 1) {
		story_func(s, words, count);
	} else if (strcmp(words[0], "calls") == 0 && count > 1) {
		story_call_site(s, story_ip(s, words[1]));
	} else if (strcmp(words[0], "pad") == 0 && count > 2) {
		symbols.pads[symbols.pad_count][0] = story_ip(s, words[1]);
		symbols.pads[symbols.pad_count++][1] = story_ip(s, words[2]);
	} else if (strcmp(words[0], "syscall") == 0 && count > 2) {
		int32_t number = atoi(words[2]);

		symbols.syscalls[symbols.syscall_count].ip = story_ip(s, words[1]);
		symbols.syscalls[symbols.syscall_count].code[0] = 0xb8;
		memcpy(symbols.syscalls[symbols.syscall_count++].code + 1, &number, 4);
	} else if (strcmp(words[0], "exec") == 0 && count > 1) {
		struct task_name n = {
			.time_ns = strtoull(words[1], NULL, 10), .task = {1}, .exec = true};

		if (!vec_push(&s->sideband.task_names, n))
			story_fail(s, "no memory");
	} else if (strcmp(words[0], "switch") == 0 && count > 2) {
		struct task_switch sw = {.time_ns = strtoull(words[1], NULL, 10),
					 .task = {1},
					 .in = strcmp(words[2], "in") == 0};

		if (!vec_push(&s->sideband.task_switches, sw))
			story_fail(s, "no memory");
	} else if (count > 1) {
		story_event(s, words, count);
	} else {
		story_fail(s, "cannot read this line");
	}
}

/* ---- printing the tree ---- */

static void print_flags(FILE *out, unsigned flags)
{
	static const struct {
		unsigned flag;
		const char *word;
	} words[] = {{CALL_STITCHED, "stitched"}, {CALL_START_INFERRED, "start?"},
		     {CALL_END_INFERRED, "end?"}, {CALL_TAIL, "tail"},
		     {CALL_SIGNAL, "signal"},     {CALL_ABORTED, "aborted"},
		     {CALL_SWITCHED, "switched"}, {CALL_UNWOUND, "unwound"},
		     {CALL_INTERRUPT, "kernel"}};
	const char *separator = " [";

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (flags & words[i].flag) {
			fprintf(out, "%s%s", separator, words[i].word);
			separator = " ";
		}
	fputs(separator[1] == '[' ? "\n" : "]\n", out);
}

static void print_call(FILE *out, const struct trace *trace, const struct thread *t, uint32_t row)
{
	const struct call *c = &t->calls.items[row];
	int depth = 0;

	for (uint32_t p = c->parent; p != CALL_NONE && depth < 100; p = t->calls.items[p].parent)
		depth++;
	fprintf(out, "%*s%llu..%llu ", depth * 2, "", (unsigned long long)c->start_ns,
		(unsigned long long)c->end_ns);
	if (c->kind == CALL_FRAME) {
		fputs(symbols.names[graph.hot[c->what].func], out);
	} else {
		const struct bracket *b = &trace->brackets.items[c->what];
		static const char *const kinds[] = {"syscall",     "interrupted", "page fault",
						    "descheduled", "lost",        "missing code",
						    "filtered"};

		fprintf(out, "[%s", kinds[b->kind]);
		if (b->kind == BRACKET_SYSCALL && b->number >= 0)
			fprintf(out, " %d", b->number);
		fputs("]", out);
	}
	print_flags(out, c->flags);
}

static void print_trace(FILE *out, const struct trace *trace)
{
	for (size_t i = 0; i < trace->threads.count; i++) {
		const struct thread *t = &trace->threads.items[i];

		for (size_t s = 0; s < t->segments.count; s++) {
			const struct segment *seg = &t->segments.items[s];

			for (uint32_t r = seg->first_root; r < seg->end_root; r++)
				if (!(t->calls.items[t->roots.items[r]].flags & CALL_HIDDEN))
					print_call(out, trace, t, t->roots.items[r]);
			for (uint32_t c = seg->first_call; c < seg->end_call; c++)
				if (!(t->calls.items[c].flags & (CALL_HIDDEN | CALL_ROOT)))
					print_call(out, trace, t, c);
		}
		for (size_t k = 0; k < t->joins.count; k++) {
			const struct join *j = &t->joins.items[k];

			fprintf(out, "join: waiting %u kept %u inferred %u agreeing %u%s\n",
				j->waiting, j->kept, j->inferred, j->agreeing,
				j->ambiguous ? " ambiguous" : "");
		}
	}
}

static char *story_run(struct story *s)
{
	struct task tasks[2] = {{0}, {.pid = 1, .tid = 1}};
	struct trace trace = {0};
	struct weaver *w = NULL;
	struct aux_buffer buffer = {.cpu = -1, .task = {1}};
	struct flow_event task = {.kind = FLOW_TASK, .data = 1};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	s->sideband.clock.valid = true;
	s->sideband.tasks.items = tasks;
	s->sideband.tasks.count = 2;
	if (!out || weaver_new(&s->sideband, &symbols, &graph, &trace, &w) != ERR_NONE ||
	    weaver_events(w, &buffer, &task, 1, NULL) != ERR_NONE ||
	    weaver_events(w, &buffer, s->events, s->count, NULL) != ERR_NONE ||
	    weaver_finish(w) != ERR_NONE || join_trace(&trace, &graph, &s->sideband) != ERR_NONE)
		story_fail(s, "the builder failed");
	print_trace(out, &trace);
	fclose(out);
	weaver_free(w);
	trace_done(&trace);
	vec_done(&s->sideband.task_names);
	vec_done(&s->sideband.task_switches);
	return text;
}

/* ---- files ---- */

static bool case_run(const char *path, bool accept)
{
	static struct story s;
	char line[512];
	FILE *f = fopen(path, "r");
	size_t head_bytes = 0, wanted_bytes = 0;
	char *head = NULL, *wanted = NULL;
	bool in_expect = false;

	memset(&graph, 0, sizeof graph);
	memset(&symbols, 0, sizeof symbols);
	memset(&s, 0, sizeof s);
	s.file = path;
	FILE *head_out = open_memstream(&head, &head_bytes);
	FILE *wanted_out = open_memstream(&wanted, &wanted_bytes);
	if (!f || !head_out || !wanted_out)
		story_fail(&s, "cannot read");
	while (fgets(line, sizeof line, f)) {
		s.line++;
		fputs(line, in_expect ? wanted_out : head_out);
		if (!in_expect && strcmp(line, "expect\n") == 0)
			in_expect = true;
		else if (!in_expect)
			story_line(&s, line);
	}
	fclose(f);
	fclose(head_out);
	fclose(wanted_out);
	char *got = story_run(&s);
	bool same = strcmp(got, wanted) == 0;
	if (!same && accept) {
		f = fopen(path, "w");
		if (!f)
			story_fail(&s, "cannot rewrite");
		fprintf(f, "%s%s%s", head, in_expect ? "" : "expect\n", got);
		fclose(f);
	} else if (!same) {
		printf("# %s: wanted\n", path);
		for (char *p = strtok(wanted, "\n"); p; p = strtok(NULL, "\n"))
			printf("#   %s\n", p);
		printf("# got\n");
		for (char *p = strtok(got, "\n"); p; p = strtok(NULL, "\n"))
			printf("#   %s\n", p);
	}
	free(head);
	free(wanted);
	free(got);
	return same || accept;
}

static int is_case(const struct dirent *d)
{
	size_t length = strlen(d->d_name);

	return length > 5 && strcmp(d->d_name + length - 5, ".case") == 0;
}

int main(int argc, char **argv)
{
	const char *top = getenv("top_srcdir");
	char dir[4096], path[8192];
	struct dirent **files = NULL;
	bool accept = argc > 1 && strcmp(argv[1], "--accept") == 0;
	int failed = 0;

	snprintf(dir, sizeof dir, "%s/decode/tests/cases", top ? top : ".");
	int count = scandir(dir, &files, is_case, alphasort);
	if (count <= 0) {
		fprintf(stderr, "no cases in %s\n", dir);
		return 2;
	}
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, files[i]->d_name);
		bool ok = case_run(path, accept);

		printf("%sok %d - %s\n", ok ? "" : "not ", i + 1, files[i]->d_name);
		failed += !ok;
		free(files[i]);
	}
	free(files);
	return failed != 0;
}
