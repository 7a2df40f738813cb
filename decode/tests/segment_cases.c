/* Golden cases of the segment builder and the join: tests/cases/NAME.case.
 *
 * A case is prose (# lines), functions, sideband, events in execution order, and the trees
 * they must give. Addresses are NAME or NAME+HEX. A call is 5 bytes long, so it returns to its
 * ip + 5; a syscall is 2 bytes long.
 *
 *     func NAME [ROLE] [module N] [kernel] [missing] [uprobes]
 *                                     ROLE as in enum func_role, lower case ("plt", "setjmp")
 *     inline NAME FROM TO [in NAME2]  code that was inlined there, maybe inside NAME2
 *     line FROM TO                    the straight line of code from FROM ends with TO
 *     branch jcc|jmp|call|icall|ret FROM [TO]
 *                                     code that is there, whether it runs or not
 *     calls NAME+HEX                  a call instruction ends here (a place to return to)
 *     pad NAME+HEX NAME+HEX           the LSDA sends the call that returns to the first there
 *     syscall NAME+HEX NUMBER         mov $NUMBER,%eax before the syscall at that ip
 *     code NAME+HEX BYTE...           the bytes of an instruction
 *     task N [process|thread OF TIME] another task, maybe made by task OF; task 1 exists
 *     exec TIME [N]                   task N (1) execs
 *     switch TIME out|in [N [CPU]]    task N (1) leaves or gets a CPU (0)
 *     runs TIME CPU N                 from then on the CPU runs task N: sorted by CPU and time
 *     sample TIME IP...               a sample of task 1 with a call chain, innermost first
 *     filter                          an address filter was set
 *     near N                          joins look at N frames of a stack, and the levels' own
 *     space N                         ips named from here on lie in another address space
 *     cpu N / run N                   the events from here on are of that CPU's buffer, task N
 *     TIME begin|sync|resume TO
 *     TIME end syscall|async|call|icall|ret|jmp|ijmp|jcc FROM
 *     TIME call|icall|ret|jmp|ijmp|step|entry|intr|exit FROM TO
 *     TIME gap CAUSE [FROM [ret]]     ret: FROM is a return, whose target is not known
 *     TIME tx begin|commit|abort [TO]
 *     TIME lost                       the trace ends behind a gap
 *     expect
 *     START..END NAME [marks]         two blanks a level; an inlined frame is (NAME)
 *
 * "segment_cases --accept" rewrites the expectations; read the diff. Speaks TAP. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/anchor.h"
#include "decode/join.h"
#include "decode/segment.h"
#include "decode/tests/fake_code.h"
#include "decode/tests/trace_compare.h"
#include "decode/tests/trace_promises.h"

enum { TASKS_MAX = 8, CPUS_MAX = 4, SPACES_MAX = 8 };

/* ---- reading a case ---- */

static const char *const role_names[] = {"plain",           "plt",          "lazy_resolver",
					 "indirect_thunk",  "return_thunk", "return_trampoline",
					 "signal_restorer", "stack_switch", "unwind_resume",
					 "unwinder",        "personality",  "longjmp",
					 "setjmp"};

struct story {
	struct sideband sideband;
	struct task tasks[TASKS_MAX + 1];
	struct aux_buffer buffers[CPUS_MAX];
	struct space spaces[SPACES_MAX];
	uint64_t chains[256];
	size_t chain_count;
	struct join_limits limits; /* near = 0: join_trace's own */
	struct flow_event events[NODES_MAX];
	uint8_t cpus[NODES_MAX]; /* of each event */
	size_t count;
	uint32_t space;
	uint8_t cpu;
	const char *file;
	int line;
	const char *tree; /* printed, once there is one */
};

static void story_fail(const struct story *s, const char *what)
{
	fprintf(stderr, "%s%s:%d: %s\n", s->tree ? s->tree : "", s->file, s->line, what);
	exit(2);
}

