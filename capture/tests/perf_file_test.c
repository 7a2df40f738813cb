#include "capture/perf_file.h"

#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/bundle.h"
#include "common/bytes.h"

static char root[64];

static void make_root(void)
{
	strcpy(root, "/tmp/perf_file_test.XXXXXX");
	cr_assert_not_null(mkdtemp(root));
	cr_assert_eq(chdir(root), 0);
}

static void remove_root(void)
{
	bundle_remove_tree(root);
}

TestSuite(perf_file, .init = make_root, .fini = remove_root);

struct file {
	uint8_t bytes[8192];
	size_t length;
};

static void put(struct file *f, uint64_t value, size_t bytes)
{
	cr_assert_leq(f->length + bytes, sizeof f->bytes);
	memcpy(f->bytes + f->length, &value, bytes);
	f->length += bytes;
}

static void put_name(struct file *f, const char *name)
{
	size_t room = (strlen(name) + 8) & ~(size_t)7;

	memcpy(f->bytes + f->length, name, strlen(name));
	f->length += room;
}

static void put_header(struct file *f, uint32_t type, uint16_t misc, size_t bytes)
{
	put(f, type, 4);
	put(f, misc, 2);
	put(f, bytes, 2);
}

static void put_comm(struct file *f, uint32_t pid, uint16_t misc, const char *name)
{
	put_header(f, PERF_RECORD_COMM, misc, 16 + ((strlen(name) + 8) & ~(size_t)7));
	put(f, pid, 4);
	put(f, pid, 4);
	put_name(f, name);
}

static void put_mmap2(struct file *f, uint16_t misc, const char *name)
{
	put_header(f, PERF_RECORD_MMAP2, misc, 72 + ((strlen(name) + 8) & ~(size_t)7));
	put(f, 1, 8);
	for (int i = 0; i < 3; i++)
		put(f, 0x1000, 8);
	put(f, misc & PERF_RECORD_MISC_MMAP_BUILD_ID ? 20 : 0, 4);
	for (int i = 0; i < 5; i++)
		put(f, 0xabcdef01, 4);
	put(f, 0, 8);
	put_name(f, name);
}

static void put_auxtrace(struct file *f, uint64_t bytes, size_t present)
{
	put_header(f, 71, 0, 48);
	put(f, bytes, 8);
	for (int i = 0; i < 4; i++)
		put(f, 0, 8);
	f->length += present;
}

/* Everything that matters once, some of it twice. */
static struct file make_file(void)
{
	struct file f = {0};

	memcpy(f.bytes, "PERFILE2", 8);
	f.length = 8;
	put(&f, 104, 8);
	for (int i = 0; i < 11; i++)
		put(&f, i == 3 ? 104 : 0, 8);
	put_comm(&f, 7, 0, "before");
	put_comm(&f, 7, PERF_RECORD_MISC_COMM_EXEC, "after-exec");
	put_comm(&f, 7, 0, "renamed");
	put_mmap2(&f, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID, "/usr/lib/libx.so");
	put_mmap2(&f, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID, "/usr/lib/libx.so");
	put_mmap2(&f, PERF_RECORD_MISC_USER, "//anon");
	put_mmap2(&f, PERF_RECORD_MISC_USER, "[vdso]");
	put_mmap2(&f, PERF_RECORD_MISC_KERNEL, "[kernel.kallsyms]_text");
	put_mmap2(&f, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_DATA, "/usr/lib/data");
	put_auxtrace(&f, 100, 100);
	put_mmap2(&f, PERF_RECORD_MISC_USER, "/usr/bin/after-trace");
	uint64_t data_bytes = f.length - 104;
	memcpy(f.bytes + 48, &data_bytes, 8);
	return f;
}

static void save(const struct file *f, size_t length, const char *path)
{
	FILE *out = fopen(path, "w");

	cr_assert_not_null(out);
	cr_assert_eq(fwrite(f->bytes, 1, length, out), length);
	fclose(out);
}

static void expect_content(const struct perf_summary *s)
{
	cr_expect_eq(s->aux_bytes, 100);
	cr_expect_eq(s->aux_chunks, 1);
	cr_assert_eq(s->mappings.count, 2);
	cr_expect_str_eq(s->mappings.items[0].path, "/usr/lib/libx.so");
	cr_expect_eq(s->mappings.items[0].build_id.length, 20);
	cr_expect_eq(s->mappings.items[0].build_id.bytes[0], 0x01);
	cr_expect_str_eq(s->mappings.items[1].path, "/usr/bin/after-trace");
	cr_expect_eq(s->mappings.items[1].build_id.length, 0);
	cr_expect(s->kernel_mapped);
	cr_assert_eq(s->processes.count, 1);
	cr_expect_str_eq(s->processes.items[0].comm, "after-exec");
}

Test(perf_file, says_what_was_mapped)
{
	struct file f = make_file();
	struct perf_summary s;
	struct error error = {0};

	save(&f, f.length, "perf.data");
	cr_assert_eq(perf_file_summarize("perf.data", &s, &error), ERR_NONE, "%s", error.message);
	expect_content(&s);
	cr_expect_not(s.unfinished);
	perf_summary_done(&s);
}

Test(perf_file, a_directory_and_an_unfinished_file)
{
	struct file f = make_file();
	struct perf_summary s;

	memset(f.bytes + 48, 0, 8); /* perf was killed */
	cr_assert_eq(mkdir("perf.data", 0700), 0);
	save(&f, f.length, "perf.data/data");
	cr_assert_eq(perf_file_summarize("perf.data", &s, NULL), ERR_NONE);
	expect_content(&s);
	cr_expect(s.unfinished);
	perf_summary_done(&s);
}

