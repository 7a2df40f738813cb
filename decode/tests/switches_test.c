#include "decode/switches.h"

#include <criterion/criterion.h>
#include <string.h>

#include "decode/aux.h"

/* One CPU's records, and who runs by them. Tasks are numbered; 0 is idle. */
struct step {
	enum switch_kind kind;
	uint64_t time_ns;
	uint32_t task;
	int other; /* -1 = not told */
};

struct run {
	uint64_t time_ns;
	uint32_t task;
	bool inferred;
	uint64_t earliest_ns, latest_ns; /* of inferred ones */
};

struct story {
	const char *name;
	struct step steps[12];
	struct run runs[8]; /* ends at the first repeated time 0 */
	size_t run_count;
};

static const struct story stories[] = {
	{"all CPUs' switches, complete",
	 {{SWITCH_IN, 10, 1, 0},
	  {SWITCH_SEEN, 15, 1, -1},
	  {SWITCH_OUT, 20, 1, 2},
	  {SWITCH_AUX, 20, 1, -1},
	  {SWITCH_STARTS, 21, 2, -1},
	  {SWITCH_IN, 21, 2, 1},
	  {SWITCH_OUT, 30, 2, 0},
	  {SWITCH_IN, 31, 0, 2}},
	 {{10, 1, 0, 0, 0}, {20, 2, 0, 0, 0}, {30, 0, 0, 0, 0}},
	 3},
	{"the first record is an OUT: it ran before",
	 {{SWITCH_OUT, 20, 1, 2}},
	 {{0, 1, 1, 0, 20}, {20, 2, 0, 0, 0}},
	 2},
	{"the first record is an IN that tells who ran before",
	 {{SWITCH_IN, 20, 2, 1}},
	 {{0, 1, 1, 0, 20}, {20, 2, 0, 0, 0}},
	 2},
	{"own switches only: nobody is traced in between",
	 {{SWITCH_STARTS, 10, 1, -1},
	  {SWITCH_IN, 10, 1, -1},
	  {SWITCH_OUT, 20, 1, -1},
	  {SWITCH_AUX, 20, 1, -1},
	  {SWITCH_IN, 40, 2, -1},
	  {SWITCH_OUT, 50, 2, -1}},
	 {{0, 1, 0, 0, 0}, {40, 2, 0, 0, 0}},
	 2},
	{"an OUT is lost: IN tells",
	 {{SWITCH_IN, 10, 1, 0}, {SWITCH_IN, 30, 2, 1}},
	 {{10, 1, 0, 0, 0}, {30, 2, 0, 0, 0}},
	 2},
	{"OUT and IN are lost: IN tells who came between",
	 {{SWITCH_IN, 10, 1, 0}, {SWITCH_IN, 30, 2, 3}},
	 {{10, 1, 0, 0, 0}, {20, 3, 1, 10, 30}, {30, 2, 0, 0, 0}},
	 3},
	{"an IN is lost: who was named as next is there",
	 {{SWITCH_IN, 10, 1, 0}, {SWITCH_OUT, 20, 1, 2}, {SWITCH_SEEN, 25, 2, -1}},
	 {{10, 1, 0, 0, 0}, {20, 2, 0, 0, 0}},
	 2},
	{"somebody writes while the CPU is thought idle: since it was",
	 {{SWITCH_IN, 10, 1, 0}, {SWITCH_OUT, 20, 1, 0}, {SWITCH_SEEN, 50, 2, -1}},
	 {{10, 1, 0, 0, 0}, {20, 0, 0, 0, 0}, {20, 2, 1, 20, 50}},
	 3},
	{"somebody writes while another is thought to run: at the latest then",
	 {{SWITCH_IN, 10, 1, 0}, {SWITCH_SEEN, 15, 1, -1}, {SWITCH_SEEN, 50, 2, -1}},
	 {{10, 1, 0, 0, 0}, {50, 2, 1, 15, 50}},
	 2},
	{"AUX records end the stays: what follows is the next one's",
	 {{SWITCH_IN, 10, 1, 0},
	  {SWITCH_OUT, 20, 1, 0},
	  {SWITCH_AUX, 20, 1, -1},
	  {SWITCH_IN, 30, 1, 0},
	  {SWITCH_AUX, 40, 1, -1},
	  {SWITCH_AUX, 60, 2, -1},
	  {SWITCH_STARTS, 70, 3, -1}},
	 {{10, 1, 0, 0, 0},
	  {20, 0, 0, 0, 0},
	  {30, 1, 0, 0, 0},
	  {40, 2, 1, 40, 60},
	  {70, 3, 0, 0, 0}},
	 5},
	{"the AUX record after OUT proves nothing, a second one does: all bytes are its own",
	 {{SWITCH_OUT, 20, 1, 2}, {SWITCH_AUX, 20, 1, -1}, {SWITCH_AUX, 30, 1, -1}},
	 {{0, 1, 1, 0, 20}, {20, 2, 0, 0, 0}, {20, 1, 1, 20, 30}},
	 3},
	{"only AUX records at first; a later OUT shows what they mean",
	 {{SWITCH_STARTS, 10, 1, -1},
	  {SWITCH_AUX, 20, 1, -1},
	  {SWITCH_AUX, 30, 2, -1},
	  {SWITCH_OUT, 40, 3, 0},
	  {SWITCH_AUX, 40, 3, -1}},
	 {{0, 1, 0, 0, 0}, {20, 2, 1, 20, 30}, {30, 3, 1, 30, 40}, {40, 0, 0, 0, 0}},
	 4},
	{"who left long ago may have come back",
	 {{SWITCH_OUT, 10, 1, 2}, {SWITCH_IN, 11, 2, 1}, {SWITCH_IN, 30, 3, 1}},
	 {{0, 1, 1, 0, 10}, {10, 2, 0, 0, 0}, {21, 1, 1, 11, 30}, {30, 3, 0, 0, 0}},
	 4},
	{"idle may write, too",
	 {{SWITCH_IN, 10, 1, 0}, {SWITCH_SEEN, 30, 0, -1}},
	 {{10, 1, 0, 0, 0}, {30, 0, 1, 10, 30}},
	 2},
	{"an idle CPU says nothing at first", {{SWITCH_SEEN, 30, 0, -1}}, {{0}}, 0},
};

