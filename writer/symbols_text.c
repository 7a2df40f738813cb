/* See symbols_text.h. */
#include "writer/symbols_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/map64.h"
#include "writer/call_order.h"
#include "writer/names.h"

struct used {
	func_id func;
	const struct func *what;
	uint32_t rank; /* of its module, in order of output */
	const char *name;
	uint64_t calls;
};

struct used_module {
	const struct module *module;
	module_id id;
	const char *path;
};

struct symbols_text {
	const struct trace_names *names;
	VEC(struct used) used;
	VEC(struct used_module) modules;
	struct map64 index; /* func_id -> used */
	struct buffer text;
};

static bool count_call(struct symbols_text *s, uint32_t func)
{
	uint32_t at = map64_get(&s->index, func);

	if (at == MAP64_NONE) {
		struct used used = {.func = {func}};

		at = (uint32_t)s->used.count;
		if (!vec_push(&s->used, used) || !map64_set(&s->index, func, at))
			return false;
	}
	s->used.items[at].calls++;
	return true;
}

static bool count_calls(struct symbols_text *s, const struct trace *trace)
{
	for (size_t i = 0; i < trace->threads.count; i++) {
		const struct thread *t = &trace->threads.items[i];
		struct call_order order = call_order_of(t);

		for (uint32_t c; (c = call_order_next(&order)) != CALL_NONE;) {
			const struct call *call = &t->calls.items[c];
			uint32_t func =
				call->kind == CALL_FRAME ? s->names->graph.hot[call->what].func : 0;

			if (func && !count_call(s, func))
				return false;
		}
	}
	return true;
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* By id only where nothing else differs: ids depend on the order in which code was found. */
static int used_module_order(const void *a, const void *b)
{
	const struct used_module *x = a, *y = b;
	int by = strcmp(x->path, y->path);

	if (!by)
		by = memcmp(x->module->build_id, y->module->build_id, sizeof x->module->build_id);
	return by ? by : compare_u64(x->id.v, y->id.v);
}

static int used_order(const void *a, const void *b)
{
	const struct used *x = a, *y = b;
	int by = compare_u64(x->rank, y->rank);

	if (!by)
		by = compare_u64(x->what->start, y->what->start);
	if (!by)
		by = compare_u64(x->what->end, y->what->end);
	return by ? by : strcmp(x->name, y->name);
}

static bool sort_modules(struct symbols_text *s)
{
	struct symbolizer *symbolizer = s->names->symbolizer;

	for (uint32_t id = 1; id <= symbolizer_module_count(symbolizer); id++) {
		const struct module *m = symbolizer_module_get(symbolizer, (module_id){id});
		struct used_module used = {m, {id}, symbolizer_text(symbolizer, m->path)};

		if (!vec_push(&s->modules, used))
			return false;
	}
	if (s->modules.count)
		qsort(s->modules.items, s->modules.count, sizeof *s->modules.items,
		      used_module_order);
	return true;
}

static bool sort_used(struct symbols_text *s)
{
	struct symbolizer *symbolizer = s->names->symbolizer;
	uint32_t *ranks = calloc(s->modules.count + 1, sizeof *ranks);

	if (!ranks)
		return false;
	for (uint32_t i = 0; i < s->modules.count; i++)
		ranks[s->modules.items[i].id.v] = i;
	for (size_t i = 0; i < s->used.count; i++) {
		struct used *u = &s->used.items[i];

		u->what = symbolizer_func_get(symbolizer, u->func);
		u->rank = ranks[u->what->module.v];
		u->name = symbolizer_text(symbolizer, symbolizer_func_name(symbolizer, u->func));
	}
	free(ranks);
	if (s->used.count)
		qsort(s->used.items, s->used.count, sizeof *s->used.items, used_order);
	return true;
}

static void write_module(struct symbols_text *s, const struct used_module *u)
{
	struct symbolizer *symbolizer = s->names->symbolizer;
	const struct module *m = u->module;
	const char *file = symbolizer_text(symbolizer, m->file);
	const char *debug_file = symbolizer_text(symbolizer, m->debug_file);
	const char *advice = symbolizer_module_advice(symbolizer, u->id);

	buffer_printf(&s->text, "module %s: %s", u->path[0] ? u->path : "[unknown]",
		      name_module_state(m->state));
	if (m->build_id_bytes)
		buffer_text(&s->text, ", build id ");
	for (size_t i = 0; i < m->build_id_bytes; i++)
		buffer_printf(&s->text, "%02x", m->build_id[i]);
	if (file[0])
		buffer_printf(&s->text, ", file %s", file);
	if (debug_file[0])
		buffer_printf(&s->text, ", debug file %s", debug_file);
	buffer_text(&s->text, "\n");
	if (advice[0])
		buffer_printf(&s->text, "  advice: %s\n", advice);
}

static void write_func(struct symbols_text *s, const struct used *u)
{
	static const char *const sources[] = {[FUNC_FROM_SYMBOL] = "symbol",
					      [FUNC_FROM_FDE] = "unwind table",
					      [FUNC_FROM_BOUNDARY] = "neighbours"};
	static const char *const roles[] = {
		[FUNC_PLT] = "PLT stub",
		[FUNC_LAZY_RESOLVER] = "lazy resolver",
		[FUNC_INDIRECT_THUNK] = "indirect thunk",
		[FUNC_RETURN_THUNK] = "return thunk",
		[FUNC_RETURN_TRAMPOLINE] = "return trampoline",
		[FUNC_SIGNAL_RESTORER] = "signal restorer",
		[FUNC_STACK_SWITCH] = "stack switch",
		[FUNC_UNWIND_RESUME] = "unwind resume",
		[FUNC_UNWINDER] = "unwinder",
		[FUNC_PERSONALITY] = "personality",
		[FUNC_LONGJMP] = "longjmp",
		[FUNC_SETJMP] = "setjmp",
	};
	struct symbolizer *symbolizer = s->names->symbolizer;
	const struct func *f = u->what;
	str_id file;
	uint32_t line;

	buffer_printf(&s->text, "  %" PRIx64 "-%" PRIx64 " %8" PRIu64 " call%s  %s (%s%s%s)",
		      f->start, f->end, u->calls, u->calls == 1 ? " " : "s", u->name,
		      f->role < sizeof roles / sizeof *roles && roles[f->role] ? roles[f->role]
									       : "",
		      f->role == FUNC_PLAIN ? "" : ", ", sources[f->source]);
	if (symbolizer_line(symbolizer, f->module, f->start, &file, &line))
		buffer_printf(&s->text, " %s:%" PRIu32, symbolizer_text(symbolizer, file), line);
	buffer_text(&s->text, "\n");
}

static enum err write_all(struct symbols_text *s, struct output *output, struct error *error)
{
	enum err err = ERR_NONE;
	size_t at = 0;

	for (size_t i = 0; i < s->modules.count && err == ERR_NONE; i++) {
		write_module(s, &s->modules.items[i]);
		while (at < s->used.count && s->used.items[at].rank == i)
			write_func(s, &s->used.items[at++]);
		if (s->text.bytes >= BUFFER_BLOCK_BYTES)
			err = output_put(output, &s->text, error);
	}
	return err == ERR_NONE ? output_put(output, &s->text, error) : err;
}

enum err symbols_text_write(const struct trace *trace, const struct trace_names *names,
			    struct output *output, struct error *error)
{
	struct symbols_text s = {.names = names};
	enum err err = ERR_NOMEM;

	if (count_calls(&s, trace) && sort_modules(&s) && sort_used(&s))
		err = write_all(&s, output, error);
	else
		error_set(error, ERR_NOMEM, "out of memory while writing the symbols");
	buffer_done(&s.text);
	map64_done(&s.index);
	vec_done(&s.used);
	vec_done(&s.modules);
	return err;
}
