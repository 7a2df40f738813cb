/* See tracee.h. */
#include "capture/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void wait_and_exec(char *const *argv, const char *path,
				    const struct tracee_inheritance *inheritance, int gate,
				    int failure, pid_t parent)
{
	char byte;
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	while ((n = read(gate, &byte, 1)) < 0 && errno == EINTR)
		;
	if (n != 1)
		_exit(1); /* never released */
	setrlimit(RLIMIT_NOFILE, &inheritance->open_files);
	signal(SIGPIPE, inheritance->sigpipe);
	sigprocmask(SIG_SETMASK, &inheritance->signal_mask, NULL);
	execv(path, argv);
	int why = errno;
	ssize_t told = write(failure, &why, sizeof why);
	_exit(told == sizeof why ? 127 : 126);
}

enum err tracee_start(char *const *argv, const char *path,
		      const struct tracee_inheritance *inheritance, struct tracee *tracee,
		      struct error *error)
{
	int gate[2], failure[2];

	if (pipe2(gate, O_CLOEXEC) != 0)
		return error_set(error, ERR_IO, "pipe: %s", strerror(errno));
	if (pipe2(failure, O_CLOEXEC) != 0) {
		close(gate[0]);
		close(gate[1]);
		return error_set(error, ERR_IO, "pipe: %s", strerror(errno));
	}
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		close(gate[1]); /* or it would keep its own gate open */
		wait_and_exec(argv, path, inheritance, gate[0], failure[1], parent);
	}
	int why = errno;
	close(gate[0]);
	close(failure[1]);
	struct tracee t = {.pid = pid, .gate_fd = gate[1], .failure_fd = failure[0], .pidfd = -1};
	if (pid > 0) {
		t.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		why = errno;
	}
	if (t.pidfd < 0) {
		tracee_done(&t);
		return error_set(error, ERR_IO, "fork: %s", strerror(why));
	}
	*tracee = t;
	return ERR_NONE;
}

enum err tracee_release(struct tracee *t, const char *name, struct error *error)
{
	int why;
	ssize_t n = write(t->gate_fd, "x", 1);

	close(t->gate_fd);
	t->gate_fd = -1;
	if (n != 1)
		return error_set(error, ERR_IO, "%s: was killed before it ran", name);
	while ((n = read(t->failure_fd, &why, sizeof why)) < 0 && errno == EINTR)
		;
	close(t->failure_fd);
	t->failure_fd = -1;
	if (n == sizeof why)
		return error_set(error, why == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %s", name,
				 strerror(why));
	return ERR_NONE;
}

void tracee_signal(struct tracee *t, int sig)
{
	if (t->pid > 0 && !t->ended)
		(void)syscall(SYS_pidfd_send_signal, t->pidfd, sig, NULL, 0);
}

bool tracee_poll_ended(struct tracee *t)
{
	if (t->pid > 0 && !t->ended && waitpid(t->pid, &t->status, WNOHANG) == t->pid)
		t->ended = true;
	return t->ended;
}

int tracee_exit_code(const struct tracee *t)
{
	return WIFSIGNALED(t->status) ? 128 + WTERMSIG(t->status) : WEXITSTATUS(t->status);
}

void tracee_done(struct tracee *t)
{
	if (t->gate_fd >= 0 && t->pid > 0) {
		close(t->gate_fd); /* it reads the end and goes */
		t->gate_fd = -1;
		if (!t->ended)
			while (waitpid(t->pid, &t->status, 0) < 0 && errno == EINTR)
				;
		t->ended = true;
	}
	if (t->gate_fd >= 0)
		close(t->gate_fd);
	if (t->failure_fd >= 0)
		close(t->failure_fd);
	if (t->pidfd >= 0)
		close(t->pidfd);
	t->gate_fd = t->failure_fd = t->pidfd = -1;
}
