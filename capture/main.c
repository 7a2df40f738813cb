/* pt-capture: the composition root. Only here messages are printed and exit codes chosen.
 *
 *     check the machine -> output directory -> session (perf, the program, triggers)
 *       -> perf.data's summary -> collect the files -> manifest -> rename or pack */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/check.h"
#include "capture/child.h"
#include "capture/clock.h"
#include "capture/collect_plan.h"
#include "capture/file_copy.h"
#include "capture/options.h"
#include "capture/output.h"
#include "capture/perf_argv.h"
#include "capture/perf_file.h"
#include "capture/redact.h"
#include "capture/session.h"
#include "common/log.h"

enum {
	EXIT_NOT_READY = 1,
	EXIT_USAGE = 2,
	EXIT_CAPTURE_FAILED = 125,
	EXIT_CANNOT_RUN = 126,
	EXIT_NO_PROGRAM = 127
};

static const char *const command_names[] = {"run", "attach", "check", "bundle", "help", "version"};

/* What one capture needs from begin to end. */
struct capture {
	const struct capture_options *options;
	const struct capabilities *caps;
	struct output output;
	struct collector collector;
	struct bundle bundle;
	struct arena arena;
	struct perf_argv perf;
	char data_path[PATH_MAX], log_path[PATH_MAX];
};

static int report(const struct error *error, enum err err, int code)
{
	log_error("%s", error->message[0] ? error->message : error_name(err));
	return code;
}

static int run_check(const struct capture_options *o, const struct capabilities *caps)
{
	struct check_report checks;

	check_build(caps, &checks);
	char *text = o->json ? check_json(&checks) : check_text(&checks);
	if (!text) {
		log_error("%s", error_name(ERR_NOMEM));
		return EXIT_NOT_READY;
	}
	printf("%s%s", text, o->json ? "\n" : "");
	free(text);
	return checks.ready ? EXIT_SUCCESS : EXIT_NOT_READY;
}

static int print_command(struct capture *c)
{
	struct perf_target target = {.data_path = "perf.data",
				     .control_fd = RECORDER_CONTROL_FD,
				     .ack_fd = RECORDER_ACK_FD};
	struct error error = {0};

	if (c->options->output && snprintf(c->data_path, sizeof c->data_path, "%s/perf.data",
					   c->options->output) < (int)sizeof c->data_path)
		target.data_path = c->data_path;
	enum err err =
		perf_argv_build(c->options, c->caps, &target, 0, &c->arena, &c->perf, &error);
	const char *line = err == ERR_NONE ? perf_argv_quoted(&c->perf, &c->arena) : NULL;
	if (!line)
		return report(&error, err ? err : ERR_NOMEM, EXIT_CAPTURE_FAILED);
	puts(line);
	for (size_t i = 0; i < c->perf.note_count; i++)
		log_warn("%s", c->perf.notes[i]);
	return EXIT_SUCCESS;
}

static void say_losses(const struct perf_summary *summary)
{
	if (summary->lost_aux)
		log_warn("%" PRIu64 " times the trace was cut short: the buffer was full "
			 "(--buffer, --timing low)",
			 summary->lost_aux);
	if (summary->unreadable)
		log_warn("perf.data has damaged compressed records: mapped files named in them are "
			 "missing in the bundle");
}

/* perf.data is there: the rest of the bundle. */
static enum err finish_bundle(struct capture *c, const struct perf_summary *summary,
			      struct error *error)
{
	const struct capture_options *o = c->options;
	struct bundle *b = &c->bundle;
	struct collect_plan *plan;

	b->command = command_names[o->command];
	b->perf_command = c->perf.argc ? perf_argv_quoted(&c->perf, &c->arena) : NULL;
	b->kernel_release = c->caps->kernel_release;
	b->cpu_model = c->caps->cpu_model;
	b->perf_data = "perf.data";
	clock_read(&b->clock);
	enum err err = collect_plan_new(&c->collector, summary, o, &plan, error);
	if (err != ERR_NONE)
		return err;
	if (o->verbosity >= LOG_NORMAL)
		fprintf(stderr, "pt-capture: bundle: %zu files, %.1f MB, and %.1f MB of trace\n",
			collect_plan_files(plan), (double)collect_plan_bytes(plan) / 1e6,
			(double)summary->aux_bytes / 1e6);
	err = collect_plan_copy(plan, c->output.dir, b, error);
	collect_plan_free(plan);
	if (err == ERR_NONE && o->redact)
		err = redact_bundle(b, c->output.dir, c->output.target, error);
	if (err == ERR_NONE)
		err = bundle_write(b, c->output.dir, error);
	if (err == ERR_NONE)
		err = output_finish(&c->output, error);
	if (err == ERR_NONE && o->verbosity >= LOG_NORMAL)
		fprintf(stderr, "pt-capture: wrote %s\n", c->output.target);
	return err;
}