static uint64_t story_ip(const struct story *s, const char *word)
{
	char name[64];
	size_t length = strcspn(word, "+");

	snprintf(name, sizeof name, "%.*s", (int)length, word);
	for (uint32_t i = 1; i <= symbols.count; i++)
		if (strcmp(symbols.names[i], name) == 0)
			return symbols.funcs[i].start +
			       (word[length] ? strtoull(word + length + 1, NULL, 16) : 0);
	story_fail(s, "no such function");
	return 0;
}

static node_id story_node(const struct story *s, const char *word)
{
	return graph_node(&graph, (space_id){s->space}, story_ip(s, word));
}

/* The kernel's page of probed instructions: no file has its bytes. */
static void story_uprobes(struct story *s, uint64_t start)
{
	struct mapping m = {.start = start, .end = start + FUNC_BYTES, .flags = MAPPING_UPROBES};

	for (size_t i = 0; i < sizeof s->spaces / sizeof *s->spaces; i++)
		if (!vec_push(&s->spaces[i].mappings, m))
			story_fail(s, "no memory");
}

static void story_func(struct story *s, char **words, int count)
{
	uint32_t f = ++symbols.count;

	snprintf(symbols.names[f], sizeof symbols.names[f], "%s", words[1]);
	symbols.funcs[f] = (struct func){.module = {1}, .start = f * FUNC_BYTES};
	for (int i = 2; i < count; i++) {
		if (strcmp(words[i], "missing") == 0) {
			symbols.funcs[f].module.v = MODULE_MISSING;
			continue;
		}
		if (strcmp(words[i], "kernel") == 0) {
			s->sideband.config.kernel = true;
			symbols.funcs[f].start |= KERNEL_BASE;
			continue;
		}
		if (strcmp(words[i], "uprobes") == 0) {
			story_uprobes(s, symbols.funcs[f].start);
			symbols.funcs[f].module.v = MODULE_MISSING;
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

static void story_call_site(const struct story *s, uint64_t return_ip)
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
		      {"lost", LOSS_AUX_LOST},        {"overwritten", LOSS_OVERWRITTEN},
		      {"snapshot", LOSS_NONE},        {"bad_packet", LOSS_BAD_PACKET},
		      {"bad_ip", LOSS_BAD_IP}};

	for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
		if (strcmp(word, causes[i].word) == 0)
			return (uint8_t)causes[i].loss;
	story_fail(s, "no such cause");
	return 0;
}

static void story_make_syscall(node_id n)
{
	graph.hot[n].kind = NODE_SYSCALL;
	graph.cold[n].end_ip = graph.cold[n].branch_ip + SYSCALL_BYTES;
}

static enum node_kind story_branch_kind(const struct story *s, const char *word)
{
	static const struct {
		const char *word;
		enum node_kind kind;
	} branches[] = {{"call", NODE_CALL}, {"icall", NODE_CALL_INDIRECT}, {"ret", NODE_RETURN},
			{"jmp", NODE_JUMP},  {"ijmp", NODE_JUMP_INDIRECT},  {"jcc", NODE_COND}};

	for (size_t i = 0; i < sizeof branches / sizeof *branches; i++)
		if (strcmp(word, branches[i].word) == 0)
			return branches[i].kind;
	story_fail(s, "no such branch");
	return 0;
}

static uint8_t story_end(const struct story *s, const char *word, node_id from)
{
	if (strcmp(word, "async") == 0)
		return FLOW_END_ASYNC;
	if (strcmp(word, "syscall") == 0) {
		if (graph.hot[from].kind != NODE_SYSCALL)
			graph.cold[from].ip -= MOV_BYTES; /* the mov is part of the line */
		story_make_syscall(from);
		return FLOW_END_SYSCALL;
	}
	graph.hot[from].kind = (uint8_t)story_branch_kind(s, word);
	return FLOW_END_BRANCH;
}

static void story_add(struct story *s, struct flow_event e)
{
	if (s->count == NODES_MAX)
		story_fail(s, "too many events");
	s->cpus[s->count] = s->cpu;
	s->events[s->count++] = e;
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
		     {"tx", FLOW_TX_BEGIN, 0},
		     {"lost", FLOW_STILL_LOST, 0}};
	struct flow_event e = {.time_ns = strtoull(words[0], NULL, 10)};
	size_t k = 0;

	while (k < sizeof kinds / sizeof *kinds && strcmp(words[1], kinds[k].word) != 0)
		k++;
	if (k == sizeof kinds / sizeof *kinds || (count < 3 && kinds[k].kind != FLOW_STILL_LOST))
		story_fail(s, "no such event");
	e.kind = kinds[k].kind;
	switch (e.kind) {
	case FLOW_BEGIN:
	case FLOW_SYNC:
	case FLOW_RESUME: e.to = story_node(s, words[2]); break;
	case FLOW_END:
		if (count < 4)
			story_fail(s, "an end needs a place");
		e.from = story_node(s, words[3]);
		e.cause = story_end(s, words[2], e.from);
		break;
	case FLOW_GAP:
		e.cause = story_cause(s, words[2]);
		e.from = count > 3 ? story_node(s, words[3]) : 0;
		if (count > 4 && strcmp(words[4], "ret") == 0)
			graph.hot[e.from].kind = NODE_RETURN;
		break;
	case FLOW_TX_BEGIN:
		e.kind = strcmp(words[2], "begin") == 0    ? FLOW_TX_BEGIN
			 : strcmp(words[2], "commit") == 0 ? FLOW_TX_COMMIT
							   : FLOW_TX_ABORT;
		e.to = count > 3 ? story_node(s, words[3]) : 0;
		break;
	case FLOW_STILL_LOST: break;
	default:
		if (count < 4)
			story_fail(s, "an edge needs FROM and TO");
		e.from = story_node(s, words[2]);
		e.to = story_node(s, words[3]);
		if (e.kind == FLOW_ENTRY)
			story_make_syscall(e.from);
		else if (e.kind != FLOW_INTERRUPT)
			graph.hot[e.from].kind = (uint8_t)kinds[k].from;
		if (e.kind == FLOW_CALL)
			story_call_site(s, graph.cold[e.from].end_ip);
		if (e.kind == FLOW_CALL && graph.cold[e.to].ip == graph.cold[e.from].end_ip)
			graph.hot[e.from].flags |= NODE_CALL_NEXT;
	}
	story_add(s, e);
}

