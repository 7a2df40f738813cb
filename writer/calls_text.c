/* See calls_text.h. */
#include "writer/calls_text.h"

#include <inttypes.h>

#include "writer/call_order.h"
#include "writer/names.h"

enum { INDENT_MAX = 100 }; /* levels; deeper ones say their depth instead */

struct calls_text {
	const struct trace *trace;
	const struct trace_names *names;
	struct output *output;
	struct buffer text;
	VEC(uint32_t) open; /* the path to the call written last */
};

static void write_marks(struct calls_text *c, const struct call *call)
{
	static const struct {
		uint16_t flag;
		const char *text;
	} marks[] = {
		{CALL_STITCHED, "stitched"},         {CALL_START_INFERRED, "start inferred"},
		{CALL_END_INFERRED, "end inferred"}, {CALL_TAIL, "tail"},
		{CALL_AMBIGUOUS, "ambiguous"},       {CALL_SIGNAL, "signal"},
		{CALL_INTERRUPT, "interrupt"},       {CALL_ABORTED, "aborted"},
		{CALL_SWITCHED, "switched"},         {CALL_UNWOUND, "unwound"},
	};
	const char *before = " (";

	if (call->kind == CALL_INLINED) {
		buffer_text(&c->text, " (inlined");
		before = ", ";
	}
	for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
		if (call->flags & marks[i].flag) {
			buffer_text(&c->text, before);
			buffer_text(&c->text, marks[i].text);
			before = ", ";
		}
	}
	buffer_text(&c->text, before[0] == ',' ? ")\n" : "\n");
}

/* Depth by the parents: how many calls of the path stay open for this one. */
static enum err write_call(struct calls_text *c, const struct thread *t, uint32_t index,
			   struct error *error)
{
	const struct call *call = &t->calls.items[index];
	uint32_t parent = call->parent == CALL_NONE ? CALL_NONE : call_drawn(t, call->parent);
	size_t depth = c->open.count;
	char scratch[NAME_SCRATCH_BYTES];

	while (depth > 0 && c->open.items[depth - 1] != parent)
		depth--;
	c->open.count = depth;
	if (!vec_push(&c->open, index))
		return error_set(error, ERR_NOMEM, "out of memory while writing the calls");
	int indent = depth < INDENT_MAX ? (int)depth : INDENT_MAX;
	uint64_t start_ns = c->trace->start_ns;
	buffer_printf(&c->text, "%12" PRIu64 " %12" PRIu64 "  %*s",
		      call->start_ns > start_ns ? call->start_ns - start_ns : 0,
		      call->end_ns - call->start_ns, 2 * indent, "");
	if (depth > INDENT_MAX)
		buffer_printf(&c->text, "depth %zu: ", depth);
	buffer_text(&c->text, name_call(c->trace, c->names, call, scratch));
	write_marks(c, call);
	return c->text.bytes < BUFFER_BLOCK_BYTES ? ERR_NONE
						  : output_put(c->output, &c->text, error);
}

static enum err write_thread(struct calls_text *c, const struct thread *t, struct error *error)
{
	struct call_order order = call_order_of(t);
	enum err err = ERR_NONE;
	uint64_t count = 0;

	while (call_order_next(&order) != CALL_NONE)
		count++;
	name_thread_line(c->trace, c->names, t, &c->text);
	buffer_printf(&c->text,
		      ": %" PRIu64 " call%s in %zu segment%s, traced %" PRIu64 " ns, lost %" PRIu64
		      " ns\n",
		      count, count == 1 ? "" : "s", t->segments.count,
		      t->segments.count == 1 ? "" : "s", t->traced_ns, t->lost_ns);
	c->open.count = 0;
	order = call_order_of(t);
	for (uint32_t call = call_order_next(&order); call != CALL_NONE && err == ERR_NONE;
	     call = call_order_next(&order))
		err = write_call(c, t, call, error);
	return err;
}

enum err calls_text_write(const struct trace *trace, const struct trace_names *names,
			  struct output *output, struct error *error)
{
	struct calls_text c = {.trace = trace, .names = names, .output = output};
	enum err err = ERR_NONE;

	for (size_t i = 0; i < trace->threads.count && err == ERR_NONE; i++)
		err = write_thread(&c, &trace->threads.items[i], error);
	if (err == ERR_NONE)
		err = output_put(output, &c.text, error);
	buffer_done(&c.text);
	vec_done(&c.open);
	return err;
}
