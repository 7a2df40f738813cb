/* See batch.h. */
#include "decode/batch.h"

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/bundle.h"
#include "common/json_text.h"
#include "common/log.h"
#include "common/path.h"
#include "common/vec.h"
#include "decode/pipeline.h"

enum { CAPTURES_MAX = 1000000, NAME_BYTES = 1024 };

enum outcome {
	OUTCOME_WAITING,
	OUTCOME_RUNNING,
	OUTCOME_OK,
	OUTCOME_SKIPPED,
	OUTCOME_LOSS,
	OUTCOME_FAILED
};

struct capture {
	char *path;
	char name[NAME_BYTES]; /* of its results in OUTDIR */
	pid_t pid;
	int from_child;
	double started, seconds;
	enum outcome outcome;
	struct error error;
	double loss_percent;
};

/* What a child says before it ends. */
struct report {
	struct error error;
	double loss_percent;
};

struct batch {
	const struct options *o;
	void (*prepare)(void);
	VEC(struct capture) captures;
};

static double now_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void capture_fail(struct capture *c, const char *why)
{
	error_set(&c->error, ERR_IO, "%s: %s", c->path, why);
	c->outcome = OUTCOME_FAILED;
}

/* ---- the list ---- */

static struct batch *collecting; /* nftw has no context argument */

static bool is_named_as_capture(const char *base)
{
	/* perf.data.old is one, perf.data.fxt.gz and perf.data.json are results. */
	if (strncmp(base, "perf.data", 9) == 0)
		return !strstr(base, ".fxt") && !path_ends_in(base, ".json");
	return path_ends_in(base, ".data") || path_ends_in(base, ".tar.zst");
}

static int collect(const char *path, const struct stat *st, int type, struct FTW *at)
{
	const char *base = path + at->base;
	bool named = is_named_as_capture(base), is_dir = type == FTW_D;
	/* A link that leads nowhere is a capture that cannot be read; a FIFO is none. */
	bool is_file = type == FTW_SLN || (type == FTW_F && S_ISREG(st->st_mode));
	/* A directory is a capture when it is a bundle or perf's directory format. */
	bool is_capture = is_dir ? at->level > 0 && (bundle_is(path) || named) : is_file && named;
	if (is_capture) {
		struct capture c = {.path = strdup(path), .from_child = -1};

		if (!c.path || collecting->captures.count >= CAPTURES_MAX ||
		    !vec_push(&collecting->captures, c)) {
			free(c.path);
			return FTW_STOP;
		}
	}
	return is_dir && is_capture ? FTW_SKIP_SUBTREE : FTW_CONTINUE;
}

