/* The machine's real perf, with a software event: it starts, tells when it is ready, obeys
 * commands and signals, ends well or not; and its file is understood. Skipped without perf or
 * where it may not record. */
#include "capture/recorder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/capabilities.h"
#include "capture/perf_file.h"
#include "capture/tracee.h"
#include "common/bundle.h"

enum { PATIENCE_MS = 20000, STEP_MS = 20 };

static char root[64];
static struct capabilities caps;
static struct tracee tracee = {.pidfd = -1, .gate_fd = -1, .failure_fd = -1};
static struct recorder recorder = {.pidfd = -1, .control_fd = -1, .ack_fd = -1, .guardian_fd = -1};

static void begin(void)
{
	signal(SIGPIPE, SIG_IGN);
	strcpy(root, "/tmp/recorder_test.XXXXXX");
	cr_assert_not_null(mkdtemp(root));
	cr_assert_eq(chdir(root), 0);
	capabilities_probe(NULL, NULL, &caps);
}

static void end(void)
{
	recorder_done(&recorder);
	tracee_signal(&tracee, SIGKILL);
	tracee_done(&tracee);
	bundle_remove_tree(root);
}

TestSuite(recorder, .init = begin, .fini = end, .timeout = 60);

static void need_perf(bool control)
{
	if (!caps.perf.path[0])
		cr_skip_test("no perf here");
	if (caps.software_event_errno)
		cr_skip_test("perf events are not allowed here: %s",
			     strerror(caps.software_event_errno));
	if (control && !caps.perf.control_snapshot)
		cr_skip_test("this perf has no snapshot commands");
}

/* Four threads, and an exec before them: a shell that runs a pipeline. */
static char *program[] = {(char[]){"/bin/sh"}, (char[]){"-c"},
			  (char[]){"while :; do sleep 0.01 | cat; done"}, NULL};

static struct perf_argv argv_for(const char *control, const char *extra)
{
	static char pid[16];
	struct perf_argv perf = {.ready_by_control = control != NULL,
				 .control = control ? CONTROL_FD : CONTROL_SIGNAL};
	const char *args[] = {caps.perf.path,       "record", "-o",
			      "perf.data",          "-e",     "cpu-clock:u",
			      "--no-buildid-cache", "-p",     pid};

	snprintf(pid, sizeof pid, "%d", (int)tracee.pid);
	for (size_t i = 0; i < sizeof args / sizeof args[0]; i++)
		perf.argv[perf.argc++] = (char *)(uintptr_t)args[i];
	if (control)
		perf.argv[perf.argc++] = (char *)(uintptr_t)control;
	if (extra)
		perf.argv[perf.argc++] = (char *)(uintptr_t)extra;
	return perf;
}

static void start(const struct perf_argv *perf)
{
	struct error error = {0};
	int log_fd = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	cr_assert_eq(recorder_start(perf, log_fd, -1, &recorder, &error), ERR_NONE, "%s",
		     error.message);
	close(log_fd);
}

static void hold_program(void)
{
	struct error error = {0};

	static struct tracee_inheritance inheritance = {.sigpipe = SIG_DFL};

	getrlimit(RLIMIT_NOFILE, &inheritance.open_files);
	cr_assert_eq(tracee_start(program, program[0], &inheritance, &tracee, &error), ERR_NONE,
		     "%s", error.message);
}

static bool wait_for_ack(void)
{
	for (int ms = 0; ms < PATIENCE_MS; ms += STEP_MS) {
		struct pollfd p = {.fd = recorder.ack_fd, .events = POLLIN};

		poll(&p, 1, STEP_MS);
		if (recorder_take_acks(&recorder) > 0)
			return true;
		if (recorder_poll_ended(&recorder))
			return false;
	}
	return false;
}

static bool wait_to_look_ready(void)
{
	for (int ms = 0; ms < PATIENCE_MS; ms += STEP_MS) {
		if (recorder_looks_ready(&recorder))
			return true;
		usleep(STEP_MS * 1000);
	}
	return false;
}

static bool wait_for_end(void)
{
	for (int ms = 0; ms < PATIENCE_MS; ms += STEP_MS) {
		if (recorder_poll_ended(&recorder))
			return true;
		usleep(STEP_MS * 1000);
	}
	return false;
}

static bool names_program(const struct perf_summary *s)
{
	for (size_t i = 0; i < s->mappings.count; i++)
		if (strstr(s->mappings.items[i].path, "sh"))
			return true;
	return false;
}

