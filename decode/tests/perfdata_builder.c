/* See perfdata_builder.h. Written after the format's description, not with the reader's
 * code, so that the two check each other. */
#include "decode/tests/perfdata_builder.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEADER_BYTES = 104, DATA_SECTION = 40, FEATURE_BITS = 72 };

static void build_fail(const char *what)
{
	perror(what);
	abort();
}

void build_bytes(struct builder *b, const void *bytes, size_t count)
{
	if (count == 0)
		return;
	if (!vec_reserve(&b->out, b->out.count + count))
		build_fail("builder");
	memcpy(b->out.items + b->out.count, bytes, count);
	b->out.count += count;
}

void build_u8(struct builder *b, uint8_t value)
{
	build_bytes(b, &value, sizeof value);
}

void build_u16(struct builder *b, uint16_t value)
{
	build_bytes(b, &value, sizeof value);
}

void build_u32(struct builder *b, uint32_t value)
{
	build_bytes(b, &value, sizeof value);
}

void build_u64(struct builder *b, uint64_t value)
{
	build_bytes(b, &value, sizeof value);
}

static void build_padded(struct builder *b, const char *text, size_t unit)
{
	size_t length = strlen(text) + 1;

	build_bytes(b, text, length);
	for (; length % unit != 0; length++)
		build_u8(b, 0);
}

void build_string(struct builder *b, const char *text)
{
	build_padded(b, text, 8);
}

void build_header_string(struct builder *b, const char *text)
{
	build_u32(b, (uint32_t)((strlen(text) + 64) / 64 * 64));
	build_padded(b, text, 64);
}

void build_patch_u64(struct builder *b, size_t at, uint64_t value)
{
	memcpy(b->out.items + at, &value, sizeof value);
}

void build_record_start(struct builder *b, uint32_t type, uint16_t misc)
{
	b->record = b->out.count;
	build_u32(b, type);
	build_u16(b, misc);
	build_u16(b, 0);
}

void build_record_end(struct builder *b)
{
	uint16_t size = (uint16_t)(b->out.count - b->record);

	memcpy(b->out.items + b->record + 6, &size, sizeof size);
}

void build_attr(struct builder *b, const struct build_event *event)
{
	struct perf_event_attr attr = {.size = sizeof attr};

	attr.type = event->type;
	attr.config = event->config;
	attr.sample_type = event->sample_type;
	attr.read_format = event->read_format;
	attr.branch_sample_type = event->branch_sample_type;
	attr.sample_regs_user = attr.sample_regs_intr = event->regs;
	attr.sample_id_all = event->sample_id_all != 0;
	build_bytes(b, &attr, sizeof attr);
}

void build_file_start(struct builder *b, const struct build_event *events, size_t count)
{
	size_t slot = sizeof(struct perf_event_attr) + 16;

	build_bytes(b, "PERFILE2", 8);
	build_u64(b, HEADER_BYTES);
	build_u64(b, slot);
	build_u64(b, HEADER_BYTES);
	build_u64(b, slot * count);
	size_t ids = HEADER_BYTES + slot * count;
	build_u64(b, ids + 8 * count);
	for (int i = 0; i < 7; i++) /* data size, event types, feature bits */
		build_u64(b, 0);
	for (size_t i = 0; i < count; i++) {
		build_attr(b, &events[i]);
		build_u64(b, ids + 8 * i);
		build_u64(b, events[i].id ? 8 : 0);
	}
	for (size_t i = 0; i < count; i++)
		build_u64(b, events[i].id);
}

void build_file_end(struct builder *b, const struct build_feature *features, size_t count)
{
	uint64_t data_start, bits[4] = {0};

	memcpy(&data_start, b->out.items + DATA_SECTION, 8);
	build_patch_u64(b, DATA_SECTION + 8, b->out.count - data_start);
	size_t at = b->out.count + 16 * count;
	for (size_t i = 0; i < count; i++) {
		build_u64(b, at);
		build_u64(b, features[i].bytes);
		at += features[i].bytes;
		bits[features[i].bit / 64] |= (uint64_t)1 << features[i].bit % 64;
	}
	for (size_t i = 0; i < count; i++)
		build_bytes(b, features[i].data, features[i].bytes);
	for (size_t i = 0; i < 4; i++)
		build_patch_u64(b, FEATURE_BITS + 8 * i, bits[i]);
}

void build_pipe_start(struct builder *b, const struct build_event *events, size_t count)
{
	build_bytes(b, "PERFILE2", 8);
	build_u64(b, 16);
	for (size_t i = 0; i < count; i++) {
		build_record_start(b, 64, 0);
		build_attr(b, &events[i]);
		if (events[i].id)
			build_u64(b, events[i].id);
		build_record_end(b);
	}
}

void build_save(const struct builder *b, char *path)
{
	strcpy(path, "/tmp/perfdata-test-XXXXXX");
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, b->out.items, b->out.count) != (ssize_t)b->out.count)
		build_fail(path);
	close(fd);
}

void build_done(struct builder *b)
{
	vec_done(&b->out);
}