Test(perf_file, a_pipe_mode_file)
{
	struct file f = make_file(), piped = {.length = f.length - 104 + 16};
	struct perf_summary s;

	memcpy(piped.bytes, "PERFILE2\20\0\0\0\0\0\0", 16);
	memcpy(piped.bytes + 16, f.bytes + 104, f.length - 104);
	save(&piped, piped.length, "perf.data");
	cr_assert_eq(perf_file_summarize("perf.data", &s, NULL), ERR_NONE);
	expect_content(&s);
	perf_summary_done(&s);
}

/* The records of make_file() in compressed ones of at most `piece` bytes each, of one stream. */
static void put_compressed(struct file *f, const struct file *plain, size_t piece, uint32_t type)
{
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	size_t trace = 0; /* AUXTRACE is never compressed: the last one comes after */

	for (size_t at = 104; at < plain->length; at += load_le(plain->bytes + at + 6, 2))
		if (load_le(plain->bytes + at, 4) == 71) {
			trace = at;
			break;
		}
	for (size_t at = 104; at < trace; at += piece) {
		uint8_t packed[512];
		ZSTD_inBuffer in = {plain->bytes + at, trace - at < piece ? trace - at : piece, 0};
		ZSTD_outBuffer out = {packed, sizeof packed, 0};

		cr_assert_eq(ZSTD_compressStream2(zstd, &out, &in, ZSTD_e_flush), 0);
		if (type == 81) {
			put_header(f, type, 0, 8 + out.pos);
		} else {
			put_header(f, type, 0, (16 + out.pos + 7) & ~(size_t)7);
			put(f, out.pos, 8);
		}
		memcpy(f->bytes + f->length, packed, out.pos);
		f->length += type == 81 ? out.pos : (out.pos + 7) & ~(size_t)7;
	}
	memcpy(f->bytes + f->length, plain->bytes + trace, plain->length - trace);
	f->length += plain->length - trace;
	ZSTD_freeCCtx(zstd);
}

Test(perf_file, compressed_records_are_looked_into)
{
	struct file plain = make_file();

	for (uint32_t type = 81; type <= 83; type += 2)
		for (size_t piece = 7; piece < 700; piece += 23) { /* also in the middle of one */
			struct file f = {.length = 104};
			struct perf_summary s;

			memcpy(f.bytes, plain.bytes, 104);
			put_compressed(&f, &plain, piece, type);
			memset(f.bytes + 48, 0, 8);
			save(&f, f.length, "perf.data");
			cr_assert_eq(perf_file_summarize("perf.data", &s, NULL), ERR_NONE);
			expect_content(&s);
			cr_expect_not(s.unreadable);
			perf_summary_done(&s);
		}
}

Test(perf_file, damaged_compressed_records_are_told)
{
	struct file plain = make_file(), f = {.length = 104};
	struct perf_summary s;

	memcpy(f.bytes, plain.bytes, 104);
	put_compressed(&f, &plain, 4096, 81);
	memset(f.bytes + 104 + 8, 0xff, 4); /* zstd's magic number */
	save(&f, f.length, "perf.data");
	cr_assert_eq(perf_file_summarize("perf.data", &s, NULL), ERR_NONE);
	cr_expect(s.unreadable);
	cr_expect_eq(s.aux_bytes, 100, "the rest is still read");
	perf_summary_done(&s);
}

Test(perf_file, every_truncation_is_read_as_far_as_it_goes)
{
	struct file f = make_file();

	for (size_t length = 0; length < f.length; length++) {
		struct perf_summary s;

		save(&f, length, "perf.data");
		enum err err = perf_file_summarize("perf.data", &s, NULL);
		cr_expect_eq(err, length < 104 ? ERR_FORMAT : ERR_NONE, "%zu bytes: %d", length,
			     err);
		if (err == ERR_NONE)
			perf_summary_done(&s);
	}
}

Test(perf_file, every_byte_may_be_anything)
{
	struct file good = make_file();

	for (size_t at = 0; at < good.length; at++)
		for (int value = 0; value < 256; value += 85) {
			struct file f = good;
			struct perf_summary s;

			f.bytes[at] = (uint8_t)value;
			save(&f, f.length, "perf.data");
			if (perf_file_summarize("perf.data", &s, NULL) == ERR_NONE)
				perf_summary_done(&s);
		}
}

static void shout(void *context, char *name, size_t room)
{
	size_t *count = context;

	(*count)++;
	cr_expect_gt(room, strlen(name));
	for (; *name; name++)
		*name = name[0] == '/' ? '/' : 'X';
}

Test(perf_file, names_are_replaced_in_place)
{
	struct file f = make_file();
	struct perf_summary s;
	size_t count = 0;

	save(&f, f.length, "perf.data");
	cr_assert_eq(perf_file_rename("perf.data", shout, &count, NULL), ERR_NONE);
	cr_expect_eq(count, 3 + 6, "every comm and every user mapping");
	cr_assert_eq(perf_file_summarize("perf.data", &s, NULL), ERR_NONE);
	cr_assert_eq(s.mappings.count, 2);
	cr_expect_str_eq(s.mappings.items[0].path, "/XXX/XXX/XXXXXXX");
	cr_expect_str_eq(s.processes.items[0].comm, "XXXXXXXXXX");
	cr_expect_eq(s.aux_bytes, 100);
	perf_summary_done(&s);
}

Test(perf_file, what_is_no_perf_data)
{
	struct perf_summary s;
	struct error error = {0};

	cr_expect_eq(perf_file_summarize("missing", &s, &error), ERR_NOT_FOUND);
	save(&(struct file){.length = 200}, 200, "zeros");
	cr_expect_eq(perf_file_summarize("zeros", &s, &error), ERR_FORMAT);
	cr_expect_not_null(strstr(error.message, "not a perf.data"));
}
