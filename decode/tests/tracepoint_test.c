#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "decode/tests/perfdata_builder.h"
#include "decode/tracepoint.h"

static const char switch_format[] =
	"name: sched_switch\n"
	"ID: 314\n"
	"format:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
	"\n"
	"\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
	"\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
	"\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
	"\tfield:u8 flags;\toffset:40;\tsize:1;\tsigned:0;\n"
	"\tfield:__data_loc char[] cgroup;\toffset:44;\tsize:4;\tsigned:0;\n"
	"\tfield:__rel_loc char[] slice;\toffset:48;\tsize:4;\tsigned:0;\n"
	"\n"
	"print fmt: \"prev_comm=%s\", ((((((((REC->prev_comm\n"; /* its parser must not see this */

static void build_file(struct builder *b, const char *text)
{
	build_u64(b, strlen(text));
	build_bytes(b, text, strlen(text));
}

static void build_blob(struct builder *b)
{
	build_bytes(b, "\x17\x08\x44tracing0.6\0", 14);
	build_u8(b, 0); /* little-endian */
	build_u8(b, 8); /* long */
	build_u32(b, 4096);
	build_bytes(b, "header_page", 12);
	build_file(b, "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n");
	build_bytes(b, "header_event", 13);
	build_file(b, "# compressed entry header\n");
	build_u32(b, 1); /* ftrace's own */
	build_file(b, "name: function\nID: 1\nformat:\n");
	build_u32(b, 1); /* systems */
	build_bytes(b, "sched", 6);
	build_u32(b, 2);
	build_file(b, switch_format);
	build_file(b, "what is this\n");
}

static void build_raw(struct builder *b)
{
	build_u16(b, 314);
	build_u16(b, 0);
	build_u32(b, 77);
	build_bytes(b, "worker\0old bytes", 16);
	build_u32(b, (uint32_t)-2);
	build_u32(b, 0);
	build_u64(b, (uint64_t)-1000);
	build_u8(b, 200);
	build_bytes(b, "\0\0\0", 3);
	build_u32(b, 52 | 6 << 16); /* where the dynamic field lies */
	build_u32(b, 6 | 3 << 16);  /* counted from behind this word */
	build_bytes(b, "/user\0", 6);
	build_bytes(b, "ab\0", 3);
}

Test(tracepoint, fields_of_a_switch)
{
	struct builder blob = {0}, raw = {0};
	struct tracepoints *t;
	const char *system, *name, *text;
	size_t length;
	uint64_t value;
	char line[256];

	build_blob(&blob);
	build_raw(&raw);
	cr_assert_eq(tracepoints_new(&t, blob.out.items, blob.out.count, NULL), ERR_NONE);
	cr_expect_eq(tracepoints_find(t, "sched", "sched_switch"), 314);
	cr_expect_eq(tracepoints_find(t, "sched", "sched_wakeup"), -1);
	cr_assert(tracepoints_name(t, 314, &system, &name));
	cr_expect_str_eq(system, "sched");
	cr_expect_str_eq(name, "sched_switch");
	cr_expect_not(tracepoints_name(t, 315, &system, &name));
	cr_expect_not(tracepoints_name(t, UINT32_MAX, &system, &name));

	const uint8_t *p = raw.out.items;
	size_t n = raw.out.count;
	cr_assert(tracepoints_number(t, 314, p, n, "common_pid", &value));
	cr_expect_eq(value, 77);
	cr_assert(tracepoints_number(t, 314, p, n, "prev_pid", &value));
	cr_expect_eq((int64_t)value, -2);
	cr_assert(tracepoints_number(t, 314, p, n, "prev_state", &value));
	cr_expect_eq((int64_t)value, -1000);
	cr_assert(tracepoints_number(t, 314, p, n, "flags", &value));
	cr_expect_eq(value, 200);
	cr_expect_not(tracepoints_number(t, 314, p, n, "prev_comm", &value));
	cr_expect_not(tracepoints_number(t, 314, p, n, "no such", &value));
	cr_assert(tracepoints_text(t, 314, p, n, "prev_comm", &text, &length));
	cr_expect_eq(length, 6);
	cr_expect_arr_eq(text, "worker", 6);
	cr_assert(tracepoints_text(t, 314, p, n, "cgroup", &text, &length));
	cr_expect_arr_eq(text, "/user", 5);
	tracepoints_format(t, 314, p, n, line, sizeof line);
	cr_expect_str_eq(
		line,
		"prev_comm=worker prev_pid=-2 prev_state=-1000 flags=200 cgroup=/user slice=ab");
	tracepoints_format(t, 314, p, n, line, 20);
	cr_expect_str_eq(line, "prev_comm=worker pr");
	tracepoints_format(t, 999, p, n, line, sizeof line);
	cr_expect_str_eq(line, "");
	tracepoints_free(t);
	build_done(&blob);
	build_done(&raw);
}

Test(tracepoint, raw_bytes_cut_anywhere)
{
	struct builder blob = {0}, raw = {0};
	struct tracepoints *t;
	char line[256];
	const char *text;
	size_t length;
	uint64_t value;

	build_blob(&blob);
	build_raw(&raw);
	cr_assert_eq(tracepoints_new(&t, blob.out.items, blob.out.count, NULL), ERR_NONE);
	for (size_t bytes = 0; bytes < raw.out.count; bytes++) {
		uint8_t *copy = malloc(bytes + 1);

		cr_assert(copy);
		memcpy(copy, raw.out.items, bytes);
		cr_expect_eq(tracepoints_number(t, 314, copy, bytes, "prev_state", &value),
			     bytes >= 40);
		cr_expect_eq(tracepoints_text(t, 314, copy, bytes, "prev_comm", &text, &length),
			     bytes >= 24);
		cr_expect_eq(tracepoints_text(t, 314, copy, bytes, "cgroup", &text, &length),
			     bytes >= 58);
		tracepoints_format(t, 314, copy, bytes, line, sizeof line);
		cr_expect(strstr(line, "slice=?"), "%zu bytes: %s", bytes, line);
		free(copy);
	}
	tracepoints_free(t);
	build_done(&blob);
	build_done(&raw);
}

Test(tracepoint, blob_cut_anywhere_is_refused)
{
	struct builder blob = {0};
	struct tracepoints *t;
	struct error error;

	build_blob(&blob);
	for (size_t bytes = 0; bytes < blob.out.count; bytes++) {
		uint8_t *copy = malloc(bytes + 1);

		cr_assert(copy);
		memcpy(copy, blob.out.items, bytes);
		cr_expect_eq(tracepoints_new(&t, copy, bytes, &error), ERR_FORMAT, "%zu bytes",
			     bytes);
		free(copy);
	}
	blob.out.items[14] = 1;
	cr_expect_eq(tracepoints_new(&t, blob.out.items, blob.out.count, &error), ERR_UNSUPPORTED);
	build_done(&blob);
}
