/* Runs a program under ptrace, one instruction at a time, and records its branches.
 *
 * Threads, children and new images are followed; one thread steps at a time, in
 * bursts, so that the stream has one true order. Signals are those the program gets.
 * 15-50 thousand instructions a second. */
#ifndef TESTDATA_RECORDER_H
#define TESTDATA_RECORDER_H

#include <stdint.h>

#include "testdata/recording.h"

struct recorder_options {
	char **argv;        /* NULL-terminated; argv[0] is found by execvp */
	const char *attach; /* NULL = record from the exec; else run freely up to this function */
	uint64_t max_insns; /* stop (and kill) after so many; 0 = to the end */
	uint32_t burst;     /* instructions a thread runs before another may; 0 = 300 */
	const char *symfs;  /* NULL, or a directory that receives copies of the mapped files */
	const char *vdso;   /* NULL, or a file that receives the vdso */
};

/* ERR_UNSUPPORTED: ptrace is not allowed here. exit_status: as of wait(2), of the program. */
MUST_CHECK enum err recorder_run(const struct recorder_options *options, struct recording *r,
				 int *exit_status, struct error *e);

#endif
