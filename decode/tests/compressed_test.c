#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "common/bytes.h"
#include "decode/compressed.h"
#include "decode/perfdata.h"
#include "decode/tests/perfdata_builder.h"

enum { PIECE_MAX = 65519 }; /* zstd bytes that perf puts into one COMPRESSED2 */

static const struct build_event event = {
	.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_RAW | PERF_SAMPLE_IDENTIFIER,
	.sample_id_all = 1,
	.id = 7,
};

/* Samples with `raw_bytes` bytes that hardly compress. */
static void build_samples(struct builder *b, uint32_t count, uint32_t raw_bytes)
{
	uint64_t random = 88172645463325252;

	for (uint32_t i = 0; i < count; i++) {
		build_record_start(b, RECORD_SAMPLE, 0);
		build_u64(b, 7);
		build_u32(b, i);
		build_u32(b, i);
		build_u32(b, raw_bytes);
		for (uint32_t j = 0; j < raw_bytes; j++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			build_u8(b, (uint8_t)random);
		}
		build_record_end(b);
	}
}

/* Compresses the next bytes of one endless frame, flushed, into at most `room`. */
struct stream {
	ZSTD_CStream *zstd;
	uint8_t out[1 << 18];
};

static void stream_init(struct stream *s)
{
	s->zstd = ZSTD_createCStream();
	cr_assert(s->zstd);
	cr_assert_not(ZSTD_isError(ZSTD_initCStream(s->zstd, 1)));
}

static size_t stream_flush(struct stream *s, const uint8_t *data, size_t bytes)
{
	ZSTD_inBuffer in = {data, bytes, 0};
	ZSTD_outBuffer out = {s->out, sizeof s->out, 0};

	cr_assert_eq(ZSTD_compressStream2(s->zstd, &out, &in, ZSTD_e_flush), 0);
	return out.pos;
}

static void build_compressed(struct builder *b, uint32_t type, const uint8_t *data, size_t bytes)
{
	build_record_start(b, type, 0);
	if (type == RECORD_COMPRESSED2)
		build_u64(b, bytes);
	build_bytes(b, data, bytes);
	while (type == RECORD_COMPRESSED2 && b->out.count % 8 != 0)
		build_u8(b, 0);
	build_record_end(b);
}

struct seen {
	uint32_t compressed, samples, others;
	uint32_t expected_tid;
	bool in_order;
	uint64_t raw_bytes;
};

static enum err see(void *context, const struct record *r, struct error *error)
{
	struct seen *seen = context;

	(void)error;
	if (r->type == RECORD_COMPRESSED || r->type == RECORD_COMPRESSED2) {
		seen->compressed++;
	} else if (r->type == RECORD_SAMPLE) {
		seen->samples++;
		if ((uint32_t)r->id.tid != seen->expected_tid++)
			seen->in_order = false;
		seen->raw_bytes += load_le(r->body + 16, 4);
	} else {
		seen->others++;
	}
	return ERR_NONE;
}

static struct seen walk(struct perfdata *p)
{
	struct seen seen = {.in_order = true};
	struct error error = {0};

	cr_assert_eq(perfdata_walk(p, see, &seen, &error), ERR_NONE, "%s", error.message);
	return seen;
}

static void open_built(struct builder *b, struct perfdata *p)
{
	char path[64];
	const char *paths[] = {path};
	struct error error = {0};

	build_save(b, path);
	cr_assert_eq(perfdata_open(p, paths, 1, &error), ERR_NONE, "%s", error.message);
	unlink(path);
	build_done(b);
}

/* 100 samples, cut into `pieces` without regard to their bounds. */
static void build_pieces(struct builder *b, uint32_t type, size_t pieces)
{
	static struct stream s;
	struct builder samples = {0};

	stream_init(&s);
	build_samples(&samples, 100, 100);
	build_file_start(b, &event, 1);
	for (size_t i = 0; i < pieces; i++) {
		size_t start = samples.out.count * i / pieces;
		size_t end = samples.out.count * (i + 1) / pieces;
		size_t bytes = stream_flush(&s, samples.out.items + start, end - start);

		build_compressed(b, type, s.out, bytes);
	}
	build_done(&samples);
	ZSTD_freeCStream(s.zstd);
}

