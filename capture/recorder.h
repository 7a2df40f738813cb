/* The perf process: started, commanded, stopped and waited for.
 *
 * perf runs in its own process group (the terminal's Ctrl-C is ours to handle), gets SIGTERM
 * when we die, and a guardian process makes sure that it goes even where the kernel drops
 * that request (a perf with file capabilities) or perf does not obey. */
#ifndef CAPTURE_RECORDER_H
#define CAPTURE_RECORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/perf_argv.h"
#include "common/error.h"

/* perf sees its command and acknowledge pipes as these. */
enum { RECORDER_CONTROL_FD = 3, RECORDER_ACK_FD = 4 };

struct recorder {
	pid_t pid;              /* 0 = not started */
	int pidfd;              /* readable when perf has ended */
	int control_fd, ack_fd; /* ours; -1 = perf takes no commands */
	pid_t guardian;
	int guardian_fd;
	enum snapshot_control control;
	bool ready_by_control;
	unsigned acks_due;
	bool stopping; /* recorder_stop() was called */
	bool ended;
	int status; /* of waitpid(), once ended */
};

/* Starts perf with both outputs appended to log_fd. also_kill: the pidfd of a process that
 * the guardian ends too when we die, or -1. */
MUST_CHECK enum err recorder_start(const struct perf_argv *perf, int log_fd, int also_kill,
				   struct recorder *recorder, struct error *error);

/* Asks for a sign that perf records (acknowledged: see recorder_take_acks()). Without
 * --control: ask recorder_looks_ready() from time to time. */
void recorder_ask_ready(struct recorder *recorder);
/* From /proc: it has events open and waits for them. */
bool recorder_looks_ready(const struct recorder *recorder);

/* Asks for a snapshot; false when perf cannot be told (it is gone). */
bool recorder_snapshot(struct recorder *recorder);
/* Reads what came from perf: the number of acknowledged commands. */
unsigned recorder_take_acks(struct recorder *recorder);

/* Asks perf to finish its file and end (SIGINT); recorder_kill() does not ask. */
void recorder_stop(struct recorder *recorder);
void recorder_kill(struct recorder *recorder);
/* Whether it has ended; reaps it. Never waits. */
bool recorder_poll_ended(struct recorder *recorder);
/* It ended by itself or because it was asked to, not by a failure. */
bool recorder_succeeded(const struct recorder *recorder);

/* Kills what still runs, reaps, closes. */
void recorder_done(struct recorder *recorder);

#endif