static uint32_t story_task(const struct story *s, const char *word)
{
	long n = word ? strtol(word, NULL, 10) : 1;

	if (n < 1 || n > TASKS_MAX || s->tasks[n].tid == 0)
		story_fail(s, "no such task");
	return (uint32_t)n;
}

static void story_new_task(struct story *s, char **words, int count)
{
	long n = strtol(words[1], NULL, 10);
	bool thread = count > 2 && strcmp(words[2], "thread") == 0;

	if (n < 2 || n > TASKS_MAX || (size_t)n != s->sideband.tasks.count)
		story_fail(s, "tasks are numbered from 2 on");
	struct task t = {.pid = (int32_t)n, .tid = (int32_t)n, .end_ns = TIME_NONE};
	if (count > 4) {
		uint32_t of = story_task(s, words[3]);

		t.pid = thread ? s->tasks[of].pid : t.pid;
		t.start_ns = strtoull(words[4], NULL, 10);
		t.forked_from = (task_id){of};
		t.is_new_process = !thread;
	}
	s->tasks[n] = t;
	s->sideband.tasks.count = (size_t)n + 1;
}

static void story_inline(struct story *s, char **words, int count)
{
	uint32_t i = ++symbols.inline_count;

	if (count < 4 || i >= INLINES_MAX)
		story_fail(s, "inline NAME FROM TO [in NAME2]");
	snprintf(symbols.inlines[i].name, sizeof symbols.inlines[i].name, "%s", words[1]);
	symbols.inlines[i].start = story_ip(s, words[2]);
	symbols.inlines[i].end = story_ip(s, words[3]);
	symbols.inlines[i].frame.depth = 1;
	for (uint32_t k = 1; count > 5 && k < i; k++)
		if (strcmp(symbols.inlines[k].name, words[5]) == 0) {
			symbols.inlines[i].frame.parent.v = k;
			symbols.inlines[i].frame.depth = symbols.inlines[k].frame.depth + 1;
		}
}

