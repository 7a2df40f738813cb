/* See recorder.h. perf's commands: tools/perf/Documentation/perf-record.txt, --control. */
#include "capture/recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FD_ASIDE = 16, GUARDIAN_PATIENCE_MS = 10000 };

static int pidfd_open_for(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void pidfd_signal(int pidfd, int sig)
{
	if (pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

static bool pidfd_ends_within(int pidfd, int ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return pidfd < 0 || poll(&p, 1, ms) > 0;
}

static void reset_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
}

/* Waits until we are gone (EOF) or say goodbye (a byte). Holds nothing else open, so that
 * whoever reads our output sees its end when we end. */
static _Noreturn void guard(int from_parent, int perf, int also)
{
	int keep[3] = {from_parent, perf, also};
	char byte;

	setsid();
	prctl(PR_SET_NAME, "pt-capture-grd");
	signal(SIGTERM, SIG_IGN);
	for (int i = 0; i < 3; i++)
		keep[i] = keep[i] < 0 ? -1 : fcntl(keep[i], F_DUPFD_CLOEXEC, FD_ASIDE);
	for (int fd = 0; fd < FD_ASIDE; fd++)
		close(fd);
	for (long fd = FD_ASIDE, max = sysconf(_SC_OPEN_MAX); fd < max && fd < 65536; fd++)
		if (fd != keep[0] && fd != keep[1] && fd != keep[2])
			close((int)fd);
	ssize_t n;
	while ((n = read(keep[0], &byte, 1)) < 0 && errno == EINTR)
		;
	if (n == 0) {
		pidfd_signal(keep[1], SIGTERM);
		pidfd_signal(keep[2], SIGTERM);
		if (!pidfd_ends_within(keep[1], GUARDIAN_PATIENCE_MS))
			pidfd_signal(keep[1], SIGKILL);
	}
	_exit(0);
}

static void start_guardian(struct recorder *r, int also_kill)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return;
	r->guardian = fork();
	if (r->guardian == 0) {
		close(ends[1]);
		guard(ends[0], r->pidfd, also_kill);
	}
	close(ends[0]);
	r->guardian_fd = ends[1];
}

static _Noreturn void exec_perf(const struct perf_argv *perf, const int control[2],
				const int ack[2], int log_fd, int failure_fd, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int command = -1, answer = -1;

	if (perf->ready_by_control) { /* first out of the way of the fixed numbers */
		command = fcntl(control[0], F_DUPFD_CLOEXEC, FD_ASIDE);
		answer = fcntl(ack[1], F_DUPFD_CLOEXEC, FD_ASIDE);
	}
	log_fd = fcntl(log_fd, F_DUPFD_CLOEXEC, FD_ASIDE);
	failure_fd = fcntl(failure_fd, F_DUPFD_CLOEXEC, FD_ASIDE);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	reset_signals();
	umask(077);
	dup2(null, STDIN_FILENO);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	if (command >= 0) {
		dup2(command, RECORDER_CONTROL_FD);
		dup2(answer, RECORDER_ACK_FD);
	}
	execv(perf->argv[0], perf->argv);
	int why = errno;
	ssize_t told = write(failure_fd, &why, sizeof why);
	_exit(told == sizeof why ? 127 : 126);
}

static void close_pair(const int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

enum err recorder_start(const struct perf_argv *perf, int log_fd, int also_kill,
			struct recorder *recorder, struct error *error)
{
	struct recorder r = {.control = perf->control,
			     .ready_by_control = perf->ready_by_control,
			     .control_fd = -1,
			     .ack_fd = -1,
			     .pidfd = -1,
			     .guardian_fd = -1};
	int control[2] = {-1, -1}, ack[2] = {-1, -1}, failure[2] = {-1, -1}, why;

	if (pipe2(failure, O_CLOEXEC) != 0 ||
	    (perf->ready_by_control &&
	     (pipe2(control, O_CLOEXEC) != 0 || pipe2(ack, O_CLOEXEC) != 0))) {
		close_pair(control);
		close_pair(failure);
		return error_set(error, ERR_IO, "pipe: %s", strerror(errno));
	}
	pid_t parent = getpid();
	r.pid = fork();
	if (r.pid == 0)
		exec_perf(perf, control, ack, log_fd, failure[1], parent);
	if (r.pid > 0)
		setpgid(r.pid, r.pid); /* whoever is first */
	close(failure[1]);
	if (perf->ready_by_control) {
		close(control[0]);
		close(ack[1]);
		r.control_fd = control[1];
		r.ack_fd = ack[0];
		/* perf makes nothing of a descriptor it cannot read at once */
		fcntl(r.ack_fd, F_SETFL, O_NONBLOCK);
		fcntl(r.control_fd, F_SETFL, O_NONBLOCK);
	}
	ssize_t n = r.pid < 0 ? 0 : read(failure[0], &why, sizeof why);
	close(failure[0]);
	if (r.pid < 0 || n == sizeof why) {
		int reason = r.pid < 0 ? errno : why;

		recorder_done(&r);
		return error_set(error, ERR_IO, "%s: %s", perf->argv[0], strerror(reason));
	}
	r.pidfd = pidfd_open_for(r.pid);
	if (r.pidfd < 0) {
		int reason = errno;

		recorder_done(&r);
		return error_set(error, ERR_IO, "pidfd_open: %s", strerror(reason));
	}
	start_guardian(&r, also_kill);
	*recorder = r;
	return ERR_NONE;
}

static bool send_command(struct recorder *r, const char *text)
{
	size_t length = strlen(text);

	/* Short writes do not happen on a pipe of this size with one command at a time. */
	if (write(r->control_fd, text, length) != (ssize_t)length)
		return false;
	r->acks_due++;
	return true;
}

void recorder_ask_ready(struct recorder *r)
{
	/* "enable" changes nothing once perf records, and every perf with --control
	 * acknowledges it ("ping" came three versions later). */
	if (r->ready_by_control)
		(void)send_command(r, "enable\n");
}

/* The first bytes of /proc/PID/NAME. */
static bool read_proc(pid_t pid, const char *name, char *text, size_t bytes)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, bytes - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool has_events_open(pid_t pid)
{
	char path[64];
	bool found = false;
	struct dirent *entry;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		char target[64];
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

		target[n > 0 ? n : 0] = '\0';
		found = strcmp(target, "anon_inode:[perf_event]") == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

bool recorder_looks_ready(const struct recorder *r)
{
	char text[256];

	if (!has_events_open(r->pid))
		return false;
	/* In poll(2) (7) or ppoll(2) (271): it has come to its main loop. */
	if (read_proc(r->pid, "syscall", text, sizeof text))
		return strncmp(text, "7 ", 2) == 0 || strncmp(text, "271 ", 4) == 0;
	const char *state =
		read_proc(r->pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
	return state && strncmp(state, ") S", 3) == 0;
}

bool recorder_snapshot(struct recorder *r)
{
	switch (r->control) {
	case CONTROL_NONE: return true;
	case CONTROL_FD: return send_command(r, "snapshot\n");
	case CONTROL_SIGNAL: return kill(r->pid, SIGUSR2) == 0;
	}
	return false;
}

unsigned recorder_take_acks(struct recorder *r)
{
	char text[256];
	unsigned acks = 0;
	ssize_t n;

	/* Each answer is "ack\n" and a NUL (perf sends its string's terminator too). */
	while (r->ack_fd >= 0 && (n = read(r->ack_fd, text, sizeof text)) != 0) {
		if (n < 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			acks += text[i] == '\n';
	}
	if (r->ack_fd >= 0 && n == 0) { /* perf has closed it: it is ending */
		close(r->ack_fd);
		r->ack_fd = -1;
	}
	r->acks_due -= acks < r->acks_due ? acks : r->acks_due;
	return acks;
}

void recorder_stop(struct recorder *r)
{
	if (!r->ended)
		pidfd_signal(r->pidfd, SIGINT);
	r->stopping = true;
}

void recorder_kill(struct recorder *r)
{
	if (!r->ended && r->pid > 0)
		kill(-r->pid, SIGKILL);
}

bool recorder_poll_ended(struct recorder *r)
{
	if (!r->ended && r->pid > 0 && waitpid(r->pid, &r->status, WNOHANG) == r->pid)
		r->ended = true;
	return r->ended;
}

bool recorder_succeeded(const struct recorder *r)
{
	if (WIFEXITED(r->status))
		return WEXITSTATUS(r->status) == 0;
	/* perf raises the signal that stopped it, once its file is complete */
	return r->stopping && WIFSIGNALED(r->status) &&
	       (WTERMSIG(r->status) == SIGINT || WTERMSIG(r->status) == SIGTERM);
}

void recorder_done(struct recorder *r)
{
	if (r->pid > 0 && !r->ended) {
		recorder_kill(r);
		while (waitpid(r->pid, &r->status, 0) < 0 && errno == EINTR)
			;
		r->ended = true;
	}
	if (r->guardian > 0) {
		ssize_t told = write(r->guardian_fd, "x", 1);

		if (told != 1)
			kill(r->guardian, SIGKILL);
		while (waitpid(r->guardian, NULL, 0) < 0 && errno == EINTR)
			;
		r->guardian = 0;
	}
	for (int *fd = (int[]){r->pidfd, r->control_fd, r->ack_fd, r->guardian_fd}, i = 0; i < 4;
	     i++)
		if (fd[i] >= 0)
			close(fd[i]);
	r->pidfd = r->control_fd = r->ack_fd = r->guardian_fd = -1;
}