static struct sideband s;

static void fill(const struct story *story)
{
	struct switch_builder b = {0};

	memset(&s, 0, sizeof s);
	cr_assert(vec_push(&s.buffers, ((struct aux_buffer){.cpu = 6})));
	for (size_t i = 0; i < 12 && story->steps[i].time_ns; i++) {
		const struct step *step = &story->steps[i];
		struct switch_note note = {.time_ns = step->time_ns,
					   .stream_off = UINT64_MAX,
					   .cpu = 6,
					   .task = {step->task},
					   .other = {step->other < 0 ? 0 : (uint32_t)step->other},
					   .has_other = step->other >= 0,
					   .kind = (uint8_t)step->kind};

		cr_assert(switch_add(&b, note));
	}
	cr_assert_eq(switch_finish(&b, &s), ERR_NONE);
	switch_builder_done(&b);
}

Test(switches, stories)
{
	for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
		const struct story *story = &stories[i];

		fill(story);
		cr_expect_eq(s.cpu_switches.count, story->run_count, "%s: %zu switches",
			     story->name, s.cpu_switches.count);
		for (size_t k = 0; k < story->run_count && k < s.cpu_switches.count; k++) {
			const struct cpu_switch *got = &s.cpu_switches.items[k];
			const struct run *want = &story->runs[k];

			cr_expect_eq(got->time_ns, want->time_ns, "%s: time %zu", story->name, k);
			cr_expect_eq(got->task.v, want->task, "%s: task %zu", story->name, k);
			cr_expect_eq(got->inferred, want->inferred, "%s: kind %zu", story->name, k);
			if (!want->inferred)
				continue;
			cr_expect_eq(got->earliest_ns, want->earliest_ns, "%s: %zu", story->name,
				     k);
			cr_expect_eq(got->latest_ns, want->latest_ns, "%s: %zu", story->name, k);
		}
		cr_expect_eq(s.buffers.items[0].last_switch, s.cpu_switches.count);
		sideband_done(&s);
	}
}

/* Whatever is lost, each task's ins and outs on a CPU alternate. */
Test(switches, ins_and_outs_alternate)
{
	for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
		fill(&stories[i]);
		for (size_t k = 1; k < s.task_switches.count; k++) {
			const struct task_switch *a = &s.task_switches.items[k - 1], *b = a + 1;

			if (a->task.v == b->task.v)
				cr_expect_neq(a->in, b->in, "%s: task %u at %llu", stories[i].name,
					      a->task.v, (unsigned long long)b->time_ns);
		}
		sideband_done(&s);
	}
}

