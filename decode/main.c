/* pt-decode: options in, exit status out. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "decode/batch.h"
#include "decode/options.h"
#include "decode/pipeline.h"
#include "writer/output.h"

enum { EXIT_COMPLETE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_LOSS = 3 };

/* No partial output stays behind, and the parent sees the signal. */
static void on_signal(int signal_number)
{
	output_remove_temporaries();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
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
	static const int fatal[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
	struct sigaction action = {.sa_handler = on_signal};

	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		sigaction(fatal[i], &action, NULL);
	action.sa_handler = on_bus_error;
	sigaction(SIGBUS, &action, NULL);
}

static int fail(const struct error *error)
{
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
	bool too_much = options->max_loss_percent >= 0 &&
			result.loss_percent > options->max_loss_percent;
	if (too_much)
		log_error("%.3f %% of the traced time is lost, more than --max-loss %g",
			  result.loss_percent, options->max_loss_percent);
	pipeline_result_done(&result);
	return too_much ? EXIT_LOSS : EXIT_COMPLETE;
}

int main(int argc, char **argv)
{
	struct options options = {0};
	struct error error = {0};
	int status = EXIT_COMPLETE;

	log_init("pt-decode", LOG_NORMAL);
	if (options_parse(argc, argv, &options, &error) != ERR_NONE) {
		log_error("%s", error.message[0] ? error.message : "out of memory");
		fputs("Try 'pt-decode --help'.\n", stderr);
		return EXIT_USAGE;
	}
	log_init("pt-decode", (enum log_level)(options.verbosity > 2 ? 2 : options.verbosity));
	catch_signals();
	if (options.action == ACTION_HELP)
		fputs(options_help(), stdout);
	else if (options.action == ACTION_VERSION)
		puts(PACKAGE_STRING);
	else if (options.batch && batch_run(&options, &status, &error) != ERR_NONE)
		status = fail(&error);
	else if (!options.batch)
		status = decode(&options);
	if (fflush(stdout) != 0 && status == EXIT_COMPLETE)
		status = EXIT_FAILED;
	options_done(&options);
	return status;
}
