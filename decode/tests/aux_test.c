#include "decode/aux.h"

#include <criterion/criterion.h>
#include <string.h>

/* A PT-like stream of any length: each 256 bytes a PSB, a TSC that grows, PSBEND, then TNT
 * bytes. `periodic`: all TSCs equal, as if the trace had no time. */
enum { PERIOD = 256, STREAM = 64 * 1024 };

static uint8_t stream[STREAM];

static void make_stream(bool timed)
{
	for (size_t i = 0; i < STREAM; i += PERIOD) {
		uint8_t *p = stream + i;
		uint64_t tsc = 0x1000 + i * 3;

		memset(p, 0xf6, PERIOD);
		for (int k = 0; k < 16; k += 2) {
			p[k] = 0x02;
			p[k + 1] = 0x82;
		}
		p[16] = 0x02; /* CBR */
		p[17] = 0x03;
		p[18] = 0x15;
		p[19] = 0;
		p[20] = 0x19;
		if (timed)
			memcpy(p + 21, &tsc, 7);
		else
			p[20] = 0;
		if (!timed)
			memset(p + 21, 0, 7);
		p[28] = 0x02;
		p[29] = 0x23;
	}
}

Test(aux, first_tsc)
{
	uint64_t tsc;

	make_stream(true);
	cr_assert(aux_first_tsc(stream, 400, 0, &tsc));
	cr_expect_eq(tsc, 0x1000);
	cr_assert(aux_first_tsc(stream + 5, 400, (uint64_t)7 << 56, &tsc));
	cr_expect_eq(tsc, ((uint64_t)7 << 56) + 0x1000 + 256 * 3);
	cr_expect_not(aux_first_tsc(stream, 27, 0, &tsc), "cut short inside the TSC");
	cr_expect_not(aux_first_tsc(stream, 0, 0, &tsc));
	make_stream(false);
	cr_expect_not(aux_first_tsc(stream, STREAM, 0, &tsc));
}

Test(aux, extend_tsc)
{
	const uint64_t whole = (uint64_t)1 << 56;

	cr_expect_eq(aux_extend_tsc(5, 0), 5);
	cr_expect_eq(aux_extend_tsc(5, 3 * whole + 9), 3 * whole + 5);
	cr_expect_eq(aux_extend_tsc(5, 3 * whole - 9), 3 * whole + 5, "just wrapped");
	cr_expect_eq(aux_extend_tsc(whole - 5, 3 * whole + 9), 3 * whole - 5,
		     "just before the wrap");
}

