#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <stdlib.h>

#include "common/bytes.h"
#include "decode/record.h"
#include "decode/tests/perfdata_builder.h"

/* The record that the builder holds, on the heap with nothing behind it, so that
 * AddressSanitizer sees a read past its end. */
static struct record record_of(const struct builder *b, size_t bytes)
{
	struct record r = {0};
	uint8_t *copy = malloc(bytes);

	cr_assert(copy);
	memcpy(copy, b->out.items, bytes);
	r.type = (uint32_t)load_le(copy, 4);
	r.misc = (uint16_t)load_le(copy + 4, 2);
	r.data = copy;
	r.bytes = bytes;
	record_parse_id(&r, NULL);
	return r;
}

static void record_free(struct record *r)
{
	free((void *)(uintptr_t)r->data);
}

/* Whether the reader of r's type takes it. */
static bool record_read(const struct record *r)
{
	union {
		struct record_mmap mmap;
		struct record_comm comm;
		struct record_task task;
		struct record_switch sw;
		struct record_itrace_start itrace;
		struct record_aux aux;
		struct record_lost lost;
		struct record_ksymbol ksymbol;
		struct record_bpf bpf;
		struct record_text_poke poke;
		struct record_namespaces ns;
		struct record_cgroup cgroup;
		struct record_throttle throttle;
		struct record_aux_output_hw_id hw_id;
		struct record_auxtrace_info info;
		struct record_auxtrace auxtrace;
		struct record_auxtrace_error error;
		struct record_time_conv time;
		struct record_id_index ids;
		struct record_thread_map threads;
		struct record_build_id build_id;
	} u;

	switch (r->type) {
	case RECORD_MMAP:
	case RECORD_MMAP2: return record_mmap(r, &u.mmap);
	case RECORD_COMM: return record_comm(r, &u.comm);
	case RECORD_FORK:
	case RECORD_EXIT: return record_task(r, &u.task);
	case RECORD_SWITCH:
	case RECORD_SWITCH_CPU_WIDE: return record_switch(r, &u.sw);
	case RECORD_ITRACE_START: return record_itrace_start(r, &u.itrace);
	case RECORD_AUX: return record_aux(r, &u.aux);
	case RECORD_LOST:
	case RECORD_LOST_SAMPLES: return record_lost(r, &u.lost);
	case RECORD_KSYMBOL: return record_ksymbol(r, &u.ksymbol);
	case RECORD_BPF_EVENT: return record_bpf(r, &u.bpf);
	case RECORD_TEXT_POKE: return record_text_poke(r, &u.poke);
	case RECORD_NAMESPACES: return record_namespaces(r, &u.ns);
	case RECORD_CGROUP: return record_cgroup(r, &u.cgroup);
	case RECORD_THROTTLE:
	case RECORD_UNTHROTTLE: return record_throttle(r, &u.throttle);
	case RECORD_AUX_OUTPUT_HW_ID: return record_aux_output_hw_id(r, &u.hw_id);
	case RECORD_AUXTRACE_INFO: return record_auxtrace_info(r, &u.info);
	case RECORD_AUXTRACE: return record_auxtrace(r, &u.auxtrace);
	case RECORD_AUXTRACE_ERROR: return record_auxtrace_error(r, &u.error);
	case RECORD_TIME_CONV: return record_time_conv(r, &u.time);
	case RECORD_ID_INDEX: return record_id_index(r, &u.ids);
	case RECORD_THREAD_MAP: return record_thread_map(r, &u.threads);
	case RECORD_HEADER_BUILD_ID: return record_build_id(r, &u.build_id);
	default: return false;
	}
}