static char late_words[PATH_MAX + 64]; /* for on_late_signal() */

/* Copying and packing may take long, and who does not want to wait gets what there is. */
static void on_late_signal(int sig)
{
	ssize_t told = write(STDERR_FILENO, late_words, strlen(late_words));

	(void)told; /* nobody is left to tell */
	signal(sig, SIG_DFL);
	raise(sig);
}

static void catch_late_signals(struct session *s, const char *dir)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

	snprintf(late_words, sizeof late_words, "pt-capture: interrupted; what there is is in %s\n",
		 dir);
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
		if (signal(signals[i], on_late_signal) == SIG_IGN)
			signal(signals[i], SIG_IGN); /* as whoever started us wanted it */
	session_let_signals_act(s);
}

/* After perf has ended. recorded: whether it ended well. */
static int finish_capture(struct capture *c, enum err recorded, struct error *error)
{
	struct perf_summary summary;
	struct error problem = {0};
	enum err err = perf_file_summarize(c->data_path, &summary, &problem);
	bool kept = err == ERR_NONE && summary.aux_bytes > 0;

	if (recorded != ERR_NONE)
		log_error("%s", error->message[0] ? error->message : error_name(recorded));
	else if (err != ERR_NONE)
		log_error("%s", problem.message);
	else if (!kept)
		log_error("the trace is empty: %s",
			  summary.aux_chunks ? "perf saved buffers without content"
					     : "perf saved no Intel PT buffer (did the program run "
					       "at all while it was traced?)");
	if (kept) {
		say_losses(&summary);
		problem = (struct error){0};
		enum err bundled = finish_bundle(c, &summary, &problem);
		if (bundled != ERR_NONE) {
			log_error("%s", problem.message[0] ? problem.message : error_name(bundled));
			kept = false;
			if (access(c->output.dir, F_OK) == 0)
				log_error("what there is of the capture is in %s", c->output.dir);
		}
	} else {
		output_discard(&c->output);
	}
	if (err == ERR_NONE)
		perf_summary_done(&summary);
	return kept && recorded == ERR_NONE ? EXIT_SUCCESS : EXIT_CAPTURE_FAILED;
}

static enum err build_perf_argv(struct capture *c, const struct session *s, bool pause,
				struct error *error)
{
	struct perf_target target = {.data_path = c->data_path,
				     .control_fd = RECORDER_CONTROL_FD,
				     .ack_fd = RECORDER_ACK_FD};

	/* One shot: what is paused in the kernel at the hit cannot be overwritten any more. */
	for (size_t i = 0, n = 0; pause && i < s->trigger_place_count; i++)
		if (s->trigger_places[i].kind != HIT_MARK)
			target.pause_at[n++] = s->trigger_places[i].ip;
	return perf_argv_build(c->options, c->caps, &target, s->tracee.pid, &c->arena, &c->perf,
			       error);
}

static bool may_pause(const struct capture *c, const struct session *s)
{
	/* perf gives a filter to the last event of a group, which is not the trace then */
	return s->trigger && c->options->filter_count == 0 && !trigger_patches_code(s->trigger) &&
	       c->options->snapshots <= 1 && !c->options->min_history_ns &&
	       c->caps->kernel_aux_pause && version_at_least(c->caps->perf.version, 6, 13);
}

/* Starts all and records; then the bundle, while the processes may still live. */
static int record(struct capture *c, struct session *s, const char *program)
{
	struct error error = {0};
	enum err err = ERR_NONE;

	if (program)
		err = session_hold_program(s, program, &error);
	else if (c->options->pid_count == 1)
		err = session_resolve_triggers(s, c->options->pids[0], &error);
	bool pause = err == ERR_NONE && may_pause(c, s);
	if (err == ERR_NONE)
		err = build_perf_argv(c, s, pause, &error);
	if (err != ERR_NONE) {
		output_discard(&c->output);
		return report(&error, err, EXIT_CAPTURE_FAILED);
	}
	for (size_t i = 0; i < c->perf.note_count; i++)
		log_warn("%s", c->perf.notes[i]);
	err = session_record(s, &c->perf, &error);
	if (err != ERR_NONE && pause && !s->ready && !s->interrupted) {
		log_warn("perf cannot pause the trace at the trigger: what was recorded before it "
			 "may be shorter");
		unlink(c->log_path);
		err = build_perf_argv(c, s, false, &error);
		if (err == ERR_NONE)
			err = session_record(s, &c->perf, &error);
	}
	if (s->program_failed) {
		output_discard(&c->output);
		return report(&error, err, s->program_code);
	}
	catch_late_signals(s, c->output.dir);
	int code = finish_capture(c, err, &error);
	if (s->ready && program) { /* it runs on even when its capture failed */
		int program_code = session_wait_program(s);

		return code == EXIT_SUCCESS ? program_code : code;
	}
	return code;
}

