#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode/dump_records.h"
#include "decode/tests/perfdata_builder.h"

static const struct build_event events[] = {
	{.type = 8,
	 .config = 0xe601,
	 .sample_type =
		 PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER,
	 .sample_id_all = 1,
	 .id = 71},
	{.type = 1,
	 .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER,
	 .sample_id_all = 1,
	 .id = 72},
};

static void build_trailer(struct builder *b, uint64_t time)
{
	build_u32(b, 11);
	build_u32(b, 12);
	build_u64(b, time);
	build_u64(b, 3); /* cpu */
	build_u64(b, 71);
	build_record_end(b);
}

static void build_records(struct builder *b)
{
	build_record_start(b, RECORD_MMAP2, 2);
	build_u32(b, 11);
	build_u32(b, 12);
	build_u64(b, 0x401000);
	build_u64(b, 0x2000);
	build_u64(b, 0x1000);
	build_u32(b, 8);
	build_u32(b, 1);
	build_u64(b, 1234);
	build_u64(b, 5);
	build_u32(b, 5);
	build_u32(b, 2);
	build_string(b, "/srv/a\nb\x1b[31m"); /* must not reach the terminal as it is */
	build_trailer(b, 1000000001);
	build_record_start(b, RECORD_COMM, RECORD_MISC_COMM_EXEC);
	build_u32(b, 11);
	build_u32(b, 12);
	build_string(b, "app");
	build_trailer(b, 2000000002);
	build_record_start(b, RECORD_SWITCH_CPU_WIDE, RECORD_MISC_SWITCH_OUT);
	build_u32(b, 0);
	build_u32(b, 0);
	build_trailer(b, 3);
	build_record_start(b, RECORD_AUX, 0);
	build_u64(b, 0x100);
	build_u64(b, 0x20);
	build_u64(b, 3);
	build_trailer(b, 4);
	build_record_start(b, RECORD_AUXTRACE, 0);
	build_u64(b, 4);
	build_u64(b, 0x100);
	build_u64(b, 0xabc);
	build_u32(b, 3);
	build_u32(b, UINT32_MAX);
	build_u32(b, 3);
	build_u32(b, 0);
	build_record_end(b);
	build_bytes(b, "\2\x82\2\x82", 4);
	build_record_start(b, RECORD_SAMPLE, 2);
	build_u64(b, 72);
	build_u64(b, 0x401234);
	build_u32(b, 11);
	build_u32(b, 12);
	build_u64(b, 5);
	build_u64(b, 3);
	build_u64(b, 2);
	build_u64(b, (uint64_t)-512);
	build_u64(b, 0x401234);
	build_record_end(b);
	build_record_start(b, RECORD_LOST, 0); /* too short */
	build_trailer(b, 6);
	build_record_start(b, 99, 0);
	build_u64(b, 0);
	build_record_end(b);
}

static const char expected[] =
	"# file 0: PATH, 960 bytes\n"
	"# hostname: host\n"
	"# event 0: (no name) type 8 config e601 sample_type 10086 ids 1\n"
	"# event 1: (no name) type 1 config 0 sample_type 100a7 ids 1\n"
	"000198 120 MMAP2 1.000000001 cpu 3 11/12: 11/12 [401000(2000) @ 1000] r-xp 08:01 "
	"inode 1234 5 /srv/a\\x0ab\\x1b[31m\n"
	"000210 56 COMM 2.000000002 cpu 3 11/12: 11/12 app (exec)\n"
	"000248 48 SWITCH_CPU_WIDE 0.000000003 cpu 3 11/12: out next 0/0\n"
	"000278 64 AUX 0.000000004 cpu 3 11/12: offset 100 size 20 flags 3 truncated overwrite\n"
	"0002b8 48 AUXTRACE: size 4 offset 100 ref abc idx 3 tid -1 cpu 3 +4 bytes\n"
	"0002ec 72 SAMPLE 0.000000005 cpu 3 11/12: event 1 ip 401234 period 0 callchain 2: (-512) "
	"401234\n"
	"000334 40 LOST 0.000000006 cpu 3 11/12: (malformed)\n"
	"00035c 16 UNKNOWN_99:\n"
	"# 8 records, 1 of unknown type (16 bytes)\n";

