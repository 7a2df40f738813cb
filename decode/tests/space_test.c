#include "decode/space.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* A story of mmap (m), fork (f) and exec (e) by processes, and what it must leave behind. */
struct step {
	char kind;
	int32_t pid;
	uint64_t time_ns;
	uint64_t start, end, file_off; /* m */
	uint32_t module;               /* m; 0 = anonymous */
	int32_t parent;                /* f */
};

struct question {
	int32_t pid;
	uint64_t time_ns, ip;
	uint32_t module;   /* 0 = not mapped */
	uint64_t file_off; /* of ip */
};

struct story {
	const char *name;
	struct step steps[8];
	size_t space_count; /* without the two fixed ones */
	struct question questions[10];
};

static const struct story stories[] = {
	{"additions beside each other stay in one space",
	 {{'m', 1, 0, 0x1000, 0x2000, 0, 1, 0}, {'m', 1, 50, 0x3000, 0x4000, 0x500, 2, 0}},
	 1,
	 {{1, 10, 0x1800, 1, 0x800}, {1, 60, 0x3001, 2, 0x501}, {1, 10, 0x2800, 0, 0}}},
	{"mapping the same again changes nothing",
	 {{'m', 1, 5, 0x1000, 0x3000, 0x1000, 1, 0}, {'m', 1, 50, 0x2000, 0x3000, 0x2000, 1, 0}},
	 1,
	 {{1, 60, 0x2800, 1, 0x2800}}},
	{"the same, but longer at both ends",
	 {{'m', 1, 5, 0x2000, 0x3000, 0x2000, 1, 0}, {'m', 1, 50, 0x1000, 0x4000, 0x1000, 1, 0}},
	 1,
	 {{1, 60, 0x1800, 1, 0x1800}, {1, 60, 0x2800, 1, 0x2800}, {1, 60, 0x3800, 1, 0x3800}}},
	{"another file in the middle: the old answer holds before",
	 {{'m', 1, 5, 0x1000, 0x4000, 0, 1, 0}, {'m', 1, 50, 0x2000, 0x3000, 0x700, 2, 0}},
	 2,
	 {{1, 49, 0x2800, 1, 0x1800},
	  {1, 50, 0x2800, 2, 0xf00},
	  {1, 50, 0x1800, 1, 0x800},
	  {1, 50, 0x3800, 1, 0x2800}}},
	{"the same file at another offset is another content",
	 {{'m', 1, 5, 0x1000, 0x2000, 0, 1, 0}, {'m', 1, 50, 0x1000, 0x2000, 0x1000, 1, 0}},
	 2,
	 {{1, 49, 0x1000, 1, 0}, {1, 51, 0x1000, 1, 0x1000}}},
	{"a larger one swallows several",
	 {{'m', 1, 5, 0x1000, 0x2000, 0, 1, 0},
	  {'m', 1, 6, 0x3000, 0x4000, 0, 2, 0},
	  {'m', 1, 50, 0x1800, 0x5000, 0, 3, 0}},
	 2,
	 {{1, 10, 0x3800, 2, 0x800}, {1, 50, 0x17ff, 1, 0x7ff}, {1, 50, 0x3800, 3, 0x2000}}},
	{"at time 0 the later one just wins",
	 {{'m', 1, 0, 0x1000, 0x4000, 0, 1, 0}, {'m', 1, 0, 0x2000, 0x3000, 0, 2, 0}},
	 1,
	 {{1, 0, 0x2800, 2, 0x800}, {1, 0, 0x3800, 1, 0x2800}}},
	{"anonymous memory is one content at any offset",
	 {{'m', 1, 5, 0x1000, 0x3000, 0, 0, 0}, {'m', 1, 50, 0x2000, 0x4000, 0x2000, 0, 0}},
	 1,
	 {{1, 60, 0x3800, 0, 0}}},
	{"fork inherits, then each goes its own way",
	 {{'m', 1, 5, 0x1000, 0x2000, 0, 1, 0},
	  {'f', 2, 20, 0, 0, 0, 0, 1},
	  {'m', 2, 30, 0x5000, 0x6000, 0, 2, 0},
	  {'m', 1, 40, 0x5000, 0x6000, 0, 3, 0}},
	 3,
	 {{2, 25, 0x1800, 1, 0x800},
	  {2, 35, 0x5800, 2, 0x800},
	  {2, 50, 0x5800, 2, 0x800},
	  {1, 35, 0x5800, 0, 0},
	  {1, 50, 0x5800, 3, 0x800},
	  {1, 50, 0x1800, 1, 0x800}}},
	{"exec forgets, and the parent does not notice",
	 {{'m', 1, 5, 0x1000, 0x2000, 0, 1, 0},
	  {'f', 2, 20, 0, 0, 0, 0, 1},
	  {'e', 2, 30, 0, 0, 0, 0, 0},
	  {'m', 2, 31, 0x1000, 0x2000, 0, 2, 0}},
	 2,
	 {{2, 25, 0x1800, 1, 0x800}, {2, 40, 0x1800, 2, 0x800}, {1, 40, 0x1800, 1, 0x800}}},
	{"exec as the first news of a process: the image counts from the start",
	 {{'e', 1, 30, 0, 0, 0, 0, 0}, {'m', 1, 31, 0x1000, 0x2000, 0, 2, 0}},
	 1,
	 {{1, 10, 0x1800, 2, 0x800}}},
	{"a pid that is forked again starts over",
	 {{'m', 1, 5, 0x1000, 0x2000, 0, 1, 0},
	  {'f', 2, 10, 0, 0, 0, 0, 1},
	  {'m', 2, 15, 0x1000, 0x2000, 0, 2, 0},
	  {'f', 2, 20, 0, 0, 0, 0, 1}},
	 2,
	 {{2, 12, 0x1800, 1, 0x800}, {2, 17, 0x1800, 2, 0x800}, {2, 22, 0x1800, 1, 0x800}}},
	{"threads share their process",
	 {{'m', 1, 5, 0x1000, 0x2000, 0, 1, 0}, {'f', 1, 10, 0, 0, 0, 0, 1}},
	 1,
	 {{1, 22, 0x1800, 1, 0x800}}},
};

