/* The decoder on recordings of others, where a checkout of them lies beside ours: real Intel
 * captures, and recorded programs whose branches are known. Skipped elsewhere. */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/map64.h"
#include "decode/dump_edges.h"
#include "decode/perfdata.h"

static void find_case(const char *name, char *path, size_t bytes)
{
	const char *top = getenv("top_srcdir");

	snprintf(path, bytes, "%s/../shared/cases/%s", top ? top : ".", name);
	if (access(path, R_OK) != 0)
		cr_skip_test("no %s", path);
}

/* The edges of DIR/FILE, code below DIR/SYMFS. The caller frees them. */
static char *edges_of(const char *dir, const char *file, const char *symfs,
		      enum dump_edges_engine engine)
{
	char path[512], files[512], *text = NULL;
	const char *paths[] = {path};
	struct symbolizer_options options = {.symfs = files};
	struct symbolizer *symbolizer;
	struct perfdata perfdata;
	struct sideband sideband = {0};
	struct error error = {0};
	struct dump_edges_options how = {.engine = engine};
	size_t length;

	snprintf(path, sizeof path, "%s/%s", dir, file);
	snprintf(files, sizeof files, "%s/%s", dir, symfs);
	cr_assert_eq(symbolizer_new(&options, &symbolizer, &error), ERR_NONE);
	cr_assert_eq(perfdata_open(&perfdata, paths, 1, &error), ERR_NONE, "%s", error.message);
	cr_assert_eq(sideband_read(&perfdata, symbolizer, &sideband, &error), ERR_NONE, "%s",
		     error.message);
	FILE *out = open_memstream(&text, &length);
	cr_assert_eq(dump_edges(&sideband, symbolizer, &how, out, NULL, &error), ERR_NONE, "%s",
		     error.message);
	fclose(out);
	sideband_done(&sideband);
	perfdata_done(&perfdata);
	symbolizer_free(symbolizer);
	return text;
}

static size_t count_lines(const char *text, const char *start, const char *without)
{
	size_t count = 0;

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		size_t length = strcspn(line, "\n");
		if (strncmp(line, start, strlen(start)) == 0 &&
		    !(without && memmem(line, length, without, strlen(without))))
			count++;
	}
	return count;
}

/* In LLDB's multi-file capture ld.so is missing. The TNT bit of bar's return to foo stands in
 * front of the TIP that enters bar; perf lets bar return to main. */
Test(shared_edges, deferred_tip_behind_missing_code)
{
	char dir[512];

	find_case("real/lldb-multifile", dir, sizeof dir);
	char *text = edges_of(dir, "x.perf.data", "symfs", DUMP_EDGES_FAST);
	cr_expect_not_null(
		strstr(text, "return                     7ffff79d76aa =>     7ffff7bd96ed"));
	cr_expect_not_null(
		strstr(text, "return                     7ffff7bd9703 =>           400674"));
	cr_expect_eq(count_lines(text, "815455 ", NULL), 30);
	free(text);
}

/* Two CPUs, hundreds of switches, other processes whose code is not there. */
Test(shared_edges, threads_of_two_cpus)
{
	char dir[512];

	find_case("real/lldb-multicore", dir, sizeof dir);
	char *text = edges_of(dir, "x.perf.data", "symfs", DUMP_EDGES_FAST);
	cr_expect_eq(count_lines(text, "3497497 ", NULL), 12367);
	cr_expect_eq(count_lines(text, "3497496 ", NULL), 3906);
	free(text);
}

Test(shared_edges, faults_and_syscalls_only)
{
	char dir[512];

	find_case("real/dynamorio", dir, sizeof dir);
	char *text = edges_of(dir, "x.perf.data", "symfs", DUMP_EDGES_FAST);
	cr_expect_eq(count_lines(text, "223991 ", NULL), 6);
	cr_expect_eq(count_lines(text, "223991 1385530.5640", NULL), 6);
	free(text);
}

/* Every edge of a recording with a fault is one that really was taken somewhere, but for the
 * points at which the trace is entered again. */
static void expect_no_wrong_edges(const char *name)
{
	char dir[512], path[560], line[1024];
	struct map64 truth = {0};

	find_case(name, dir, sizeof dir);
	snprintf(path, sizeof path, "%s/truth.txt.gz", dir);
	gzFile in = gzopen(path, "rb");
	cr_assert_not_null(in);
	while (gzgets(in, line, sizeof line)) {
		uint64_t from, to;
		char kind[32];

		if (sscanf(line, "%*d %*u %*d %31s %" SCNx64 " %" SCNx64, kind, &from, &to) == 3)
			cr_assert(map64_set(&truth, from * 31 + to, 1));
	}
	gzclose(in);
	char *text = edges_of(dir, "perf.data", "../symfs", DUMP_EDGES_FAST);
	size_t edges = 0, wrong = 0;
	for (char *at = text, *next; at && *at; at = next) {
		next = strchr(at, '\n');
		if (next)
			*next++ = '\0';
		const char *arrow = strstr(at, " => ");
		if (!arrow || strstr(at, "tr strt"))
			continue;
		uint64_t from = strtoull(arrow - 16, NULL, 16), to = strtoull(arrow + 4, NULL, 16);
		edges++;
		wrong += map64_get(&truth, from * 31 + to) == MAP64_NONE;
	}
	cr_expect_gt(edges, 1000);
	cr_expect_eq(wrong, 0, "%zu of %zu", wrong, edges);
	free(text);
	map64_done(&truth);
}

Test(shared_edges, missing_bytes)
{
	expect_no_wrong_edges("synth/fault-drop");
}

Test(shared_edges, missing_bytes_behind_a_full_ring)
{
	expect_no_wrong_edges("synth/fault-drop-trunc");
}

Test(shared_edges, corrupt_bytes)
{
	expect_no_wrong_edges("synth/fault-corrupt");
}

Test(shared_edges, missing_library)
{
	expect_no_wrong_edges("synth/fault-nomap");
}

Test(shared_edges, overflows)
{
	expect_no_wrong_edges("synth/fault-ovf");
}

/* Both engines, line by line; times differ. */
Test(shared_edges, engines_agree)
{
	static const char *const names[] = {"basic",           "cxx-exceptions", "deep-recursion",
					    "retskip",         "signals",        "coroutines",
					    "snapshot-overlap"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char dir[512], name[64];

		snprintf(name, sizeof name, "synth/%s", names[i]);
		find_case(name, dir, sizeof dir);
		char *ours = edges_of(dir, "perf.data", "../symfs", DUMP_EDGES_FAST);
		char *theirs = edges_of(dir, "perf.data", "../symfs", DUMP_EDGES_LIBIPT);
		size_t line = 0;
		const char *a = ours, *b = theirs;
		bool same = true;
		while (same && a && b && a[1] && b[1]) {
			const char *x = strchr(a, ':'), *y = strchr(b, ':');

			cr_assert(x && y);
			same = strcspn(x, "\n") == strcspn(y, "\n") &&
			       memcmp(x, y, strcspn(x, "\n")) == 0;
			a = strchr(x, '\n');
			b = strchr(y, '\n');
			line++;
		}
		cr_expect(same && a && b && strcmp(a, b) == 0, "%s: line %zu: %.70s / %.70s",
			  names[i], line, a, b);
		free(ours);
		free(theirs);
	}
}
