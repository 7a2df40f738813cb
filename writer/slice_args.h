/* The arguments of a slice beside its ip: marks, what is known of a gap, places in the code.
 *
 * All values are fixed strings, numbers, or refs made before: nothing here writes a record. */
#ifndef WRITER_SLICE_ARGS_H
#define WRITER_SLICE_ARGS_H

#include "writer/trace_slices.h"

enum {
	MARK_FLAGS = CALL_STITCHED | CALL_START_INFERRED | CALL_END_INFERRED | CALL_TAIL |
		     CALL_AMBIGUOUS | CALL_SIGNAL | CALL_INTERRUPT | CALL_ABORTED | CALL_SWITCHED |
		     CALL_UNWOUND,
};

struct slice_args {
	uint64_t *w;    /* where the next one goes */
	unsigned count; /* what is beyond FXT_ARGS_MAX is left out */
};

void slice_args_string(struct slice_args *a, fxt_ref name, fxt_ref value);
/* Of a call with any of MARK_FLAGS. */
void slice_args_marks(const struct slices *s, const struct thread *t, const struct call *call,
		      struct slice_args *a);
void slice_args_bracket(const struct slices *s, const struct bracket *bracket,
			struct slice_args *a);
void slice_args_full(const struct slices *s, const struct call *call, struct slice_args *a);

#endif
