/* See session.h. One poll(2) loop; everything that happens arrives as a readable descriptor
 * or as a time that has come. */
#include "capture/session.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/symbol.h"
#include "common/log.h"

enum {
	READY_POLL_MS = 20,      /* how often a perf without --control is looked at */
	READY_SILENT_MS = 10000, /* ... and for how long, if it never looks ready */
	LOOK_FIRST_MS = 50,      /* after the start: libraries get loaded */
	LOOK_MAX_MS = 5000,
	RESCAN_MS = 20,         /* for new threads of a process with triggers */
	RESOLVE_MAX_MS = 1000,  /* for a trigger that is in no mapped file yet */
	GRACE_MS = 300,         /* perf ends by itself when its processes have */
	STOP_SILENT_MS = 60000, /* perf stops, but its file does not grow */
	ACK_PATIENCE_MS = 10000,
};

enum phase { STARTING, RECORDING, FINISHING };

struct loop {
	struct session *s;
	enum phase phase;
	int64_t now, started, stop_at, look_at, look_every, arm_at, rescan_at;
	int64_t progress_at; /* last time perf's file was seen to grow */
	int64_t resolve_at, resolve_every;
	int64_t ack_by; /* a snapshot's acknowledgement is due; 0 = none */
	off_t data_bytes;
	unsigned triggered; /* snapshots by trigger */
	bool armed, killed;
	bool targets_gone;
	enum err err;
	struct error *error;
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Files held open and events a thread: a soft limit of 1024 is soon reached. */
static void raise_file_limit(struct rlimit *old)
{
	if (getrlimit(RLIMIT_NOFILE, old) == 0) {
		struct rlimit raised = {.rlim_cur = old->rlim_max, .rlim_max = old->rlim_max};

		(void)setrlimit(RLIMIT_NOFILE, &raised); /* else with what there is */
	}
}

/* Those that become events of the loop. */
static sigset_t handled_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR2);
	return set;
}

enum err session_init(const struct capture_options *options, struct collector *collector,
		      struct bundle *bundle, const char *data_path, const char *log_path,
		      struct session *session, struct error *error)
{
	struct session s = {.options = options,
			    .collector = collector,
			    .bundle = bundle,
			    .data_path = data_path,
			    .log_path = log_path};
	sigset_t set = handled_signals();

	s.recorder =
		(struct recorder){.pidfd = -1, .control_fd = -1, .ack_fd = -1, .guardian_fd = -1};
	s.tracee = (struct tracee){.pidfd = -1, .gate_fd = -1, .failure_fd = -1};
	s.inheritance.sigpipe = signal(SIGPIPE, SIG_IGN); /* a perf that is gone: EPIPE */
	sigprocmask(SIG_BLOCK, &set, &s.inheritance.signal_mask);
	raise_file_limit(&s.inheritance.open_files);
	if (options->ready_fd >= 0 && fcntl(options->ready_fd, F_SETFD, FD_CLOEXEC) != 0)
		log_warn("--ready-fd %d: %s", options->ready_fd, strerror(errno));
	s.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.signal_fd < 0) {
		sigprocmask(SIG_SETMASK, &s.inheritance.signal_mask, NULL);
		return error_set(error, ERR_IO, "signalfd: %s", strerror(errno));
	}
	for (size_t i = 0; i < options->pid_count; i++) {
		int fd = (int)syscall(SYS_pidfd_open, options->pids[i], 0);

		if (fd < 0) {
			enum err err = error_set(error, ERR_NOT_FOUND, "process %d: %s",
						 (int)options->pids[i], strerror(errno));
			session_done(&s);
			return err;
		}
		s.target_pidfds[s.target_count++] = fd;
	}
	*session = s;
	return ERR_NONE;
}

enum err session_hold_program(struct session *s, const char *path, struct error *error)
{
	return tracee_start(s->options->program, path, &s->inheritance, &s->tracee, error);
}