/* The smallest record of each type that is complete. */
static const struct {
	enum record_type type;
	uint16_t misc;
	size_t zeros;       /* fixed part */
	const char *string; /* NULL = none */
	size_t need;        /* the shortest body that is accepted */
} shapes[] = {
	{RECORD_MMAP, 0, 32, "/bin/true", 42},
	{RECORD_MMAP2, 0, 64, "/bin/true", 74},
	{RECORD_MMAP2, RECORD_MISC_MMAP_BUILD_ID, 64, "/bin/true", 74},
	{RECORD_COMM, 0, 8, "true", 13},
	{RECORD_FORK, 0, 24, NULL, 24},
	{RECORD_EXIT, 0, 24, NULL, 24},
	{RECORD_SWITCH, 0, 0, NULL, 0},
	{RECORD_SWITCH_CPU_WIDE, 0, 8, NULL, 8},
	{RECORD_ITRACE_START, 0, 8, NULL, 8},
	{RECORD_AUX, 0, 24, NULL, 24},
	{RECORD_LOST, 0, 16, NULL, 16},
	{RECORD_LOST_SAMPLES, 0, 8, NULL, 8},
	{RECORD_KSYMBOL, 0, 16, "bpf_prog_1", 27},
	{RECORD_BPF_EVENT, 0, 16, NULL, 16},
	{RECORD_TEXT_POKE, 0, 12, NULL, 12},
	{RECORD_NAMESPACES, 0, 16, NULL, 16},
	{RECORD_CGROUP, 0, 8, "/system.slice", 22},
	{RECORD_THROTTLE, 0, 24, NULL, 24},
	{RECORD_UNTHROTTLE, 0, 24, NULL, 24},
	{RECORD_AUX_OUTPUT_HW_ID, 0, 8, NULL, 8},
	{RECORD_AUXTRACE_INFO, 0, 8, NULL, 8},
	{RECORD_AUXTRACE, 0, 36, NULL, 36},
	{RECORD_AUXTRACE_ERROR, 0, 32, NULL, 32},
	{RECORD_TIME_CONV, 0, 42, NULL, 24},
	{RECORD_ID_INDEX, 0, 8, NULL, 8},
	{RECORD_THREAD_MAP, 0, 8, NULL, 8},
	{RECORD_HEADER_BUILD_ID, 0, 28, "/bin/true", 38},
};

Test(record, shorter_than_it_claims_is_refused)
{
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct builder b = {0};

		build_record_start(&b, shapes[i].type, shapes[i].misc);
		for (size_t j = 0; j < shapes[i].zeros; j++)
			build_u8(&b, 0);
		if (shapes[i].string)
			build_string(&b, shapes[i].string);
		for (size_t bytes = 8; bytes <= b.out.count; bytes++) {
			struct record r = record_of(&b, bytes);
			bool taken = record_read(&r);

			/* TIME_CONV has an old, short form: between the two it is cut */
			bool expected = bytes - 8 >= shapes[i].need;
			if (shapes[i].type == RECORD_TIME_CONV)
				expected = bytes - 8 == 24 || bytes - 8 >= 42;
			cr_expect_eq(taken, expected, "%s with %zu bytes of body",
				     record_type_name(shapes[i].type), bytes - 8);
			record_free(&r);
		}
		build_done(&b);
	}
}

Test(record, counts_beyond_the_end_are_refused)
{
	static const struct {
		enum record_type type;
		size_t count_at; /* in the body: a u64 */
		uint64_t count;
		size_t bytes;
	} cases[] = {
		{RECORD_NAMESPACES, 8, 2, 32},
		{RECORD_NAMESPACES, 8, UINT64_MAX / 16 + 1, 32},
		{RECORD_ID_INDEX, 0, 2, 40},
		{RECORD_ID_INDEX, 0, UINT64_MAX / 32 + 2, 40},
		{RECORD_THREAD_MAP, 0, 2, 32},
		{RECORD_TEXT_POKE, 8, 0x00080008, 24}, /* 8 old, 8 new bytes */
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder b = {0};

		build_record_start(&b, cases[i].type, 0);
		for (size_t j = 0; j < cases[i].bytes; j++)
			build_u8(&b, 0);
		build_patch_u64(&b, 8 + cases[i].count_at, cases[i].count);
		struct record r = record_of(&b, b.out.count);
		cr_expect_not(record_read(&r), "case %zu", i);
		record_free(&r);
		build_done(&b);
	}
}

