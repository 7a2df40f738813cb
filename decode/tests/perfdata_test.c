#include <criterion/criterion.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include "decode/perfdata.h"
#include "decode/tests/perfdata_builder.h"

enum {
	WHO_AND_WHEN = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER,
};

static const struct build_event two_events[] = {
	{.type = 8, .config = 1, .sample_type = WHO_AND_WHEN, .sample_id_all = 1, .id = 71},
	{.type = 1,
	 .config = 9,
	 .sample_type = WHO_AND_WHEN | PERF_SAMPLE_IP,
	 .sample_id_all = 1,
	 .id = 72},
};

/* COMM of tid, with the trailer of the events above. */
static void build_comm(struct builder *b, uint32_t tid, uint64_t time, uint64_t id)
{
	build_record_start(b, RECORD_COMM, 0);
	build_u32(b, tid);
	build_u32(b, tid);
	build_string(b, "task");
	build_u32(b, tid);
	build_u32(b, tid);
	build_u64(b, time);
	build_u64(b, id);
	build_record_end(b);
}

/* What a walk saw, as text: "COMM 0 5;" = type, event, tid. */
struct seen {
	char text[4096];
	size_t payload_bytes, payload_records;
	uint8_t payload_sum;
};

static enum err see(void *context, const struct record *r, struct error *error)
{
	struct seen *seen = context;
	size_t at = strlen(seen->text);
	const char *name = record_type_name(r->type);

	(void)error;
	snprintf(seen->text + at, sizeof seen->text - at, "%s %d %d;", name ? name : "?", r->event,
		 r->id.tid);
	seen->payload_bytes += r->payload_bytes;
	for (size_t i = 0; i < r->payload_bytes; i++)
		seen->payload_sum += r->payload[i];
	seen->payload_records += r->payload != NULL;
	return ERR_NONE;
}

/* Saves b, opens and walks it; *p stays open. */
static struct seen open_and_walk(struct builder *b, struct perfdata *p)
{
	char path[64];
	struct error error = {0};
	struct seen seen = {0};
	const char *paths[] = {path};

	build_save(b, path);
	cr_assert_eq(perfdata_open(p, paths, 1, &error), ERR_NONE, "%s", error.message);
	unlink(path);
	cr_assert_eq(perfdata_walk(p, see, &seen, &error), ERR_NONE, "%s", error.message);
	build_done(b);
	return seen;
}

Test(perfdata, records_find_their_event)
{
	struct builder b = {0};
	struct perfdata p;

	build_file_start(&b, two_events, 2);
	build_comm(&b, 5, 100, 71);
	build_comm(&b, 6, 101, 72);
	build_comm(&b, 7, 0, 0);   /* synthesized */
	build_comm(&b, 8, 102, 9); /* an id of no event */
	build_record_start(&b, RECORD_SAMPLE, 0);
	build_u64(&b, 72);
	build_u64(&b, 0x1234);
	build_u64(&b, 5 | 9ull << 32);
	build_u64(&b, 103);
	build_record_end(&b);
	build_record_start(&b, RECORD_FINISHED_ROUND, 0);
	build_record_end(&b);
	build_file_end(&b, NULL, 0);
	struct seen seen = open_and_walk(&b, &p);
	cr_expect_str_eq(seen.text, "COMM 0 5;COMM 1 6;COMM 0 7;COMM -1 -1;SAMPLE 1 9;"
				    "FINISHED_ROUND -1 -1;");
	cr_expect_eq(p.record_count, 6);
	cr_expect_eq(p.damage.count, 0);
	cr_expect_eq(p.events.count, 2);
	cr_expect_eq(p.events.items[1].config, 9);
	cr_expect_eq(perfdata_event_of_id(&p, 0, 72), 1);
	cr_expect_eq(perfdata_event_of_id(&p, 0, 73), -1);
	perfdata_done(&p);
}

/* Old kernels: no IDENTIFIER, the ID stands where the sample_type puts it. */
Test(perfdata, id_without_identifier)
{
	struct build_event events[2] = {{.sample_id_all = 1, .id = 71},
					{.sample_id_all = 1, .id = 72}};
	struct builder b = {0};
	struct perfdata p;

	for (int i = 0; i < 2; i++)
		events[i].sample_type =
			PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU;
	build_file_start(&b, events, 2);
	build_record_start(&b, RECORD_SAMPLE, 0);
	build_u64(&b, 5ull << 32);
	build_u64(&b, 100);
	build_u64(&b, 72);
	build_u64(&b, 0);
	build_record_end(&b);
	build_record_start(&b, RECORD_SWITCH, 0);
	build_u64(&b, 6ull << 32);
	build_u64(&b, 100);
	build_u64(&b, 72);
	build_u64(&b, 0);
	build_record_end(&b);
	build_file_end(&b, NULL, 0);
	struct seen seen = open_and_walk(&b, &p);
	cr_expect_str_eq(seen.text, "SAMPLE 1 5;SWITCH 1 6;");
	perfdata_done(&p);
}

