#include "writer/output.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_map.h"
#include "writer/tests/fxt_read.h"

static char dir[] = "/tmp/output-test-XXXXXX";

static void enter(void)
{
	strcpy(dir + sizeof dir - 7, "XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
}

/* Everything in the directory goes; the number of entries left is the result. */
static int leave(void)
{
	DIR *d = opendir(dir);
	int left = 0;

	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		left++;
		unlink(e->d_name);
	}
	closedir(d);
	rmdir(dir);
	return left;
}

static void put(struct output *o, const char *text)
{
	struct buffer b = {0};

	buffer_text(&b, text);
	cr_assert_eq(output_put(o, &b, NULL), ERR_NONE);
	cr_assert_eq(b.bytes, 0);
	buffer_done(&b);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	fputs(text, f);
	fclose(f);
}

static void expect_content(const char *path, const char *text)
{
	struct file_map map;

	cr_assert_eq(file_map_open(path, &map, NULL), ERR_NONE, "%s", path);
	cr_assert_eq(map.bytes, strlen(text));
	cr_assert_eq(memcmp(map.data, text, map.bytes), 0);
	file_map_done(&map);
}

Test(output, appears_only_when_complete, .init = enter)
{
	struct output *o;

	write_file("x.txt", "old");
	cr_assert_eq(chmod("x.txt", 0640), 0);
	cr_assert_eq(output_open("x.txt", OUTPUT_TEXT, 1, &o, NULL), ERR_NONE);
	put(o, "new ");
	put(o, "text");
	expect_content("x.txt", "old");
	cr_assert_eq(output_commit(o, NULL), ERR_NONE);
	cr_assert_eq(output_bytes(o), 8);
	output_free(o);
	expect_content("x.txt", "new text");
	struct stat st;
	cr_assert_eq(stat("x.txt", &st), 0);
	cr_assert_eq(st.st_mode & 0777, 0640);
	cr_assert_eq(leave(), 1, "no temporary is left");
}

Test(output, leaves_nothing_without_commit, .init = enter)
{
	struct output *o;

	write_file("x.fxt", "old");
	cr_assert_eq(output_open("x.fxt", OUTPUT_BINARY, 1, &o, NULL), ERR_NONE);
	put(o, "half");
	output_free(o);
	expect_content("x.fxt", "old");
	cr_assert_eq(leave(), 1);
}

Test(output, a_signal_handler_can_clean_up, .init = enter)
{
	struct output *a, *b;

	cr_assert_eq(output_open("a.fxt.gz", OUTPUT_BINARY, 2, &a, NULL), ERR_NONE);
	cr_assert_eq(output_open("b.fxt", OUTPUT_BINARY, 2, &b, NULL), ERR_NONE);
	cr_assert_eq(output_commit(b, NULL), ERR_NONE);
	output_remove_temporaries();
	cr_assert_eq(access("b.fxt", F_OK), 0, "what is complete stays");
	output_free(a);
	output_free(b);
	cr_assert_eq(leave(), 1);
}

Test(output, follows_symbolic_links_and_writes_fifos_in_place, .init = enter)
{
	struct output *o;
	char text[8] = "";

	write_file("target", "old");
	cr_assert_eq(symlink("target", "link"), 0);
	cr_assert_eq(output_open("link", OUTPUT_TEXT, 1, &o, NULL), ERR_NONE);
	put(o, "new");
	cr_assert_eq(output_commit(o, NULL), ERR_NONE);
	output_free(o);
	expect_content("target", "new");
	struct stat st;
	cr_assert_eq(lstat("link", &st), 0);
	cr_assert(S_ISLNK(st.st_mode));

	cr_assert_eq(mkfifo("fifo", 0600), 0);
	int fd = open("fifo", O_RDONLY | O_NONBLOCK);
	cr_assert_eq(output_open("fifo", OUTPUT_TEXT, 1, &o, NULL), ERR_NONE);
	put(o, "piped");
	cr_assert_eq(read(fd, text, sizeof text), 5);
	cr_assert_str_eq(text, "piped");
	cr_assert_eq(output_commit(o, NULL), ERR_NONE);
	output_free(o);
	close(fd);
	cr_assert_eq(leave(), 3);
}