/* The line of perf's output that says what went wrong. */
static void perf_complaint(const char *log_path, char *line, size_t bytes)
{
	static const char *const signs[] = {"rror",   "fail", "Fail",     "annot", "ouldn't",
					    "denied", "busy", "No space", "not ",  NULL};
	static const char *const noise[] = {"[ perf record:",
					    "Error:\n",
					    "Events enabled",
					    "Events disabled",
					    "Run 'perf list'",
					    " Usage:",
					    NULL};
	char text[512];
	int best = 0;
	FILE *log = fopen(log_path, "re");

	snprintf(line, bytes, "it said nothing");
	while (log && best < 2 && fgets(text, sizeof text, log)) {
		int rank = text[strspn(text, " \t\n")] ? 1 : 0;

		for (int i = 0; noise[i]; i++)
			if (strncmp(text, noise[i], strlen(noise[i])) == 0)
				rank = 0;
		for (int i = 0; rank && signs[i]; i++)
			if (strstr(text, signs[i]))
				rank = 2;
		if (rank <= best)
			continue;
		best = rank;
		text[strcspn(text, "\n")] = '\0';
		for (char *c = text; *c; c++)
			if (iscntrl((unsigned char)*c))
				*c = ' ';
		snprintf(line, bytes, "%s", text + strspn(text, " "));
	}
	if (log)
		fclose(log);
}

static enum err perf_failure(struct session *s, struct error *error)
{
	const struct recorder *r = &s->recorder;
	char complaint[300];

	perf_complaint(s->log_path, complaint, sizeof complaint);
	if (WIFSIGNALED(r->status))
		return error_set(error, ERR_IO, "perf was killed by signal %d (%s)",
				 WTERMSIG(r->status), strsignal(WTERMSIG(r->status)));
	return error_set(error, ERR_IO, "perf record failed (status %d): %s",
			 WEXITSTATUS(r->status), complaint);
}

static void look_at_processes(struct loop *l)
{
	struct session *s = l->s;

	if (s->tracee.pid > 0 && !s->tracee.ended)
		collector_look(s->collector, s->tracee.pid);
	for (size_t i = 0; i < s->options->pid_count; i++)
		collector_look(s->collector, s->options->pids[i]);
}

static void begin_to_stop(struct loop *l)
{
	if (l->phase == FINISHING)
		return;
	look_at_processes(l);
	/* Before it records it has nothing to finish. */
	if (l->phase == STARTING)
		recorder_kill(&l->s->recorder);
	recorder_stop(&l->s->recorder);
	l->phase = FINISHING;
	l->progress_at = l->now;
}

/* As soon as the snapshot under way, if there is one, is acknowledged. */
static void ask_to_stop(struct loop *l)
{
	if (l->phase == RECORDING)
		l->stop_at = l->now;
	else
		begin_to_stop(l);
}

static void take_snapshot(struct loop *l)
{
	struct session *s = l->s;

	if (s->options->full) {
		log_warn("no snapshots with --full: everything is written");
		return;
	}
	if (l->phase != RECORDING)
		return;
	if (!recorder_snapshot(&s->recorder))
		return; /* perf is ending: the loop will see it */
	s->snapshots++;
	if (s->recorder.control == CONTROL_FD)
		l->ack_by = l->now + ACK_PATIENCE_MS;
	look_at_processes(l);
}

static void on_ready(struct loop *l)
{
	struct session *s = l->s;
	static const char text[] = "ready\n";

	if (s->tracee.pid > 0) {
		enum err err = tracee_release(&s->tracee, s->options->program[0], l->error);

		if (err != ERR_NONE) {
			l->err = err;
			s->program_failed = true;
			s->program_code = err == ERR_NOT_FOUND ? 127 : 126;
			begin_to_stop(l);
			return;
		}
	}
	s->ready = true;
	l->phase = RECORDING;
	l->now = now_ms();
	l->stop_at = s->options->duration_ns
			     ? l->now + (int64_t)((s->options->duration_ns + 999999) / 1000000)
			     : INT64_MAX;
	l->arm_at = l->now + (int64_t)(s->options->min_history_ns / 1000000);
	l->rescan_at = l->resolve_at = l->now;
	l->look_every = LOOK_FIRST_MS;
	l->look_at = l->now + l->look_every;
	if (s->options->pid_count > 0)
		look_at_processes(l);
	if (s->options->ready_fd >= 0) {
		if (write(s->options->ready_fd, text, sizeof text - 1) < 0)
			log_warn("--ready-fd %d: %s", s->options->ready_fd, strerror(errno));
		close(s->options->ready_fd);
	}
	log_info("recording");
}