Test(perfdata, without_sample_id_all_only_samples_have_ids)
{
	struct build_event events[2];
	struct builder b = {0};
	struct perfdata p;

	memcpy(events, two_events, sizeof events);
	events[0].sample_id_all = events[1].sample_id_all = 0;
	build_file_start(&b, events, 2);
	build_record_start(&b, RECORD_COMM, 0);
	build_u64(&b, 5ull << 32);
	build_string(&b, "task");
	build_record_end(&b);
	build_record_start(&b, RECORD_SAMPLE, 0);
	build_u64(&b, 71);
	build_u64(&b, 9ull << 32);
	build_u64(&b, 103);
	build_record_end(&b);
	build_file_end(&b, NULL, 0);
	struct seen seen = open_and_walk(&b, &p);
	cr_expect_str_eq(seen.text, "COMM 0 -1;SAMPLE 0 9;");
	perfdata_done(&p);
}

Test(perfdata, file_without_events)
{
	struct builder b = {0};
	struct perfdata p;

	build_file_start(&b, NULL, 0);
	build_comm(&b, 5, 100, 71);
	build_file_end(&b, NULL, 0);
	struct seen seen = open_and_walk(&b, &p);
	cr_expect_str_eq(seen.text, "COMM -1 -1;");
	perfdata_done(&p);
}

/* Events that all point at one list of ids would make much of little. */
Test(perfdata, ids_in_common_are_refused)
{
	enum { COUNT = 300 };
	struct build_event events[COUNT] = {0};
	struct builder b = {0};
	struct perfdata p;
	struct error error = {0};
	char path[64];
	const char *paths[] = {path};

	build_file_start(&b, events, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		build_patch_u64(&b, 104 + i * 144 + 128, 0);
		build_patch_u64(&b, 104 + i * 144 + 136, b.out.count);
	}
	build_comm(&b, 5, 100, 71);
	build_file_end(&b, NULL, 0);
	build_save(&b, path);
	cr_expect_eq(perfdata_open(&p, paths, 1, &error), ERR_LIMIT);
	cr_expect(strstr(error.message, "more ids than bytes"), "%s", error.message);
	unlink(path);
	build_done(&b);
}

Test(perfdata, what_is_no_perf_data_is_refused_by_name)
{
	static const struct {
		const char *name;
		size_t patch_at; /* of a good file; SIZE_MAX = none */
		uint64_t patch;
		size_t length; /* 0 = all of it */
		enum err err;
		const char *message;
	} cases[] = {
		{"empty", SIZE_MAX, 0, SIZE_MAX, ERR_FORMAT, "only 0 bytes"},
		{"one byte", SIZE_MAX, 0, 1, ERR_FORMAT, "only 1 bytes"},
		{"an ELF file", 0, 0x00010102464c457f, 0, ERR_FORMAT, "no PERFILE2"},
		{"big-endian", 0, 0x50455246494c4532, 0, ERR_UNSUPPORTED, "big-endian"},
		{"version 1", 0, 0x454c494646524550, 0, ERR_UNSUPPORTED, "version 1"},
		{"cut header", SIZE_MAX, 0, 60, ERR_FORMAT, "header"},
		{"tiny header", 8, 24, 0, ERR_FORMAT, "header of 24"},
		{"huge header", 8, UINT64_MAX, 0, ERR_FORMAT, "header"},
		{"attr too small", 16, 8, 0, ERR_FORMAT, "attr size is 8"},
		{"attrs behind the end", 24, 1 << 20, 0, ERR_FORMAT, "attrs at 1048576"},
		{"attrs wrap", 24, UINT64_MAX - 15, 0, ERR_FORMAT, "attrs at"},
		{"attrs size wraps", 32, UINT64_MAX - 15, 0, ERR_FORMAT, "attrs at 104"},
		{"data behind the end", 40, 1 << 20, 0, ERR_FORMAT, "data at 1048576"},
		{"attr larger than its slot", 104 + 4, 1 << 20, 0, ERR_FORMAT, "slot of"},
		{"attr into its ids", 104 + 4, 136, 0, ERR_FORMAT, "slot of"},
		{"ids behind the end", 104 + 128, 1 << 20, 0, ERR_FORMAT, "ids at 1048576"},
	};

	/* the patches above rest on this size of an attr */
	cr_assert_eq(sizeof(struct perf_event_attr), 128);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder b = {0};
		struct perfdata p;
		struct error error = {0};
		char path[64];
		const char *paths[] = {path};

		build_file_start(&b, two_events, 2);
		build_comm(&b, 5, 100, 71);
		build_file_end(&b, NULL, 0);
		if (cases[i].patch_at != SIZE_MAX)
			build_patch_u64(&b, cases[i].patch_at, cases[i].patch);
		if (cases[i].length)
			b.out.count = cases[i].length == SIZE_MAX ? 0 : cases[i].length;
		build_save(&b, path);
		cr_expect_eq(perfdata_open(&p, paths, 1, &error), cases[i].err, "%s",
			     cases[i].name);
		cr_expect(strstr(error.message, cases[i].message), "%s: %s", cases[i].name,
			  error.message);
		cr_expect(strstr(error.message, path), "%s: %s", cases[i].name, error.message);
		unlink(path);
		build_done(&b);
	}
}