Test(output, says_what_is_wrong_with_a_path, .init = enter)
{
	struct output *o = NULL;
	struct error error = {0};

	cr_assert_eq(output_open("no/such/dir.fxt", OUTPUT_BINARY, 1, &o, &error), ERR_IO);
	cr_assert_str_eq(error.message,
			 "no/such/dir.fxt: cannot create: No such file or directory");
	cr_assert_eq(output_open(".", OUTPUT_BINARY, 1, &o, &error), ERR_IO);
	cr_assert_str_eq(error.message, ".: is a directory");
	cr_assert_eq(output_open("/dev/full", OUTPUT_BINARY, 1, &o, &error), ERR_NONE);
	struct buffer b = {0};
	buffer_text(&b, "x");
	cr_assert_eq(output_put(o, &b, &error), ERR_IO);
	cr_assert_str_eq(error.message, "/dev/full: cannot write: No space left on device");
	buffer_done(&b);
	output_free(o);
	cr_assert_eq(leave(), 0);
}

Test(output, code_that_prints_gets_a_stream, .init = enter)
{
	for (int packed = 0; packed < 2; packed++) {
		const char *path = packed ? "x.gz" : "x.txt";
		struct buffer expected = {0}, unpacked = {0};
		struct output *o;
		struct file_map map;
		FILE *stream;
		size_t members = 0;

		cr_assert_eq(output_open(path, OUTPUT_TEXT, 2, &o, NULL), ERR_NONE);
		cr_assert_eq(output_stream(o, &stream, NULL), ERR_NONE);
		for (int i = 0; i < 300000; i++) {
			fprintf(stream, "line %d\n", i);
			buffer_printf(&expected, "line %d\n", i);
		}
		cr_assert_eq(fclose(stream), 0);
		cr_assert_eq(output_commit(o, NULL), ERR_NONE);
		output_free(o);
		cr_assert_eq(file_map_open(path, &map, NULL), ERR_NONE);
		if (packed) {
			cr_assert(fxt_gunzip(map.data, map.bytes, &unpacked, &members));
			cr_assert_eq(members, 4);
		}
		cr_assert_eq(packed ? unpacked.bytes : map.bytes, expected.bytes);
		cr_assert_eq(
			memcmp(packed ? unpacked.data : map.data, expected.data, expected.bytes),
			0);
		file_map_done(&map);
		buffer_done(&expected);
		buffer_done(&unpacked);
	}
	cr_assert_eq(leave(), 2);
}

Test(output, a_stream_that_failed_is_not_committed)
{
	struct error error = {0};
	struct output *o;
	FILE *stream;

	cr_assert_eq(output_open("/dev/full", OUTPUT_TEXT, 1, &o, NULL), ERR_NONE);
	cr_assert_eq(output_stream(o, &stream, NULL), ERR_NONE);
	fputs("x", stream);
	cr_assert_neq(fclose(stream), 0);
	cr_assert_eq(output_commit(o, &error), ERR_IO);
	cr_assert_str_eq(error.message, "/dev/full: cannot write: No space left on device");
	output_free(o);
}

Test(output, binary_does_not_go_to_a_terminal)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	struct output *o = NULL;
	struct error error = {0};

	cr_assert_geq(terminal, 0);
	cr_assert(grantpt(terminal) == 0 && unlockpt(terminal) == 0);
	int slave = open(ptsname(terminal), O_RDWR | O_NOCTTY), saved = dup(STDOUT_FILENO);
	dup2(slave, STDOUT_FILENO);
	enum err binary = output_open("-", OUTPUT_BINARY, 1, &o, &error);
	enum err text = output_open("-", OUTPUT_TEXT, 1, &o, NULL);
	dup2(saved, STDOUT_FILENO);
	cr_assert_eq(binary, ERR_USAGE);
	cr_assert_not_null(strstr(error.message, "terminal"));
	cr_assert_eq(text, ERR_NONE);
	output_free(o);
	close(saved);
	close(slave);
	close(terminal);
}

