/* The slices of threads as FXT events: the part of trace_fxt.c that runs once per call.
 *
 *     slices_init -> slices_write_thread ... -> slices_finish -> slices_done
 *
 * Also holds what all of trace_fxt.c shares: the encoder, the fixed strings, the caches. */
#ifndef WRITER_TRACE_SLICES_H
#define WRITER_TRACE_SLICES_H

#include "common/vec.h"
#include "writer/fxt.h"
#include "writer/trace_fxt.h"
#include "writer/trace_instants.h"

/* Strings that are never recycled. */
enum fixed_string {
	FIXED_EMPTY,
	FIXED_FUNCTION, FIXED_KERNEL, FIXED_INLINED, FIXED_GAP, /* categories of slices */
	FIXED_FLOW, FIXED_EVENT, FIXED_TASK, FIXED_CPU,         /* of the rest */
	FIXED_TAIL_CALL, FIXED_STACK_SWITCH,                    /* flow arrows */
	FIXED_PROCESS, FIXED_IP, FIXED_SYMBOL, FIXED_MODULE, FIXED_LINE, FIXED_CALLED_AT,
	FIXED_STITCHED, FIXED_GAPS, FIXED_GAP_NS, FIXED_GAP_CAUSE, FIXED_CONFIRMED_BY,
	FIXED_AMBIGUOUS, FIXED_INFERRED, FIXED_START, FIXED_END, FIXED_START_AND_END,
	FIXED_TAIL, FIXED_SIGNAL, FIXED_INTERRUPT, FIXED_ABORTED, FIXED_SWITCHED, FIXED_UNWOUND,
	FIXED_TRUE, FIXED_DEEPER, FIXED_NOT_DRAWN, FIXED_LOST_BYTES, FIXED_NUMBER,
	FIXED_MISSING_CODE,
	FIXED_DETAIL, FIXED_VALUE, FIXED_MHZ, FIXED_PERF_TIME_NS, FIXED_WALL_TIME_NS,
	FIXED_COUNT
};

/* What every slice of a function says. */
struct slice_refs {
	uint64_t header; /* first word of its event, complete and without other arguments, of
			    thread 0; 0 = not made yet, or forgotten */
	uint64_t ip_arg; /* the argument "ip"; 0 = none */
};

/* More of it, with FXT_ARGS_FULL only. */
struct full_refs {
	fxt_ref symbol, module, line;
	fxt_ref call_site; /* where this node calls, or this frame was inlined */
};

struct slices {
	const struct trace *trace;
	const struct trace_names *names;
	const struct fxt_options *options;
	struct output *output;
	struct fxt_counts *counts; /* of all blocks that were settled */
	struct fxt fxt;            /* what the caller writes: the head of the next block */
	fxt_ref fixed[FIXED_COUNT], evidence[JOIN_EVIDENCE_COUNT], loss[LOSS_COUNT];
	/* By kind of call, and there by node_id or inline_id; none for brackets. */
	struct refs_table {
		VEC(struct slice_refs) slices;
		VEC(struct full_refs) full; /* empty without FXT_ARGS_FULL */
	} refs[CALL_BRACKET + 1];
	fxt_ref *bracket_names; /* by bracket */
	struct instants instants;
	uint64_t last_flow;

	struct slice_block *block;  /* being filled; NULL = none */
	uint32_t room;              /* in it, see trace_slices.c */
	struct slice_marks *marks;  /* of the thread being written; NULL = its last run has them */
	struct slice_path *reached; /* where the block settled last ended */
};

/* Prepares an encoder with the file's head. s is zeroed before. */
MUST_CHECK enum err slices_init(struct slices *s, const struct trace *trace,
				const struct trace_names *names, const struct fxt_options *options,
				struct output *output, struct fxt_counts *counts,
				struct error *error);
/* thread_ref: see fxt_thread(). */
MUST_CHECK enum err slices_write_thread(struct slices *s, const struct thread *thread,
					uint8_t thread_ref, struct error *error);
/* Behind the last thread: what is written by the caller from here on comes behind all slices. */
MUST_CHECK enum err slices_finish(struct slices *s, struct error *error);
/* Before the strings of an event: room for all of them. */
MUST_CHECK enum err slices_reserve(struct slices *s, struct error *error);
/* Hands over what the caller wrote if there is a block of it, or if `all`. */
MUST_CHECK enum err slices_flush(struct slices *s, bool all, struct error *error);
/* Time in the file: since the trace's start, never negative. */
uint64_t slices_time(const struct slices *s, uint64_t ns);
void slices_done(struct slices *s);

#endif