static void build_auxtrace(struct builder *b, uint64_t size)
{
	build_record_start(b, RECORD_AUXTRACE, 0);
	build_u64(b, size);
	for (int i = 0; i < 4; i++)
		build_u64(b, 0);
	build_record_end(b);
}

Test(perfdata, damage_ends_a_file_and_is_told)
{
	static const struct {
		const char *name;
		size_t cut;        /* bytes taken from the end */
		int32_t last_size; /* of the third record's header; -1 = as it was */
		const char *seen;
		enum perfdata_damage_kind kind;
		uint64_t lost_bytes;
	} cases[] = {
		{"cut in the body", 5, -1, "COMM 0 1;COMM 0 2;", PERFDATA_TRUNCATED, 48},
		{"cut in the header", 44, -1, "COMM 0 1;COMM 0 2;", PERFDATA_TRUNCATED, 48},
		{"cut between records", 48, -1, "COMM 0 1;COMM 0 2;", PERFDATA_TRUNCATED, 48},
		{"size 0", 0, 0, "COMM 0 1;COMM 0 2;", PERFDATA_BAD_HEADER, 48},
		{"size 7", 0, 7, "COMM 0 1;COMM 0 2;", PERFDATA_BAD_HEADER, 48},
		{"size beyond the end", 0, 56, "COMM 0 1;COMM 0 2;", PERFDATA_BAD_HEADER, 48},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder b = {0};
		struct perfdata p;

		build_file_start(&b, two_events, 2);
		for (uint32_t tid = 1; tid <= 3; tid++)
			build_comm(&b, tid, 100, 71);
		build_file_end(&b, NULL, 0);
		size_t at = b.out.count - 48;
		cr_assert_eq(b.out.items[at + 6], 48);
		if (cases[i].last_size >= 0)
			b.out.items[at + 6] = (uint8_t)cases[i].last_size;
		b.out.count -= cases[i].cut;
		struct seen seen = open_and_walk(&b, &p);
		cr_expect_str_eq(seen.text, cases[i].seen, "%s", cases[i].name);
		cr_assert_eq(p.damage.count, 1, "%s", cases[i].name);
		cr_expect_eq(p.damage.items[0].kind, cases[i].kind, "%s", cases[i].name);
		cr_expect_eq(p.damage.items[0].file_off, at, "%s", cases[i].name);
		cr_expect_eq(p.damage.items[0].lost_bytes, cases[i].lost_bytes, "%s: %llu",
			     cases[i].name, (unsigned long long)p.damage.items[0].lost_bytes);
		cr_expect_eq(p.files.items[0].is_unfinished, cases[i].cut > 0);
		perfdata_done(&p);
	}
}