static int capture_order(const void *a, const void *b)
{
	const struct capture *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static enum err batch_read_list(struct batch *b, const char *list, struct error *error)
{
	FILE *f = fopen(list, "re");
	char *line = NULL;
	size_t room = 0;
	ssize_t bytes;

	if (!f)
		return error_set(error, ERR_IO, "%s: %s", list, strerror(errno));
	enum err err = ERR_NONE;
	while (err == ERR_NONE && (bytes = getline(&line, &room, f)) >= 0) {
		if (memchr(line, '\0', (size_t)bytes)) {
			err = error_set(error, ERR_FORMAT,
					"%s: not a list of captures, a line each; one capture is "
					"decoded without --batch",
					list);
			break;
		}
		line[strcspn(line, "\r\n")] = '\0';
		if (line[0] == '\0' || line[0] == '#')
			continue;
		struct capture c = {.path = strdup(line), .from_child = -1};
		if (!c.path || b->captures.count >= CAPTURES_MAX || !vec_push(&b->captures, c)) {
			free(c.path);
			err = ERR_NOMEM;
		}
	}
	free(line);
	fclose(f);
	return err;
}

/* "runs/a/perf.data" below "runs" -> "a-perf.data". */
static void capture_name(struct capture *c, const char *below)
{
	const char *p = c->path;
	size_t length = strlen(below);

	if (strncmp(p, below, length) == 0)
		p += length;
	while (*p == '/' || (*p == '.' && p[1] == '/'))
		p++;
	snprintf(c->name, sizeof c->name, "%s", p);
	for (char *q = c->name; *q; q++)
		if (*q == '/')
			*q = '-';
}

static int capture_name_order(const void *a, const void *b)
{
	const struct capture *const *x = a, *const *y = b;
	int order = strcmp((*x)->name, (*y)->name);

	return order ? order : strcmp((*x)->path, (*y)->path);
}

/* The report would take the place of a capture. */
static enum err batch_check_report(const struct batch *b, struct error *error)
{
	struct stat report;

	if (!b->o->report_junit || stat(b->o->report_junit, &report) != 0)
		return ERR_NONE;
	for (size_t i = 0; i < b->captures.count; i++)
		if (path_is_file(b->captures.items[i].path, &report))
			return error_set(error, ERR_USAGE,
					 "%s: is what is decoded; it would be overwritten",
					 b->o->report_junit);
	return ERR_NONE;
}

/* Of captures whose results would have the same name, only the first is decoded. */
static enum err batch_check_names(struct batch *b)
{
	size_t count = b->captures.count;
	struct capture **by_name = calloc(count, sizeof *by_name);

	if (!by_name)
		return ERR_NOMEM;
	for (size_t i = 0; i < count; i++)
		by_name[i] = &b->captures.items[i];
	qsort(by_name, count, sizeof *by_name, capture_name_order);
	for (size_t i = 1, first = 0; i < count; i++) {
		if (strcmp(by_name[i]->name, by_name[first]->name) == 0)
			capture_fail(by_name[i], "its results would have the same names as those "
						 "of another capture; rename it");
		else
			first = i;
	}
	free(by_name);
	return ERR_NONE;
}

static enum err batch_list(struct batch *b, struct error *error)
{
	const char *from = b->o->batch;
	struct stat st;
	enum err err = ERR_NONE;

	if (stat(from, &st) != 0)
		return error_set(error, ERR_IO, "%s: %s", from, strerror(errno));
	if (S_ISDIR(st.st_mode)) {
		collecting = b;
		if (nftw(from, collect, 32, FTW_ACTIONRETVAL) != 0)
			err = error_set(error, ERR_IO, "%s: cannot list it", from);
	} else {
		err = batch_read_list(b, from, error);
	}
	if (err != ERR_NONE)
		return err;
	if (b->captures.count)
		qsort(b->captures.items, b->captures.count, sizeof *b->captures.items,
		      capture_order);
	for (size_t i = 0; i < b->captures.count; i++)
		capture_name(&b->captures.items[i], S_ISDIR(st.st_mode) ? from : "");
	if (b->captures.count && batch_check_names(b) != ERR_NONE)
		return ERR_NOMEM;
	size_t kept = 0;
	for (size_t i = 0; i < b->captures.count; i++) {
		struct capture *c = &b->captures.items[i];

		if (b->o->shard_count && i % b->o->shard_count != b->o->shard_index) {
			free(c->path);
			continue;
		}
		b->captures.items[kept++] = *c;
	}
	b->captures.count = kept;
	if (kept == 0 && b->o->shard_count == 0)
		return error_set(error, ERR_NOT_FOUND, "%s: no captures in it", from);
	return ERR_NONE;
}

/* ---- one capture ---- */

static void result_path(char *out, const struct batch *b, const struct capture *c,
			const char *suffix)
{
	snprintf(out, PATH_MAX, "%s/%.*s%s", b->o->output, NAME_BYTES, c->name, suffix);
}

static enum outcome outcome_of_loss(const struct batch *b, const struct capture *c,
				    enum outcome otherwise)
{
	return b->o->max_loss_percent >= 0 && c->loss_percent > b->o->max_loss_percent
		       ? OUTCOME_LOSS
		       : otherwise;
}

/* Of what was done before. */
static double capture_known_loss(const struct batch *b, const struct capture *c)
{
	char stats[PATH_MAX];

	result_path(stats, b, c, ".json");
	json_t *json = json_load_file(stats, 0, NULL);
	double percent = json_number_value(json_object_get(json, "loss_percent"));
	json_decref(json);
	return percent;
}

static bool capture_is_done(const struct batch *b, const struct capture *c)
{
	char trace[PATH_MAX], stats[PATH_MAX];
	struct stat input, output, json;

	result_path(trace, b, c, ".fxt.gz");
	result_path(stats, b, c, ".json");
	return stat(c->path, &input) == 0 && stat(trace, &output) == 0 && stat(stats, &json) == 0 &&
	       output.st_mtime >= input.st_mtime && json.st_mtime >= input.st_mtime;
}

static void capture_child(const struct batch *b, const struct capture *c, int to_parent)
{
	char trace[PATH_MAX], stats[PATH_MAX];
	struct options o = *b->o;
	struct pipeline_result result = {0};
	struct report report = {0};
	const char *inputs[1] = {c->path};

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	b->prepare();
	if (b->o->verbosity <= 0) /* the statistics say it */
		log_init("pt-decode", LOG_QUIET);
	result_path(trace, b, c, ".fxt.gz");
	result_path(stats, b, c, ".json");
	o.inputs.items = inputs;
	o.inputs.count = 1;
	o.output = trace;
	o.stats = stats;
	o.jobs = 1;
	o.verbosity = -1; /* no progress, no summary */
	o.progress = false;
	enum err err = pipeline_run(&o, &result, &report.error);
	if (err != ERR_NONE && report.error.code == ERR_NONE)
		error_set(&report.error, err, "%s", error_name(err));
	report.loss_percent = result.loss_percent;
	ssize_t written = write(to_parent, &report, sizeof report);
	_exit(written == sizeof report ? 0 : 1);
}

static void capture_start(const struct batch *b, struct capture *c)
{
	int fds[2];

	if (c->outcome == OUTCOME_FAILED)
		return;
	c->started = now_seconds();
	if (capture_is_done(b, c)) {
		c->loss_percent = capture_known_loss(b, c);
		c->outcome = outcome_of_loss(b, c, OUTCOME_SKIPPED);
		return;
	}
	if (pipe(fds) != 0) {
		capture_fail(c, strerror(errno));
		return;
	}
	fflush(stdout);
	c->pid = fork();
	if (c->pid == 0) {
		close(fds[0]);
		capture_child(b, c, fds[1]);
	}
	close(fds[1]);
	if (c->pid < 0) {
		close(fds[0]);
		capture_fail(c, strerror(errno));
		return;
	}
	c->from_child = fds[0];
	c->outcome = OUTCOME_RUNNING;
}

static void capture_end(const struct batch *b, struct capture *c, int wait_status)
{
	struct report report;
	char why[64];

	c->seconds = now_seconds() - c->started;
	if (read(c->from_child, &report, sizeof report) != sizeof report) {
		if (WIFSIGNALED(wait_status))
			snprintf(why, sizeof why, "the decoder was killed by signal %d",
				 WTERMSIG(wait_status));
		else
			snprintf(why, sizeof why, "the decoder ended without a result");
		capture_fail(c, why);
	} else {
		c->error = report.error;
		c->loss_percent = report.loss_percent;
		c->outcome = c->error.code != ERR_NONE ? OUTCOME_FAILED
						       : outcome_of_loss(b, c, OUTCOME_OK);
	}
	close(c->from_child);
	c->from_child = -1;
}

/* ---- telling ---- */

static void capture_print(const struct batch *b, const struct capture *c)
{
	static const char *const words[] = {[OUTCOME_OK] = "ok",
					    [OUTCOME_SKIPPED] = "done before",
					    [OUTCOME_LOSS] = "too much lost",
					    [OUTCOME_FAILED] = "failed"};
	char trace[PATH_MAX];
	json_t *line = json_object();

	result_path(trace, b, c, ".fxt.gz");
	json_object_set_new(line, "input", json_text(c->path));
	json_object_set_new(line, "outcome", json_string(words[c->outcome]));
	if (c->outcome == OUTCOME_FAILED)
		json_object_set_new(line, "error", json_text(c->error.message));
	else
		json_object_set_new(line, "output", json_text(trace));
	if (c->outcome == OUTCOME_OK || c->outcome == OUTCOME_LOSS) {
		json_object_set_new(line, "loss_percent", json_real(c->loss_percent));
		json_object_set_new(line, "seconds", json_real(c->seconds));
	}
	json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	putchar('\n');
	fflush(stdout);
	json_decref(line);
}

static void xml_text(FILE *f, const char *any)
{
	json_t *valid = json_text(any); /* UTF-8 */
	const char *text = json_string_value(valid);

	for (; text && *text; text++)
		switch (*text) {
		case '<': fputs("&lt;", f); break;
		case '>': fputs("&gt;", f); break;
		case '&': fputs("&amp;", f); break;
		case '"': fputs("&quot;", f); break;
		default: fputc((unsigned char)*text < 0x20 ? ' ' : *text, f);
		}
	json_decref(valid);
}

static enum err batch_junit(const struct batch *b, struct error *error)
{
	const char *path = b->o->report_junit;
	size_t failures = 0;
	FILE *f = fopen(path, "we");

	if (!f)
		return error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	for (size_t i = 0; i < b->captures.count; i++)
		failures += b->captures.items[i].outcome >= OUTCOME_LOSS;
	fprintf(f,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuite name=\"pt-decode\" tests=\"%zu\" failures=\"%zu\">\n",
		b->captures.count, failures);
	for (size_t i = 0; i < b->captures.count; i++) {
		const struct capture *c = &b->captures.items[i];

		fputs("  <testcase name=\"", f);
		xml_text(f, c->path);
		fprintf(f, "\" time=\"%.3f\"", c->seconds);
		if (c->outcome == OUTCOME_FAILED) {
			fputs("><failure message=\"", f);
			xml_text(f, c->error.message);
			fputs("\"/></testcase>\n", f);
		} else if (c->outcome == OUTCOME_LOSS) {
			fprintf(f,
				"><failure message=\"%.3f %% of the traced time is "
				"lost\"/></testcase>\n",
				c->loss_percent);
		} else {
			fputs("/>\n", f);
		}
	}
	fputs("</testsuite>\n", f);
	if (ferror(f) | fclose(f))
		return error_set(error, ERR_IO, "%s: cannot write", path);
	return ERR_NONE;
}

/* ---- the whole ---- */

static void batch_wait_one(struct batch *b, size_t *running)
{
	int wait_status = 0;
	pid_t pid = wait(&wait_status);

	for (size_t i = 0; i < b->captures.count; i++) {
		struct capture *c = &b->captures.items[i];

		if (c->outcome != OUTCOME_RUNNING || (pid > 0 && c->pid != pid))
			continue;
		capture_end(b, c, wait_status);
		capture_print(b, c);
		(*running)--;
	}
}

enum err batch_run(const struct options *o, void (*prepare)(void), int *status, struct error *error)
{
	struct batch b = {.o = o, .prepare = prepare};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t at_once = o->jobs ? o->jobs : cpus > 0 ? (size_t)cpus : 1, running = 0;
	enum err err = batch_list(&b, error);

	if (err == ERR_NONE)
		err = batch_check_report(&b, error);
	if (err == ERR_NONE && mkdir(o->output, 0777) != 0 && errno != EEXIST)
		err = error_set(error, ERR_IO, "%s: %s", o->output, strerror(errno));
	for (size_t i = 0; err == ERR_NONE && i < b.captures.count; i++) {
		struct capture *c = &b.captures.items[i];

		if (running == at_once)
			batch_wait_one(&b, &running);
		capture_start(&b, c);
		running += c->outcome == OUTCOME_RUNNING;
		if (c->outcome != OUTCOME_RUNNING)
			capture_print(&b, c);
	}
	while (running > 0)
		batch_wait_one(&b, &running);
	if (err == ERR_NONE && o->report_junit)
		err = batch_junit(&b, error);
	int worst = 0;
	for (size_t i = 0; i < b.captures.count; i++) {
		enum outcome outcome = b.captures.items[i].outcome;

		if (outcome == OUTCOME_FAILED)
			worst = 1;
		else if (outcome == OUTCOME_LOSS && worst == 0)
			worst = 3;
		free(b.captures.items[i].path);
	}
	vec_done(&b.captures);
	*status = worst;
	return err;
}