static void on_signal(struct loop *l, const struct signalfd_siginfo *info)
{
	struct session *s = l->s;

	if (info->ssi_signo == SIGUSR2) {
		take_snapshot(l);
		return;
	}
	/* The terminal gives its Ctrl-C to the program too; what is sent to us alone we pass on. */
	if (info->ssi_code != SI_KERNEL && s->ready)
		tracee_signal(&s->tracee, (int)info->ssi_signo);
	if (s->interrupted) { /* the second one: no patience left */
		recorder_kill(&s->recorder);
		l->killed = true;
	}
	s->interrupted = true;
	ask_to_stop(l);
}

static void on_acks(struct loop *l)
{
	unsigned acks = recorder_take_acks(&l->s->recorder);

	if (acks == 0)
		return;
	if (l->phase == STARTING)
		on_ready(l);
	else if (l->s->recorder.acks_due == 0)
		l->ack_by = 0;
}

/* A program that asks for a snapshot itself counts as a trigger. */
static unsigned wanted_snapshots(const struct session *s)
{
	return s->options->snapshots ? s->options->snapshots : 1;
}

/* The last trigger's snapshot is taken (acknowledged, where perf does that): done. */
static bool triggers_are_done(const struct loop *l)
{
	return l->triggered >= wanted_snapshots(l->s) && l->ack_by == 0;
}

static void on_hit(struct loop *l)
{
	struct session *s = l->s;

	if (!trigger_take_hits(s->trigger, s->bundle) || !l->armed ||
	    l->triggered >= wanted_snapshots(s))
		return;
	take_snapshot(l);
	l->triggered++;
	for (size_t i = s->bundle->hits.count; i-- > 0;)
		if (s->bundle->hits.items[i].kind != HIT_MARK) {
			s->bundle->hits.items[i].snapshot = true;
			break;
		}
	l->armed = false; /* those that were not hit stay so, but count as no trigger */
}

enum err session_resolve_triggers(struct session *s, pid_t pid, struct error *error)
{
	struct trigger_place places[TRIGGER_PLACES_MAX];
	struct arena *arena = &s->bundle->arena;
	size_t count = 0;
	enum err err = ERR_NONE;

	for (size_t i = 0; i < s->options->trigger_count && err == ERR_NONE; i++)
		err = symbol_resolve(pid, s->options->triggers[i], HIT_TRIGGER, arena, places,
				     &count, error);
	if (err == ERR_NONE)
		err = symbol_resolve_own(pid, "ptcapture_take_snapshot", HIT_SNAPSHOT_CALL, arena,
					 places, &count);
	if (err == ERR_NONE)
		err = symbol_resolve_own(pid, "ptcapture_mark_start", HIT_MARK, arena, places,
					 &count);
	if (err != ERR_NONE)
		return err;
	s->triggers_resolved = true;
	if (count == 0)
		return ERR_NONE;
	err = trigger_new(pid, places, count, s->options->callchain, &s->trigger, error);
	if (err != ERR_NONE)
		return err;
	if (trigger_patches_code(s->trigger))
		log_warn("no hardware breakpoint can be had: uprobes are used, which patch the "
			 "program's code in memory while armed");
	memcpy(s->trigger_places, places, count * sizeof places[0]);
	s->trigger_place_count = count;
	return ERR_NONE;
}

/* run: the program and its libraries are mapped bit by bit. */
static void resolve_triggers_later(struct loop *l)
{
	struct session *s = l->s;

	if (s->triggers_resolved || s->tracee.pid <= 0 || l->now < l->resolve_at)
		return;
	l->resolve_every = l->resolve_every ? l->resolve_every * 2 : RESCAN_MS;
	if (l->resolve_every > RESOLVE_MAX_MS)
		l->resolve_every = RESOLVE_MAX_MS;
	l->resolve_at = l->now + l->resolve_every;
	enum err err = session_resolve_triggers(s, s->tracee.pid, l->error);
	if (err != ERR_NONE && err != ERR_NOT_FOUND) {
		l->err = err;
		begin_to_stop(l);
	}
}