static void story_sample(struct story *s, char **words, int count)
{
	struct instant sample = {.time_ns = strtoull(words[1], NULL, 10),
				 .task = {1},
				 .callchain = s->chains + s->chain_count,
				 .callchain_count = (uint32_t)count - 2};

	for (int i = 2; i < count; i++)
		s->chains[s->chain_count++] = story_ip(s, words[i]);
	if (!vec_push(&s->sideband.instants, sample))
		story_fail(s, "no memory");
}

/* The lines that are no events; false = not one of them. */
static bool story_sideband(struct story *s, char **words, int count)
{
	const char *what = words[0];
	uint64_t time_ns = strtoull(words[1], NULL, 10);

	if (strcmp(what, "task") == 0) {
		story_new_task(s, words, count);
	} else if (strcmp(what, "exec") == 0) {
		struct task_name n = {.time_ns = time_ns,
				      .task = {story_task(s, count > 2 ? words[2] : NULL)},
				      .exec = true};

		if (!vec_push(&s->sideband.task_names, n))
			story_fail(s, "no memory");
	} else if (strcmp(what, "switch") == 0 && count > 2) {
		struct task_switch sw = {.time_ns = time_ns,
					 .task = {story_task(s, count > 3 ? words[3] : NULL)},
					 .cpu = count > 4 ? atoi(words[4]) : 0,
					 .in = strcmp(words[2], "in") == 0};

		if (!vec_push(&s->sideband.task_switches, sw))
			story_fail(s, "no memory");
	} else if (strcmp(what, "runs") == 0 && count > 3) {
		struct cpu_switch sw = {.time_ns = time_ns,
					.cpu = atoi(words[2]),
					.task = {story_task(s, words[3])}};

		if (!vec_push(&s->sideband.cpu_switches, sw))
			story_fail(s, "no memory");
	} else if (strcmp(what, "sample") == 0) {
		story_sample(s, words, count);
	} else if (strcmp(what, "space") == 0) {
		if (time_ns == 0 || time_ns >= SPACES_MAX - 1)
			story_fail(s, "no such space");
		s->space = (uint32_t)time_ns + 1;
	} else if (strcmp(what, "cpu") == 0) {
		s->cpu = (uint8_t)(time_ns % CPUS_MAX);
	} else if (strcmp(what, "run") == 0) {
		struct flow_event e = {.kind = FLOW_TASK, .data = story_task(s, words[1])};

		e.time_ns = s->count ? s->events[s->count - 1].time_ns : 0;
		if (count > 2)
			e.time_ns = strtoull(words[2], NULL, 10);
		story_add(s, e);
	} else {
		return false;
	}
	return true;
}

static void story_bytes(const struct story *s, uint64_t ip, const uint8_t *bytes, size_t count)
{
	size_t i = symbols.code_count++;

	if (i == sizeof symbols.code / sizeof *symbols.code || count > sizeof symbols.code[i].bytes)
		story_fail(s, "too much code");
	symbols.code[i].ip = ip;
	symbols.code[i].count = count;
	memcpy(symbols.code[i].bytes, bytes, count);
}

static void story_branch(struct story *s, char **words, int count)
{
	enum node_kind kind = story_branch_kind(s, words[1]);
	uint64_t ip = story_ip(s, words[2]);

	fake_branch(kind, ip, count > 3 ? story_ip(s, words[3]) : 0);
}

