/* One recording: perf and (run) the program, from start to the end of perf.
 *
 *     hold the program -> start perf -> perf records -> release the program -> ready
 *       -> snapshots on SIGUSR2 and at triggers -> end of the program, of the processes, of
 *          --duration, after the last trigger or by a signal -> perf finishes its file
 *
 * Signals are taken from a signalfd and many files are held open: session_init() changes the
 * signal mask and the limit of open files. The program gets both as they were. */
#ifndef CAPTURE_SESSION_H
#define CAPTURE_SESSION_H

#include <signal.h>
#include <stdbool.h>

#include "capture/collector.h"
#include "capture/options.h"
#include "capture/perf_argv.h"
#include "capture/recorder.h"
#include "capture/tracee.h"
#include "capture/trigger.h"
#include "common/bundle.h"
#include "common/error.h"

struct session {
	const struct capture_options *options;
	struct collector *collector; /* looks at the processes while they live */
	struct bundle *bundle;       /* gets the hits */
	const char *data_path;       /* what perf writes, to see it progress */
	const char *log_path;        /* perf's own words */
	struct recorder recorder;
	struct tracee tracee;
	struct trigger *trigger; /* NULL = none (yet) */
	bool triggers_resolved;
	struct trigger_place trigger_places[TRIGGER_PLACES_MAX];
	size_t trigger_place_count;
	int signal_fd;
	struct tracee_inheritance inheritance;
	int target_pidfds[OPTIONS_PIDS_MAX];
	size_t target_count;
	bool interrupted; /* by a signal to us */
	bool ready;
	unsigned snapshots;  /* taken by signal or trigger */
	bool program_failed; /* the exec: 126 or 127, see program_code */
	int program_code;
};

MUST_CHECK enum err session_init(const struct capture_options *options, struct collector *collector,
				 struct bundle *bundle, const char *data_path, const char *log_path,
				 struct session *session, struct error *error);

/* run: start the program, held. */
MUST_CHECK enum err session_hold_program(struct session *session, const char *path,
					 struct error *error);
/* attach: finds the places of the triggers and watches them, not armed yet. For run this
 * happens while recording, as the program's files get mapped. */
MUST_CHECK enum err session_resolve_triggers(struct session *session, pid_t pid,
					     struct error *error);
/* Records until perf has ended. ERR_NONE: perf ended well. When it fails before session.ready,
 * it may be tried again. */
MUST_CHECK enum err session_record(struct session *session, const struct perf_argv *perf,
				   struct error *error);
/* From here on signals act on us as they would on any program, but SIGUSR2 does nothing: for
 * the time of finishing the bundle. session_wait_program() takes them back. */
void session_let_signals_act(struct session *session);
/* run: waits for the end of the program; its exit code. Signals are passed on to it. */
int session_wait_program(struct session *session);
void session_done(struct session *session);

#endif