Test(compressed, records_straddle_the_pieces)
{
	static const uint32_t types[] = {RECORD_COMPRESSED, RECORD_COMPRESSED2};
	static const size_t pieces[] = {1, 2, 3, 7, 251};

	for (size_t t = 0; t < 2; t++) {
		for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
			struct builder b = {0};
			struct perfdata p;

			build_pieces(&b, types[t], pieces[i]);
			build_file_end(&b, NULL, 0);
			open_built(&b, &p);
			for (int again = 0; again < 2; again++) {
				struct seen seen = walk(&p);

				cr_expect_eq(seen.compressed, pieces[i]);
				cr_expect_eq(seen.samples, 100);
				cr_expect_eq(seen.raw_bytes, 10000);
				cr_expect(seen.in_order);
				cr_expect_eq(p.damage.count, 0);
			}
			perfdata_done(&p);
		}
	}
}

static enum err stop_at_50(void *context, const struct record *r, struct error *error)
{
	int *count = context;

	(void)r;
	return ++*count == 50 ? error_set(error, ERR_LIMIT, "enough") : ERR_NONE;
}

Test(compressed, stopped_walk_goes_on_later)
{
	struct builder b = {0};
	struct perfdata p;
	struct error error;
	int count = 0;

	build_pieces(&b, RECORD_COMPRESSED, 20);
	build_file_end(&b, NULL, 0);
	open_built(&b, &p);
	cr_expect_eq(perfdata_walk(&p, stop_at_50, &count, &error), ERR_LIMIT);
	struct seen seen = walk(&p);
	cr_expect_eq(seen.samples, 100);
	cr_expect(seen.in_order);
	perfdata_done(&p);
}

Test(compressed, cut_stream_tells_the_unfinished_record)
{
	struct builder b = {0}, samples = {0};
	struct perfdata p;
	static struct stream s;

	stream_init(&s);
	build_samples(&samples, 10, 100);
	build_file_start(&b, &event, 1);
	build_compressed(&b, RECORD_COMPRESSED, s.out,
			 stream_flush(&s, samples.out.items, samples.out.count - 30));
	build_file_end(&b, NULL, 0);
	open_built(&b, &p);
	cr_expect_eq(walk(&p).samples, 9);
	cr_assert_eq(p.damage.count, 1);
	cr_expect_eq(p.damage.items[0].kind, PERFDATA_TRUNCATED);
	cr_expect_eq(p.damage.items[0].lost_bytes, samples.out.count / 10 - 30);
	perfdata_done(&p);
	build_done(&samples);
	ZSTD_freeCStream(s.zstd);
}

Test(compressed, corrupt_stream_ends_but_the_file_goes_on)
{
	struct builder b = {0};
	struct perfdata p;
	size_t second = 0;

	build_pieces(&b, RECORD_COMPRESSED, 5);
	uint64_t at;
	memcpy(&at, b.out.items + 40, 8); /* data offset */
	uint64_t lost = 0;
	for (int i = 0; i < 5; i++) {
		uint16_t size;

		memcpy(&size, b.out.items + at + 6, 2);
		if (i == 1)
			second = at;
		if (i >= 1)
			lost += size;
		at += size;
	}
	memset(b.out.items + second + 8, 0xff, 64);
	build_record_start(&b, RECORD_FINISHED_ROUND, 0);
	build_record_end(&b);
	build_file_end(&b, NULL, 0);
	open_built(&b, &p);
	for (int again = 0; again < 2; again++) {
		struct seen seen = walk(&p);

		cr_expect_eq(seen.compressed, 5);
		cr_expect_eq(seen.samples, 20);
		cr_expect(seen.in_order);
		cr_expect_eq(seen.others, 1);
		cr_assert_eq(p.damage.count, 1);
		cr_expect_eq(p.damage.items[0].kind, PERFDATA_BAD_STREAM);
		cr_expect_eq(p.damage.items[0].file_off, second);
		cr_expect_eq(p.damage.items[0].lost_bytes, lost);
	}
	perfdata_done(&p);
}

