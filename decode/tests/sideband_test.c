#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "decode/dump_sideband.h"
#include "decode/perfdata.h"
#include "decode/tests/sideband_stream.h"

static struct builder b;
static struct perfdata file;
static struct symbolizer *symbolizer;
static struct sideband s;
static char *text; /* the dump */

static void start(void)
{
	memset(&b, 0, sizeof b);
	stream_start(&b);
}

static void stop(void)
{
	free(text);
	text = NULL;
	sideband_done(&s);
	symbolizer_free(symbolizer);
	perfdata_done(&file);
	build_done(&b);
}

TestSuite(sideband, .init = start, .fini = stop);

static enum err read_back(struct error *error)
{
	struct symbolizer_options options = {.symfs = "/nonexistent"};
	char path[64];
	const char *paths[] = {path};

	stream_end(&b);
	build_save(&b, path);
	cr_assert_eq(perfdata_open(&file, paths, 1, error), ERR_NONE, "%s", error->message);
	unlink(path);
	cr_assert_eq(symbolizer_new(&options, &symbolizer, error), ERR_NONE);
	return sideband_read(&file, symbolizer, &s, error);
}

static void read_and_dump(void)
{
	struct error error = {0};
	size_t bytes;

	cr_assert_eq(read_back(&error), ERR_NONE, "%s", error.message);
	FILE *out = open_memstream(&text, &bytes);
	cr_assert_eq(dump_sideband(&s, symbolizer, out, &error), ERR_NONE);
	fclose(out);
}

/* Each line must occur in the dump, in this order. */
static void expect_lines(const char *lines)
{
	const char *at = text;

	for (const char *line = lines; *line;) {
		size_t length = strcspn(line, "\n");
		char wanted[256];

		length += line[length] == '\n';
		snprintf(wanted, sizeof wanted, "%.*s", (int)length, line);
		const char *found = strstr(at, wanted);
		cr_expect_not_null(found, "not there, or not in this place: %s in\n%s", wanted,
				   text);
		at = found ? found + length : at;
		line += length;
	}
}

static uint32_t module_build_id(int32_t pid, uint64_t time_ns, uint64_t ip)
{
	space_id space = sideband_space_at(&s, pid, time_ns);
	const struct mapping *m = space_find(&s.spaces.items[space.v], ip);

	cr_assert_not_null(m);
	const struct module *module = symbolizer_module_get(symbolizer, m->module);
	return module->build_id_bytes ? module->build_id[0] : 0;
}

#define KERNEL ((struct who){-1, 0, 0, 0})

static struct who by(int32_t tid, uint32_t cpu, uint64_t time_ns)
{
	return (struct who){7, tid, cpu, time_ns};
}

/* The records of CPU 1 stand behind all of CPU 0 in the file. */
Test(sideband, two_cpus_in_file_order)
{
	stream_info(&b, 0);
	stream_comm(&b, by(7, 0, 0), 7, 7, "sh", false);
	stream_mmap(&b, by(7, 0, 0), 7, 0x1000, 0x1000, 0, "/bin/sh", 0);
	stream_build_id(&b, "/bin/sh", 0x11);
	stream_switch(&b, by(7, 0, 100), false, 0);
	stream_task(&b, RECORD_FORK, by(7, 0, 110), 8, 7, 8, 7);
	stream_switch(&b, by(7, 0, 150), true, 0);
	stream_mmap(&b, (struct who){7, 7, 0, 300}, 7, 0x1000, 0x1000, 0, "/bin/other", 0x33);
	stream_switch(&b, (struct who){8, 8, 1, 120}, false, 0);
	stream_comm(&b, (struct who){8, 8, 1, 130}, 8, 8, "ls", true);
	stream_mmap(&b, (struct who){8, 8, 1, 131}, 8, 0x1000, 0x1000, 0, "/bin/ls", 0x22);
	stream_task(&b, RECORD_EXIT, (struct who){8, 8, 1, 200}, 8, 7, 8, 7);
	read_and_dump();
	expect_lines("task 1 7/7 start .. end\n"
		     "task 2 8/8 0.000000110 .. 0.000000200 exited forked from task 1\n"
		     "comm task 1 start sh\n"
		     "comm task 2 0.000000110 sh\n"
		     "comm task 2 0.000000130 ls exec\n"
		     "runs 7 from start in space 2\n"
		     "runs 7 from 0.000000300 in space 4\n"
		     "runs 8 from 0.000000110 in space 2\n"
		     "runs 8 from 0.000000130 in space 3\n"
		     "switch 7/7 sh 0.000000100 in cpu 0\n"
		     "switch 7/7 sh 0.000000150 out cpu 0\n"
		     "switch 8/8 sh 0.000000120 in cpu 1\n");
	cr_expect_eq(module_build_id(7, 200, 0x1800), 0x11, "by the path, from the table");
	cr_expect_eq(module_build_id(7, 300, 0x1800), 0x33);
	cr_expect_eq(module_build_id(8, 125, 0x1800), 0x11, "inherited by fork");
	cr_expect_eq(module_build_id(8, 140, 0x1800), 0x22);
	cr_expect_eq(s.first_ns, 100);
	cr_expect_eq(s.last_ns, 300);
	cr_expect_eq(s.counts.by_type[RECORD_MMAP2], 3);
	cr_expect(s.has_switches);
}

