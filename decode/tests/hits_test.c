#include "decode/hits.h"

#include <criterion/criterion.h>

static const uint64_t frames[] = {0x1000, 0x2000};

Test(hits, become_instants_in_order_of_time)
{
	struct sideband s = {0};
	struct bundle bundle = {0};
	struct bundle_hit hits[] = {
		{.time_ns = 300,
		 .ip = 0x1000,
		 .pid = 7,
		 .tid = 8,
		 .cpu = 2,
		 .kind = HIT_TRIGGER,
		 .snapshot = true,
		 .where = "parse",
		 .args = {1, 2, 3, 4, 5, 0xff},
		 .frames = frames,
		 .frame_count = 2},
		{.time_ns = 100, .tid = 99, .kind = HIT_MARK},
	};
	str_id other;

	cr_assert(intern_string(&s.names, "other", &other));
	cr_assert(vec_push(&s.tasks, ((struct task){0})));
	cr_assert(vec_push(&s.tasks, ((struct task){.pid = 7, .tid = 8, .end_ns = TIME_NONE})));
	cr_assert(vec_push(&s.instants, ((struct instant){.time_ns = 200, .name = other})));
	for (size_t i = 0; i < 2; i++)
		cr_assert(vec_push(&bundle.hits, hits[i]));
	cr_assert_eq(hits_add(&s, &bundle), ERR_NONE);
	cr_assert_eq(s.instants.count, 3);

	const struct instant *mark = &s.instants.items[0], *trigger = &s.instants.items[2];
	cr_assert_eq(mark->time_ns, 100);
	cr_assert_str_eq(intern_text(&s.names, mark->name), "mark");
	cr_assert_eq(mark->task.v, 0, "a thread that nobody recorded");
	cr_assert_eq(s.instants.items[1].time_ns, 200);
	cr_assert_eq(trigger->task.v, 1);
	cr_assert_eq(trigger->ip, 0x1000);
	cr_assert_str_eq(intern_text(&s.names, trigger->name), "trigger parse");
	cr_assert_str_eq(intern_text(&s.names, trigger->detail),
			 "snapshot, args 0x1 0x2 0x3 0x4 0x5 0xff");
	cr_assert(trigger->callchain == frames && trigger->callchain_count == 2);
	vec_done(&s.instants);
	vec_done(&s.tasks);
	intern_done(&s.names);
	vec_done(&bundle.hits);
}
