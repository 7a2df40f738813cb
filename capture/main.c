/* pt-capture: the composition root. Only here messages are printed and exit codes chosen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/check.h"
#include "capture/options.h"
#include "capture/perf_argv.h"
#include "common/log.h"

enum { EXIT_NOT_READY = 1, EXIT_USAGE = 2, EXIT_CAPTURE_FAILED = 125 };

static int run_check(const struct capture_options *o, const struct capabilities *caps)
{
	struct check_report report;

	check_build(caps, &report);
	char *text = o->json ? check_json(&report) : check_text(&report);
	if (!text) {
		log_error("%s", error_name(ERR_NOMEM));
		return EXIT_CAPTURE_FAILED;
	}
	printf("%s%s", text, o->json ? "\n" : "");
	free(text);
	return report.ready ? EXIT_SUCCESS : EXIT_NOT_READY;
}

static int print_command(const struct capture_options *o, const struct capabilities *caps)
{
	struct perf_target target = {.data_path = "perf.data", .control_fd = 3, .ack_fd = 4};
	char data_path[4096];
	struct arena arena = {0};
	struct perf_argv perf;
	struct error error = {0};
	int status = EXIT_SUCCESS;

	if (o->output && snprintf(data_path, sizeof data_path, "%s/perf.data", o->output) <
				 (int)sizeof data_path)
		target.data_path = data_path;
	enum err err = perf_argv_build(o, caps, &target, 0, &arena, &perf, &error);
	const char *line = err == ERR_NONE ? perf_argv_quoted(&perf, &arena) : NULL;
	if (line) {
		puts(line);
		for (size_t i = 0; i < perf.note_count; i++)
			log_warn("%s", perf.notes[i]);
	} else {
		log_error("%s", error.code ? error.message : error_name(ERR_NOMEM));
		status = EXIT_CAPTURE_FAILED;
	}
	arena_done(&arena);
	return status;
}

static int capture(const struct capture_options *o, const struct capabilities *caps)
{
	struct check_report report;

	check_build(caps, &report);
	const struct check_item *missing = check_first_missing(&report);
	if (missing) {
		log_error("%s%s%s", missing->text, missing->fix[0] ? "; fix: " : "", missing->fix);
		return EXIT_CAPTURE_FAILED;
	}
	log_error("recording is not part of this build");
	(void)o;
	return EXIT_CAPTURE_FAILED;
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
	if (options.command == CAPTURE_CHECK)
		return run_check(&options, &caps);
	if (options.print_command)
		return print_command(&options, &caps);
	return capture(&options, &caps);
}
