/* Tracing data, and a sample read by it: the first two bytes say how long the sample is, which
 * follows them; the rest is the blob. */
#include <stdlib.h>
#include <string.h>

#include "common/fuzz/driver.h"
#include "decode/tests/perfdata_builder.h"
#include "decode/tracepoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tracepoints *t;
	const char *text;
	size_t length;
	uint64_t value;
	char line[200];

	if (size < 2)
		return 0;
	size_t raw_bytes = data[0] | (size_t)data[1] << 8;
	if (raw_bytes > size - 2)
		raw_bytes = size - 2;
	const uint8_t *raw = data + 2, *blob = raw + raw_bytes;
	if (tracepoints_new(&t, blob, size - 2 - raw_bytes, NULL) != ERR_NONE)
		return 0;
	tracepoints_format(t, 314, raw, raw_bytes, line, sizeof line);
	if (tracepoints_text(t, 314, raw, raw_bytes, "comm", &text, &length) && length > raw_bytes)
		abort();
	(void)tracepoints_number(t, 314, raw, raw_bytes, "pid", &value);
	tracepoints_free(t);
	return 0;
}

static void build_file(struct builder *b, const char *text)
{
	build_u64(b, strlen(text));
	build_bytes(b, text, strlen(text));
}

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	struct builder b = {0};

	if (n > 0)
		return NULL;
	build_u16(&b, 40);
	for (int i = 0; i < 5; i++)
		build_u64(&b, 0x0004002400000041);
	build_bytes(&b, "\x17\x08\x44tracing0.6\0", 14);
	build_u8(&b, 0);
	build_u8(&b, 8);
	build_u32(&b, 4096);
	build_bytes(&b, "header_page", 12);
	build_file(&b, "");
	build_bytes(&b, "header_event", 13);
	build_file(&b, "");
	build_u32(&b, 0);
	build_u32(&b, 1);
	build_bytes(&b, "sched", 6);
	build_u32(&b, 1);
	build_file(&b, "name: switch\nID: 314\nformat:\n"
		       "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
		       "\tfield:char comm[16];\toffset:0;\tsize:16;\tsigned:0;\n"
		       "\tfield:pid_t pid;\toffset:16;\tsize:4;\tsigned:1;\n"
		       "\tfield:unsigned long state[2];\toffset:16;\tsize:16;\tsigned:0;\n"
		       "\tfield:__data_loc char[] name;\toffset:36;\tsize:4;\tsigned:0;\n"
		       "\tfield:__rel_loc char[] other;\toffset:32;\tsize:4;\tsigned:0;\n"
		       "\nprint fmt: \"%d\", REC->pid\n");
	*size = b.out.count;
	return b.out.items;
}