/* Copies of a ring of R bytes that ended at stream positions P and Q. */
Test(aux, overlap_of_ring_copies)
{
	static const struct {
		const char *name;
		size_t ring, p, q;
		bool timed, knows_offsets;
		size_t repeated;
	} cases[] = {
		{"half a ring later", 8192, 20000, 24096, true, true, 4096},
		{"a few bytes later", 8192, 20000, 20005, true, true, 8187},
		{"the same again", 8192, 20000, 20000, true, true, 8192},
		{"all but a few bytes later", 8192, 20000, 28092, true, true, 100},
		{"more than a ring later", 8192, 20000, 30000, true, true, 0},
		{"exactly a ring later", 8192, 20000, 28192, true, true, 0},
		{"without offsets", 8192, 20000, 24096, true, false, 4096},
		{"without offsets, one PSB in common", 8192, 20000, 27932, true, false, 260},
		{"without offsets, no PSB in common", 8192, 20000, 28170, true, false, 0},
		{"without offsets, later", 8192, 20000, 30000, true, false, 0},
		{"without time, but offsets tell", 8192, 20000, 24096, false, true, 4096},
		{"without time and offsets nothing is certain", 8192, 20000, 24096, false, false,
		 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t ring = cases[i].ring, p = cases[i].p, q = cases[i].q, padding = 99;
		size_t expected = cases[i].knows_offsets ? (p + ring - q % ring) % ring : SIZE_MAX;

		make_stream(cases[i].timed);
		/* offset of the second copy = q - ring, modulo the ring that is q */
		cr_expect_eq(aux_overlap(stream + p - ring, ring, stream + q - ring, ring, expected,
					 &padding),
			     cases[i].repeated, "%s", cases[i].name);
		cr_expect_eq(padding, 0);
	}
}

Test(aux, overlap_sees_through_padding_and_unwritten_bytes)
{
	uint8_t first[4104] = {0}, second[8192] = {0};
	size_t padding;

	make_stream(true);
	/* a ring of 8192: 4099 bytes written and padded to 4104, then 300 more */
	memcpy(first, stream, 4099);
	memcpy(second + 8192 - 4399, stream, 4399);
	cr_expect_eq(
		aux_overlap(first, sizeof first, second, sizeof second, 8192 - 300 + 5, &padding),
		8192 - 300);
	cr_expect_eq(padding, 5);
	/* the same by search alone */
	cr_expect_eq(aux_overlap(first, sizeof first, second, sizeof second, SIZE_MAX, &padding),
		     8192 - 300);
	cr_expect_eq(padding, 5);
	/* bytes before that were written contradict */
	second[3] = 7;
	cr_expect_eq(
		aux_overlap(first, sizeof first, second, sizeof second, 8192 - 300 + 5, &padding),
		0);
}

Test(aux, periodic_bytes_cost_little)
{
	static uint8_t a[1 << 20], b[1 << 20];
	size_t padding;

	for (size_t i = 0; i < sizeof a; i += 2) {
		a[i] = b[i] = 0x02;
		a[i + 1] = b[i + 1] = 0x82;
	}
	b[sizeof b - 1] = 1;
	aux_overlap(a, sizeof a, b, sizeof b, SIZE_MAX, &padding);
	cr_expect_eq(aux_overlap(NULL, 0, b, sizeof b, SIZE_MAX, &padding), 0);
	cr_expect_eq(aux_overlap(a, sizeof a, NULL, 0, 5, &padding), 0);
}

struct chunk {
	uint64_t offset;
	size_t from, bytes; /* of the stream; padding = zero bytes behind */
	size_t padding;
};

struct note {
	uint64_t offset, bytes, flags;
};

struct full_case {
	const char *name;
	struct chunk chunks[4];
	struct note notes[4];
	size_t extent_bytes[4];
	struct {
		uint64_t stream_off, lost_bytes;
		enum loss cause;
	} cuts[4];
};

static const struct full_case full_cases[] = {
	{"one chunk", {{0, 0, 1000, 0}}, {{0, 1000, 0}}, {1000}, {{0, 0, LOSS_NONE}}},
	{"padding that the next chunk tells",
	 {{0, 0, 1003, 5}, {1003, 1003, 2000, 0}},
	 {{0, 0, 0}},
	 {1003, 2000},
	 {{0, 0, LOSS_NONE}}},
	{"padding that the AUX record tells",
	 {{0, 0, 1003, 5}},
	 {{0, 500, 0}, {500, 503, 0}},
	 {1003},
	 {{0, 0, LOSS_NONE}}},
	{"a hole",
	 {{0, 0, 1000, 0}, {1500, 1500, 100, 4}, {1600, 1600, 8, 0}},
	 {{0, 0, 0}},
	 {1000, 100, 8},
	 {{1500, 500, LOSS_AUX_LOST}}},
	{"truncated, data follows",
	 {{0, 0, 1000, 0}},
	 {{0, 400, AUX_FLAG_TRUNCATED}, {400, 600, 0}},
	 {1000},
	 {{400, 0, LOSS_AUX_TRUNCATED}}},
	{"truncated at the end: nothing to cut",
	 {{0, 0, 1000, 0}},
	 {{0, 1000, AUX_FLAG_TRUNCATED}},
	 {1000},
	 {{0, 0, LOSS_NONE}}},
	{"collision and partial at one place, once",
	 {{0, 0, 1000, 0}},
	 {{0, 400, AUX_FLAG_COLLISION}, {400, 0, AUX_FLAG_PARTIAL}},
	 {1000},
	 {{400, 0, LOSS_AUX_PARTIAL}}},
	{"a hole that is said to be truncated knows its size",
	 {{0, 0, 1000, 0}, {1500, 1500, 100, 0}},
	 {{0, 1500, AUX_FLAG_TRUNCATED}},
	 {1000, 100},
	 {{1500, 500, LOSS_AUX_LOST}}},
	{"offsets that start again",
	 {{5000, 0, 1000, 0}, {0, 1000, 100, 0}, {100, 1100, 50, 0}},
	 {{0, 0, 0}},
	 {1000, 100, 50},
	 {{6000, 0, LOSS_AUX_LOST}}},
	{"an offset beyond all streams",
	 {{0, 0, 1000, 0}, {UINT64_MAX - 50, 1000, 100, 0}},
	 {{0, 0, 0}},
	 {1000, 100},
	 {{1000, 0, LOSS_AUX_LOST}}},
};

static void add_chunk(struct aux_builder *b, uint8_t *bytes, const struct chunk *c, int32_t cpu,
		      int32_t tid, uint64_t reference)
{
	struct record_auxtrace r = {
		.offset = c->offset, .reference = reference, .cpu = cpu, .tid = tid};

	memcpy(bytes, stream + c->from, c->bytes);
	memset(bytes + c->bytes, 0, c->padding);
	cr_assert(aux_add_chunk(b, &r, bytes, c->bytes + c->padding));
}

static void add_note(struct aux_builder *b, const struct note *n, int32_t cpu, uint64_t time_ns)
{
	struct record_aux r = {.offset = n->offset, .bytes = n->bytes, .flags = n->flags};
	struct sample_id id = {.has = SAMPLE_ID_CPU | SAMPLE_ID_TID, .cpu = cpu, .tid = 9};

	cr_assert(aux_add_note(b, &r, &id, time_ns));
}

Test(aux, full_trace)
{
	static uint8_t bytes[4][4096];

	make_stream(true);
	for (size_t i = 0; i < sizeof full_cases / sizeof *full_cases; i++) {
		const struct full_case *c = &full_cases[i];
		struct aux_builder b = {0};
		struct sideband s = {0};
		size_t cuts = 0;

		for (size_t k = 0; k < 4 && c->chunks[k].bytes; k++)
			add_chunk(&b, bytes[k], &c->chunks[k], 3, -1, 77);
		for (size_t k = 0; k < 4; k++)
			if (c->notes[k].bytes || c->notes[k].flags)
				add_note(&b, &c->notes[k], 3, 100 + k);
		add_note(&b, &(struct note){10, 20, AUX_FLAG_TRUNCATED}, 4, 100);
		cr_assert_eq(aux_finish(&b, &s), ERR_NONE);
		cr_assert_eq(s.buffers.count, 1);
		const struct aux_buffer *buffer = &s.buffers.items[0];
		cr_expect_eq(buffer->cpu, 3);
		cr_expect_eq(buffer->reference_tsc, 77);
		cr_expect_eq(buffer->known.count, 1);
		cr_expect_eq(buffer->known.items[0].from_ns, 0);
		cr_expect_eq(buffer->known.items[0].until_ns, TIME_NONE);
		for (size_t k = 0; k < 4; k++)
			cr_expect_eq(k < buffer->extents.count ? buffer->extents.items[k].bytes : 0,
				     c->extent_bytes[k], "%s: extent %zu", c->name, k);
		for (; cuts < 4 && c->cuts[cuts].cause; cuts++) {
			cr_assert_lt(cuts, buffer->cuts.count, "%s", c->name);
			const struct aux_cut *cut = &buffer->cuts.items[cuts];

			cr_expect_eq(cut->stream_off, c->cuts[cuts].stream_off, "%s", c->name);
			cr_expect_eq(cut->lost_bytes, c->cuts[cuts].lost_bytes, "%s", c->name);
			cr_expect_eq(cut->cause, c->cuts[cuts].cause, "%s", c->name);
		}
		cr_expect_eq(buffer->cuts.count, cuts, "%s", c->name);
		aux_builder_done(&b);
		sideband_done(&s);
	}
}

/* Three copies of a ring of 4096: the second repeats part of the first, the third nothing. */
Test(aux, snapshots)
{
	static uint8_t bytes[3][4096];
	struct aux_builder b = {.is_snapshot = true};
	struct sideband s = {.clock = {.valid = true, .time_mult = 1}};

	make_stream(true);
	cr_assert(vec_push(&s.tasks, ((struct task){0})));
	/* at stream positions 3000, 5000 and 20000 */
	add_chunk(&b, bytes[0], &(struct chunk){0, 0, 3000, 0}, 0, -1, 20000);
	add_chunk(&b, bytes[1], &(struct chunk){5000 % 4096, 5000 - 4096, 4096, 0}, 0, -1, 30000);
	add_chunk(&b, bytes[2], &(struct chunk){20000 % 4096, 20000 - 4096, 4096, 0}, 0, -1, 80000);
	add_note(&b, &(struct note){3000, 4096, AUX_FLAG_OVERWRITE}, 0, 19000);
	add_note(&b, &(struct note){904, 4096, AUX_FLAG_OVERWRITE}, 0, 29000);
	add_note(&b, &(struct note){3616, 4096, AUX_FLAG_OVERWRITE}, 0, 79000);
	cr_assert_eq(aux_finish(&b, &s), ERR_NONE);
	const struct aux_buffer *buffer = &s.buffers.items[0];
	cr_assert_eq(buffer->extents.count, 3);
	cr_expect_eq(buffer->extents.items[1].bytes, 2000);
	cr_expect_eq(memcmp(buffer->extents.items[1].data, stream + 3000, 2000), 0);
	cr_expect_eq(buffer->extents.items[1].stream_off, 3000);
	cr_expect_eq(buffer->extents.items[2].stream_off, 5000);
	cr_assert_eq(buffer->cuts.count, 1);
	cr_expect_eq(buffer->cuts.items[0].stream_off, 5000);
	cr_expect_eq(buffer->cuts.items[0].cause, LOSS_OVERWRITTEN);
	cr_assert_eq(buffer->known.count, 3);
	cr_expect_eq(buffer->known.items[0].from_ns, 0, "the ring was not full before");
	cr_expect_eq(buffer->known.items[0].until_ns, 19000);
	/* the bytes join, but tracing was stopped until the ring had been read */
	cr_expect_eq(buffer->known.items[1].stream_off, 3000);
	cr_expect_eq(buffer->known.items[1].from_ns, 20000);
	cr_expect_eq(buffer->known.items[1].until_ns, 29000);
	/* the first PSB in [15904, ...) stands at 16128 */
	cr_expect_eq(buffer->known.items[2].from_ns, 0x1000 + 16128 * 3);
	cr_expect_eq(buffer->known.items[2].until_ns, 79000);
	aux_builder_done(&b);
	sideband_done(&s);
}

Test(aux, a_snapshot_that_begins_where_the_last_ended)
{
	static uint8_t bytes[2][4096];
	struct aux_builder b = {.is_snapshot = true};
	struct sideband s = {0};

	make_stream(true);
	add_chunk(&b, bytes[0], &(struct chunk){0, 0, 1021, 3}, 0, -1, 0);
	add_chunk(&b, bytes[1], &(struct chunk){1021, 1021, 2000, 0}, 0, -1, 0);
	cr_assert_eq(aux_finish(&b, &s), ERR_NONE);
	const struct aux_buffer *buffer = &s.buffers.items[0];
	cr_assert_eq(buffer->extents.count, 2);
	cr_expect_eq(buffer->extents.items[0].bytes, 1021);
	cr_assert_eq(buffer->cuts.count, 1);
	cr_expect_eq(buffer->cuts.items[0].cause, LOSS_NONE);
	cr_expect_eq(buffer->known.count, 2);
	aux_builder_done(&b);
	sideband_done(&s);
}

Test(aux, samples_are_snapshots_without_offsets)
{
	struct aux_builder b = {0};
	struct sideband s = {.clock = {.valid = true, .time_mult = 1}, .config.sample_mode = true};

	make_stream(true);
	for (int i = 0; i < 3; i++) {
		struct sample sample = {.id = {.has = SAMPLE_ID_CPU, .cpu = 5},
					.aux = stream + (i < 2 ? i * 1000 : 9000),
					.aux_bytes = 4000};

		cr_assert(aux_add_sample(&b, &sample, 30000 + 10000 * (uint64_t)i));
	}
	cr_assert_eq(aux_finish(&b, &s), ERR_NONE);
	cr_assert_eq(s.buffers.count, 1);
	const struct aux_buffer *buffer = &s.buffers.items[0];
	cr_expect_eq(buffer->cpu, 5);
	cr_expect_eq(buffer->reference_tsc, 30000);
	cr_assert_eq(buffer->extents.count, 3);
	cr_expect_eq(buffer->extents.items[1].bytes, 1000);
	cr_assert_eq(buffer->known.count, 2);
	cr_expect_eq(buffer->known.items[0].from_ns, 0x1000, "the first sample is not the start");
	cr_expect_eq(buffer->known.items[0].until_ns, 40000);
	cr_expect_eq(buffer->cuts.count, 1);
	aux_builder_done(&b);
	sideband_done(&s);
}

Test(aux, rings_of_threads)
{
	static uint8_t bytes[2][64];
	struct aux_builder b = {0};
	struct sideband s = {0};

	make_stream(true);
	cr_assert(vec_push(&s.tasks, ((struct task){0})));
	cr_assert(vec_push(&s.tasks, ((struct task){.tid = 8})));
	cr_assert(vec_push(&s.tasks, ((struct task){.tid = 9})));
	add_chunk(&b, bytes[0], &(struct chunk){0, 0, 64, 0}, -1, 9, 0);
	add_chunk(&b, bytes[1], &(struct chunk){0, 0, 64, 0}, -1, 8, 0);
	add_note(&b, &(struct note){0, 40, AUX_FLAG_TRUNCATED}, 1, 5); /* by 9 */
	cr_assert_eq(aux_finish(&b, &s), ERR_NONE);
	cr_assert_eq(s.buffers.count, 2);
	cr_expect_eq(s.buffers.items[0].task.v, 1);
	cr_expect_eq(s.buffers.items[0].cuts.count, 0);
	cr_expect_eq(s.buffers.items[1].task.v, 2);
	cr_expect_eq(s.buffers.items[1].cuts.count, 1);
	aux_builder_done(&b);
	sideband_done(&s);
}