Test(record, mmap2_with_and_without_build_id)
{
	struct builder b = {0};
	struct record_mmap m;

	build_record_start(&b, RECORD_MMAP2, 2 | RECORD_MISC_MMAP_BUILD_ID);
	build_u32(&b, 11);
	build_u32(&b, 12);
	build_u64(&b, 0x400000);
	build_u64(&b, 0x2000);
	build_u64(&b, 0x1000);
	build_u8(&b, 3);
	build_bytes(&b, "\0\0\0", 3);
	build_bytes(&b, "\xaa\xbb\xcc\xdd----------------", 20);
	build_u32(&b, 5);
	build_u32(&b, 2);
	build_string(&b, "/srv/app");
	struct record r = record_of(&b, b.out.count);
	cr_assert(record_mmap(&r, &m));
	cr_expect_eq(m.pid, 11);
	cr_expect_eq(m.tid, 12);
	cr_expect_eq(m.start, 0x400000);
	cr_expect_eq(m.length, 0x2000);
	cr_expect_eq(m.file_off, 0x1000);
	cr_expect_eq(m.prot, 5);
	cr_expect_eq(m.build_id_bytes, 3);
	cr_expect_arr_eq(m.build_id, "\xaa\xbb\xcc\0", 4);
	cr_expect_eq(m.inode, 0);
	cr_expect_str_eq(m.path, "/srv/app");
	record_free(&r);

	b.out.items[8 + 32] = 21; /* a build id longer than its room */
	r = record_of(&b, b.out.count);
	cr_expect_not(record_mmap(&r, &m));
	record_free(&r);
	build_done(&b);
}