/* --tail-synthesize: what stands behind timed records without a time describes the end. */
Test(sideband, synthesized_at_the_end)
{
	stream_mmap(&b, by(7, 0, 50), 7, 0x1000, 0x1000, 0, "/lib/old", 0);
	stream_mmap(&b, by(7, 0, 90), 7, 0x9000, 0x1000, 0, "/lib/more", 0);
	stream_mmap(&b, by(7, 0, 0), 7, 0x1000, 0x1000, 0, "/lib/new", 0);
	stream_mmap(&b, by(9, 0, 0), 9, 0x1000, 0x1000, 0, "/lib/only", 0);
	read_and_dump();
	expect_lines("runs 7 from start in space 2\n"
		     "runs 7 from 0.000000090 in space 3\n"
		     "runs 9 from start in space 4\n");
}

/* Each file of a --switch-output series begins with what perf synthesizes. */
Test(sideband, synthesized_again)
{
	for (int file_of_series = 0; file_of_series < 2; file_of_series++) {
		stream_comm(&b, by(7, 0, 0), 7, 7, "server", false);
		stream_task(&b, RECORD_FORK, by(7, 0, 0), 7, 7, 8, 7);
		stream_comm(&b, by(7, 0, 0), 7, 8, "worker", false);
		stream_mmap(&b, by(7, 0, 0), 7, 0x1000, 0x1000, 0, "/bin/server", 0);
		stream_switch(&b, by(8, 0, 50), false, 0);
		stream_switch(&b, by(8, 0, 60), true, 0);
	}
	read_and_dump();
	cr_expect_eq(s.tasks.count, 3);
	cr_expect_eq(s.task_names.count, 2);
	cr_expect_eq(s.spaces.count, 3);
	expect_lines("task 1 7/7 start .. end\n"
		     "task 2 7/8 start .. end\n");
}

Test(sideband, kinds_of_mappings)
{
	stream_mmap(&b, KERNEL, -1, 0xffffffff81000000, 0x1000000, 0xffffffff81000000,
		    "[kernel.kallsyms]_text", 0);
	stream_mmap(&b, by(7, 0, 0), 7, 0x1000, 0x1000, 0, "[vdso]", 0);
	stream_mmap(&b, by(7, 0, 0), 7, 0x2000, 0x1000, 0, "//anon", 0);
	stream_mmap(&b, by(7, 0, 0), 7, 0x3000, 0x1000, 0, "[uprobes]", 0);
	stream_mmap(&b, by(7, 0, 0), 7, 0x4000, 0x1000, 0, "/memfd:x (deleted)", 0);
	stream_ksymbol(&b, by(7, 0, 40), 0xffffffffc0001000, 0x100, false, "bpf_prog_x");
	stream_ksymbol(&b, by(7, 0, 80), 0xffffffffc0001000, 0x100, true, "bpf_prog_x");
	stream_text_poke(&b, by(7, 0, 60), 0xffffffff81000010, 0xe9);
	read_and_dump();
	expect_lines("map 1 0xffffffff81000000-0xffffffff82000000 @ 0xffffffff81000000 since start "
		     "kernel "
		     "[kernel.kallsyms]_text (not found)\n"
		     "map 1 0xffffffffc0001000-0xffffffffc0001100 @ 0xffffffffc0001000 since "
		     "0.000000040 "
		     "kernel [kernel.kallsyms] (not found)\n"
		     "map 2 0x1000-0x2000 @ 0x0 since start vdso [vdso] (not found)\n"
		     "map 2 0x2000-0x3000 @ 0x0 since start anonymous //anon (anonymous)\n"
		     "map 2 0x3000-0x4000 @ 0x0 since start uprobes [uprobes] (anonymous)\n"
		     "map 2 0x4000-0x5000 @ 0x0 since start /memfd:x (deleted)");
	cr_assert_eq(s.text_pokes.count, 1);
	cr_expect_eq(s.text_pokes.items[0].bytes[0], 0xe9);
}