Test(perfdata, records_go_on_behind_an_impossible_size)
{
	static const struct {
		uint16_t size; /* of the second record, or of the AUXTRACE record */
		uint64_t lost_bytes;
		bool auxtrace;
	} cases[] = {{0, 48, false},     {7, 48, false},     {40, 8, false},        {49, 48, false},
		     {65528, 48, false}, {0, 48 + 24, true}, {65528, 48 + 24, true}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder b = {0};
		struct perfdata p;

		build_file_start(&b, two_events, 2);
		build_comm(&b, 1, 100, 71);
		size_t at = b.out.count;
		if (cases[i].auxtrace) {
			build_auxtrace(&b, 24);
			build_bytes(&b,
				    "\x0b\0\0\0\1\0\x08\0\0\0\0\0\x47\0\0\0\0\0\x08\0\x50\0\0\0",
				    24);
		} else {
			build_comm(&b, 2, 100, 71);
		}
		for (uint32_t tid = 3; tid <= 12; tid++)
			build_comm(&b, tid, 100, 71);
		build_file_end(&b, NULL, 0);
		b.out.items[at + 6] = (uint8_t)cases[i].size;
		b.out.items[at + 7] = (uint8_t)(cases[i].size >> 8);
		struct seen seen = open_and_walk(&b, &p);
		cr_expect(strstr(seen.text, "COMM 0 1;"));
		cr_expect(strstr(seen.text, "COMM 0 3;COMM 0 4;COMM 0 5;COMM 0 6;COMM 0 7;COMM 0 8;"
					    "COMM 0 9;COMM 0 10;COMM 0 11;COMM 0 12;"),
			  "%u: %s", cases[i].size, seen.text);
		cr_assert_eq(p.damage.count, 1, "%u", cases[i].size);
		cr_expect_eq(p.damage.items[0].kind, PERFDATA_BAD_HEADER);
		cr_expect_eq(p.damage.items[0].lost_bytes, cases[i].lost_bytes, "%u: %llu",
			     cases[i].size, (unsigned long long)p.damage.items[0].lost_bytes);
		perfdata_done(&p);
	}
}

/* A header leads astray: the record behind it is found inside what it claims. */
Test(perfdata, wrong_sizes_cost_one_record)
{
	for (unsigned auxtrace = 0; auxtrace < 2; auxtrace++) {
		struct builder b = {0};
		struct perfdata p;

		build_file_start(&b, two_events, 2);
		size_t at = b.out.count;
		if (auxtrace)
			build_auxtrace(&b, 1 << 20);
		else
			build_comm(&b, 2, 100, 71);
		for (uint32_t tid = 3; tid <= 12; tid++)
			build_comm(&b, tid, 100, 71);
		build_file_end(&b, NULL, 0);
		if (!auxtrace)
			b.out.items[at + 6] += 8;
		struct seen seen = open_and_walk(&b, &p);
		cr_expect(strstr(seen.text, ";COMM 0 3;COMM 0 4;COMM 0 5;COMM 0 6;COMM 0 7;"
					    "COMM 0 8;COMM 0 9;COMM 0 10;COMM 0 11;COMM 0 12;"),
			  "%s", seen.text);
		cr_assert_eq(p.damage.count, 1);
		cr_expect_eq(p.damage.items[0].file_off, at);
		cr_expect_eq(p.damage.items[0].lost_bytes, 48);
		perfdata_done(&p);
	}
}

/* perf was killed: the header says 0 bytes of data, the feature bits are set all the same. */
Test(perfdata, unfinished_file_is_walked_to_its_end)
{
	struct builder b = {0};
	struct perfdata p;

	build_file_start(&b, two_events, 2);
	build_patch_u64(&b, 72, 0xffff);
	build_comm(&b, 5, 100, 71);
	build_comm(&b, 6, 100, 71);
	struct seen seen = open_and_walk(&b, &p);
	cr_expect_str_eq(seen.text, "COMM 0 5;COMM 0 6;");
	cr_expect(p.files.items[0].is_unfinished);
	cr_expect_eq(p.info.damaged_features, 0);
	cr_expect_eq(p.damage.count, 0);
	perfdata_done(&p);
}

Test(perfdata, auxtrace_payload_follows_the_record)
{
	struct builder b = {0};
	struct perfdata p;

	build_file_start(&b, two_events, 2);
	build_auxtrace(&b, 5);
	build_bytes(&b, "\1\2\3\4\5", 5); /* the next record is not aligned then */
	build_comm(&b, 5, 100, 71);
	build_auxtrace(&b, 0);
	build_file_end(&b, NULL, 0);
	struct seen seen = open_and_walk(&b, &p);
	cr_expect_str_eq(seen.text, "AUXTRACE -1 -1;COMM 0 5;AUXTRACE -1 -1;");
	cr_expect_eq(seen.payload_bytes, 5);
	cr_expect_eq(seen.payload_sum, 15);
	cr_expect_eq(p.damage.count, 0);
	perfdata_done(&p);
}