Test(recorder, commands_are_acknowledged_and_the_file_is_complete)
{
	need_perf(true);
	hold_program();
	const char *build_ids =
		caps.perf.buildid_mmap && caps.kernel_mmap_build_id ? "--buildid-mmap" : NULL;
	struct perf_argv perf = argv_for("--control=fd:3,4", build_ids);
	start(&perf);
	recorder_ask_ready(&recorder);
	cr_assert(wait_for_ack(), "ready");
	cr_assert(wait_to_look_ready(), "what /proc shows agrees");
	cr_assert_eq(tracee_release(&tracee, program[0], NULL), ERR_NONE);
	usleep(200000);
	cr_assert(recorder_snapshot(&recorder));
	cr_assert(wait_for_ack(), "snapshot");
	cr_expect_eq(recorder.acks_due, 0);
	recorder_stop(&recorder);
	cr_assert(wait_for_end());
	cr_expect(recorder_succeeded(&recorder), "status %x", recorder.status);

	struct perf_summary s;
	struct error error = {0};
	cr_assert_eq(perf_file_summarize("perf.data", &s, &error), ERR_NONE, "%s", error.message);
	cr_expect_not(s.unfinished);
	cr_expect_eq(s.aux_bytes, 0, "there is no Intel PT in it");
	cr_expect(names_program(&s));
	cr_expect_gt(s.processes.count, 0);
	if (build_ids)
		cr_expect_gt(s.mappings.items[0].build_id.length, 0);
	perf_summary_done(&s);
}

Test(recorder, a_signal_makes_a_snapshot)
{
	need_perf(false);
	hold_program();
	struct perf_argv perf = argv_for(NULL, "--switch-output=signal");
	glob_t files;

	start(&perf);
	cr_assert(wait_to_look_ready());
	cr_assert_eq(tracee_release(&tracee, program[0], NULL), ERR_NONE);
	usleep(300000);
	cr_assert(recorder_snapshot(&recorder));
	usleep(500000);
	recorder_stop(&recorder);
	cr_assert(wait_for_end());
	cr_assert_eq(glob("perf.data.*", 0, NULL, &files), 0);
	cr_expect_eq(files.gl_pathc, 2, "one at the signal, one at the end");
	globfree(&files);
}

Test(recorder, perf_ends_with_its_process)
{
	need_perf(true);
	hold_program();
	struct perf_argv perf = argv_for("--control=fd:3,4", NULL);

	start(&perf);
	recorder_ask_ready(&recorder);
	cr_assert(wait_for_ack());
	tracee_signal(&tracee, SIGKILL);
	cr_assert(wait_for_end());
	cr_expect(recorder_succeeded(&recorder), "status %x", recorder.status);
	cr_expect_not(recorder_snapshot(&recorder), "nobody is there to take it");
}

Test(recorder, perf_is_killed)
{
	need_perf(true);
	hold_program();
	struct perf_argv perf = argv_for("--control=fd:3,4", NULL);

	start(&perf);
	recorder_ask_ready(&recorder);
	cr_assert(wait_for_ack());
	kill(recorder.pid, SIGKILL);
	cr_assert(wait_for_end());
	cr_expect_not(recorder_succeeded(&recorder));
}

Test(recorder, perf_refuses)
{
	need_perf(false);
	hold_program();
	struct perf_argv perf = argv_for(NULL, "--no-such-option");

	start(&perf);
	cr_assert(wait_for_end());
	cr_expect_not(recorder_succeeded(&recorder));
}

Test(recorder, the_disk_is_full)
{
	need_perf(true);
	hold_program();
	struct perf_argv perf = argv_for("--control=fd:3,4", NULL);
	struct rlimit limit = {.rlim_cur = 2048, .rlim_max = RLIM_INFINITY};

	signal(SIGXFSZ, SIG_IGN); /* then write() fails, as on a full disk */
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	start(&perf);
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	recorder_ask_ready(&recorder);
	if (wait_for_ack())
		cr_expect_eq(tracee_release(&tracee, program[0], NULL), ERR_NONE);
	usleep(300000);
	recorder_stop(&recorder);
	cr_assert(wait_for_end());
	cr_expect_not(recorder_succeeded(&recorder), "status %x", recorder.status);
}

Test(recorder, nothing_is_left_when_it_is_dropped)
{
	need_perf(true);
	hold_program();
	struct perf_argv perf = argv_for("--control=fd:3,4", NULL);

	start(&perf);
	pid_t pid = recorder.pid, guardian = recorder.guardian;
	recorder_done(&recorder);
	cr_expect_eq(kill(pid, 0), -1);
	cr_expect_eq(kill(guardian, 0), -1);
}

Test(recorder, a_program_that_does_not_exist)
{
	struct perf_argv perf = {.argv = {(char[]){"/nonexistent/perf"}}, .argc = 1};
	struct error error = {0};

	cr_expect_eq(recorder_start(&perf, STDERR_FILENO, -1, &recorder, &error), ERR_IO);
	cr_expect_not_null(strstr(error.message, "No such file"));
}