Test(sideband, buffers_switches_and_losses)
{
	static const uint8_t zeros[64];

	stream_info(&b, 0);
	stream_auxtrace(&b, 0, 1, -1, 0, 900, zeros, 16);
	stream_auxtrace(&b, 0, 1, -1, 32, 900, zeros, 16);
	stream_itrace_start(&b, by(7, 1, 10));
	stream_switch(&b, by(7, 1, 10), false, -1);
	stream_switch(&b, by(7, 1, 20), true, -1);
	stream_aux(&b, by(7, 1, 20), 0, 8, 1);
	stream_lost(&b, by(7, 1, 25), 3);
	stream_switch(&b, by(9, 1, 30), false, -1);
	read_and_dump();
	expect_lines("config cpu unknown 0/0/0 tsc 1 mtc 1 period 0 cyc 0 ctc 2/1 nominal 20 user "
		     "kernel per-cpu\n"
		     "clock yes shift 0 mult 1 zero 0\n"
		     "cpu 1 start 7/7 ?\n"
		     "cpu 1 0.000000030 7/9 ?\n"
		     "buffer 0 cpu 1 task - reference 0x384 switches 2\n"
		     "extent 0x0 bytes 0x10\n"
		     "extent 0x20 bytes 0x10\n"
		     "cut 0x8 aux truncated at 0.000000020 lost 0\n"
		     "cut 0x20 aux lost at ? lost 16\n"
		     "known 0x0-0x30 start .. end\n"
		     "loss 0.000000020 .. 0.000000025 cpu 1 7/7 ? sideband lost 3\n");
}

/* A record of a round may be as old as the end of the round before the last, and one that was
 * lost in the file is known to be from before the end of the round after its own. */
Test(sideband, records_lost_in_the_file)
{
	size_t damaged = 0;

	stream_info(&b, 0);
	for (uint64_t round = 1; round <= 6; round++) {
		stream_switch(&b, by(7, 1, 100 * round), false, -1);
		if (round == 3)
			damaged = b.out.count;
		stream_switch(&b, by(7, 1, 100 * round + 50), true, -1);
		build_record_start(&b, RECORD_FINISHED_ROUND, 0);
		build_record_end(&b);
	}
	b.out.items[damaged + 6] = 1;
	read_and_dump();
	expect_lines("loss 0.000000150 .. 0.000000450 cpu -1 ");
	cr_expect_eq(s.losses.count, 1);
	cr_expect_eq(s.counts.by_type[RECORD_SWITCH], 11);
}

Test(sideband, samples_are_events)
{
	const uint64_t chain[] = {(uint64_t)-512, 0x1234, 0x5678};

	stream_info(&b, 0);
	stream_switch(&b, by(7, 1, 10), false, -1);
	stream_sample(&b, by(7, 1, 15), 0x1234, chain, 3);
	stream_sched_switch(&b, by(7, 1, 20), 9, 1);
	read_and_dump();
	expect_lines("event 0.000000015 cpu 1 7/7 ? event ip 0x1234 chain "
		     "0xfffffffffffffe00,0x1234,0x5678\n"
		     "event 0.000000020 cpu 1 7/7 ? ");
	cr_expect_eq(s.instants.count, 2, "with switch records a tracepoint is just an event");
}

Test(sideband, switches_by_tracepoint)
{
	static const uint8_t zeros[64];

	stream_info(&b, 0);
	stream_auxtrace(&b, 0, 1, -1, 0, 900, zeros, 16);
	stream_sched_switch(&b, by(7, 1, 20), 9, 0);
	stream_sched_switch(&b, by(9, 1, 30), 0, 1);
	read_and_dump();
	expect_lines("cpu 1 start 7/7 ? (inferred: start .. 0.000000020)\n"
		     "cpu 1 0.000000020 7/9 ?\n"
		     "cpu 1 0.000000030 -\n"
		     "switch 7/7 ? 0.000000020 out cpu 1 preempted\n"
		     "switch 7/9 ? 0.000000020 in cpu 1\n"
		     "switch 7/9 ? 0.000000030 out cpu 1\n");
	cr_expect(s.has_switches);
	cr_expect_eq(s.instants.count, 0);
}

