/* How fast traces are encoded: CPU ns and bytes per slice, on a made-up program.
 *
 *     writer_bench [CALLS [FUNCTIONS]]
 *
 * The tree is a random walk: 30 % of the calls are inlined frames, 3 % enter by a jump,
 * functions are used by Zipf's law as in real programs. Run by scripts/bench-writer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "writer/calls_text.h"
#include "writer/tests/fake.h"
#include "writer/trace_fxt.h"

static uint64_t random_state = 1;

static uint64_t random_below(uint64_t n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % n;
}

/* Small numbers far more often than large ones. */
static uint32_t random_zipf(uint32_t n)
{
	uint64_t limit = 1;

	while (limit < n && random_below(4))
		limit *= 2;
	return (uint32_t)random_below(limit < n ? limit : n);
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void make_thread(struct fake *f, uint32_t calls, uint32_t functions)
{
	enum { DEPTH = 60 };
	struct thread *t = fake_thread(f, fake_task(f, 1, 1, "bench"));
	uint32_t open[DEPTH], depth = 0;
	uint64_t now = 1000;

	for (uint32_t i = 0; i < calls; i++) {
		while (depth > 0 && (depth == DEPTH || random_below(100) < 48))
			t->calls.items[open[--depth]].end_ns = now += random_below(3);
		uint32_t parent = depth ? open[depth - 1] : CALL_NONE, call;
		now += random_below(4);
		if (random_below(10) < 3 && depth) {
			inline_id what = {1 + random_zipf(functions)};

			call = fake_inlined_call(t, parent, what, now, now, 0);
		} else {
			bool tail = random_below(100) < 3 && i > 0;

			call = fake_call(t, parent, 1 + random_zipf(functions), now, now,
					 tail ? CALL_TAIL : 0);
			if (tail &&
			    !vec_push(&t->arrows, ((struct arrow){i - 1, call, ARROW_TAIL_CALL})))
				abort();
		}
		open[depth++] = call;
	}
	while (depth > 0)
		t->calls.items[open[--depth]].end_ns = now;
	fake_segment(t, 1000, now);
	f->trace.start_ns = 1000;
	f->trace.end_ns = now;
}

static void measure(const struct fake *f, const char *path, unsigned threads,
		    const struct fxt_options *options, const char *title)
{
	struct output *output;
	struct fxt_counts counts;
	struct error error = {0};
	double start = cpu_seconds();

	if (output_open(path, OUTPUT_BINARY, threads, &output, &error) != ERR_NONE ||
	    trace_fxt_write(&f->trace, &f->names, options, output, &counts, &error) != ERR_NONE ||
	    output_commit(output, &error) != ERR_NONE) {
		fprintf(stderr, "writer_bench: %s\n", error.message);
		exit(1);
	}
	double ns = (cpu_seconds() - start) * 1e9;
	printf("%-28s %6.1f ns/slice  %5.1f bytes/slice  %5.2f in the file\n", title,
	       ns / (double)counts.slices, (double)counts.bytes / (double)counts.slices,
	       (double)output_bytes(output) / (double)counts.slices);
	output_free(output);
}

int main(int argc, char **argv)
{
	uint32_t calls = argc > 1 ? (uint32_t)atol(argv[1]) : 4000000;
	uint32_t functions = argc > 2 ? (uint32_t)atol(argv[2]) : 5000;
	struct fxt_options basic = {.args = FXT_ARGS_BASIC}, none = {.args = FXT_ARGS_NONE};
	struct fxt_options full = {.args = FXT_ARGS_FULL};
	char name[64], packed[] = "/tmp/writer-bench-XXXXXX.fxt.gz";
	struct fake f;

	fake_init(&f);
	module_id module = fake_module("app");
	for (uint32_t i = 0; i < functions; i++) {
		snprintf(name, sizeof name, "name_space::function_%" PRIu32 "(int, char const*)", i);
		fake_function(name, module, 0x401000 + 64 * (uint64_t)i);
		fake_inlined(name, "file.h", i);
	}
	make_thread(&f, calls, functions);
	int fd = mkstemps(packed, 7);
	measure(&f, "/dev/null", 1, &basic, "basic arguments");
	measure(&f, "/dev/null", 1, &basic, "basic arguments, again");
	measure(&f, "/dev/null", 1, &none, "no arguments");
	measure(&f, "/dev/null", 1, &full, "full arguments");
	measure(&f, packed, 1, &basic, "basic, gzip");
	measure(&f, packed, 2, &basic, "basic, gzip in 2 threads");
	close(fd);
	remove(packed);
	fake_done(&f);
	return 0;
}
