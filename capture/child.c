/* See child.h. */
#include "capture/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until EOF, a full buffer or the deadline; what does not fit is read and dropped. */
static void read_all(int fd, long deadline_ms, char *text, size_t bytes)
{
	size_t used = 0;
	char rest[4096];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		long left = deadline_ms - now_ms();

		if (left <= 0 || poll(&p, 1, (int)left) <= 0)
			break;
		bool full = used == bytes - 1;
		ssize_t n =
			read(fd, full ? rest : text + used, full ? sizeof rest : bytes - 1 - used);
		if (n <= 0)
			break;
		if (!full)
			used += (size_t)n;
	}
	text[used] = '\0';
}

enum err child_output(char *const *argv, int timeout_ms, char *text, size_t bytes,
		      struct error *error)
{
	char path[4096];
	int out[2];
	enum err err = child_find(argv[0], path, sizeof path, error);

	if (err != ERR_NONE)
		return err;
	if (pipe2(out, O_CLOEXEC) != 0)
		return error_set(error, ERR_IO, "pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

		setpgid(0, 0);
		dup2(null, STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		execv(path, argv);
		_exit(127);
	}
	close(out[1]);
	if (pid < 0) {
		close(out[0]);
		return error_set(error, ERR_IO, "fork: %s", strerror(errno));
	}
	read_all(out[0], now_ms() + timeout_ms, text, bytes);
	close(out[0]);
	/* Its output is at its end, or it had its time: whatever is left of it goes. */
	setpgid(pid, pid);
	kill(-pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return ERR_NONE;
}

static bool is_executable_file(const char *path, bool *exists)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		*exists |= errno == EACCES;
		return false;
	}
	*exists = true;
	return S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

enum err child_find(const char *name, char *path, size_t bytes, struct error *error)
{
	const char *search = strchr(name, '/') ? NULL : getenv("PATH");
	bool exists = false;

	if (!search) {
		if (snprintf(path, bytes, "%s", name) >= (int)bytes)
			return error_set(error, ERR_NOT_FOUND, "%.100s...: name too long", name);
		if (strchr(name, '/') && is_executable_file(path, &exists))
			return ERR_NONE;
	} else if (name[0]) {
		for (const char *at = search;; at++) {
			const char *end = strchrnul(at, ':');
			int length = snprintf(path, bytes, "%.*s%s%s", (int)(end - at), at,
					      end > at ? "/" : "./", name);

			if (length > 0 && length < (int)bytes && is_executable_file(path, &exists))
				return ERR_NONE;
			if (!*end)
				break;
			at = end;
		}
	}
	if (exists)
		return error_set(error, ERR_IO, "%s: not executable", name);
	return error_set(error, ERR_NOT_FOUND, "%s: not found", name);
}