/* As perf would be refused: one event that counts nothing tells. */
static enum err check_processes(const struct capture *c, struct error *error)
{
	for (size_t i = 0; i < c->options->pid_count; i++) {
		enum err err = capabilities_may_attach(c->caps, c->options->pids[i], error);

		if (err != ERR_NONE)
			return err;
	}
	return ERR_NONE;
}

static int capture(struct capture *c)
{
	const struct capture_options *o = c->options;
	char program[PATH_MAX];
	struct check_report checks;
	struct error error = {0};
	struct session session;
	enum err err;

	check_build(c->caps, &checks);
	const struct check_item *missing = check_first_missing(&checks);
	if (missing) {
		log_error("%s%s%s", missing->text, missing->fix[0] ? "; fix: " : "", missing->fix);
		return EXIT_CAPTURE_FAILED;
	}
	if (o->command == CAPTURE_RUN) {
		err = child_find(o->program[0], program, sizeof program, &error);
		if (err != ERR_NONE)
			return report(&error, err,
				      err == ERR_NOT_FOUND ? EXIT_NO_PROGRAM : EXIT_CANNOT_RUN);
	}
	err = check_processes(c, &error);
	if (err == ERR_NONE)
		err = output_begin(o->output, command_names[o->command], &c->output, &error);
	if (err != ERR_NONE)
		return report(&error, err, EXIT_CAPTURE_FAILED);
	if (snprintf(c->data_path, sizeof c->data_path, "%s/perf.data", c->output.dir) >=
		    (int)sizeof c->data_path ||
	    snprintf(c->log_path, sizeof c->log_path, "%s/perf.log", c->output.dir) >=
		    (int)sizeof c->log_path)
		err = error_set(&error, ERR_LIMIT, "--output: name too long");
	if (err == ERR_NONE)
		err = session_init(o, &c->collector, &c->bundle, c->data_path, c->log_path,
				   &session, &error);
	if (err != ERR_NONE) {
		output_discard(&c->output);
		return report(&error, err, EXIT_CAPTURE_FAILED);
	}
	int code = record(c, &session, o->command == CAPTURE_RUN ? program : NULL);
	session_done(&session);
	return code;
}

/* "bundle PERF.DATA": the file is copied, the rest is found on this host. */
static int bundle_existing(struct capture *c)
{
	const struct capture_options *o = c->options;
	struct perf_summary summary;
	struct error error = {0};
	enum err err = perf_file_summarize(o->perf_data, &summary, &error);

	if (err != ERR_NONE)
		return report(&error, err, EXIT_CAPTURE_FAILED);
	err = output_begin(o->output, command_names[o->command], &c->output, &error);
	if (err == ERR_NONE)
		err = file_copy_tree(o->perf_data, c->output.dir, "perf.data", &error);
	if (err == ERR_NONE) {
		say_losses(&summary);
		if (summary.aux_bytes == 0)
			log_warn("%s: no Intel PT trace in it", o->perf_data);
		err = finish_bundle(c, &summary, &error);
	}
	if (err != ERR_NONE)
		output_discard(&c->output);
	perf_summary_done(&summary);
	return err == ERR_NONE ? EXIT_SUCCESS : report(&error, err, EXIT_CAPTURE_FAILED);
}

static int run_command(const struct capture_options *o, const struct capabilities *caps)
{
	static struct capture c; /* large */
	int code;

	c.options = o;
	c.caps = caps;
	c.collector.no_binaries = o->no_binaries;
	if (o->command == CAPTURE_CHECK)
		code = run_check(o, caps);
	else if (o->print_command)
		code = print_command(&c);
	else if (o->command == CAPTURE_BUNDLE)
		code = bundle_existing(&c);
	else
		code = capture(&c);
	collector_done(&c.collector);
	bundle_done(&c.bundle);
	arena_done(&c.arena);
	log_finish();
	return code;
}

int main(int argc, char **argv)
{
	struct capture_options options;
	static struct capabilities caps; /* large */
	struct error error = {0};

	log_init("pt-capture", LOG_NORMAL);
	if (options_parse(argc, argv, &options, &error) != ERR_NONE) {
		log_error("%s\nTry 'pt-capture --help'.", error.message);
		return EXIT_USAGE;
	}
	log_init("pt-capture", (enum log_level)options.verbosity);
	if (options.command == CAPTURE_HELP) {
		fputs(options_help, stdout);
		return EXIT_SUCCESS;
	}
	if (options.command == CAPTURE_VERSION) {
		puts("pt-capture " PACKAGE_VERSION);
		return EXIT_SUCCESS;
	}
	capabilities_probe(options.perf, options.system_root, &caps);
	return run_command(&options, &caps);
}
