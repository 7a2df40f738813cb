#include <criterion/criterion.h>

#include <string.h>

#include "decode/schedule.h"
#include "decode/tests/flow_fixture.h"

enum { PIECES_A = 40, PIECES_B = 4, PIECE_MAX = 64 };

static size_t put_tsc(uint8_t *p, uint32_t tsc)
{
	const uint8_t bytes[] = {0x19, (uint8_t)tsc, (uint8_t)(tsc >> 8), (uint8_t)(tsc >> 16)};

	memset(p, 0, 8);
	memcpy(p, bytes, sizeof bytes);
	return 8;
}

/* PSB, TSC, PSBEND; tracing goes on for an instant. 0 = no TSC. */
static size_t put_piece(uint8_t *p, uint32_t psb_ns, uint32_t on_ns)
{
	static const uint8_t pge_pgd[] = {0x71, 0x00, 0x10, 0x40, 0, 0, 0, 0x01};
	size_t at = 0;

	for (; at < 16; at++)
		p[at] = at % 2 ? 0x82 : 0x02;
	if (psb_ns)
		at += put_tsc(p + at, psb_ns);
	p[at++] = 0x02;
	p[at++] = 0x23;
	if (on_ns)
		at += put_tsc(p + at, on_ns);
	memcpy(p + at, pge_pgd, sizeof pge_pgd);
	return at + sizeof pge_pgd;
}

static enum err take(void *context, const struct aux_buffer *buffer, const struct stay *stay)
{
	size_t *begins = context;

	(void)buffer;
	for (size_t i = 0; i < stay->count; i++)
		*begins += stay->events[i].kind == FLOW_BEGIN;
	return ERR_NONE;
}

/* A time ahead of all others, that the next piece cannot deny as it has none: what its CPU has
 * behind it comes last, though it is more than is decoded ahead. */
Test(schedule, a_clock_that_jumped, .timeout = 60)
{
	static const uint8_t code[16] = {0x90};
	static uint8_t bytes[2][PIECES_A * PIECE_MAX];
	struct flow_fixture f;
	size_t count[2] = {0};

	flow_fixture_init(&f, code, sizeof code, 0);
	for (uint32_t i = 0; i < PIECES_A; i++)
		count[0] += put_piece(bytes[0] + count[0], i == 1 ? 0 : 1000 + i, i ? 0 : 1000000);
	for (uint32_t i = 0; i < PIECES_B; i++)
		count[1] += put_piece(bytes[1] + count[1], 2000 + i, 0);
	for (size_t i = 0; i < 2; i++) {
		struct aux_buffer buffer = {.cpu = -1, .task = {1}};
		struct aux_extent extent = {.data = bytes[i], .bytes = count[i]};

		cr_assert(vec_push(&buffer.extents, extent));
		cr_assert(vec_push(&f.sideband.buffers, buffer));
	}
	for (unsigned jobs = 1; jobs <= 4; jobs++) {
		struct schedule_options how = {.jobs = jobs, .until_ns = TIME_NONE};
		struct flow_stats stats = {0};
		size_t begins = 0;

		cr_assert_eq(schedule_run(f.graph, &f.sideband, &how, take, &begins, &stats, NULL),
			     ERR_NONE);
		cr_expect_eq(begins, PIECES_A + PIECES_B, "%zu", begins);
	}
	for (size_t i = 0; i < 2; i++)
		vec_done(&f.sideband.buffers.items[i].extents);
	vec_done(&f.sideband.buffers);
	flow_fixture_done(&f);
}