Test(compressed, impossible_size_inside)
{
	struct builder b = {0}, inside = {0};
	struct perfdata p;
	static struct stream s;

	stream_init(&s);
	build_samples(&inside, 3, 100);
	build_record_start(&inside, RECORD_SAMPLE, 0); /* left at size 0 */
	build_u64(&inside, 7);
	build_file_start(&b, &event, 1);
	build_compressed(&b, RECORD_COMPRESSED, s.out,
			 stream_flush(&s, inside.out.items, inside.out.count));
	build_file_end(&b, NULL, 0);
	open_built(&b, &p);
	cr_expect_eq(walk(&p).samples, 3);
	cr_assert_eq(p.damage.count, 1);
	cr_expect_eq(p.damage.items[0].kind, PERFDATA_BAD_STREAM);
	perfdata_done(&p);
	build_done(&inside);
	ZSTD_freeCStream(s.zstd);
}

/* header.size of one full COMPRESSED2 would be 65536: perf 6.16 writes 0 and no padding. */
Test(compressed, size_wraps_to_zero)
{
	struct builder b = {0}, samples = {0};
	struct perfdata p;
	static uint8_t zstd[PIECE_MAX];

	build_samples(&samples, 100, 100);
	size_t bytes = ZSTD_compress(zstd, sizeof zstd, samples.out.items, samples.out.count, 1);
	cr_assert_not(ZSTD_isError(bytes));
	build_file_start(&b, &event, 1);
	size_t at = b.out.count;
	build_record_start(&b, RECORD_COMPRESSED2, 0);
	build_u64(&b, PIECE_MAX);
	build_bytes(&b, zstd, bytes);
	build_u32(&b, 0x184d2a50); /* a skippable frame fills it up */
	build_u32(&b, (uint32_t)(PIECE_MAX - bytes - 8));
	while (b.out.count < at + 16 + PIECE_MAX)
		build_u8(&b, 0);
	build_record_start(&b, RECORD_FINISHED_ROUND, 0);
	build_record_end(&b);
	build_file_end(&b, NULL, 0);
	open_built(&b, &p);
	struct seen seen = walk(&p);
	cr_expect_eq(seen.samples, 100);
	cr_expect(seen.in_order);
	cr_expect_eq(seen.others, 1);
	cr_expect_eq(p.damage.count, 0);
	perfdata_done(&p);
	build_done(&samples);
}

/* More than one at once: the first header has the sizes of all, the others no data_size. */
Test(compressed, sizes_of_several_pieces_in_the_first)
{
	struct builder b = {0}, samples = {0};
	struct perfdata p;
	static struct stream s;

	stream_init(&s);
	build_samples(&samples, 1500, 100);
	size_t bytes = stream_flush(&s, samples.out.items, samples.out.count);
	cr_assert_gt(bytes, 2 * PIECE_MAX);
	cr_assert_lt(bytes, sizeof s.out);
	build_file_start(&b, &event, 1);
	size_t at = b.out.count;
	for (size_t done = 0; done < bytes;) {
		size_t piece = bytes - done < PIECE_MAX ? bytes - done : PIECE_MAX;

		build_record_start(&b, RECORD_COMPRESSED2, 0);
		build_u64(&b, 0x5a5a5a5a5a5a5a5a);
		build_bytes(&b, s.out + done, piece);
		build_record_end(&b);
		done += piece;
	}
	size_t all = b.out.count - at;
	uint16_t wrapped = (uint16_t)((all + 7) / 8 * 8);
	memcpy(b.out.items + at + 6, &wrapped, 2);
	build_patch_u64(&b, at + 8, all - 16);
	build_record_start(&b, RECORD_FINISHED_ROUND, 0);
	build_record_end(&b);
	build_file_end(&b, NULL, 0);
	open_built(&b, &p);
	struct seen seen = walk(&p);
	cr_expect_eq(seen.compressed, 1);
	cr_expect_eq(seen.samples, 1500);
	cr_expect(seen.in_order);
	cr_expect_eq(seen.others, 1);
	cr_expect_eq(p.damage.count, 0);
	perfdata_done(&p);
	build_done(&samples);
	ZSTD_freeCStream(s.zstd);
}

