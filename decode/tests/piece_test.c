#include <criterion/criterion.h>

#include <string.h>

#include "decode/piece.h"

enum { HEADER = 16 + 8 + 7 + 2, PIECE = HEADER + 7 }; /* PSB TSC FUP PSBEND, seven TNTs */

/* `count` pieces of PIECE bytes, from times[i]; FUP ip 0x401000 + i. */
static void make(uint8_t *p, const uint16_t *times, size_t count)
{
	for (size_t i = 0; i < count; i++, p += PIECE) {
		for (size_t k = 0; k < 16; k++)
			p[k] = k % 2 ? 0x82 : 0x02;
		memcpy(p + 16,
		       "\x19\0\0\0\0\0\0\0\x7d\0\x10\x40\0\0\0\x02\x23\x06\x06\x06\x06\x06\x06\x06",
		       PIECE - 16);
		memcpy(p + 17, &times[i], 2);
		p[25] = (uint8_t)i;
	}
}

struct fixture {
	uint8_t bytes[8 * PIECE];
	struct sideband sideband;
	struct aux_buffer buffer;
	struct pieces pieces;
};

static const uint16_t steady[8] = {100, 200, 300, 400, 500, 600, 700, 800};

static void init(struct fixture *f, const uint16_t *times)
{
	*f = (struct fixture){.sideband.clock = {.time_mult = 1, .valid = true}};
	make(f->bytes, times, 8);
}

static void add_extent(struct fixture *f, size_t from, size_t to)
{
	struct aux_extent e = {.stream_off = from, .data = f->bytes + from, .bytes = to - from};

	cr_assert(vec_push(&f->buffer.extents, e));
}

static void add_cut(struct fixture *f, uint64_t at, enum loss cause)
{
	struct aux_cut c = {.stream_off = at, .time_ns = TIME_NONE, .cause = (uint8_t)cause};

	cr_assert(vec_push(&f->buffer.cuts, c));
}

static const struct flow_piece *find(struct fixture *f, size_t count)
{
	cr_assert_eq(pieces_find(&f->sideband, &f->buffer, &f->pieces), ERR_NONE);
	cr_assert_eq(f->pieces.items.count, count, "%zu pieces", f->pieces.items.count);
	return f->pieces.items.items;
}

static void done(struct fixture *f)
{
	pieces_done(&f->pieces);
	vec_done(&f->buffer.extents);
	vec_done(&f->buffer.cuts);
}

Test(piece, one_extent)
{
	struct fixture f;

	init(&f, steady);
	add_extent(&f, 0, sizeof f.bytes);
	const struct flow_piece *p = find(&f, 8);
	for (size_t i = 0; i < 8; i++) {
		cr_expect_eq(p[i].bytes, f.bytes + i * PIECE);
		cr_expect_eq(p[i].count, PIECE);
		cr_expect_eq(p[i].next_sync_ip, i < 7 ? 0x401001 + i : 0);
		cr_expect_eq(p[i].next_time_ns, i < 7 ? steady[i + 1] : TIME_NONE);
		cr_expect_eq(p[i].cut, LOSS_NONE);
		cr_expect_eq(p[i].first, i == 0);
	}
	done(&f);
}

Test(piece, seams_at_every_byte)
{
	for (size_t seam = 1; seam < 2 * PIECE; seam++) {
		struct fixture f;

		init(&f, steady);
		add_extent(&f, 0, seam);
		add_extent(&f, seam, sizeof f.bytes);
		const struct flow_piece *p = find(&f, 8);
		for (size_t i = 0; i < 8; i++)
			cr_expect_arr_eq(p[i].bytes, f.bytes + i * PIECE, PIECE, "seam %zu", seam);
		done(&f);
	}
}

Test(piece, extents_of_single_bytes)
{
	struct fixture f;

	init(&f, steady);
	for (size_t i = 0; i < sizeof f.bytes; i++)
		add_extent(&f, i, i + 1);
	const struct flow_piece *p = find(&f, 8);
	cr_expect_arr_eq(p[5].bytes, f.bytes + 5 * PIECE, PIECE);
	done(&f);
}

Test(piece, a_hole_is_lost_up_to_the_next_psb)
{
	struct fixture f;

	init(&f, steady);
	add_extent(&f, 0, PIECE + HEADER);
	add_extent(&f, 2 * PIECE + 5, sizeof f.bytes);
	const struct flow_piece *p = find(&f, 7);
	cr_expect_eq(p[1].count, HEADER);
	cr_expect_eq(p[1].next_sync_ip, 0);
	cr_expect_eq(p[1].next_time_ns, 400);
	cr_expect_eq(p[2].stream_off, 3 * PIECE);
	cr_expect_eq(p[2].cut, LOSS_AUX_LOST);
	cr_expect_eq(f.pieces.skipped_bytes, PIECE - 5);
	done(&f);
}