static enum err append(void *context, const uint8_t *data, size_t bytes, struct error *error)
{
	struct buffer *b = context;

	(void)error;
	if (!buffer_reserve(b, bytes))
		return ERR_NOMEM;
	memcpy(b->data + b->bytes, data, bytes);
	b->bytes += bytes;
	return ERR_NONE;
}

static void pack_lines(unsigned threads, int blocks, struct buffer *packed, struct buffer *plain)
{
	struct blocks *c;
	struct buffer b = {0};

	cr_assert_eq(
		blocks_new(threads, BLOCKS_GZIP, (struct block_sink){append, packed}, &c, NULL),
		ERR_NONE);
	for (int i = 0; i < blocks; i++) {
		for (int k = 0; k < 500 + i; k++) {
			buffer_printf(&b, "line %d of block %d\n", k, i);
			buffer_printf(plain, "line %d of block %d\n", k, i);
		}
		cr_assert_eq(blocks_put(c, &b, NULL), ERR_NONE);
		cr_assert_eq(b.bytes, 0);
		cr_assert_eq(blocks_put(c, &b, NULL), ERR_NONE);
	}
	cr_assert_eq(blocks_finish(c, NULL), ERR_NONE);
	blocks_free(c);
	buffer_done(&b);
}

Test(blocks, gives_the_same_members_with_any_number_of_threads)
{
	struct buffer first = {0}, plain = {0};

	pack_lines(1, 40, &first, &plain);
	for (unsigned threads = 0; threads < 5; threads++) {
		struct buffer packed = {0}, again = {0}, unpacked = {0};
		size_t members;

		pack_lines(threads, 40, &packed, &again);
		cr_assert_eq(packed.bytes, first.bytes);
		cr_assert_eq(memcmp(packed.data, first.data, first.bytes), 0);
		cr_assert(fxt_gunzip(packed.data, packed.bytes, &unpacked, &members));
		cr_assert_eq(members, 40);
		cr_assert_eq(unpacked.bytes, plain.bytes);
		cr_assert_eq(memcmp(unpacked.data, plain.data, plain.bytes), 0);
		buffer_done(&packed);
		buffer_done(&again);
		buffer_done(&unpacked);
	}
	buffer_done(&first);
	buffer_done(&plain);
}

Test(blocks, nothing_at_all_is_one_empty_member)
{
	for (unsigned threads = 1; threads < 4; threads++) {
		struct buffer packed = {0}, plain = {0}, unpacked = {0};
		size_t members;

		pack_lines(threads, 0, &packed, &plain);
		cr_assert(fxt_gunzip(packed.data, packed.bytes, &unpacked, &members));
		cr_assert_eq(members, 1);
		cr_assert_eq(unpacked.bytes, 0);
		buffer_done(&packed);
		buffer_done(&unpacked);
	}
}

static enum err refuse(void *context, const uint8_t *data, size_t bytes, struct error *error)
{
	(void)context;
	(void)data;
	(void)bytes;
	return error_set(error, ERR_IO, "full");
}

Test(blocks, a_failing_sink_ends_it_without_a_hang)
{
	for (unsigned threads = 1; threads < 4; threads++) {
		struct blocks *c;
		struct buffer b = {0};
		enum err err = ERR_NONE;

		cr_assert_eq(blocks_new(threads, BLOCKS_GZIP, (struct block_sink){refuse, NULL}, &c,
					NULL),
			     ERR_NONE);
		for (int i = 0; i < 100 && err == ERR_NONE; i++) {
			buffer_text(&b, "block");
			err = blocks_put(c, &b, NULL);
		}
		cr_assert_eq(err, ERR_IO);
		blocks_free(c);
		buffer_done(&b);
	}
}

