/* See fake.h. Names come from growing tables; ids are indices. */
#include "writer/tests/fake.h"

#include <stdlib.h>
#include <string.h>

#define MUST(ok) \
	do { \
		if (!(ok)) \
			abort(); \
	} while (0)

struct symbolizer {
	struct intern texts;
	VEC(struct module) modules;
	VEC(struct func) funcs;
	VEC(str_id) func_names;
	VEC(struct inline_frame) inlined;
	VEC(str_id) call_files;
	VEC(struct node) hot;
	VEC(struct node_cold) cold;
};

static struct symbolizer the;
static struct fake *current;

static str_id text_id(const char *text)
{
	str_id id;

	MUST(intern_string(&the.texts, text, &id));
	return id;
}

void fake_init(struct fake *f)
{
	static const struct node no_node;

	*f = (struct fake){0};
	current = f;
	f->names.sideband = &f->sideband;
	f->names.symbolizer = &the;
	MUST(vec_push(&the.modules, (struct module){0}));
	MUST(vec_push(&the.funcs, (struct func){0}));
	MUST(vec_push(&the.func_names, (str_id){0}));
	MUST(vec_push(&the.inlined, (struct inline_frame){0}));
	MUST(vec_push(&the.call_files, (str_id){0}));
	MUST(vec_push(&the.cold, (struct node_cold){0}));
	MUST(vec_reserve(&the.hot, 1));
	memcpy(the.hot.items, &no_node, sizeof no_node);
	the.hot.count = 1;
	MUST(vec_push(&f->sideband.tasks, (struct task){0}));
	f->sideband.clock = (struct clock){.valid = true, .time_mult = 1, .time_shift = 0};
}

void fake_done(struct fake *f)
{
	for (size_t i = 0; i < f->trace.threads.count; i++) {
		struct thread *t = &f->trace.threads.items[i];

		vec_done(&t->calls);
		vec_done(&t->segments);
		vec_done(&t->roots);
		vec_done(&t->joins);
		vec_done(&t->arrows);
	}
	vec_done(&f->trace.threads);
	vec_done(&f->trace.brackets);
	vec_done(&f->trace.frequencies);
	vec_done(&f->trace.marks);
	vec_done(&f->sideband.tasks);
	vec_done(&f->sideband.task_names);
	vec_done(&f->sideband.instants);
	intern_done(&f->sideband.names);
	intern_done(&the.texts);
	vec_done(&the.modules);
	vec_done(&the.funcs);
	vec_done(&the.func_names);
	vec_done(&the.inlined);
	vec_done(&the.call_files);
	vec_done(&the.hot);
	vec_done(&the.cold);
}

module_id fake_module(const char *basename)
{
	MUST(vec_push(&the.modules,
		      ((struct module){.path = text_id(basename), .basename = text_id(basename)})));
	return (module_id){(uint32_t)the.modules.count - 1};
}

node_id fake_function(const char *name, module_id module, uint64_t ip)
{
	struct func func = {.module = module, .start = ip, .end = ip + 64};
	struct node_cold cold = {
		.ip = ip, .branch_ip = ip + 8, .end_ip = ip + 12, .vaddr = ip, .module = module};
	struct node hot = {.func = name ? (uint32_t)the.funcs.count : 0};

	if (name) {
		MUST(vec_push(&the.funcs, func));
		MUST(vec_push(&the.func_names, text_id(name)));
	}
	MUST(vec_push(&the.cold, cold));
	MUST(vec_reserve(&the.hot, the.hot.count + 1));
	memcpy(&the.hot.items[the.hot.count++], &hot, sizeof hot);
	current->names.graph = (struct graph_tables){the.hot.items, the.cold.items};
	return (node_id)the.cold.count - 1;
}

inline_id fake_inlined(const char *name, const char *file, uint32_t line)
{
	struct inline_frame frame = {.name = text_id(name), .call_line = line, .depth = 1};

	MUST(vec_push(&the.inlined, frame) && vec_push(&the.call_files, text_id(file)));
	return (inline_id){(uint32_t)the.inlined.count - 1};
}

task_id fake_task(struct fake *f, int32_t pid, int32_t tid, const char *comm)
{
	struct task task = {.pid = pid, .tid = tid, .end_ns = TIME_NONE};
	struct task_name name = {.task = {(uint32_t)f->sideband.tasks.count}};

	MUST(intern_string(&f->sideband.names, comm, &name.comm));
	MUST(vec_push(&f->sideband.tasks, task) && vec_push(&f->sideband.task_names, name));
	return name.task;
}