static bool story_code(struct story *s, char **words, int count)
{
	const char *what = words[0];

	if (strcmp(what, "func") == 0) {
		story_func(s, words, count);
	} else if (strcmp(what, "branch") == 0 && count > 2) {
		story_branch(s, words, count);
	} else if (strcmp(what, "calls") == 0) {
		story_call_site(s, story_ip(s, words[1]));
	} else if (strcmp(what, "inline") == 0) {
		story_inline(s, words, count);
	} else if (strcmp(what, "line") == 0 && count > 2) {
		symbols.lines[symbols.line_count].ip = story_ip(s, words[1]);
		symbols.lines[symbols.line_count++].branch_ip = story_ip(s, words[2]);
	} else if (strcmp(what, "pad") == 0 && count > 2) {
		symbols.pads[symbols.pad_count][0] = story_ip(s, words[1]);
		symbols.pads[symbols.pad_count++][1] = story_ip(s, words[2]);
	} else if (strcmp(what, "syscall") == 0 && count > 2) {
		uint8_t mov[MOV_BYTES] = {0xb8};
		int32_t number = atoi(words[2]);

		memcpy(mov + 1, &number, 4);
		story_bytes(s, story_ip(s, words[1]) - MOV_BYTES, mov, sizeof mov);
	} else if (strcmp(what, "code") == 0 && count > 2) {
		uint8_t bytes[16];

		for (int i = 2; i < count && i < 18; i++)
			bytes[i - 2] = (uint8_t)strtoul(words[i], NULL, 16);
		story_bytes(s, story_ip(s, words[1]), bytes, (size_t)count - 2);
	} else {
		return false;
	}
	return true;
}

static void story_line(struct story *s, char *line)
{
	char *words[32];
	int count = 0;

	for (char *w = strtok(line, " \t\n"); w && count < 32; w = strtok(NULL, " \t\n"))
		words[count++] = w;
	if (count == 0 || words[0][0] == '#')
		return;
	if (count == 1 && strcmp(words[0], "filter") == 0)
		s->sideband.config.filter = (str_id){1};
	else if (count == 2 && strcmp(words[0], "near") == 0)
		s->limits.near = (uint32_t)atoi(words[1]);
	else if (count == 1)
		story_fail(s, "cannot read this line");
	else if (!story_code(s, words, count) && !story_sideband(s, words, count))
		story_event(s, words, count);
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
		     {CALL_INTERRUPT, "kernel"},  {CALL_AMBIGUOUS, "ambiguous"}};
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
	} else if (c->kind == CALL_INLINED) {
		fprintf(out, "(%s)", symbols.inlines[c->what].name);
	} else {
		const struct bracket *b = &trace->brackets.items[c->what];
		static const char *const kinds[] = {"syscall",     "interrupted",  "page fault",
						    "descheduled", "lost",         "missing code",
						    "filtered",    "missing frame"};

		fprintf(out, "[%s", kinds[b->kind]);
		if (b->kind == BRACKET_SYSCALL && b->number >= 0)
			fprintf(out, " %d", b->number);
		fputs("]", out);
	}
	print_flags(out, c->flags);
}

static const char *call_name(const struct thread *t, uint32_t row)
{
	const struct call *c = &t->calls.items[row];

	return c->kind == CALL_FRAME ? symbols.names[graph.hot[c->what].func] : "[]";
}

static void print_thread(FILE *out, const struct trace *trace, const struct thread *t)
{
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

		fprintf(out, "join: %s waiting %u kept %u inferred %u agreeing %u%s",
			join_evidence_name(j->evidence), j->waiting, j->kept, j->inferred,
			j->agreeing, j->ambiguous ? " ambiguous" : "");
		if (j->proven || j->returned || j->excluded)
			fprintf(out, "; code: proven %u returned %u excluded %u", j->proven,
				j->returned, j->excluded);
		fputc('\n', out);
	}
	for (size_t k = 0; k < t->arrows.count; k++) {
		const struct arrow *a = &t->arrows.items[k];

		fprintf(out, "%s arrow: %llu %s -> %s\n",
			a->kind == ARROW_SWITCH ? "switch" : "tail",
			(unsigned long long)t->calls.items[a->to].start_ns, call_name(t, a->from),
			call_name(t, a->to));
	}
}

