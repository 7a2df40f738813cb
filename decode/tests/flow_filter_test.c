#include <criterion/criterion.h>

#include "decode/flow_filter.h"

/* /opt/app: file offsets 0x1000-0x3000 at 0x401000. */
static void make(struct sideband *s)
{
	struct mapping m = {.start = 0x401000, .end = 0x403000, .file_off = 0x1000};

	cr_assert(intern_string(&s->names, "/opt/app", &m.path));
	cr_assert(vec_push(&s->spaces, (struct space){0}));
	cr_assert(vec_push(&s->spaces, (struct space){0}));
	cr_assert(vec_push(&s->spaces, (struct space){0}));
	cr_assert(vec_push(&s->spaces.items[2].mappings, m));
}

Test(flow_filter, table)
{
	static const struct {
		const char *text;
		uint64_t ip;
		bool passes;
	} cases[] = {
		{"", 0x401000, true},
		{"filter 0x1000/0x10@/opt/app", 0x401000, true},
		{"filter 0x1000/0x10@/opt/app", 0x40100f, true},
		{"filter 0x1000/0x10@/opt/app", 0x401010, false},
		{"filter 0x1000/0x10@/opt/app", 0x500000, false},
		{"filter 0x1000/0x10@/opt/other", 0x401000, false},
		{"filter 0x1000/0x10@/opt/app", 0xffffffff81001000, false},
		{"filter 0x1000/0x10@/opt/app , filter 0x2000/0x10@/opt/app", 0x402008, true},
		{"filter 0xffffffff81000000/0x100", 0xffffffff81000010, true},
		{"filter 0xffffffff81000000/0x100", 0x401000, false},
		{"tracestop 0x1000/0x10@/opt/app", 0x402000, true},
		{"start 0x1000@/opt/app,stop 0x1010@/opt/app", 0x402000, true},
		{"filter", 0x401000, true},
		{"filter x/y@z", 0x401000, true},
		{"filter 0x1000@/opt/app", 0x401000, true},
		{"filter 0x1000@/opt/app", 0x401001, false},
	};
	struct sideband s = {0};

	make(&s);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct flow_filter f = {0};

		cr_assert(flow_filter_parse(&f, cases[i].text));
		cr_expect_eq(flow_filter_passes(&f, &s, (space_id){2}, cases[i].ip), cases[i].passes,
			     "%s, %lx", cases[i].text, (unsigned long)cases[i].ip);
		flow_filter_done(&f);
	}
	vec_done(&s.spaces.items[2].mappings);
	vec_done(&s.spaces);
	intern_done(&s.names);
}