Test(record, switch_directions)
{
	static const struct {
		enum record_type type;
		uint16_t misc;
		bool in, preempted;
	} cases[] = {
		{RECORD_SWITCH, 0, true, false},
		{RECORD_SWITCH, RECORD_MISC_SWITCH_OUT, false, false},
		{RECORD_SWITCH_CPU_WIDE, RECORD_MISC_SWITCH_OUT | RECORD_MISC_SWITCH_PREEMPT, false,
		 true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct builder b = {0};
		struct record_switch s;

		build_record_start(&b, cases[i].type, cases[i].misc);
		build_u32(&b, 5);
		build_u32(&b, 6);
		struct record r = record_of(&b, b.out.count);
		cr_assert(record_switch(&r, &s));
		cr_expect_eq(s.in, cases[i].in);
		cr_expect_eq(s.preempted, cases[i].preempted);
		cr_expect_eq(s.has_other, cases[i].type == RECORD_SWITCH_CPU_WIDE);
		cr_expect_eq(s.other_tid, s.has_other ? 6 : -1);
		record_free(&r);
		build_done(&b);
	}
}

Test(record, old_time_conv_has_a_zero)
{
	struct builder b = {0};
	struct record_time_conv t;

	build_record_start(&b, RECORD_TIME_CONV, 0);
	build_u64(&b, 31);
	build_u64(&b, 7);
	build_u64(&b, 99);
	struct record r = record_of(&b, b.out.count);
	cr_assert(record_time_conv(&r, &t));
	cr_expect(t.has_zero);
	cr_expect_not(t.is_short);
	cr_expect_eq(t.time_zero, 99);
	record_free(&r);
	build_done(&b);
}

/* The trailer of a kernel record: every subset of members. */
Test(record, trailer_of_every_shape)
{
	static const uint64_t members[] = {PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
					   PERF_SAMPLE_ID,  PERF_SAMPLE_STREAM_ID,
					   PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER};

	for (unsigned mask = 0; mask < 64; mask++) {
		struct builder b = {0};
		/* members that only samples have must not count */
		struct perfdata_event event = {.sample_id_all = true,
					       .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_ADDR};

		build_record_start(&b, RECORD_COMM, 0);
		build_u64(&b, 0);
		build_string(&b, "true");
		for (unsigned i = 0; i < 6; i++) {
			if (!(mask >> i & 1))
				continue;
			event.sample_type |= members[i];
			build_u32(&b, 100 + i);
			build_u32(&b, members[i] == PERF_SAMPLE_TID ? 200 : 0);
		}
		struct record r = record_of(&b, b.out.count);
		record_parse_id(&r, &event);
		cr_expect_eq(r.body_bytes, 16, "mask %x", mask);
		cr_expect_eq(r.id.pid, mask & 1 ? 100 : -1);
		cr_expect_eq(r.id.tid, mask & 1 ? 200 : -1);
		cr_expect_eq(r.id.time, mask & 2 ? 101u : 0u);
		cr_expect_eq(r.id.id, mask & 32 ? 105u : mask & 4 ? 102u : 0u);
		cr_expect_eq(r.id.stream_id, mask & 8 ? 103u : 0u);
		cr_expect_eq(r.id.cpu, mask & 16 ? 104 : -1);
		cr_expect_eq(!!(r.id.has & SAMPLE_ID_TIME), !!(mask & 2));
		record_free(&r);
		build_done(&b);
	}
}

Test(record, no_trailer_without_sample_id_all_or_room)
{
	struct builder b = {0};
	struct perfdata_event event = {.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME};

	build_record_start(&b, RECORD_ITRACE_START, 0);
	build_u64(&b, 1);
	struct record r = record_of(&b, b.out.count);
	record_parse_id(&r, &event);
	cr_expect_eq(r.id.has, 0);
	cr_expect_eq(r.body_bytes, 8);
	event.sample_id_all = true;
	record_parse_id(&r, &event);
	cr_expect_eq(r.id.has, 0);
	cr_expect_eq(r.body_bytes, 8);
	record_free(&r);
	build_done(&b);
}

/* Everything a sample can have, each with a value of its own. */
static void build_full_sample(struct builder *b)
{
	build_record_start(b, RECORD_SAMPLE, 2);
	build_u64(b, 1);  /* identifier */
	build_u64(b, 2);  /* ip */
	build_u32(b, 3);  /* pid */
	build_u32(b, 4);  /* tid */
	build_u64(b, 5);  /* time */
	build_u64(b, 6);  /* addr */
	build_u64(b, 1);  /* id */
	build_u64(b, 7);  /* stream id */
	build_u64(b, 8);  /* cpu */
	build_u64(b, 9);  /* period */
	build_u64(b, 2);  /* read: two counters of a group */
	build_u64(b, 10); /* time enabled */
	build_u64(b, 11); /* time running */
	for (uint64_t i = 0; i < 6; i++)
		build_u64(b, 12 + i); /* value, id, lost; twice */
	build_u64(b, 2);              /* callchain */
	build_u64(b, 20);
	build_u64(b, 21);
	build_u32(b, 4); /* raw */
	build_bytes(b, "RAW!", 4);
	build_u64(b, 1); /* branch stack */
	build_u64(b, 22);
	build_u64(b, 23);
	build_u64(b, 24);
	build_u64(b, 25);
	build_u64(b, 26); /* branch counters */
	build_u64(b, 2);  /* user registers: abi, two of them */
	build_u64(b, 27);
	build_u64(b, 28);
	build_u64(b, 8); /* user stack */
	build_bytes(b, "stack...", 8);
	build_u64(b, 5);
	build_u64(b, 30); /* weight */
	build_u64(b, 31); /* data source */
	build_u64(b, 32); /* transaction */
	build_u64(b, 0);  /* interrupt registers: none */
	build_u64(b, 33); /* physical address */
	build_u64(b, 34); /* cgroup */
	build_u64(b, 35); /* data page size */
	build_u64(b, 36); /* code page size */
	build_u64(b, 8);  /* AUX */
	build_bytes(b, "\x02\x82\x02\x82\x02\x82\x02\x82", 8);
	build_record_end(b);
}

static const struct perfdata_event full_event = {
	.sample_type = PERF_SAMPLE_MAX - 1,
	.read_format = PERF_FORMAT_MAX - 1,
	.branch_sample_type = PERF_SAMPLE_BRANCH_HW_INDEX | 1u << 19,
	.regs_user_mask = 0x81,
	.regs_intr_mask = 0x81,
};

Test(record, sample_with_everything)
{
	struct builder b = {0};
	struct sample s;

	build_full_sample(&b);
	struct record r = record_of(&b, b.out.count);
	record_parse_id(&r, &full_event);
	cr_assert(record_sample(&r, &full_event, &s));
	cr_expect_eq(s.id.id, 1);
	cr_expect_eq(s.id.pid, 3);
	cr_expect_eq(s.id.tid, 4);
	cr_expect_eq(s.id.time, 5);
	cr_expect_eq(s.id.stream_id, 7);
	cr_expect_eq(s.id.cpu, 8);
	cr_expect_eq(s.ip, 2);
	cr_expect_eq(s.addr, 6);
	cr_expect_eq(s.period, 9);
	cr_expect_eq(s.read.count, 2);
	cr_expect_eq(s.read.value_bytes, 24);
	cr_expect_eq(s.read.time_running, 11);
	cr_expect_eq(load_le(s.read.values + 24, 8), 15);
	cr_expect_eq(s.callchain_count, 2);
	cr_expect_eq(load_le(s.callchain + 8, 8), 21);
	cr_expect_eq(s.raw_bytes, 4);
	cr_expect_arr_eq(s.raw, "RAW!", 4);
	cr_expect_eq(s.branch_count, 1);
	cr_expect_eq(s.branch_hw_index, 22);
	cr_expect_eq(load_le(s.branches, 8), 23);
	cr_expect_eq(load_le(s.regs_user + 8, 8), 28);
	cr_expect_eq(s.stack_bytes, 5);
	cr_expect_arr_eq(s.stack, "stack", 5);
	cr_expect_eq(s.weight, 30);
	cr_expect_eq(s.data_src, 31);
	cr_expect_eq(s.transaction, 32);
	cr_expect_null(s.regs_intr);
	cr_expect_eq(s.phys_addr, 33);
	cr_expect_eq(s.cgroup, 34);
	cr_expect_eq(s.data_page_size, 35);
	cr_expect_eq(s.code_page_size, 36);
	cr_expect_eq(s.aux_bytes, 8);
	cr_expect_arr_eq(s.aux, "\x02\x82\x02\x82\x02\x82\x02\x82", 8);
	record_free(&r);
	build_done(&b);
}

Test(record, sample_cut_anywhere_is_refused)
{
	struct builder b = {0};
	struct sample s;

	build_full_sample(&b);
	for (size_t bytes = 8; bytes < b.out.count; bytes++) {
		struct record r = record_of(&b, bytes);

		record_parse_id(&r, &full_event);
		cr_expect_eq(r.id.has != 0, bytes >= 72, "%zu bytes", bytes);
		cr_expect_not(record_sample(&r, &full_event, &s), "%zu bytes", bytes);
		record_free(&r);
	}
	build_done(&b);
}

Test(record, sample_counts_beyond_the_end_are_refused)
{
	/* places of counts in the full sample, behind the header */
	static const size_t counts[] = {72, 144, 168, 176, 248, 336};

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct builder b = {0};
		struct sample s;

		build_full_sample(&b);
		if (counts[i] == 168)
			memcpy(b.out.items + 8 + 168, "\xff\xff\xff\xff", 4);
		else
			build_patch_u64(&b, 8 + counts[i], UINT64_MAX / 8 + 2);
		struct record r = record_of(&b, b.out.count);
		record_parse_id(&r, &full_event);
		cr_expect_not(record_sample(&r, &full_event, &s), "count at %zu", counts[i]);
		record_free(&r);
		build_done(&b);
	}
}