static void story_begin(struct story *s)
{
	struct flow_event task = {.kind = FLOW_TASK, .data = 1};

	s->space = 2;
	s->tasks[1] = (struct task){.pid = 1, .tid = 1, .end_ns = TIME_NONE};
	s->sideband.clock.valid = true;
	s->sideband.tasks.items = s->tasks;
	s->sideband.tasks.count = 2;
	s->sideband.spaces.items = s->spaces;
	s->sideband.spaces.count = SPACES_MAX;
	s->sideband.buffers.items = s->buffers;
	s->sideband.buffers.count = CPUS_MAX;
	for (int i = 0; i < CPUS_MAX; i++)
		s->buffers[i] = (struct aux_buffer){.index = (uint32_t)i, .cpu = i};
	story_add(s, task);
}

static int switch_order(const void *a, const void *b)
{
	const struct task_switch *x = a, *y = b;

	if (x->task.v != y->task.v)
		return x->task.v < y->task.v ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* As the decoder does: a stay of one task in one buffer at a time, maybe with its trees. */
static enum err story_weave(struct story *s, struct weaver *w, struct tree_builder *b)
{
	struct trees trees = {0};
	enum err err = ERR_NONE;

	for (size_t i = 0, end; i < s->count && err == ERR_NONE; i = end) {
		for (end = i + 1; end < s->count && s->cpus[end] == s->cpus[i]; end++)
			if (s->events[end].kind == FLOW_TASK)
				break;
		if (b)
			err = trees_build(b, s->events + i, end - i, &trees);
		struct stay stay = {.events = s->events + i,
				    .count = end - i,
				    .trees = trees.items.items,
				    .tree_count = trees.items.count,
				    .rows = trees.rows.items};
		if (err == ERR_NONE)
			err = weaver_events(w, &s->buffers[s->cpus[i]], &stay);
	}
	trees_done(&trees);
	return err;
}

/* Trees or not must make no difference. */
static void story_trace(struct story *s, struct trace *trace, bool with_trees)
{
	struct weaver *w = NULL;
	struct tree_builder *b = NULL;

	if ((with_trees && tree_builder_new(&graph, &b) != ERR_NONE) ||
	    weaver_new(&s->sideband, &symbols, &graph, trace, &w) != ERR_NONE ||
	    story_weave(s, w, b) != ERR_NONE || weaver_finish(w) != ERR_NONE ||
	    (s->limits.near ? join_trace_within(trace, &graph, s->limits)
			    : join_trace(trace, &graph)) != ERR_NONE ||
	    anchor_trace(trace, &graph, &s->sideband) != ERR_NONE)
		story_fail(s, "the builder failed");
	weaver_free(w);
	tree_builder_free(b);
}

static char *story_run(struct story *s)
{
	struct trace without = {0};
	struct trace trace = {0};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (s->sideband.task_switches.count)
		qsort(s->sideband.task_switches.items, s->sideband.task_switches.count,
		      sizeof *s->sideband.task_switches.items, switch_order);
	for (size_t i = 0; i < s->sideband.cpu_switches.count; i++) {
		struct aux_buffer *b = &s->buffers[s->sideband.cpu_switches.items[i].cpu];

		if (b->last_switch == 0)
			b->first_switch = i;
		b->last_switch = i + 1;
	}
	if (!out)
		story_fail(s, "no memory");
	story_trace(s, &trace, true);
	story_trace(s, &without, false);
	for (size_t i = 0; i < trace.threads.count; i++) {
		const struct thread *t = &trace.threads.items[i];

		if (s->sideband.tasks.count > 2)
			fprintf(out, "task %u\n", t->task.v);
		print_thread(out, &trace, t);
	}
	fclose(out);
	s->tree = text;
	const char *broken = trace_broken_promise(&trace);
	if (broken)
		story_fail(s, broken);
	const char *differs = trace_difference(&trace, &without);
	if (differs)
		story_fail(s, differs);
	trace_done(&trace);
	trace_done(&without);
	vec_done(&s->sideband.task_names);
	vec_done(&s->sideband.task_switches);
	vec_done(&s->sideband.cpu_switches);
	vec_done(&s->sideband.instants);
	for (size_t i = 0; i < SPACES_MAX; i++)
		vec_done(&s->spaces[i].mappings);
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
	story_begin(&s);
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
