/* The ground truth of a case, as text, one event a line.
 *
 *     TID TIME_NS CPU KIND FROM TO DEPTH - - [NOTE]
 *
 * times on perf's clock, addresses in hex, depth of the true call stack after the
 * event. Kinds: call icall ret jmp ijmp jcc (taken ones only), syscall (FROM -> 0),
 * begin (0 -> TO: tracing of user mode begins), end (FROM -> 0, asynchronous; NOTE says
 * why), and the markers switchin switchout signal sigret exit exec mmap lost
 * found repeat.
 * Comment lines (#) say where PSBs and snapshots lie in the packet streams. */
#ifndef TESTDATA_TRUTH_H
#define TESTDATA_TRUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

enum truth_kind {
	TRUTH_CALL,
	TRUTH_ICALL,
	TRUTH_RET,
	TRUTH_JMP,
	TRUTH_IJMP,
	TRUTH_JCC,
	TRUTH_SYSCALL,
	TRUTH_BEGIN,
	TRUTH_END,
	TRUTH_SWITCHIN,
	TRUTH_SWITCHOUT,
	TRUTH_SIGNAL,
	TRUTH_SIGRET,
	TRUTH_EXEC,
	TRUTH_EXIT,
	TRUTH_LOST,
	TRUTH_FOUND,
	TRUTH_REPEAT,
	TRUTH_KINDS
};

struct truth_event {
	int32_t tid;
	uint64_t ns;
	uint32_t cpu;
	enum truth_kind kind;
	uint64_t from, to;
	uint32_t depth;
	const char *note; /* or NULL */
};

struct truth;

MUST_CHECK enum err truth_open(const char *path, struct truth **truth, struct error *e);
/* While quiet, events are counted but not written. */
void truth_quiet(struct truth *t, bool quiet);
void truth_write(struct truth *t, const struct truth_event *event);
void truth_map(struct truth *t, int32_t tid, uint64_t ns, int cpu, uint64_t start, uint64_t length,
	       uint64_t file_off, const char *path);
void truth_line(struct truth *t, const char *format, ...) PRINTF_LIKE(2, 3);
/* Writes the totals and closes. Frees t in any case. */
MUST_CHECK enum err truth_close(struct truth *t, struct error *e);

#endif