Test(perfdata, cut_payload_is_given_as_far_as_it_goes)
{
	static const uint64_t claims[] = {9, UINT64_MAX, UINT64_MAX - 47};

	for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
		struct builder b = {0};
		struct perfdata p;

		build_file_start(&b, two_events, 2);
		build_auxtrace(&b, claims[i]);
		build_bytes(&b, "\1\2\3\4\5", 5);
		struct seen seen = open_and_walk(&b, &p);
		cr_expect_eq(seen.payload_bytes, 5);
		cr_assert_eq(p.damage.count, 1);
		cr_expect_eq(p.damage.items[0].kind, PERFDATA_TRUNCATED);
		cr_expect_eq(p.damage.items[0].lost_bytes, claims[i] - 5);
		perfdata_done(&p);
	}
}

Test(perfdata, newer_records_are_visited_and_counted)
{
	struct builder b = {0};
	struct perfdata p;

	build_file_start(&b, two_events, 2);
	build_record_start(&b, 200, 0);
	build_u64(&b, 1);
	build_record_end(&b);
	build_record_start(&b, 40, 0); /* a kernel's: it has a trailer */
	build_u64(&b, 1);
	build_u64(&b, 9ull << 32);
	build_u64(&b, 100);
	build_u64(&b, 72);
	build_record_end(&b);
	build_record_start(&b, RECORD_BPF_METADATA, 0);
	build_record_end(&b);
	build_comm(&b, 5, 100, 71);
	build_file_end(&b, NULL, 0);
	struct seen seen = open_and_walk(&b, &p);
	cr_expect_str_eq(seen.text, "? -1 -1;? 1 9;BPF_METADATA -1 -1;COMM 0 5;");
	cr_expect_eq(p.unknown_records, 2);
	cr_expect_eq(p.unknown_bytes, 16 + 40);
	perfdata_done(&p);
}

static enum err stop_at_second(void *context, const struct record *r, struct error *error)
{
	(void)r;
	return ++*(int *)context == 2 ? error_set(error, ERR_LIMIT, "enough") : ERR_NONE;
}

Test(perfdata, visitor_stops_the_walk)
{
	struct builder b = {0};
	struct perfdata p;
	struct error error = {0};
	int count = 0;

	build_file_start(&b, two_events, 2);
	for (uint32_t tid = 1; tid <= 3; tid++)
		build_comm(&b, tid, 100, 71);
	build_file_end(&b, NULL, 0);
	open_and_walk(&b, &p);
	cr_expect_eq(perfdata_walk(&p, stop_at_second, &count, &error), ERR_LIMIT);
	cr_expect_eq(count, 2);
	cr_expect_str_eq(error.message, "enough");
	perfdata_done(&p);
}

/* EVENT_DESC for the two events; `ids` or by their place. */
static void build_event_desc(struct builder *b, bool ids)
{
	static const char *const names[] = {"intel_pt//u", "dummy:u"};

	build_u32(b, 2);
	build_u32(b, sizeof(struct perf_event_attr));
	/* the other way round when the ids tell which is which */
	for (int i = 0; i < 2; i++) {
		int event = ids ? 1 - i : i;

		build_attr(b, &two_events[event]);
		build_u32(b, ids ? 1 : 0);
		build_header_string(b, names[event]);
		if (ids)
			build_u64(b, two_events[event].id);
	}
}

Test(perfdata, pipe_names_its_events_late_or_early)
{
	for (int early = 0; early < 2; early++) {
		struct builder b = {0}, desc = {0};
		struct perfdata p;
		size_t at;

		build_event_desc(&desc, true);
		build_pipe_start(&b, two_events, early ? 0 : 2);
		build_record_start(&b, RECORD_HEADER_FEATURE, 0);
		build_u64(&b, 12);
		build_bytes(&b, desc.out.items, desc.out.count);
		build_record_end(&b);
		for (int i = 0; early && i < 2; i++) {
			build_record_start(&b, RECORD_HEADER_ATTR, 0);
			build_attr(&b, &two_events[i]);
			build_u64(&b, two_events[i].id);
			build_record_end(&b);
		}
		build_record_start(&b, RECORD_EVENT_UPDATE, 0);
		build_u64(&b, 2);
		build_u64(&b, 72);
		build_string(&b, "renamed");
		build_record_end(&b);
		build_record_start(&b, RECORD_HEADER_TRACING_DATA, 0);
		build_u64(&b, 0); /* none */
		build_record_end(&b);
		build_record_start(&b, RECORD_HEADER_TRACING_DATA, 0);
		build_u32(&b, 5);
		build_u32(&b, 0);
		build_record_end(&b);
		build_bytes(&b, "\1\2\3\4\5\0\0\0", 8); /* padded to 8 */
		build_comm(&b, 5, 100, 72);
		at = b.out.count;
		struct seen seen = open_and_walk(&b, &p);
		cr_expect(strstr(seen.text, "COMM 1 5;"), "%s", seen.text);
		cr_expect_eq(p.record_count, 7);
		cr_expect_eq(p.files.items[0].data_end, at);
		cr_expect(p.files.items[0].is_pipe);
		cr_expect_str_eq(p.events.items[0].name, "intel_pt//u");
		cr_expect_eq(p.info.tracing_data_bytes, 8);
		build_done(&desc);
		perfdata_done(&p);
	}
}

