#include "writer/fxt.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "writer/tests/fxt_read.h"

/* The words that f wrote since the last time are these. */
static void expect(struct fxt *f, const char *what, const uint64_t *words, size_t count)
{
	cr_assert_not(f->out.failed);
	cr_assert_eq(f->out.bytes, count * 8, "%s: %zu bytes", what, f->out.bytes);
	for (size_t i = 0; i < count; i++) {
		uint64_t got;

		memcpy(&got, f->out.data + 8 * i, 8);
		cr_assert_eq(got, words[i], "%s: word %zu is %#" PRIx64 ", expected %#" PRIx64,
			     what, i, got, words[i]);
	}
	f->out.bytes = 0;
}

#define EXPECT(f, what, ...) \
	do { \
		static const uint64_t words_[] = {__VA_ARGS__}; \
		expect(f, what, words_, sizeof words_ / sizeof words_[0]); \
	} while (0)

Test(fxt, records_are_exact_to_the_bit)
{
	struct fxt f = {0};

	fxt_init(&f, "pt-decode");
	EXPECT(&f, "head", 0x0016547846040010, /* magic */
	       0x0090000000110030,             /* provider 1, name of 9 bytes */
	       0x6f6365642d7470 | (uint64_t)'d' << 56, 'e', 0x21, 1000000000);

	cr_assert_eq(fxt_string(&f, "main"), 1);
	EXPECT(&f, "string", 0x0000000400010022, 0x6e69616d);
	cr_assert_eq(fxt_string(&f, "12345678"), 2);
	EXPECT(&f, "string of a whole word", 0x0000000800020022, 0x3837363534333231);
	cr_assert_eq(fxt_string(&f, "main"), 1);
	cr_assert_eq(fxt_string(&f, ""), 0);
	cr_assert_eq(f.out.bytes, 0, "a string is defined once, the empty one never");

	cr_assert_eq(fxt_thread(&f, 10, 11), 1);
	EXPECT(&f, "thread", 0x10033, 10, 11);
	cr_assert_eq(fxt_thread(&f, 10, 12), 2);
	cr_assert_eq(fxt_thread(&f, 10, 11), 1);
	EXPECT(&f, "second thread", 0x20033, 10, 12);

	fxt_name_process(&f, 10, 1);
	EXPECT(&f, "process", 0x0000000001010027, 10);
	fxt_name_thread(&f, 10, 11, 1, 2);
	EXPECT(&f, "thread object", 0x0000010001020047, 11, 0x00020028, 10);
	fxt_done(&f);
}

Test(fxt, events_are_exact_to_the_bit)
{
	struct fxt f = {0};
	uint64_t *start, *w;

	start = fxt_event_start(&f);
	w = fxt_arg_string(start + 2, 3, 4);
	*w++ = 200;
	fxt_event_finish(&f, start, w, FXT_COMPLETE, 1, 7, 5, 6, 100);
	EXPECT(&f, "complete", 0x0006000507140044, 100, 0x0000000400030016, 200);

	start = fxt_event_start(&f);
	fxt_event_finish(&f, start, start + 2, FXT_END, 0, 7, 0, 0, 300);
	EXPECT(&f, "end", 0x07030024, 300);

	start = fxt_event_start(&f);
	w = fxt_arg_short(start + 2, FXT_ARG_I32, 1, (uint32_t)-1);
	w = fxt_arg_unsigned(w, 2, UINT32_MAX);
	w = fxt_arg_unsigned(w, 3, (uint64_t)1 << 32);
	w = fxt_arg_long(w, FXT_ARG_POINTER, 4, 0x401000);
	fxt_event_finish(&f, start, w, FXT_INSTANT, 4, 1, 0, 9, 1);
	EXPECT(&f, "arguments", 0x0009000001400084, 1, 0xffffffff00010011, 0xffffffff00020012,
	       0x00030024, 0x100000000, 0x00040027, 0x401000);

	start = fxt_event_start(&f);
	start[2] = 42;
	fxt_event_finish(&f, start, start + 3, FXT_FLOW_BEGIN, 0, 1, 0, 9, 1);
	EXPECT(&f, "flow", 0x0009000001080034, 1, 42);
	fxt_done(&f);
}

Test(fxt, wall_clock_is_a_perfetto_packet)
{
	struct fxt f = {0};

	/* 1 second after 1970 at time 0: trace { packet { clock_snapshot { clocks { clock_id: 6
	 * timestamp: 0 } clocks { clock_id: 1 timestamp: 1000000000 } } } } */
	static const uint8_t proto[] = {0x0a, 0x12, 0x32, 0x10, 0x0a, 4,    0x08, 6,    0x10, 0,
					0x0a, 8,    0x08, 1,    0x10, 0x80, 0x94, 0xeb, 0xdc, 0x03};
	uint64_t header;

	fxt_wall_clock(&f, 1, 0, 1000000000);
	memcpy(&header, f.out.data, 8);
	cr_assert_eq(header,
		     5 | 4 << 4 | 1 << 16 | (uint64_t)sizeof proto << 32 | (uint64_t)3 << 48);
	cr_assert_eq(f.out.bytes, 32);
	cr_assert_arr_eq(f.out.data + 8, proto, sizeof proto);
	fxt_done(&f);
}