static void play(struct space_table *t, const struct step *s)
{
	struct mapping m = {.start = s->start,
			    .end = s->end,
			    .file_off = s->file_off,
			    .from_ns = s->time_ns,
			    .module = {s->module},
			    .flags = s->module ? 0 : MAPPING_ANONYMOUS};

	switch (s->kind) {
	case 'm': cr_assert(space_map(t, s->pid, &m)); break;
	case 'f': cr_assert(space_fork(t, s->parent, s->pid, s->time_ns)); break;
	case 'e': cr_assert(space_exec(t, s->pid, s->time_ns)); break;
	default: break;
	}
}

static void check_sorted(const struct sideband *s)
{
	for (size_t i = 1; i < s->spaces.count; i++)
		for (size_t m = 1; m < s->spaces.items[i].mappings.count; m++)
			cr_assert(s->spaces.items[i].mappings.items[m - 1].end <=
				  s->spaces.items[i].mappings.items[m].start);
}

Test(space, stories)
{
	for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
		const struct story *story = &stories[i];
		struct sideband s = {0};
		struct space_table t;

		cr_assert(space_table_init(&t, &s));
		for (size_t k = 0; k < 8 && story->steps[k].kind; k++)
			play(&t, &story->steps[k]);
		space_finish(&t);
		check_sorted(&s);
		cr_expect_eq(s.spaces.count, 2 + story->space_count, "%s: %zu spaces", story->name,
			     s.spaces.count - 2);
		for (size_t k = 0; k < 10 && story->questions[k].pid; k++) {
			const struct question *q = &story->questions[k];
			space_id id = sideband_space_at(&s, q->pid, q->time_ns);
			const struct mapping *m = space_find(&s.spaces.items[id.v], q->ip);

			cr_expect_eq(m ? m->module.v : 0, q->module, "%s, question %zu",
				     story->name, k);
			if (m && q->module)
				cr_expect_eq(m->file_off + q->ip - m->start, q->file_off,
					     "%s, offset of question %zu", story->name, k);
		}
		space_table_done(&t);
		sideband_done(&s);
	}
}

Test(space, periods_end_where_the_next_begins)
{
	struct sideband s = {0};
	struct space_table t;
	struct mapping m = {.start = 0x1000, .end = 0x2000, .from_ns = 5, .module = {1}};

	cr_assert(space_table_init(&t, &s));
	cr_assert(space_map(&t, 7, &m));
	cr_assert(space_fork(&t, 7, 9, 20));
	cr_assert(space_exec(&t, 7, 30));
	space_finish(&t);
	/* the child still lives in the first space */
	cr_expect_eq(s.spaces.items[2].until_ns, TIME_NONE);
	cr_expect_eq(s.spaces.items[3].from_ns, 30);
	const struct space_period *p = sideband_space_period(&s, 7, 29);
	cr_assert_not_null(p);
	cr_expect_eq(p->space.v, 2);
	cr_expect_eq(p[1].pid, 7);
	cr_expect_eq(p[1].from_ns, 30);
	cr_expect_null(sideband_space_period(&s, 8, 29));
	cr_expect_eq(sideband_space_at(&s, 9, 0).v, 2, "before its first period: that one");
	space_table_done(&t);
	sideband_done(&s);
}

Test(space, the_kernel_has_one_space)
{
	struct sideband s = {0};
	struct space_table t;
	struct mapping text = {.start = 0xffffffff81000000,
			       .end = 0xffffffffff000000,
			       .module = {1},
			       .flags = MAPPING_KERNEL};
	struct mapping module = {.start = 0xffffffffc0000000,
				 .end = 0xffffffffc0004000,
				 .from_ns = 77,
				 .module = {2},
				 .flags = MAPPING_KERNEL};

	cr_assert(space_table_init(&t, &s));
	cr_assert(space_map(&t, -1, &text));
	cr_assert(space_map(&t, -1, &module));
	space_finish(&t);
	cr_expect_eq(s.spaces.count, 2);
	cr_expect_eq(s.space_periods.count, 0);
	const struct space *kernel = &s.spaces.items[SPACE_KERNEL.v];
	cr_expect_eq(space_find(kernel, 0xffffffffc0000010)->module.v, 2);
	cr_expect_eq(space_find(kernel, 0xffffffffc0004000)->module.v, 1);
	cr_expect_eq(space_find(kernel, 0xffffffff81000000)->module.v, 1);
	cr_expect_null(space_find(kernel, 0xffffffff80ffffff));
	space_table_done(&t);
	sideband_done(&s);
}

Test(space, too_many_mappings_are_counted_not_kept)
{
	struct sideband s = {0};
	struct space_table t;

	cr_assert(space_table_init(&t, &s));
	for (uint64_t i = 0; i < SPACE_MAPPINGS_MAX + 3; i++) {
		struct mapping m = {
			.start = i * 16, .end = i * 16 + 8, .from_ns = 1, .module = {1}};

		cr_assert(space_map(&t, 1, &m));
	}
	space_finish(&t);
	cr_expect_eq(s.spaces.items[2].mappings.count, SPACE_MAPPINGS_MAX);
	cr_expect_eq(t.refused, 3);
	space_table_done(&t);
	sideband_done(&s);
}