Test(record, stack_longer_than_its_room)
{
	struct builder b = {0};
	struct sample s;

	build_full_sample(&b);
	build_patch_u64(&b, 8 + 264, 9); /* of 8 */
	struct record r = record_of(&b, b.out.count);
	record_parse_id(&r, &full_event);
	cr_expect_not(record_sample(&r, &full_event, &s));
	record_free(&r);
	build_done(&b);
}

Test(record, single_counter_read)
{
	struct builder b = {0};
	struct perfdata_event event = {
		.sample_type = PERF_SAMPLE_READ,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_ID | PERF_FORMAT_LOST,
	};
	struct sample s;

	build_record_start(&b, RECORD_SAMPLE, 0);
	for (uint64_t i = 1; i <= 4; i++)
		build_u64(&b, i);
	struct record r = record_of(&b, b.out.count);
	record_parse_id(&r, &event);
	cr_assert(record_sample(&r, &event, &s));
	cr_expect_eq(s.read.value, 1);
	cr_expect_eq(s.read.time_enabled, 2);
	cr_expect_eq(s.read.id, 3);
	cr_expect_eq(s.read.lost, 4);
	record_free(&r);
	build_done(&b);
}

Test(record, names)
{
	cr_expect_str_eq(record_type_name(RECORD_MMAP2), "MMAP2");
	cr_expect_str_eq(record_type_name(RECORD_COMPRESSED2), "COMPRESSED2");
	cr_expect_null(record_type_name(0));
	cr_expect_null(record_type_name(63));
	cr_expect_null(record_type_name(UINT32_MAX));
}

Test(record, attr_of_an_older_kernel)
{
	struct builder b = {0};
	struct build_event event = {.type = 8, .config = 0x300e601, .sample_type = 0x10087};
	struct perfdata_event out = {0};

	build_attr(&b, &event);
	cr_expect_not(record_parse_attr(b.out.items, PERF_ATTR_SIZE_VER0 - 1, &out));
	cr_assert(record_parse_attr(b.out.items, PERF_ATTR_SIZE_VER0, &out));
	cr_expect_eq(out.type, 8);
	cr_expect_eq(out.config, 0x300e601);
	cr_expect_eq(out.sample_type, 0x10087);
	build_done(&b);
}
