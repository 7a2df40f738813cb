/* See segments_text.h. */
#include "writer/segments_text.h"

#include <inttypes.h>

#include "writer/names.h"

static uint64_t since_start(const struct trace *trace, uint64_t ns)
{
	return ns > trace->start_ns ? ns - trace->start_ns : 0;
}

static uint64_t join_gap_ns(const struct join *join)
{
	return join->resumed_ns > join->lost_ns ? join->resumed_ns - join->lost_ns : 0;
}

static const char *join_cause(const struct join *join)
{
	return join->cause < LOSS_COUNT ? loss_name((enum loss)join->cause) : "unknown";
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void write_segment(const struct trace *trace, const struct thread *t,
			  const struct segment *s, struct buffer *text)
{
	uint32_t calls = s->end_call - s->first_call, roots = s->end_root - s->first_root;

	buffer_printf(text,
		      "  %" PRIu64 "..%" PRIu64 " ns: %" PRIu64 " edge%s, %" PRIu32
		      " call%s, %" PRIu32 " root%s",
		      since_start(trace, s->start_ns), since_start(trace, s->end_ns), s->edges,
		      plural(s->edges), calls, plural(calls), roots, plural(roots));
	if (s->join < t->joins.count) {
		const struct join *join = &t->joins.items[s->join];

		buffer_printf(text, "; after %s of %" PRIu64 " ns, ", join_cause(join),
			      join_gap_ns(join));
		if (join->evidence < JOIN_BARRIER)
			buffer_printf(text, "joined by %s",
				      join_evidence_name((enum join_evidence)join->evidence));
		else
			buffer_text(text, "not joined");
	}
	if (s->barrier)
		buffer_text(text, "; begins anew: exec or thread start");
	buffer_text(text, "\n");
}

enum err segments_text_write(const struct trace *trace, const struct trace_names *names,
			     struct output *output, struct error *error)
{
	struct buffer text = {0};
	enum err err = ERR_NONE;

	for (size_t i = 0; i < trace->threads.count && err == ERR_NONE; i++) {
		const struct thread *t = &trace->threads.items[i];

		name_thread_line(trace, names, t, &text);
		buffer_printf(&text, ": %zu segment%s, %zu loss%s\n", t->segments.count,
			      plural(t->segments.count), t->joins.count,
			      t->joins.count == 1 ? "" : "es");
		for (size_t k = 0; k < t->segments.count; k++)
			write_segment(trace, t, &t->segments.items[k], &text);
		if (text.bytes >= BUFFER_BLOCK_BYTES)
			err = output_put(output, &text, error);
	}
	if (err == ERR_NONE)
		err = output_put(output, &text, error);
	buffer_done(&text);
	return err;
}

/* "parse+0x12", "?" */
static void write_place(const struct trace_names *names, node_id node, struct buffer *text)
{
	char scratch[NAME_SCRATCH_BYTES];

	if (node == 0) {
		buffer_text(text, "?");
		return;
	}
	const struct node_cold *cold = &names->graph.cold[node];
	func_id id = {names->graph.hot[node].func};
	const struct func *func = id.v ? symbolizer_func_get(names->symbolizer, id) : NULL;
	buffer_text(text, name_frame(names, node, scratch));
	if (!func)
		buffer_printf(text, " at 0x%" PRIx64, cold->ip);
	else if (cold->vaddr > func->start)
		buffer_printf(text, "+0x%" PRIx64, cold->vaddr - func->start);
}

static void write_outcome(const struct join *join, struct buffer *text)
{
	if (join->evidence == JOIN_BARRIER) {
		buffer_text(text, "begins anew (exec or thread start)");
		return;
	}
	if (join->evidence > JOIN_BARRIER) {
		buffer_printf(text, "not joined: nothing tells which of %" PRIu32 " open frame%s go on",
			      join->waiting, plural(join->waiting));
	} else {
		buffer_printf(text,
			      "joined by %s: %" PRIu32 " of %" PRIu32 " open frame%s go%s on",
			      join_evidence_name((enum join_evidence)join->evidence), join->kept,
			      join->waiting, plural(join->waiting), join->kept == 1 ? "es" : "");
	}
	if (join->inferred)
		buffer_printf(text, ", %" PRIu32 " entered unseen", join->inferred);
	if (join->agreeing)
		buffer_printf(text, ", %" PRIu32 " return%s agree%s", join->agreeing,
			      plural(join->agreeing), join->agreeing == 1 ? "s" : "");
	if (join->like)
		buffer_printf(text, ", as in %" PRIu32 " like situation%s", join->like,
			      plural(join->like));
	if (join->proven)
		buffer_printf(text, ", %" PRIu32 " can only have gone on, by the code",
			      join->proven);
	if (join->returned)
		buffer_printf(text, ", %" PRIu32 " must have returned, by the code",
			      join->returned);
	if (join->excluded)
		buffer_printf(text, ", %" PRIu32 " other place%s excluded by the code",
			      join->excluded, plural(join->excluded));
	if (join->ambiguous)
		buffer_text(text, ", ambiguous");
	if (join->ambiguous && join->candidates > 1)
		buffer_printf(text, ": %" PRIu32 " places possible", join->candidates);
}

enum err joins_text_write(const struct trace *trace, const struct trace_names *names,
			  struct output *output, struct error *error)
{
	struct buffer text = {0};
	enum err err = ERR_NONE;

	for (size_t i = 0; i < trace->threads.count && err == ERR_NONE; i++) {
		const struct thread *t = &trace->threads.items[i];

		for (size_t k = 0; k < t->joins.count; k++) {
			const struct join *join = &t->joins.items[k];

			name_thread_line(trace, names, t, &text);
			buffer_printf(&text,
				      ", at %" PRIu64 ": %s, %" PRIu64 " ns without trace, from ",
				      since_start(trace, join->lost_ns), join_cause(join),
				      join_gap_ns(join));
			write_place(names, join->lost_at, &text);
			buffer_text(&text, " to ");
			write_place(names, join->resumed_at, &text);
			buffer_text(&text, ": ");
			write_outcome(join, &text);
			buffer_text(&text, "\n");
		}
		if (text.bytes >= BUFFER_BLOCK_BYTES)
			err = output_put(output, &text, error);
		if (err != ERR_NONE)
			break;
	}
	if (err == ERR_NONE)
		err = output_put(output, &text, error);
	buffer_done(&text);
	return err;
}