Test(compressed, compressed2_sizes)
{
	static const struct {
		uint16_t header_size;
		uint64_t data_size;
		size_t available;
		uint64_t expected;
	} cases[] = {
		{24, 8, 100, 24},
		{24, 5, 100, 24}, /* padded */
		{0, 65519, 1 << 20, 65535},
		{2728, 68246, 1 << 20, 68262},
		{24, 9, 100, 0},
		{0, 0, 100, 0},
		{16, 0, 100, 16},
		{0, UINT64_MAX, 100, 0},
		{16, UINT64_MAX - 15, 100, 0},
		{24, 8, 15, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder b = {0};

		build_u32(&b, RECORD_COMPRESSED2);
		build_u16(&b, 0);
		build_u16(&b, cases[i].header_size);
		build_u64(&b, cases[i].data_size);
		cr_expect_eq(compressed2_file_bytes(b.out.items, cases[i].available),
			     cases[i].expected, "case %zu", i);
		build_done(&b);
	}
}

/* A few KiB that claim 128 MiB: stopped near the ceiling. */
Test(compressed, bomb)
{
	struct builder b = {0}, inside = {0};
	struct perfdata p;
	static struct stream s;

	stream_init(&s);
	for (int i = 0; i < 1 << 17; i++) {
		build_record_start(&inside, RECORD_FINISHED_ROUND, 0);
		build_record_end(&inside);
	}
	build_file_start(&b, &event, 1);
	for (int i = 0; i < 128; i++)
		build_compressed(&b, RECORD_COMPRESSED, s.out,
				 stream_flush(&s, inside.out.items, inside.out.count));
	cr_assert_lt(b.out.count, 1 << 17);
	build_file_end(&b, NULL, 0);
	open_built(&b, &p);
	struct seen seen = walk(&p);
	uint64_t bytes = 8 * (uint64_t)seen.others;
	cr_expect_geq(bytes, PERFDATA_DECOMPRESSED_FREE);
	cr_expect_leq(bytes, PERFDATA_DECOMPRESSED_FREE + ((uint64_t)PERFDATA_RATIO_MAX << 17));
	cr_assert_eq(p.damage.count, 1);
	cr_expect_eq(p.damage.items[0].kind, PERFDATA_ZSTD_LIMIT);
	perfdata_done(&p);
	build_done(&inside);
	ZSTD_freeCStream(s.zstd);
}

/* Much out of little: zstd takes all input before it has given all output. */
Test(compressed, one_record_of_a_mebibyte)
{
	struct builder b = {0}, inside = {0};
	struct perfdata p;
	static struct stream s;

	stream_init(&s);
	for (int i = 0; i < 1 << 17; i++) {
		build_record_start(&inside, RECORD_FINISHED_ROUND, 0);
		build_record_end(&inside);
	}
	build_file_start(&b, &event, 1);
	build_compressed(&b, RECORD_COMPRESSED, s.out,
			 stream_flush(&s, inside.out.items, inside.out.count));
	build_file_end(&b, NULL, 0);
	open_built(&b, &p);
	cr_expect_eq(walk(&p).others, 1 << 17);
	perfdata_done(&p);
	build_done(&inside);
	ZSTD_freeCStream(s.zstd);
}

/* The files of a series have streams of their own: what the first leaves unfinished is not
 * continued by the second. */
Test(compressed, each_file_has_its_stream)
{
	char path[2][64];
	const char *paths[] = {path[0], path[1]};
	struct perfdata p;
	struct error error;
	struct seen seen = {.in_order = true};
	struct builder samples = {0};
	static struct stream s;

	build_samples(&samples, 10, 100);
	for (int i = 0; i < 2; i++) {
		struct builder b = {0};

		stream_init(&s);
		build_file_start(&b, &event, 1);
		build_compressed(
			&b, RECORD_COMPRESSED2, s.out,
			stream_flush(&s, samples.out.items, samples.out.count - (i == 0 ? 30 : 0)));
		build_file_end(&b, NULL, 0);
		build_save(&b, path[i]);
		build_done(&b);
		ZSTD_freeCStream(s.zstd);
	}
	cr_assert_eq(perfdata_open(&p, paths, 2, &error), ERR_NONE);
	cr_assert_eq(perfdata_walk(&p, see, &seen, &error), ERR_NONE);
	cr_expect_eq(seen.samples, 19);
	cr_assert_eq(p.damage.count, 1);
	cr_expect_eq(p.damage.items[0].file, 0);
	perfdata_done(&p);
	build_done(&samples);
	unlink(path[0]);
	unlink(path[1]);
}