struct thread *fake_thread(struct fake *f, task_id task)
{
	MUST(vec_push(&f->trace.threads, (struct thread){.task = task}));
	return vec_last(&f->trace.threads);
}

void fake_segment(struct thread *t, uint64_t start, uint64_t end)
{
	struct segment s = {.start_ns = start, .end_ns = end, .join = CALL_NONE};

	if (t->segments.count) {
		s.first_call = vec_last(&t->segments)->end_call;
		s.first_root = vec_last(&t->segments)->end_root;
		s.join = t->joins.count ? (uint32_t)t->joins.count - 1 : CALL_NONE;
	}
	s.end_call = (uint32_t)t->calls.count;
	for (uint32_t i = s.first_call; i < s.end_call; i++)
		if (t->calls.items[i].flags & CALL_ROOT)
			MUST(vec_push(&t->roots, i));
	s.end_root = (uint32_t)t->roots.count;
	MUST(vec_push(&t->segments, s));
}

static uint32_t call_push(struct thread *t, struct call call)
{
	MUST(vec_push(&t->calls, call));
	return (uint32_t)t->calls.count - 1;
}

uint32_t fake_call(struct thread *t, uint32_t parent, uint32_t what, uint64_t start, uint64_t end,
		   uint16_t flags)
{
	return call_push(t, (struct call){.start_ns = start,
					  .end_ns = end,
					  .what = what,
					  .parent = parent,
					  .flags = flags,
					  .kind = CALL_FRAME});
}

uint32_t fake_inlined_call(struct thread *t, uint32_t parent, inline_id what, uint64_t start,
			   uint64_t end, uint16_t flags)
{
	return call_push(t, (struct call){.start_ns = start,
					  .end_ns = end,
					  .what = what.v,
					  .parent = parent,
					  .flags = flags,
					  .kind = CALL_INLINED});
}

uint32_t fake_bracket(struct fake *f, struct thread *t, uint32_t parent, struct bracket bracket,
		      uint64_t start, uint64_t end)
{
	MUST(vec_push(&f->trace.brackets, bracket));
	return call_push(t, (struct call){.start_ns = start,
					  .end_ns = end,
					  .parent = parent,
					  .what = (uint32_t)f->trace.brackets.count - 1,
					  .kind = CALL_BRACKET});
}

/* ---- what the writer asks of the libraries below ---- */

const struct module *symbolizer_module_get(const struct symbolizer *s, module_id id)
{
	return &s->modules.items[id.v];
}

size_t symbolizer_module_count(const struct symbolizer *s)
{
	return s->modules.count - 1;
}

const char *symbolizer_module_advice(struct symbolizer *s, module_id id)
{
	return s->modules.items[id.v].state == MODULE_FOUND ? "" : "put it under --symfs";
}

const char *symbolizer_text(const struct symbolizer *s, str_id id)
{
	return intern_text(&s->texts, id);
}

const struct func *symbolizer_func_get(const struct symbolizer *s, func_id id)
{
	return &s->funcs.items[id.v];
}

str_id symbolizer_func_name(struct symbolizer *s, func_id id)
{
	return s->func_names.items[id.v];
}

str_id symbolizer_func_linkage_name(struct symbolizer *s, func_id id)
{
	return s->func_names.items[id.v];
}

const struct inline_frame *symbolizer_inline_get(const struct symbolizer *s, inline_id id)
{
	return &s->inlined.items[id.v];
}

str_id symbolizer_inline_call_file(struct symbolizer *s, inline_id id)
{
	return s->call_files.items[id.v];
}

bool symbolizer_line(struct symbolizer *s, module_id module, uint64_t vaddr, str_id *file,
		     uint32_t *line)
{
	(void)s;
	(void)module;
	*file = text_id("main.c");
	*line = (uint32_t)(vaddr & 0xff);
	return true;
}

str_id sideband_comm_at(const struct sideband *s, task_id task, uint64_t time_ns)
{
	str_id comm = {0};

	for (size_t i = 0; i < s->task_names.count; i++)
		if (s->task_names.items[i].task.v == task.v &&
		    s->task_names.items[i].time_ns <= time_ns)
			comm = s->task_names.items[i].comm;
	return comm;
}

const char *loss_name(enum loss loss)
{
	static const char *const texts[LOSS_COUNT] = {"none", "overflow"};

	return texts[loss] ? texts[loss] : "other loss";
}

const char *join_evidence_name(enum join_evidence evidence)
{
	static const char *const texts[JOIN_EVIDENCE_COUNT] = {
		"return addresses", "resume point", "path", "function",
		"precedent", "context",          "barrier",      "none"};

	return texts[evidence];
}