Test(fxt, texts_are_made_fit_to_show)
{
	static const struct {
		const char *text, *shown;
	} cases[] = {
		{"plain", "plain"},
		{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		 "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"a\xff"
		 "b",
		 "a\xef\xbf\xbd"
		 "b"},
		{"cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd"},
		{"\xc0\xaf overlong", "\xef\xbf\xbd\xef\xbf\xbd overlong"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"tab\there", "tab\xef\xbf\xbdhere"},
	};
	struct fxt f = {0};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		fxt_ref ref = fxt_string(&f, cases[i].text);

		cr_assert_str_eq(intern_text(&f.texts, (str_id){ref}), cases[i].shown, "case %zu",
				 i);
	}
	fxt_done(&f);
}

Test(fxt, long_texts_are_cut_between_characters)
{
	static char text[40000];
	struct fxt f = {0};

	for (size_t shift = 0; shift < 3; shift++) {
		memset(text, 'x', shift);
		for (size_t at = shift; at + 3 < sizeof text; at += 3)
			memcpy(text + at, "\xe2\x82\xac", 4);
		fxt_ref ref = fxt_string(&f, text);
		const char *shown = intern_text(&f.texts, (str_id){ref});
		size_t length = strlen(shown);

		cr_assert_leq(length, (size_t)FXT_STRING_BYTES_MAX);
		cr_assert_geq(length, (size_t)FXT_STRING_BYTES_MAX - 3);
		cr_assert_str_eq(shown + length - 3, "\xe2\x80\xa6");
		cr_assert_eq(memcmp(shown, text, length - 3), 0);
		cr_assert_eq((length - 3 - shift) % 3, 0, "no character is cut in two");
	}
	memset(text, 'y', FXT_STRING_BYTES_MAX);
	text[FXT_STRING_BYTES_MAX] = '\0';
	fxt_ref whole = fxt_string(&f, text);
	cr_assert_str_eq(intern_text(&f.texts, (str_id){whole}), text, "the longest is whole");
	fxt_done(&f);
}

Test(fxt, strings_beyond_the_table_are_recycled)
{
	struct fxt f = {0};
	struct fxt_read read;
	char name[32];
	uint8_t thread;

	fxt_init(&f, "test");
	fxt_ref fixed = fxt_string_fixed(&f, "always");
	thread = fxt_thread(&f, 1, 1);
	fxt_name_thread(&f, 1, 1, fxt_string(&f, "t"), fxt_string(&f, "process"));
	for (uint64_t i = 0; i < 100000; i++) {
		uint32_t generation = f.generation;

		snprintf(name, sizeof name, "name %" PRIu64, i % 60000);
		fxt_strings_reserve(&f, 2);
		cr_assert(generation == f.generation || f.last_string == 1);
		fxt_ref ref = fxt_string(&f, name), common = fxt_string(&f, "common");
		uint64_t *start = fxt_event_start(&f);
		uint64_t *w = fxt_arg_string(start + 2, common, fixed);
		*w++ = i * 10 + 10;
		fxt_event_finish(&f, start, w, FXT_COMPLETE, 1, thread, fixed, ref, i * 10);
	}
	cr_assert(fxt_read(&read, f.out.data, f.out.bytes), "%s", read.error);
	cr_assert_geq(read.max_string_index, (size_t)FXT_STRINGS_MAX - 1);
	cr_assert_eq(read.strings_defined, f.string_records);
	cr_assert_eq(f.generation, 3);
	cr_assert_eq(read.tracks.items[0].slices.count, 100000);
	for (size_t i = 0; i < 100000; i++) {
		const struct fxt_slice *slice = &read.tracks.items[0].slices.items[i];

		snprintf(name, sizeof name, "name %zu", i % 60000);
		cr_assert_str_eq(slice->name, name);
		cr_assert_str_eq(slice->category, "always");
		cr_assert_str_eq(slice->args, "common=always");
	}
	fxt_read_done(&read);
	fxt_done(&f);
}

Test(fxt, threads_beyond_the_table_are_recycled)
{
	struct fxt f = {0};
	struct fxt_read read;

	fxt_init(&f, "test");
	fxt_ref name = fxt_string(&f, "t"), process = fxt_string(&f, "process");
	for (uint64_t round = 0; round < 2; round++) {
		for (uint64_t tid = 1; tid <= 1000; tid++) {
			uint8_t index = fxt_thread(&f, 1, tid);
			uint64_t *start = fxt_event_start(&f);

			start[2] = round * 10 + 5;
			fxt_event_finish(&f, start, start + 3, FXT_COMPLETE, 0, index, 0, name,
					 round * 10);
			fxt_name_thread(&f, 1, tid, name, process);
		}
	}
	cr_assert(fxt_read(&read, f.out.data, f.out.bytes), "%s", read.error);
	cr_assert_eq(read.tracks.count, 1000);
	for (size_t i = 0; i < 1000; i++) {
		cr_assert_eq(read.tracks.items[i].tid, i + 1);
		cr_assert_eq(read.tracks.items[i].slices.count, 2);
	}
	cr_assert_eq(read.threads_defined, 2000);
	fxt_read_done(&read);
	fxt_done(&f);
}
