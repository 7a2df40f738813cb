/* A whole perf.data, opened, walked twice and dumped, so that every reader of decode/record.h
 * sees the bytes. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "common/fuzz/driver.h"
#include "decode/dump_records.h"
#include "decode/tests/perfdata_builder.h"

static enum err count_record(void *context, const struct record *r, struct error *error)
{
	(void)error;
	*(size_t *)context += r->bytes;
	return ERR_NONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *null;
	char path[32];
	const char *paths[] = {path};
	struct perfdata p;
	struct error error;
	size_t bytes = 0;
	int fd = memfd_create("perf.data", MFD_CLOEXEC);

	if (!null)
		null = fopen("/dev/null", "w");
	if (fd < 0 || !null || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (perfdata_open(&p, paths, 1, &error) == ERR_NONE) {
		if (dump_records(&p, null, &error) != ERR_NONE)
			abort();
		if (perfdata_walk(&p, count_record, &bytes, &error) != ERR_NONE)
			abort();
		perfdata_done(&p);
	}
	close(fd);
	return 0;
}

static const struct build_event events[] = {
	{.type = 8,
	 .sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			PERF_SAMPLE_CPU | PERF_SAMPLE_AUX,
	 .sample_id_all = 1,
	 .id = 71},
	{.type = 2,
	 .config = 314,
	 .sample_type = PERF_SAMPLE_MAX - 1 - PERF_SAMPLE_REGS_INTR,
	 .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING |
			PERF_FORMAT_ID | PERF_FORMAT_GROUP | PERF_FORMAT_LOST,
	 .branch_sample_type = PERF_SAMPLE_BRANCH_HW_INDEX,
	 .regs = 3,
	 .sample_id_all = 1,
	 .id = 72},
};

/* One of each type, with a body that suits most and the first event's trailer. */
static void build_all_types(struct builder *b)
{
	static const uint8_t types[] = {1,  2,  3,  4,  5,  7,  10, 11, 12, 13, 14, 15, 16, 17, 18,
					19, 20, 21, 22, 67, 69, 70, 72, 73, 74, 78, 79, 84, 99};

	for (size_t i = 0; i < sizeof types; i++) {
		build_record_start(b, types[i], 0);
		for (uint64_t word = 1; word < 9; word++)
			build_u64(b, word == 2 ? 1 : word);
		build_string(b, "/a/path");
		build_u64(b, 7ull << 32); /* tid */
		build_u64(b, 1000);
		build_u64(b, 0);
		build_u64(b, 71);
		build_record_end(b);
	}
	build_record_start(b, 71, 0);
	build_u64(b, 16);
	for (int i = 0; i < 4; i++)
		build_u64(b, 0);
	build_record_end(b);
	build_bytes(b, "\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82", 16);
}

static void build_sample(struct builder *b)
{
	build_record_start(b, 9, 0);
	build_u64(b, 72);
	for (uint64_t i = 0; i < 8; i++) /* ip to period */
		build_u64(b, i);
	build_u64(b, 1); /* read: a group of one */
	for (int i = 0; i < 5; i++)
		build_u64(b, 9);
	build_u64(b, 2); /* callchain */
	build_u64(b, (uint64_t)-512);
	build_u64(b, 0x401000);
	build_u32(b, 4); /* raw */
	build_u32(b, 314);
	build_u64(b, 1); /* branch stack */
	for (int i = 0; i < 4; i++)
		build_u64(b, 3);
	build_u64(b, 2); /* registers */
	build_u64(b, 5);
	build_u64(b, 6);
	build_u64(b, 8); /* stack */
	build_u64(b, 7);
	build_u64(b, 8);
	for (int i = 0; i < 7; i++) /* weight to code page size */
		build_u64(b, 1);
	build_u64(b, 8); /* AUX */
	build_u64(b, 0x99);
	build_record_end(b);
}

static void build_features(struct builder *b)
{
	static const unsigned bits[] = {2, 3, 7, 11, 12, 16, 18, 21, 25, 27, 29};
	struct builder content = {0};
	struct build_feature features[sizeof bits / sizeof *bits];

	/* small numbers only: counts of one, lengths of a few bytes */
	for (int i = 0; i < 64; i++)
		build_u32(&content, i % 2 ? 8 : 1);
	for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
		features[i] = (struct build_feature){bits[i], content.out.items, content.out.count};
	build_file_end(b, features, sizeof bits / sizeof *bits);
	build_done(&content);
}

static void build_zstd(struct builder *b, uint32_t type)
{
	struct builder inside = {0};
	uint8_t zstd[8192];

	build_all_types(&inside);
	build_sample(&inside);
	size_t bytes = ZSTD_compress(zstd, sizeof zstd, inside.out.items, inside.out.count, 1);
	for (int half = 0; half < 2; half++) {
		size_t start = half ? bytes / 2 : 0, end = half ? bytes : bytes / 2;

		build_record_start(b, type, 0);
		if (type == 83)
			build_u64(b, end - start);
		build_bytes(b, zstd + start, end - start);
		build_record_end(b);
	}
	build_done(&inside);
}

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	struct builder b = {0};

	switch (n) {
	case 0:
		build_file_start(&b, events, 2);
		build_all_types(&b);
		build_features(&b);
		break;
	case 1:
		build_file_start(&b, events, 2);
		build_sample(&b);
		build_file_end(&b, NULL, 0);
		break;
	case 2:
		build_pipe_start(&b, events, 2);
		build_record_start(&b, 80, 0);
		build_u64(&b, 3);
		build_header_string(&b, "host");
		build_record_end(&b);
		build_all_types(&b);
		build_sample(&b);
		break;
	case 3:
	case 4:
		build_file_start(&b, events, 2);
		build_zstd(&b, n == 3 ? 81 : 83);
		build_file_end(&b, NULL, 0);
		break;
	default: return NULL;
	}
	*size = b.out.count;
	return b.out.items;
}
