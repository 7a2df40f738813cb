/* A recording: what one run of a program did, branch by branch, on all its threads.
 *
 * Made by recorder.h, read by the encoders. One stream in the order in which it
 * happened; 32 bytes an event. On disk it is a cache of this machine's own making,
 * never an exchange format. */
#ifndef TESTDATA_RECORDING_H
#define TESTDATA_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/vec.h"

enum rec_kind {
	/* Branches: from = the instruction, to = where it went. */
	REC_CALL,
	REC_ICALL,
	REC_RET,
	REC_JMP,
	REC_IJMP,
	REC_JCC,       /* taken */
	REC_NOT_TAKEN, /* a conditional that fell through */
	/* Leaving user mode at `from`, entering it at `to`. */
	REC_SYSCALL, /* extra = number */
	REC_ASYNC,   /* from = the instruction not executed; extra = signal */
	REC_ENTER,   /* extra = signal if a handler begins here */
	/* An ip in the middle of straight-line code: a place where an interrupt can hit. */
	REC_POINT,
	/* Sideband. */
	REC_START, /* first event of a thread; extra = parent thread + 1, or 0 */
	REC_FORK,  /* extra = the new thread's index */
	REC_EXEC,  /* extra = string: path; the REC_MMAPs that follow are the new image */
	REC_COMM,  /* extra = string: new name */
	REC_MMAP,  /* extra = index in maps */
	REC_EXIT,
};

struct rec_event {
	uint64_t from, to;
	uint32_t insns; /* executed on this thread since its last event, this one included */
	uint32_t depth; /* of the call stack after the event */
	uint32_t extra;
	uint16_t thread; /* index in threads */
	uint8_t kind;
	uint8_t length; /* of the branch instruction */
};
_Static_assert(sizeof(struct rec_event) == 32, "recordings are held in memory whole");

struct rec_thread {
	int32_t pid, tid;
	int32_t parent_pid, parent_tid;
};

struct rec_map {
	uint64_t start, length, file_off;
	uint64_t inode;
	uint32_t major, minor;
	uint32_t prot; /* PROT_* */
	uint32_t path; /* string */
	int32_t pid;
	uint32_t existed; /* before recording began */
};

struct recording {
	VEC(struct rec_event) events;
	VEC(struct rec_thread) threads;
	VEC(struct rec_map) maps; /* executable ones only */
	VEC(char) strings;        /* NUL-terminated, addressed by offset; 0 = "" */
	uint32_t attached;        /* recording began in mid-run, not at exec */
	uint32_t comm;            /* string: the name when recording began */
};

static inline const char *recording_string(const struct recording *r, uint32_t at)
{
	return r->strings.items + at;
}

/* UINT32_MAX when memory is short. */
uint32_t recording_add_string(struct recording *r, const char *text);
MUST_CHECK enum err recording_save(const struct recording *r, const char *path, struct error *e);
MUST_CHECK enum err recording_load(struct recording *r, const char *path, struct error *e);
void recording_done(struct recording *r);

#endif