static void tend_triggers(struct loop *l)
{
	struct session *s = l->s;

	if (l->phase == RECORDING)
		resolve_triggers_later(l);
	if (!s->trigger || l->phase != RECORDING)
		return;
	if (triggers_are_done(l)) {
		begin_to_stop(l);
		return;
	}
	if (l->now < l->rescan_at)
		return;
	on_hit(l); /* a wake-up may have been lost: see trigger_take_hits() */
	struct error why;
	enum err err = trigger_rescan(s->trigger, &why);
	if (err != ERR_NONE && err != ERR_NOT_FOUND) /* the threads that are watched still count */
		log_repeated("a new thread is not watched", "%s", why.message);
	/* A process of thousands of threads takes its time: not more than a tenth of ours. */
	int64_t took = now_ms() - l->now;
	l->rescan_at = l->now + (10 * took > RESCAN_MS ? 10 * took : RESCAN_MS);
	if (!l->armed && l->now >= l->arm_at && l->ack_by == 0 &&
	    l->triggered < wanted_snapshots(s)) {
		l->armed = true;
		trigger_arm(s->trigger);
	}
}

static void watch_progress(struct loop *l)
{
	char inner[PATH_MAX];
	struct stat st;

	if (l->phase != FINISHING || l->killed)
		return;
	bool found = stat(l->s->data_path, &st) == 0;
	if (found && S_ISDIR(st.st_mode)) { /* perf record --kcore */
		snprintf(inner, sizeof inner, "%.*s/data", PATH_MAX - 8, l->s->data_path);
		found = stat(inner, &st) == 0;
	}
	if (found && st.st_size != l->data_bytes) {
		l->data_bytes = st.st_size;
		l->progress_at = l->now;
	}
	if (l->now - l->progress_at > STOP_SILENT_MS) {
		recorder_kill(&l->s->recorder);
		l->killed = true;
		if (l->err == ERR_NONE)
			l->err = error_set(l->error, ERR_IO, "perf did not end within %d s: killed",
					   STOP_SILENT_MS / 1000);
	}
}

static void watch_start(struct loop *l)
{
	struct recorder *r = &l->s->recorder;

	if (l->phase != STARTING || r->ready_by_control)
		return;
	bool late = l->now - l->started > READY_SILENT_MS;
	if (late)
		log_warn("perf does not show whether it records: going on after %d s",
			 READY_SILENT_MS / 1000);
	if (late || recorder_looks_ready(r))
		on_ready(l);
}

static void watch_times(struct loop *l)
{
	watch_start(l);
	tend_triggers(l);
	if (l->phase == RECORDING && l->now >= l->look_at) {
		look_at_processes(l);
		l->look_every = l->look_every * 3 < LOOK_MAX_MS ? l->look_every * 3 : LOOK_MAX_MS;
		l->look_at = l->now + l->look_every;
	}
	if (l->phase == RECORDING && l->now >= l->stop_at && l->ack_by == 0)
		begin_to_stop(l);
	if (l->ack_by && l->now > l->ack_by) {
		log_warn("perf did not acknowledge a snapshot within %d s", ACK_PATIENCE_MS / 1000);
		l->ack_by = 0;
	}
	watch_progress(l);
}

static int timeout_ms(const struct loop *l)
{
	int64_t next = l->now + 1000;

	if (l->phase == STARTING && !l->s->recorder.ready_by_control)
		next = l->now + READY_POLL_MS;
	if (l->phase == RECORDING) {
		next = l->look_at < next ? l->look_at : next;
		next = l->ack_by == 0 && l->stop_at < next ? l->stop_at : next;
		if (l->s->trigger)
			next = l->rescan_at < next ? l->rescan_at : next;
		else if (!l->s->triggers_resolved && l->s->tracee.pid > 0)
			next = l->resolve_at < next ? l->resolve_at : next;
	}
	return next > l->now ? (int)(next - l->now) : 0;
}

/* All processes have ended: perf ends by itself, unless their children live on. */
static void on_targets_gone(struct loop *l)
{
	if (l->targets_gone)
		return;
	l->targets_gone = true;
	if (l->phase == RECORDING && l->stop_at > l->now + GRACE_MS)
		l->stop_at = l->now + GRACE_MS;
	if (l->phase == STARTING)
		begin_to_stop(l);
}

enum { WAIT_SIGNAL, WAIT_PERF, WAIT_ACK, WAIT_TRIGGER, WAIT_TRACEE, WAIT_TARGETS };