/* Blocks "0 ", "1 " ...; every third is made anew when its turn comes, as "again N ". */
struct numbered {
	struct numbering {
		int settled, done;
	} * all;
	int number;
};

static void numbered_make(void *context, struct buffer *out)
{
	const struct numbered *n = context;

	cr_assert_eq(out->bytes, 0);
	if (n->number % 5) /* a block may be empty */
		buffer_printf(out, "%d ", n->number);
}

static bool numbered_settle(void *context, struct buffer *out)
{
	const struct numbered *n = context;

	cr_assert_eq(n->all->settled++, n->number);
	if (n->number % 3)
		return false;
	out->bytes = 0;
	buffer_printf(out, "again %d ", n->number);
	return true;
}

static void numbered_done(void *context)
{
	struct numbered *n = context;

	cr_assert_eq(n->all->done++, n->number);
	free(n);
}

static const struct block_work numbered_work = {
	.make = numbered_make, .settle = numbered_settle, .done = numbered_done};

static enum err put_numbered(struct blocks *c, struct numbering *all, int number)
{
	struct numbered *n = malloc(sizeof *n);

	cr_assert_not_null(n);
	*n = (struct numbered){all, number};
	return blocks_put_work(c, &numbered_work, n, NULL);
}

Test(blocks, work_is_settled_and_written_in_order)
{
	for (int format = BLOCKS_PLAIN; format <= BLOCKS_GZIP; format++) {
		struct buffer first = {0};

		for (unsigned threads = 1; threads < 6; threads++) {
			struct buffer shown = {0};
			struct numbering all = {0};
			struct blocks *c;

			cr_assert_eq(blocks_new(threads, (enum blocks_format)format,
						(struct block_sink){append, &shown}, &c, NULL),
				     ERR_NONE);
			for (int i = 0; i < 100; i++) {
				cr_assert_eq(put_numbered(c, &all, i), ERR_NONE);
				if (i % 40 != 7)
					continue;
				cr_assert_eq(blocks_drain(c, NULL), ERR_NONE);
				cr_assert_eq(all.done, i + 1);
				struct buffer b = {0};
				buffer_text(&b, "between ");
				cr_assert_eq(blocks_put(c, &b, NULL), ERR_NONE);
				buffer_done(&b);
			}
			cr_assert_eq(blocks_finish(c, NULL), ERR_NONE);
			blocks_free(c);
			cr_assert_eq(all.done, 100);
			if (threads == 1) {
				first = shown;
				if (format == BLOCKS_PLAIN)
					cr_assert_eq(memcmp(shown.data,
							    "again 0 1 2 again 3 4 again 6 7 "
							    "between 8 again 9 11 ",
							    52),
						     0, "%s", (char *)shown.data);
				continue;
			}
			cr_assert_eq(shown.bytes, first.bytes);
			cr_assert_eq(memcmp(shown.data, first.data, first.bytes), 0);
			buffer_done(&shown);
		}
		buffer_done(&first);
	}
}

Test(blocks, work_behind_a_failure_is_dropped_but_ended)
{
	for (unsigned threads = 1; threads < 4; threads++) {
		struct numbering all = {0};
		struct blocks *c;
		enum err err = ERR_NONE;
		int put = 0;

		cr_assert_eq(blocks_new(threads, BLOCKS_PLAIN, (struct block_sink){refuse, NULL},
					&c, NULL),
			     ERR_NONE);
		while (put < 100 && err == ERR_NONE)
			err = put_numbered(c, &all, put++);
		cr_assert_eq(err, ERR_IO);
		if (threads > 1)
			cr_assert_eq(blocks_drain(c, NULL), ERR_IO);
		blocks_free(c);
		cr_assert_eq(all.done, put);
	}
}
