#include "testdata/tracer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct tracer started(struct tracer_config config)
{
	struct tracer t = {.config = config};

	t.config.psb_bytes = 1 << 20;
	tracer_start(&t, 1000);
	tracer_enter(&t, 1000, 0x401000);
	t.out.bytes.count = 0;
	return t;
}

static void expect(struct tracer *t, const char *what, const char *hex)
{
	char found[512] = "";
	size_t at = 0;

	for (size_t i = 0; i < t->out.bytes.count; i++)
		at += (size_t)snprintf(found + at, sizeof found - at, "%s%02x", i ? " " : "",
				       t->out.bytes.items[i]);
	cr_expect_str_eq(found, hex, "%s: %s instead of %s", what, found, hex);
	t->out.bytes.count = 0;
}

static void outcomes(struct tracer *t, const char *text)
{
	for (; *text; text++)
		tracer_branch(t, 1000, *text == 't' ? TRACER_TAKEN : TRACER_NOT_TAKEN, 0x401000, 0);
}

Test(tracer, outcomes_gather_until_another_packet_needs_its_place)
{
	struct tracer t = started((struct tracer_config){0});

	outcomes(&t, "ntntn");
	expect(&t, "five", "");
	outcomes(&t, "n");
	expect(&t, "six", "a8");
	outcomes(&t, "t");
	tracer_branch(&t, 1000, TRACER_INDIRECT, 0x401010, 0);
	expect(&t, "and a TIP", "06 2d 10 10");
	outcomes(&t, "n");
	tracer_leave(&t, 1000);
	expect(&t, "a SYSCALL", "04 01");
	tracer_done(&t);
}

Test(tracer, returns_are_compressed_if_they_match)
{
	struct tracer t = started((struct tracer_config){0});

	tracer_branch(&t, 1000, TRACER_DIRECT, 0x402000, 0x401005);
	tracer_branch(&t, 1000, TRACER_RET, 0x401005, 0);
	tracer_flush(&t, 1000);
	expect(&t, "match", "06");
	tracer_branch(&t, 1000, TRACER_DIRECT, 0x402000, 0x401005);
	tracer_branch(&t, 1000, TRACER_DIRECT, 0x403000, 0x402005);
	tracer_branch(&t, 1000, TRACER_RET, 0x401005, 0);
	expect(&t, "elsewhere", "2d 05 10");
	tracer_branch(&t, 1000, TRACER_RET, 0x401005, 0);
	expect(&t, "the stack is empty then", "2d 05 10");
	tracer_done(&t);

	t = started((struct tracer_config){.no_compression = true});
	tracer_branch(&t, 1000, TRACER_DIRECT, 0x402000, 0x401005);
	tracer_branch(&t, 1000, TRACER_RET, 0x401005, 0);
	expect(&t, "without compression", "2d 05 10");
	tracer_done(&t);
}

Test(tracer, sixty_four_returns_are_remembered)
{
	struct tracer t = started((struct tracer_config){.long_tnt = true});

	for (uint64_t i = 0; i < 70; i++)
		tracer_branch(&t, 1000, TRACER_DIRECT, 0x402000, 0x401000 + i);
	t.out.bytes.count = 0;
	for (uint64_t i = 70; i-- > 6;)
		tracer_branch(&t, 1000, TRACER_RET, 0x401000 + i, 0);
	tracer_flush(&t, 1000);
	cr_expect_eq(t.out.bytes.count, 16, "47 and 17 outcomes, both long");
	t.out.bytes.count = 0;
	tracer_branch(&t, 1000, TRACER_RET, 0x401005, 0);
	expect(&t, "the 65th", "2d 05 10");
	tracer_done(&t);
}

Test(tracer, tips_wait_for_their_tnt)
{
	struct tracer t = started((struct tracer_config){.defer_tips = true});

	outcomes(&t, "nn");
	tracer_branch(&t, 1000, TRACER_INDIRECT, 0x401308, 0);
	outcomes(&t, "tttt");
	expect(&t, "TNT, TIP", "9e 2d 08 13");
	outcomes(&t, "n");
	tracer_branch(&t, 1000, TRACER_RET, 0x401005, 0);
	expect(&t, "an uncompressed RET waits for nothing", "04 2d 05 10");
	tracer_done(&t);
}

Test(tracer, overflow)
{
	struct tracer t = started((struct tracer_config){0});

	tracer_branch(&t, 1000, TRACER_DIRECT, 0x402000, 0x401005);
	tracer_lose(&t, true);
	outcomes(&t, "tttttttttttt");
	expect(&t, "lost", "");
	tracer_overflow_end(&t, 1000);
	expect(&t, "OVF, CBR, FUP", "02 f3 02 03 1c 00 3d 00 10");
	tracer_branch(&t, 1000, TRACER_RET, 0x401005, 0);
	expect(&t, "no compression across it", "2d 05 10");
	tracer_done(&t);
}

Test(tracer, a_psb_at_its_time)
{
	struct tracer t = {.config = {.psb_bytes = 64}};

	tracer_start(&t, 1000);
	tracer_enter(&t, 1000, 0x401000);
	cr_assert_eq(t.psbs.count, 1);
	tracer_branch(&t, 1000, TRACER_DIRECT, 0x402000, 0x401005);
	while (t.psbs.count == 1)
		outcomes(&t, "tntntn");
	uint64_t at = t.psbs.items[1].at;
	cr_expect_geq(at, 64);
	cr_expect_lt(at, 64 + 8);
	cr_expect_eq(memcmp(t.out.bytes.items + at, "\x02\x82", 2), 0);
	tracer_forget(&t, tracer_head(&t));
	tracer_branch(&t, 1000, TRACER_RET, 0x401005, 0);
	expect(&t, "empties the return stack", "6d 05 10 40 00 00 00");
	tracer_done(&t);
}

Test(tracer, a_cut_moves_what_follows)
{
	struct tracer t = {.config = {.psb_bytes = 64}};

	tracer_start(&t, 1000);
	tracer_enter(&t, 1000, 0x401000);
	while (t.psbs.count < 4)
		outcomes(&t, "tntntn");
	uint64_t head = tracer_head(&t), third = t.psbs.items[3].at;
	tracer_cut(&t, t.psbs.items[1].at - 2, 10);
	cr_expect_eq(tracer_head(&t), head - 10);
	cr_expect_eq(t.psbs.count, 3, "the PSB that was hit is none any more");
	cr_expect_eq(t.psbs.items[2].at, third - 10);
	cr_expect_eq(memcmp(t.out.bytes.items + t.psbs.items[2].at, "\x02\x82", 2), 0);
	tracer_forget(&t, 20);
	cr_expect_eq(tracer_head(&t), head - 10, "places do not change");
	tracer_done(&t);
}