/* Builds a file with one feature and opens it. */
static void open_feature(struct perfdata *p, unsigned bit, struct builder *content)
{
	struct builder b = {0};
	struct build_feature feature = {bit, content->out.items, content->out.count};

	build_file_start(&b, two_events, 2);
	build_comm(&b, 5, 100, 71);
	build_file_end(&b, &feature, 1);
	open_and_walk(&b, p);
	build_done(content);
}

Test(perfdata, features)
{
	struct builder c = {0};
	struct perfdata p;

	build_header_string(&c, "GenuineIntel,6,85,7");
	open_feature(&p, 9, &c);
	cr_expect_str_eq(p.info.cpuid, "GenuineIntel,6,85,7");
	cr_expect_eq(p.info.features[0], 1 << 9);
	perfdata_done(&p);

	build_u32(&c, 8);
	build_u32(&c, 4);
	open_feature(&p, 7, &c);
	cr_expect_eq(p.info.cpus_available, 8);
	cr_expect_eq(p.info.cpus_online, 4);
	perfdata_done(&p);

	build_u32(&c, 2);
	build_header_string(&c, "perf");
	build_header_string(&c, "record");
	open_feature(&p, 11, &c);
	cr_assert_eq(p.info.command_line.count, 2);
	cr_expect_str_eq(p.info.command_line.items[1], "record");
	perfdata_done(&p);

	for (int ids = 0; ids < 2; ids++) {
		build_event_desc(&c, ids);
		open_feature(&p, 12, &c);
		cr_expect_str_eq(p.events.items[0].name, "intel_pt//u");
		cr_expect_str_eq(p.events.items[1].name, "dummy:u");
		perfdata_done(&p);
	}

	build_u32(&c, 2);
	build_u32(&c, 8);
	build_header_string(&c, "intel_pt");
	build_u32(&c, 1);
	build_header_string(&c, "software");
	open_feature(&p, 16, &c);
	cr_expect_str_eq(perfdata_pmu_name(&p, 8), "intel_pt");
	cr_expect_null(perfdata_pmu_name(&p, 9));
	perfdata_done(&p);

	build_u64(&c, 1);
	build_u64(&c, 0x1000);
	build_u64(&c, 0x200);
	open_feature(&p, 18, &c);
	cr_assert_eq(p.info.aux_index.count, 1);
	cr_expect_eq(p.info.aux_index.items[0].bytes, 0x200);
	perfdata_done(&p);

	build_u64(&c, 100);
	build_u64(&c, 200);
	open_feature(&p, 21, &c);
	cr_expect_eq(p.info.first_sample_ns, 100);
	cr_expect_eq(p.info.last_sample_ns, 200);
	perfdata_done(&p);

	build_u32(&c, 1);
	build_u32(&c, 4);
	build_u64(&c, 1700000000);
	build_u64(&c, 12345);
	open_feature(&p, 29, &c);
	cr_expect_eq(p.info.clockid, 4);
	cr_expect_eq(p.info.wall_clock_ns, 1700000000);
	cr_expect_eq(p.info.clockid_ns, 12345);
	perfdata_done(&p);
}

/* The string's own length ends it, whatever follows in the file. */
Test(perfdata, string_without_nul)
{
	struct builder b = {0}, c = {0};
	struct perfdata p;

	build_u32(&c, 4);
	build_bytes(&c, "bare", 4);
	struct build_feature features[] = {{3, c.out.items, c.out.count}, {4, "following", 9}};
	build_file_start(&b, two_events, 2);
	build_comm(&b, 5, 100, 71);
	build_file_end(&b, features, 2);
	open_and_walk(&b, &p);
	cr_expect_str_eq(p.info.hostname, "bare");
	perfdata_done(&p);
	build_done(&c);
}