/* Replaces the first `from` of text; the caller frees. */
static char *replaced(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *result = NULL;

	cr_assert(at);
	cr_assert_geq(asprintf(&result, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)),
		      0);
	return result;
}

static char *dumped(const char *path)
{
	const char *paths[] = {path};
	struct perfdata p;
	struct error error = {0};
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert(out);
	cr_assert_eq(perfdata_open(&p, paths, 1, &error), ERR_NONE, "%s", error.message);
	cr_assert_eq(dump_records(&p, out, &error), ERR_NONE, "%s", error.message);
	fclose(out);
	perfdata_done(&p);
	return text;
}

Test(dump_records, one_line_each)
{
	struct builder b = {0}, host = {0};
	char path[64];

	build_header_string(&host, "host");
	struct build_feature feature = {3, host.out.items, host.out.count};
	build_file_start(&b, events, 2);
	build_records(&b);
	build_file_end(&b, &feature, 1);
	build_save(&b, path);
	char *text = dumped(path);
	char *wanted = replaced(expected, "PATH", path);
	cr_expect_str_eq(text, wanted);
	unlink(path);
	free(text);
	free(wanted);
	build_done(&b);
	build_done(&host);
}

Test(dump_records, damage_is_told_at_the_end)
{
	struct builder b = {0};
	char path[64];

	build_file_start(&b, events, 2);
	build_records(&b);
	build_file_end(&b, NULL, 0);
	b.out.count -= 3;
	build_save(&b, path);
	char *text = dumped(path);
	cr_expect(strstr(text, "bytes, the recording did not end properly\n"), "%s", text);
	cr_expect(strstr(text, "# 7 records\n# file 0 at 35c: file ends early, 16 bytes lost\n"),
		  "%s", text);
	unlink(path);
	free(text);
	build_done(&b);
}

Test(dump_records, full_disk)
{
	struct builder b = {0};
	char path[64];
	const char *paths[] = {path};
	struct perfdata p;
	struct error error = {0};
	FILE *out = fopen("/dev/full", "w");

	cr_assert(out);
	build_file_start(&b, events, 2);
	for (int i = 0; i < 100; i++) /* more than stdio holds back */
		build_records(&b);
	build_file_end(&b, NULL, 0);
	build_save(&b, path);
	cr_assert_eq(perfdata_open(&p, paths, 1, &error), ERR_NONE);
	cr_expect_eq(dump_records(&p, out, &error), ERR_IO);
	perfdata_done(&p);
	fclose(out);
	unlink(path);
	build_done(&b);
}

/* Captures of real hardware, where they are at hand. */
Test(dump_records, real_captures_to_their_end)
{
	static const struct {
		const char *name;
		unsigned records;
		const char *line; /* one of them */
	} cases[] = {
		{"quipper/x.perf.data", 257, "TIME_CONV: shift 31 mult 1789569706"},
		{"quipper/piped.perf.data", 667, "# event 1: cycles type 0"},
		{"lldb-multicore/x.perf.data", 316,
		 "# event 0: intel_pt/tsc,mtc=0/u type 8 (intel_pt)"},
		{"dynamorio/x.perf.data", 15, "# cpuid: GenuineIntel,6,85,4\n"},
		{"lldb-single/x2threads.perf.data", 14, "ITRACE_START"},
		{"lldb-multifile/x.perf.data", 9, "/lldb/libbar.so\n"},
	};
	const char *top = getenv("top_srcdir");
	char path[4096], end[64];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(path, sizeof path, "%s/../shared/cases/real/%s", top ? top : ".",
			 cases[i].name);
		if (access(path, R_OK) != 0)
			cr_skip("no captures at hand");
		char *text = dumped(path);
		snprintf(end, sizeof end, "\n# %u records\n", cases[i].records);
		const char *found = strstr(text, end);
		cr_expect(found && found[strlen(end)] == '\0', "%s: no end%s", cases[i].name, end);
		cr_expect(strstr(text, cases[i].line), "%s: no line %s", cases[i].name,
			  cases[i].line);
		cr_expect_null(strstr(text, "(malformed)"), "%s", cases[i].name);
		free(text);
	}
}
