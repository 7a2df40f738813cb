/* The sideband of recorded cases against what is known of them; skipped where they are absent. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "decode/perfdata.h"
#include "decode/sideband.h"

static struct perfdata file;
static struct symbolizer *symbolizer;
static struct sideband s;

/* The path of a file of a case; false = not here. */
static bool case_path(const char *name, char path[512])
{
	const char *top = getenv("top_srcdir");

	snprintf(path, 512, "%s/../shared/cases/%s", top ? top : ".", name);
	return access(path, R_OK) == 0;
}

static bool open_case(const char *name)
{
	struct symbolizer_options options = {.symfs = "/nonexistent"};
	struct error error = {0};
	char path[512];
	const char *paths[] = {path};

	if (!case_path(name, path))
		return false;
	memset(&s, 0, sizeof s);
	cr_assert_eq(perfdata_open(&file, paths, 1, &error), ERR_NONE, "%s", error.message);
	cr_assert_eq(symbolizer_new(&options, &symbolizer, &error), ERR_NONE);
	cr_assert_eq(sideband_read(&file, symbolizer, &s, &error), ERR_NONE, "%s", error.message);
	return true;
}

static void close_case(void)
{
	sideband_done(&s);
	symbolizer_free(symbolizer);
	perfdata_done(&file);
}

static bool has_switch(int32_t tid, uint64_t time_ns, int32_t cpu, bool in)
{
	for (size_t i = 0; i < s.task_switches.count; i++) {
		const struct task_switch *t = &s.task_switches.items[i];

		if (s.tasks.items[t->task.v].tid == tid && t->time_ns == time_ns && t->cpu == cpu &&
		    t->in == in)
			return true;
	}
	return false;
}

/* One line of a truth file: "tid time cpu kind ...". Returns true if it was checked. */
static bool check_truth(const char *name, const char *line)
{
	char kind[16], path[256];
	int32_t tid, cpu;
	uint64_t time_ns, start, length, file_off;

	if (sscanf(line, "%" SCNd32 " %" SCNu64 " %" SCNd32 " %15s", &tid, &time_ns, &cpu, kind) !=
	    4)
		return false;
	bool in = strcmp(kind, "switchin") == 0;
	if (in || strcmp(kind, "switchout") == 0) {
		cr_expect(has_switch(tid, time_ns, cpu, in), "%s: %s", name, line);
		return true;
	}
	if (sscanf(line, "%*d %*u %*d mmap %" SCNx64 " %" SCNx64 " %" SCNx64 " %255s", &start,
		   &length, &file_off, path) != 4)
		return false;
	int32_t pid = s.tasks.items[sideband_task_of_tid(&s, tid, time_ns).v].pid;
	space_id space = sideband_space_at(&s, pid, time_ns);
	const struct mapping *m = space_find(&s.spaces.items[space.v], start);
	cr_assert_not_null(m, "%s: %s", name, line);
	cr_expect_str_eq(intern_text(&s.names, m->path), path, "%s: %s", name, line);
	cr_expect_eq(m->start - m->file_off, start - file_off, "%s: %s", name, line);
	return true;
}

Test(sideband_cases, switches_and_mappings_are_the_recorded_ones)
{
	static const char *const cases[] = {"exec",         "fork",           "dlopen",
					    "threads-2cpu", "threads-attach", "threads-preempt",
					    "snapshot-cpu"};
	size_t checked = 0;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char name[64], path[512], line[1024];

		snprintf(name, sizeof name, "synth/%s/perf.data", cases[i]);
		if (!open_case(name))
			cr_skip_test("no recorded cases here");
		snprintf(name, sizeof name, "synth/%s/truth.txt.gz", cases[i]);
		cr_assert(case_path(name, path));
		gzFile truth = gzopen(path, "rb");
		cr_assert_not_null(truth);
		bool has_switches = s.has_switches;
		while (gzgets(truth, line, sizeof line))
			if (has_switches || !strstr(line, "switch"))
				checked += check_truth(cases[i], line);
		gzclose(truth);
		close_case();
	}
	cr_expect_gt(checked, 200);
}

/* Six snapshots were taken; four came with new data, of which one repeats part of another. */
Test(sideband_cases, overlapping_snapshots)
{
	if (!open_case("synth/snapshot-overlap/perf.data"))
		cr_skip_test("no recorded cases here");
	cr_assert_eq(s.buffers.count, 1);
	const struct aux_buffer *b = &s.buffers.items[0];
	cr_assert_eq(b->extents.count, 4);
	/* by the truth file: [32917, 49301) is followed by [34995, 51379) */
	cr_expect_eq(b->extents.items[3].bytes, 51379 - 49301);
	cr_expect_eq(b->cuts.count, 2);
	cr_expect_eq(b->known.count, 4);
	close_case();
}

Test(sideband_cases, lost_switches_are_found)
{
	if (!open_case("synth/fault-lostswitch/perf.data"))
		cr_skip_test("no recorded cases here");
	cr_assert_eq(s.losses.count, 1);
	cr_expect_eq(s.losses.items[0].count, 10);
	/* switched in and out without a record, but its AUX record came */
	uint32_t at = sideband_task_on_cpu(&s, 0, 450001886890000).v;
	cr_expect_eq(s.tasks.items[at].tid, 2630);
	close_case();
}

/* An OUT and an IN record make one switch; quipper's CPU 2 begins with an OUT. */
Test(sideband_cases, real_recordings)
{
	static const struct {
		const char *name;
		size_t tasks, buffers, cpu_switches, inferred;
		uint8_t model;
	} cases[] = {
		{"real/lldb-multicore/x.perf.data", 12, 2, 151, 0, 85},
		{"real/dynamorio/x.perf.data", 2, 1, 1, 0, 85},
		{"real/lldb-multifile/x.perf.data", 2, 1, 0, 0, 79},
		{"real/lldb-single/x2threads.perf.data", 4, 2, 0, 0, 79},
		{"real/quipper/x.perf.data", 15, 2, 77, 1, 78},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t inferred = 0;

		if (!open_case(cases[i].name))
			cr_skip_test("no recorded cases here");
		for (size_t k = 0; k < s.cpu_switches.count; k++)
			inferred += s.cpu_switches.items[k].inferred;
		cr_expect_eq(s.tasks.count, cases[i].tasks, "%s: %zu tasks", cases[i].name,
			     s.tasks.count);
		cr_expect_eq(s.buffers.count, cases[i].buffers, "%s", cases[i].name);
		cr_expect_eq(s.cpu_switches.count, cases[i].cpu_switches, "%s: %zu switches",
			     cases[i].name, s.cpu_switches.count);
		cr_expect_eq(inferred, cases[i].inferred, "%s", cases[i].name);
		cr_expect_eq(s.config.cpu_model, cases[i].model, "%s", cases[i].name);
		close_case();
	}
}