static void loop_once(struct loop *l)
{
	struct session *s = l->s;
	struct pollfd fds[WAIT_TARGETS + OPTIONS_PIDS_MAX] = {
		[WAIT_SIGNAL] = {.fd = s->signal_fd, .events = POLLIN},
		[WAIT_PERF] = {.fd = s->recorder.pidfd, .events = POLLIN},
		[WAIT_ACK] = {.fd = s->recorder.ack_fd, .events = POLLIN},
		[WAIT_TRIGGER] = {.fd = s->trigger ? trigger_fd(s->trigger) : -1, .events = POLLIN},
		[WAIT_TRACEE] = {.fd = s->tracee.ended ? -1 : s->tracee.pidfd, .events = POLLIN},
	};
	struct signalfd_siginfo info;
	size_t gone = 0;

	for (size_t i = 0; i < s->target_count; i++) /* one that ended stays readable */
		fds[WAIT_TARGETS + i] = (struct pollfd){
			.fd = l->targets_gone ? -1 : s->target_pidfds[i], .events = POLLIN};
	int n = poll(fds, WAIT_TARGETS + s->target_count, timeout_ms(l));
	l->now = now_ms();
	if (n < 0)
		return; /* EINTR: SIGCHLD of a child that is polled anyway */
	while (fds[WAIT_SIGNAL].revents && read(s->signal_fd, &info, sizeof info) == sizeof info)
		on_signal(l, &info);
	if (fds[WAIT_ACK].revents)
		on_acks(l);
	if (fds[WAIT_TRIGGER].revents)
		on_hit(l);
	if (fds[WAIT_TRACEE].revents && tracee_poll_ended(&s->tracee))
		on_targets_gone(l);
	for (size_t i = 0; i < s->target_count; i++)
		gone += fds[WAIT_TARGETS + i].revents != 0;
	if (s->target_count > 0 && gone == s->target_count)
		on_targets_gone(l);
	else if (gone > 0)
		poll(NULL, 0, 1); /* some of several have ended: no busy loop */
}

enum err session_record(struct session *s, const struct perf_argv *perf, struct error *error)
{
	struct loop l = {.s = s, .phase = STARTING, .error = error};
	int log_fd =
		open(s->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (log_fd < 0)
		return error_set(error, ERR_IO, "%s: %s", s->log_path, strerror(errno));
	recorder_done(&s->recorder); /* of an attempt before */
	enum err err = recorder_start(perf, log_fd, s->tracee.pidfd, &s->recorder, error);
	close(log_fd);
	if (err != ERR_NONE)
		return err;
	recorder_ask_ready(&s->recorder);
	l.now = l.started = now_ms();
	while (!recorder_poll_ended(&s->recorder)) {
		watch_times(&l);
		loop_once(&l);
	}
	if (s->trigger) /* what came while perf was finishing */
		(void)trigger_take_hits(s->trigger, s->bundle);
	if (l.err != ERR_NONE)
		return l.err;
	if (s->ready && !s->triggers_resolved && s->options->trigger_count > 0)
		log_warn("a trigger was never found in the program");
	if (!s->ready && s->interrupted)
		return error_set(error, ERR_IO, "interrupted before anything was recorded");
	if (!s->ready && l.targets_gone)
		return error_set(error, ERR_IO, "the process ended before perf recorded it");
	if (l.killed || !recorder_succeeded(&s->recorder))
		return perf_failure(s, error);
	return ERR_NONE;
}

void session_let_signals_act(struct session *s)
{
	signal(SIGUSR2, SIG_IGN); /* too late for a snapshot, and no reason to die */
	sigprocmask(SIG_SETMASK, &s->inheritance.signal_mask, NULL);
}

int session_wait_program(struct session *s)
{
	sigset_t set = handled_signals();

	sigprocmask(SIG_BLOCK, &set, NULL);
	while (!tracee_poll_ended(&s->tracee)) {
		struct pollfd fds[] = {{.fd = s->signal_fd, .events = POLLIN},
				       {.fd = s->tracee.pidfd, .events = POLLIN}};
		struct signalfd_siginfo info;

		poll(fds, 2, -1);
		while (read(s->signal_fd, &info, sizeof info) == sizeof info) {
			if (info.ssi_signo == SIGUSR2)
				continue;
			if (info.ssi_code != SI_KERNEL)
				tracee_signal(&s->tracee, (int)info.ssi_signo);
		}
	}
	return tracee_exit_code(&s->tracee);
}

void session_done(struct session *s)
{
	trigger_free(s->trigger);
	recorder_done(&s->recorder);
	tracee_done(&s->tracee);
	for (size_t i = 0; i < s->target_count; i++)
		close(s->target_pidfds[i]);
	close(s->signal_fd);
	sigprocmask(SIG_SETMASK, &s->inheritance.signal_mask, NULL);
}
