/* The program that "run" starts: our child, held before its exec until perf records.
 *
 * Started by us and not by perf, so that it stays in the terminal's foreground, and its exit
 * status and a failing exec are told from perf's. It gets SIGTERM when we die. */
#ifndef CAPTURE_TRACEE_H
#define CAPTURE_TRACEE_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "common/error.h"

struct tracee {
	pid_t pid; /* 0 = none */
	int pidfd; /* readable when it has ended */
	int gate_fd, failure_fd;
	bool ended;
	int status; /* of waitpid(), once ended */
};

/* What we changed for ourselves and the program must get as it was. */
struct tracee_inheritance {
	sigset_t signal_mask;
	void (*sigpipe)(int);
	struct rlimit open_files;
};

MUST_CHECK enum err tracee_start(char *const *argv, const char *path,
				 const struct tracee_inheritance *inheritance,
				 struct tracee *tracee, struct error *error);
/* Lets it exec. ERR_NOT_FOUND / ERR_IO (exit 127 / 126) when the exec fails. */
MUST_CHECK enum err tracee_release(struct tracee *tracee, const char *name, struct error *error);
void tracee_signal(struct tracee *tracee, int sig);
/* Whether it has ended; reaps it. Never waits. */
bool tracee_poll_ended(struct tracee *tracee);
/* 0..255 as a shell would say it. */
int tracee_exit_code(const struct tracee *tracee);
/* Kills it if it was never released; closes. */
void tracee_done(struct tracee *tracee);

#endif