Test(piece, cuts)
{
	struct fixture f;

	init(&f, steady);
	add_extent(&f, 0, sizeof f.bytes);
	add_cut(&f, PIECE + HEADER + 2, LOSS_OVERWRITTEN);
	add_cut(&f, 4 * PIECE, LOSS_NONE);
	const struct flow_piece *p = find(&f, 8);
	cr_expect_eq(p[1].count, HEADER + 2);
	cr_expect_eq(p[1].next_sync_ip, 0);
	cr_expect_eq(p[2].cut, LOSS_OVERWRITTEN);
	cr_expect_not(p[2].first);
	cr_expect_eq(p[4].cut, LOSS_NONE);
	cr_expect(p[4].first, "a new snapshot");
	cr_expect_eq(p[3].next_sync_ip, 0);
	done(&f);
}

Test(piece, times_that_contradict_their_neighbours_are_moved)
{
	/* One far ahead, two that fell back. */
	static const uint16_t times[8] = {100, 60000, 300, 400, 20, 30, 700, 800};
	static const uint64_t expected[8] = {100, 200, 300, 400, 500, 600, 700, 800};
	struct fixture f;

	init(&f, times);
	add_extent(&f, 0, sizeof f.bytes);
	const struct flow_piece *p = find(&f, 8);
	for (size_t i = 0; i < 8; i++) {
		uint64_t time = p[i].header_time_ns + (uint64_t)p[i].time_bias_ns;

		cr_expect_leq(time, expected[i] + 1, "%zu: %lu", i, (unsigned long)time);
		cr_expect_geq(time, expected[i] - 1, "%zu: %lu", i, (unsigned long)time);
	}
	cr_expect_eq(p[0].next_time_ns, 200);
	done(&f);
}

/* Two pieces: which of them has a wrong time tell the records, when it began the one before. */
Test(piece, a_time_before_all_records_is_moved_to_the_end_of_the_piece_before)
{
	static const char header[] = "\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82"
				     "\x02\x82\x19\0\0\0\0\0\0\0\x02\x73\0\0\0\0\0\x02\x23"
				     "\x59\1\x59\2"; /* PSB TSC TMA PSBEND MTC MTC */
	enum { BYTES = sizeof header - 1 };
	static const uint16_t times[2] = {9000, 8500};
	struct fixture f = {.sideband.clock = {.time_mult = 1, .valid = true}};

	for (size_t i = 0; i < 2; i++) {
		memcpy(f.bytes + i * BYTES, header, BYTES);
		memcpy(f.bytes + i * BYTES + 17, &times[i], 2);
	}
	f.sideband.first_ns = 8900;
	f.sideband.last_ns = 9900;
	f.sideband.config.tsc_ctc_numerator = f.sideband.config.tsc_ctc_denominator = 1;
	f.sideband.config.mtc_period = 3;
	add_extent(&f, 0, 2 * BYTES);
	const struct flow_piece *p = find(&f, 2);
	cr_expect_eq(p[0].time_bias_ns, 0);
	cr_expect_eq(p[1].time_bias_ns, 9016 - 8500, "%ld", (long)p[1].time_bias_ns);
	cr_expect_eq(p[0].next_time_ns, 9016);
	done(&f);
}

Test(piece, impossible_times_are_unknown)
{
	static const uint16_t times[8] = {100, 200, 300, 400, 500, 600, 700, 60000};
	struct fixture f;

	init(&f, times);
	f.sideband.clock.time_mult = 1000000; /* 1 tick = 1 ms */
	f.sideband.first_ns = 100000000;
	f.sideband.last_ns = 900000000;
	add_extent(&f, 0, sizeof f.bytes);
	const struct flow_piece *p = find(&f, 8);
	cr_expect_eq(p[7].header_time_ns, TIME_NONE);
	cr_expect_eq(p[6].next_time_ns, TIME_NONE);
	done(&f);
}

Test(piece, behind_an_impossible_time_it_begins_at_the_earliest)
{
	static const uint16_t times[8] = {60000, 200, 300, 60000, 500, 600, 700, 800};
	struct fixture f;

	init(&f, times);
	f.sideband.clock.time_mult = 1000000;
	f.sideband.first_ns = 150000000;
	f.sideband.last_ns = 900000000;
	add_extent(&f, 0, sizeof f.bytes);
	const struct flow_piece *p = find(&f, 8);
	cr_expect_eq(p[0].header_time_ns, TIME_NONE);
	cr_expect_eq(p[0].start_time_ns, 150000000);
	cr_expect_eq(p[1].start_time_ns, TIME_NONE);
	cr_expect_eq(p[3].start_time_ns, 300000000);
	done(&f);
}