Test(sideband, aux_samples_make_buffers)
{
	static const uint8_t zeros[64];

	stream_info(&b, 0);
	stream_aux_sample(&b, by(7, 1, 20), zeros, 64);
	read_and_dump();
	cr_assert_eq(s.buffers.count, 1);
	cr_expect_eq(s.buffers.items[0].cpu, 1);
	cr_expect_eq(s.buffers.items[0].extents.items[0].bytes, 64);
	cr_expect_eq(s.buffers.items[0].known.items[0].until_ns, 20);
}

Test(sideband, another_kind_of_trace_is_named)
{
	struct error error = {0};

	build_record_start(&b, RECORD_AUXTRACE_INFO, 0);
	build_u32(&b, 4);
	build_u32(&b, 0);
	build_u64(&b, 0);
	build_record_end(&b);
	cr_expect_eq(read_back(&error), ERR_UNSUPPORTED);
	cr_expect_not_null(strstr(error.message, "Arm SPE"), "%s", error.message);
}

static enum loss unseen(uint32_t task, uint64_t from_ns, uint64_t until_ns)
{
	return sideband_unseen(&s, (task_id){task}, from_ns, until_ns);
}

/* Rings of two CPUs that hold [100, 200) and [150, 200), in two snapshots; the thread moves between them. */
Test(sideband, unseen_stays)
{
	for (int32_t cpu = 0; cpu < 2; cpu++) {
		struct aux_interval known = {.from_ns = cpu ? 150 : 100, .until_ns = 165};
		struct aux_interval next = {.from_ns = 165, .until_ns = 200};

		cr_assert(vec_push(&s.buffers, ((struct aux_buffer){.cpu = cpu})));
		cr_assert(vec_push(&s.buffers.items[cpu].known, known));
		cr_assert(vec_push(&s.buffers.items[cpu].known, next));
	}
	static const struct task_switch switches[] = {
		{.time_ns = 100, .task = {3}, .cpu = 0, .in = true},
		{.time_ns = 110, .task = {3}, .cpu = 0},
		{.time_ns = 120, .task = {3}, .cpu = 1, .in = true},
		{.time_ns = 130, .task = {3}, .cpu = 1},
		{.time_ns = 160, .task = {3}, .cpu = 1, .in = true},
		{.time_ns = 170, .task = {3}, .cpu = 1},
		{.time_ns = 180, .task = {3}, .cpu = 7, .in = true},
		{.time_ns = 105, .task = {4}, .cpu = 1},
		{.time_ns = 160, .task = {4}, .cpu = 1, .in = true},
	};
	for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
		cr_assert(vec_push(&s.task_switches, switches[i]));
	s.has_switches = true;
	cr_expect_eq(unseen(3, 110, 120), LOSS_NONE, "off all CPUs");
	cr_expect_eq(unseen(3, 105, 115), LOSS_NONE);
	cr_expect_eq(unseen(3, 110, 160), LOSS_OVERWRITTEN, "a stay on CPU 1 that its ring lost");
	cr_expect_eq(unseen(3, 125, 128), LOSS_OVERWRITTEN, "inside that stay");
	cr_expect_eq(unseen(3, 130, 175), LOSS_NONE);
	cr_expect_eq(unseen(3, 170, 190), LOSS_NONE, "CPU 7 has no ring: nothing was traced there");
	cr_expect_eq(unseen(4, 100, 160), LOSS_OVERWRITTEN, "it ran until its first OUT");
	cr_expect_eq(unseen(4, 105, 160), LOSS_NONE);
	cr_expect_eq(unseen(4, 170, 210), LOSS_OVERWRITTEN, "after the snapshot");
	struct sideband_loss loss = {.from_ns = 133, .time_ns = 140, .cause = LOSS_DATA_LOST};
	cr_assert(vec_push(&s.losses, loss));
	cr_expect_eq(unseen(3, 130, 160), LOSS_DATA_LOST);
	cr_expect_eq(unseen(3, 140, 160), LOSS_NONE);
}