Test(perfdata, build_id_feature)
{
	static const struct {
		uint16_t misc;
		uint8_t size, expected;
	} cases[] = {{2, 0, 20}, {2 | 1 << 15, 16, 16}, {2 | 1 << 15, 200, 20}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder c = {0};
		struct perfdata p;

		build_record_start(&c, 0, cases[i].misc); /* perf leaves the type 0 */
		build_u32(&c, UINT32_MAX);
		build_bytes(&c, "abcdefghijklmnopqrst", 20);
		build_u8(&c, cases[i].size);
		build_bytes(&c, "\0\0\0", 3);
		build_string(&c, "/lib/libc.so.6");
		build_record_end(&c);
		open_feature(&p, 2, &c);
		cr_assert_eq(p.info.build_ids.count, 1);
		cr_expect_eq(p.info.build_ids.items[0].build_id_bytes, cases[i].expected);
		cr_expect_str_eq(p.info.build_ids.items[0].path, "/lib/libc.so.6");
		cr_expect_eq(p.info.damaged_features, 0);
		perfdata_done(&p);
	}
}

Test(perfdata, bpf_program_feature)
{
	struct bpf_prog_info info = {.id = 42, .name = "count_switches"};
	struct builder c = {0};
	struct perfdata p;

	info.jited_prog_len = 16;
	info.jited_prog_insns = 0;
	info.nr_jited_ksyms = info.nr_jited_func_lens = 2;
	info.jited_ksyms = 16;
	info.jited_func_lens = 32;
	for (int bad = 0; bad < 2; bad++) {
		if (bad)
			info.jited_ksyms = 1 << 20;
		build_u32(&c, 1);
		build_u32(&c, sizeof info);
		build_u32(&c, 40);
		build_u64(&c, 1 | 1 << 3 | 1 << 4);
		build_bytes(&c, &info, sizeof info);
		build_bytes(&c, "code of program.", 16);
		build_u64(&c, 0xffffffffc0001000);
		build_u64(&c, 0xffffffffc0002000);
		build_u32(&c, 10);
		build_u32(&c, 6);
		open_feature(&p, 25, &c);
		cr_assert_eq(p.info.bpf_programs.count, 1);
		const struct perfdata_bpf_program *program = &p.info.bpf_programs.items[0];
		cr_expect_eq(program->id, 42);
		cr_expect_str_eq(program->name, "count_switches");
		cr_expect_eq(program->code_bytes, 16);
		cr_expect_arr_eq(program->code, "code of program.", 16);
		cr_expect_eq(program->function_count, bad ? 0 : 2);
		if (bad)
			cr_expect_null(program->addresses);
		else
			cr_expect_eq(load_le(program->addresses + 8, 8), 0xffffffffc0002000);
		cr_expect_eq(load_le(program->lengths + 4, 4), 6);
		perfdata_done(&p);
	}
}

Test(perfdata, damaged_features_are_counted_and_cost_nothing_else)
{
	static const unsigned bits[] = {2, 3, 7, 10, 11, 12, 16, 18, 21, 23, 24, 25, 27, 29};

	for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
		struct builder c = {0};
		struct perfdata p;

		/* counts and lengths of 4 GiB - 1 in a section of 7 or 12 bytes */
		for (int j = 0; j < (bits[i] == 2 || bits[i] == 18 ? 12 : 7); j++)
			build_u8(&c, 0xff);
		open_feature(&p, bits[i], &c);
		cr_expect_eq(p.info.damaged_features, 1, "feature %u", bits[i]);
		cr_expect_eq(p.events.count, 2);
		perfdata_done(&p);
	}
}

Test(perfdata, unknown_feature_and_section_behind_the_end)
{
	struct builder b = {0}, c = {0};
	struct perfdata p;
	struct build_feature feature = {200, "x", 1};

	build_file_start(&b, two_events, 2);
	build_comm(&b, 5, 100, 71);
	build_file_end(&b, &feature, 1);
	open_and_walk(&b, &p);
	cr_expect_eq(p.info.unknown_features, 1);
	cr_expect_eq(p.info.damaged_features, 0);
	perfdata_done(&p);

	build_header_string(&c, "host");
	feature = (struct build_feature){3, c.out.items, c.out.count};
	build_file_start(&b, two_events, 2);
	build_comm(&b, 5, 100, 71);
	size_t table = b.out.count;
	build_file_end(&b, &feature, 1);
	build_patch_u64(&b, table + 8, 1 << 20);
	open_and_walk(&b, &p);
	cr_expect_eq(p.info.damaged_features, 1);
	cr_expect_str_eq(p.info.hostname, "");
	build_done(&c);
	perfdata_done(&p);
}

