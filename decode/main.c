/* pt-decode: options in, exit status out. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bundle.h"
#include "common/log.h"
#include "decode/batch.h"
#include "decode/options.h"
#include "decode/pipeline.h"
#include "writer/output.h"

enum { EXIT_COMPLETE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_LOSS = 3 };

/* ---- signals ----
 * Those that end a program are taken by a thread of their own, which may do more than a
 * handler might: no partial output stays behind, nor what a bundle was extracted to; then
 * the signal does what it would have done. */

static sigset_t fatal_signals;
static atomic_bool ending;

static void *watch_signals(void *unused)
{
	int number = SIGTERM;

	(void)unused;
	sigwait(&fatal_signals, &number);
	atomic_store(&ending, true);
	bundle_remove_extracted();
	output_remove_temporaries();
	log_status(NULL);
	signal(number, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, &fatal_signals, NULL);
	raise(number);
	return NULL;
}

/* The work may see its files vanish: that is no failure to be told. */
static void wait_if_ending(void)
{
	while (atomic_load(&ending))
		pause();
}

/* A mapped input shrank while it was read. */
static void on_bus_error(int signal_number)
{
	static const char text[] = "pt-decode: an input file was truncated while it was read\n";
	ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);

	(void)ignored;
	(void)signal_number;
	output_remove_temporaries();
	_exit(EXIT_FAILED);
}

static void catch_signals(void)
{
	static const int fatal[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction bus_error = {.sa_handler = on_bus_error}, before;
	pthread_t watcher;

	sigemptyset(&fatal_signals);
	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		/* nohup and background jobs ignore some: so do we. */
		if (sigaction(fatal[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaddset(&fatal_signals, fatal[i]);
	/* Writing says it, too. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigaction(SIGBUS, &bus_error, NULL);
	pthread_sigmask(SIG_BLOCK, &fatal_signals, NULL);
	if (pthread_create(&watcher, NULL, watch_signals, NULL) == 0)
		pthread_detach(watcher);
	else
		pthread_sigmask(SIG_UNBLOCK, &fatal_signals, NULL);
}

/* As in `pt-decode --dump edges x | head`: end silently, as if SIGPIPE were not ignored. */
static void end_if_reader_gone(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	if (poll(&p, 1, 0) == 1 && p.revents & POLLERR) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
}

/* ---- running ---- */

static int fail(const struct error *error)
{
	wait_if_ending();
	if (error->code == ERR_IO)
		end_if_reader_gone();
	log_error("%s", error->message[0] ? error->message : error_name(error->code));
	return error->code == ERR_USAGE ? EXIT_USAGE : EXIT_FAILED;
}

static int decode(const struct options *options)
{
	struct pipeline_result result;
	struct error error = {0};
	enum err err = pipeline_run(options, &result, &error);

	if (err != ERR_NONE) {
		pipeline_result_done(&result);
		return fail(&error);
	}
	if (result.summary && options->verbosity >= 0)
		fputs(result.summary, stderr);
	log_finish();
	bool too_much =
		options->max_loss_percent >= 0 && result.loss_percent > options->max_loss_percent;
	if (too_much)
		log_error("%.3f %% of the traced time is lost, more than --max-loss %g",
			  result.loss_percent, options->max_loss_percent);
	pipeline_result_done(&result);
	return too_much ? EXIT_LOSS : EXIT_COMPLETE;
}

static int batch(const struct options *options)
{
	struct error error = {0};
	int status = EXIT_COMPLETE;

	return batch_run(options, catch_signals, &status, &error) == ERR_NONE ? status
									      : fail(&error);
}

static int print(const char *text)
{
	if (fputs(text, stdout) >= 0 && fflush(stdout) == 0)
		return EXIT_COMPLETE;
	log_error("standard output: cannot write");
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	struct error error = {0};
	int status;

	log_init("pt-decode", LOG_NORMAL);
	if (options_parse(argc, argv, &options, &error) != ERR_NONE) {
		log_error("%s", error.message[0] ? error.message : "out of memory");
		fputs("Try 'pt-decode --help'.\n", stderr);
		return EXIT_USAGE;
	}
	log_init("pt-decode", (enum log_level)(options.verbosity > 2 ? 2 : options.verbosity));
	switch (options.action) {
	case ACTION_HELP: status = print(options_help()); break;
	case ACTION_VERSION: status = print(PACKAGE_STRING "\n"); break;
	default:
		if (options.batch) {
			status = batch(&options);
		} else {
			catch_signals();
			status = decode(&options);
		}
	}
	options_done(&options);
	return status;
}