Test(switches, in_is_when_it_came_in)
{
	static const struct story story = {
		"",
		{{SWITCH_IN, 10, 1, 0}, {SWITCH_OUT, 20, 1, 2}, {SWITCH_IN, 24, 2, 1}},
		{{0}},
		0};

	fill(&story);
	cr_assert_eq(s.task_switches.count, 3);
	cr_expect_eq(s.task_switches.items[2].task.v, 2);
	cr_expect_eq(s.task_switches.items[2].time_ns, 24);
	cr_expect_eq(s.cpu_switches.items[1].time_ns, 20,
		     "kernel code in between is the next one's");
	cr_expect_eq(sideband_task_on_cpu(&s, 6, 19).v, 1);
	cr_expect_eq(sideband_task_on_cpu(&s, 6, 20).v, 2);
	cr_expect_eq(sideband_task_on_cpu(&s, 6, 9).v, 0);
	cr_expect_eq(sideband_task_on_cpu(&s, 5, 20).v, 0);
	sideband_done(&s);
}

/* A TSC in the bytes of the AUX record tells when the stay really began. */
Test(switches, the_trace_dates_a_lost_switch)
{
	static const uint8_t bytes[64] = {[16] = 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02,
					  0x82,        0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
					  0x02,        0x82, 0x19, 33,   0,    0,    0,
					  0,           0,    0,    0x02, 0x23};
	struct switch_builder b = {0};
	struct switch_note note = {.cpu = 6, .stream_off = UINT64_MAX};

	memset(&s, 0, sizeof s);
	s.clock = (struct clock){.valid = true, .time_mult = 1};
	cr_assert(vec_push(&s.buffers, ((struct aux_buffer){.cpu = 6})));
	struct aux_extent extent = {.stream_off = 1000, .data = bytes, .bytes = sizeof bytes};
	cr_assert(vec_push(&s.buffers.items[0].extents, extent));

	note.kind = SWITCH_IN;
	note.time_ns = 10;
	note.task.v = 1;
	cr_assert(switch_add(&b, note));
	note.kind = SWITCH_SEEN; /* by a task whose IN is lost, its AUX record follows */
	note.time_ns = 40;
	note.task.v = 2;
	cr_assert(switch_add(&b, note));
	note.kind = SWITCH_AUX;
	note.time_ns = 50;
	note.stream_off = 1016;
	cr_assert(switch_add(&b, note));
	cr_assert_eq(switch_finish(&b, &s), ERR_NONE);
	cr_assert_eq(s.cpu_switches.count, 2);
	cr_expect_eq(s.cpu_switches.items[1].time_ns, 33);
	cr_expect_eq(s.cpu_switches.items[1].earliest_ns, 10);
	cr_expect_eq(s.cpu_switches.items[1].latest_ns, 40);
	switch_builder_done(&b);
	sideband_done(&s);
}

Test(switches, a_ring_of_a_cpu_opened_for_one_thread)
{
	struct switch_builder b = {0};

	memset(&s, 0, sizeof s);
	cr_assert(vec_push(&s.buffers, ((struct aux_buffer){.cpu = 6, .task = {4}})));
	cr_assert_eq(switch_finish(&b, &s), ERR_NONE);
	cr_expect_eq(sideband_task_on_cpu(&s, 6, 0).v, 4);
	switch_builder_done(&b);
	sideband_done(&s);
}

Test(switches, rings_of_threads_need_no_guesses)
{
	struct switch_builder b = {0};
	struct switch_note note = {.time_ns = 5, .stream_off = UINT64_MAX, .cpu = 2, .task = {1}};

	memset(&s, 0, sizeof s);
	cr_assert(vec_push(&s.buffers, ((struct aux_buffer){.cpu = -1, .task = {1}})));
	note.kind = SWITCH_SEEN;
	cr_assert(switch_add(&b, note));
	note.kind = SWITCH_IN;
	cr_assert(switch_add(&b, note));
	cr_assert_eq(switch_finish(&b, &s), ERR_NONE);
	cr_expect_eq(s.cpu_switches.count, 0);
	cr_expect_eq(s.task_switches.count, 1);
	switch_builder_done(&b);
	sideband_done(&s);
}