/* data, data.0, data.2, data.10: the parts have records only, and the header's events. */
Test(perfdata, directory_in_the_order_of_its_parts)
{
	static const struct {
		const char *name;
		uint32_t tid;
	} parts[] = {{"data.10", 10}, {"data.0", 1}, {"data.2", 2}, {"data.x", 99}, {"other", 99}};
	char dir[] = "/tmp/perfdata-test-XXXXXX", path[64], name[128];
	const char *paths[] = {dir};
	struct perfdata p;
	struct error error = {0};
	struct seen seen = {0};
	struct builder b = {0};

	cr_assert(mkdtemp(dir));
	build_file_start(&b, two_events, 2);
	build_comm(&b, 5, 100, 71);
	build_file_end(&b, NULL, 0);
	build_save(&b, path);
	snprintf(name, sizeof name, "%s/data", dir);
	cr_assert_eq(rename(path, name), 0);
	build_done(&b);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		build_comm(&b, parts[i].tid, 100, 72);
		build_save(&b, path);
		snprintf(name, sizeof name, "%s/%s", dir, parts[i].name);
		cr_assert_eq(rename(path, name), 0);
		build_done(&b);
	}
	cr_assert_eq(perfdata_open(&p, paths, 1, &error), ERR_NONE, "%s", error.message);
	cr_assert_eq(perfdata_walk(&p, see, &seen, &error), ERR_NONE);
	cr_expect_str_eq(seen.text, "COMM 0 5;COMM 1 1;COMM 1 2;COMM 1 10;");
	cr_expect_eq(p.files.count, 4);
	cr_expect_eq(perfdata_event_of_id(&p, 3, 72), 1);
	perfdata_done(&p);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		snprintf(name, sizeof name, "%s/%s", dir, parts[i].name);
		unlink(name);
	}
	snprintf(name, sizeof name, "%s/data", dir);
	unlink(name);
	rmdir(dir);
}

/* --switch-output: each file with events of its own, whose ids may differ. */
Test(perfdata, series_of_files)
{
	struct build_event other[2];
	char path[2][64];
	const char *paths[] = {path[0], path[1]};
	struct builder b = {0};
	struct perfdata p;
	struct error error = {0};
	struct seen seen = {0};

	memcpy(other, two_events, sizeof other);
	other[0].id = 72; /* the same id, another event */
	other[1].id = 73;
	build_file_start(&b, two_events, 2);
	build_comm(&b, 5, 100, 72);
	build_file_end(&b, NULL, 0);
	build_save(&b, path[0]);
	build_done(&b);
	build_file_start(&b, other, 2);
	build_comm(&b, 6, 100, 72);
	build_comm(&b, 7, 0, 0);
	build_file_end(&b, NULL, 0);
	build_save(&b, path[1]);
	build_done(&b);
	cr_assert_eq(perfdata_open(&p, paths, 2, &error), ERR_NONE, "%s", error.message);
	cr_assert_eq(perfdata_walk(&p, see, &seen, &error), ERR_NONE);
	cr_expect_str_eq(seen.text, "COMM 1 5;COMM 2 6;COMM 2 7;");
	perfdata_done(&p);

	cr_expect_eq(unlink(path[1]), 0);
	cr_expect_eq(perfdata_open(&p, paths, 2, &error), ERR_NOT_FOUND);
	cr_expect(strstr(error.message, path[1]));
	unlink(path[0]);
}

Test(perfdata, fifo_is_spooled)
{
	struct builder b = {0};
	struct perfdata p;
	struct error error = {0};
	struct seen seen = {0};
	char path[32];
	const char *paths[] = {path};
	int ends[2];

	build_pipe_start(&b, two_events, 2);
	build_comm(&b, 5, 100, 72);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(write(ends[1], b.out.items, b.out.count), (ssize_t)b.out.count);
	close(ends[1]);
	snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
	cr_assert_eq(perfdata_open(&p, paths, 1, &error), ERR_NONE, "%s", error.message);
	cr_assert_eq(perfdata_walk(&p, see, &seen, &error), ERR_NONE);
	cr_expect(strstr(seen.text, "COMM 1 5;"));
	close(ends[0]);
	perfdata_done(&p);
	build_done(&b);
}
