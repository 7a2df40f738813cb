/* Names -> string refs of the trace being written, made once per function. */
#ifndef WRITER_SLICE_REFS_H
#define WRITER_SLICE_REFS_H

#include "writer/trace_slices.h"

/* The fixed strings: before all others. */
void slice_refs_init(struct slices *s);
/* Before each event that needs strings: forgets what a full string table forgets. */
void slice_refs_reserve(struct slices *s);
/* "0x401130", the way every ip is shown. */
fxt_ref slice_refs_ip(struct slices *s, uint64_t ip);
/* Category and name, in their place in an event's header. */
uint64_t slice_refs_header(fxt_ref category, fxt_ref name);
/* With FXT_ARGS_FULL these also fill s->refs[kind].full. */
struct slice_refs slice_refs_frame(struct slices *s, node_id node);
struct slice_refs slice_refs_inlined(struct slices *s, inline_id id);

#endif
