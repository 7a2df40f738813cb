/* Builds small perf.data files in memory for tests.
 *
 *     struct builder b = {0};
 *     build_file_start(&b, events, 2);
 *     build_record_start(&b, RECORD_COMM, 0); ... build_record_end(&b);
 *     build_file_end(&b, features, 1);
 *     build_save(&b, path);
 *
 * A failing allocation or write ends the test program. */
#ifndef DECODE_TESTS_PERFDATA_BUILDER_H
#define DECODE_TESTS_PERFDATA_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "common/vec.h"

struct builder {
	VEC(uint8_t) out;
	size_t record; /* start of the open one */
};

struct build_event {
	uint32_t type;
	uint64_t config, sample_type, read_format, branch_sample_type, regs;
	int sample_id_all;
	uint64_t id; /* 0 = none */
};

struct build_feature {
	unsigned bit;
	const void *data;
	size_t bytes;
};

void build_bytes(struct builder *b, const void *bytes, size_t count);
void build_u8(struct builder *b, uint8_t value);
void build_u16(struct builder *b, uint16_t value);
void build_u32(struct builder *b, uint32_t value);
void build_u64(struct builder *b, uint64_t value);
/* NUL-terminated and padded to 8 bytes, as in records. */
void build_string(struct builder *b, const char *text);
/* u32 length, then the text padded to 64 bytes, as in features. */
void build_header_string(struct builder *b, const char *text);
void build_patch_u64(struct builder *b, size_t at, uint64_t value);

void build_record_start(struct builder *b, uint32_t type, uint16_t misc);
void build_record_end(struct builder *b); /* sets its size */

void build_attr(struct builder *b, const struct build_event *event);
/* Header and attrs of a file; records follow. */
void build_file_start(struct builder *b, const struct build_event *events, size_t count);
void build_file_end(struct builder *b, const struct build_feature *features, size_t count);
/* The header and HEADER_ATTR records of a pipe-mode file; records follow. */
void build_pipe_start(struct builder *b, const struct build_event *events, size_t count);

/* A new file; path (at least 64 bytes) gets its name. */
void build_save(const struct builder *b, char *path);
void build_done(struct builder *b);

#endif
