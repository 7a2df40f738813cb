/* Names -> string refs of the trace being written, made once per function. */
#ifndef WRITER_SLICE_REFS_H
#define WRITER_SLICE_REFS_H

#include "writer/trace_slices.h"

/* The fixed strings: before all others. False when memory is short. */
bool slice_refs_init(struct slices *s);
void slice_refs_done(struct slices *s);
/* Is there room for all strings of an event? */
bool slice_refs_fit(const struct slices *s);
/* Forgets what a full string table forgets. No block may be in the making. */
void slice_refs_forget(struct slices *s);

/* Makes the refs of a call, of an instant. Their room was asked for before. */
void slice_refs_define(struct slices *s, const struct call *call);
/* "0x401130", the way every ip is shown. */
fxt_ref slice_refs_ip(struct slices *s, uint64_t ip);

/* Has this call all its refs? With FXT_ARGS_FULL they are more than is looked at here. */
static inline bool slice_refs_ready(const struct slices *s, const struct call *call)
{
	const struct refs_table *table = &s->refs[call->kind];

	return call->what < table->slices.count && table->slices.items[call->what].header &&
	       s->options->args != FXT_ARGS_FULL;
}
/* Of a call whose refs were made. */
struct slice_refs slice_refs_of(const struct slices *s, const struct call *call);
/* NULL = is none. */
const struct bracket *slice_bracket(const struct slices *s, const struct call *call);

#endif
