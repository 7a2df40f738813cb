#include "common/tar_zst.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "common/bundle.h"

static char root[64];

static void make_root(void)
{
	strcpy(root, "/tmp/tar_zst_test.XXXXXX");
	cr_assert_not_null(mkdtemp(root));
	cr_assert_eq(chdir(root), 0);
	cr_assert_eq(mkdir("in", 0700), 0);
	cr_assert_eq(mkdir("out", 0700), 0);
}

static void remove_root(void)
{
	bundle_remove_tree(root);
}

TestSuite(tar_zst, .init = make_root, .fini = remove_root);

static void put(const char *path, const char *data, size_t bytes)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file, "%s", path);
	cr_assert_eq(fwrite(data, 1, bytes, file), bytes);
	cr_assert_eq(fclose(file), 0);
}

static void expect_file(const char *path, const char *data, size_t bytes)
{
	char *got = malloc(bytes + 1);
	FILE *file = fopen(path, "r");
	struct stat st;

	cr_assert_not_null(file, "%s", path);
	cr_expect_eq(fread(got, 1, bytes + 1, file), bytes, "%s", path);
	cr_expect_eq(memcmp(got, data, bytes), 0, "%s", path);
	cr_expect(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "%s", path);
	fclose(file);
	free(got);
}

Test(tar_zst, what_is_packed_comes_back)
{
	static char large[300000];
	char name[320] = "in/dir/";
	struct error error = {0};

	for (size_t i = 0; i < sizeof large; i++)
		large[i] = (char)(i * 2654435761u >> 13);
	cr_assert_eq(mkdir("in/dir", 0755), 0);
	memset(name + 7, 'n', 90); /* dir/nnn.../mmm...: more than the 100 bytes of a name field */
	cr_assert_eq(mkdir(name, 0755), 0);
	name[97] = '/';
	memset(name + 98, 'm', 90);
	put("in/empty", "", 0);
	put("in/dir/block", large, 512);
	put(name, large, sizeof large);
	cr_assert_eq(tar_zst_pack("in", "a.tar.zst", &error), ERR_NONE, "%s", error.message);
	cr_assert_eq(tar_zst_extract("a.tar.zst", "out", 1 << 20, 10, &error), ERR_NONE, "%s",
		     error.message);
	expect_file("out/empty", "", 0);
	expect_file("out/dir/block", large, 512);
	memcpy(name + 1, "o", 1);
	char moved[330];
	snprintf(moved, sizeof moved, "out/%s", name + 3);
	expect_file(moved, large, sizeof large);
}

Test(tar_zst, packing_refuses_symlinks_and_leaves_nothing)
{
	cr_assert_eq(symlink("/etc/passwd", "in/link"), 0);
	cr_expect_eq(tar_zst_pack("in", "a.tar.zst", NULL), ERR_UNSUPPORTED);
	cr_expect_neq(access("a.tar.zst", F_OK), 0);
}

Test(tar_zst, packing_never_replaces_a_file)
{
	put("a.tar.zst", "mine", 4);
	cr_expect_eq(tar_zst_pack("in", "a.tar.zst", NULL), ERR_IO);
	FILE *file = fopen("a.tar.zst", "r");
	char text[5] = {0};
	cr_expect_eq(fread(text, 1, 5, file), 4);
	cr_expect_str_eq(text, "mine");
	fclose(file);
}

/* A one-entry archive, as an attacker would write it. */
static void put_archive(const char *name, char type, const char *size, const char *link)
{
	static char tar[3 * 512], packed[4096];
	unsigned sum = 0;

	memset(tar, 0, sizeof tar);
	snprintf(tar, 100, "%s", name);
	snprintf(tar + 100, 8, "0000644");
	snprintf(tar + 124, 12, "%s", size);
	memset(tar + 148, ' ', 8);
	tar[156] = type;
	snprintf(tar + 157, 100, "%s", link);
	memcpy(tar + 257, "ustar\00000", 8);
	for (int i = 0; i < 512; i++)
		sum += (unsigned char)tar[i];
	snprintf(tar + 148, 8, "%06o", sum & 0777777);
	size_t bytes = ZSTD_compress(packed, sizeof packed, tar, sizeof tar, 1);
	cr_assert_not(ZSTD_isError(bytes));
	put("a.tar.zst", packed, bytes);
}

struct hostile {
	const char *what, *name;
	char type;
	const char *size, *link;
	enum err expected;
};

static const struct hostile hostiles[] = {
	{"a harmless one", "ok", '0', "0", "", ERR_NONE},
	{"leading ./", "./ok", '0', "0", "", ERR_NONE},
	{"up", "../evil", '0', "0", "", ERR_FORMAT},
	{"up in the middle", "a/../../evil", '0', "0", "", ERR_FORMAT},
	{"up at the end", "a/..", '5', "0", "", ERR_FORMAT},
	{"absolute", "/tmp/evil", '0', "0", "", ERR_FORMAT},
	{"double slash", "a//b", '0', "0", "", ERR_FORMAT},
	{"symlink", "link", '2', "0", "/etc", ERR_UNSUPPORTED},
	{"hard link", "link", '1', "0", "/etc/passwd", ERR_UNSUPPORTED},
	{"device", "dev", '3', "0", "", ERR_UNSUPPORTED},
	{"fifo", "fifo", '6', "0", "", ERR_UNSUPPORTED},
	{"too large", "big", '0', "77777777777", "", ERR_LIMIT},
	{"size is no number", "x", '0', "12z", "", ERR_FORMAT},
	{"a huge extended header", "x", 'x', "00077777777", "", ERR_LIMIT},
	{"ends in the middle", "x", '0', "00000100000", "", ERR_FORMAT},
};

Test(tar_zst, hostile_archives_are_refused)
{
	for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
		const struct hostile *h = &hostiles[i];
		char out[64];

		snprintf(out, sizeof out, "out/%zu", i);
		cr_assert_eq(mkdir(out, 0700), 0);
		put_archive(h->name, h->type, h->size, h->link);
		cr_expect_eq(tar_zst_extract("a.tar.zst", out, 1 << 20, 10, NULL), h->expected,
			     "%s", h->what);
		cr_expect_neq(access("evil", F_OK), 0, "%s", h->what);
		cr_expect_neq(access("out/evil", F_OK), 0, "%s", h->what);
	}
}

Test(tar_zst, a_symlink_that_waits_in_the_way_is_not_followed)
{
	cr_assert_eq(mkdir("elsewhere", 0700), 0);
	cr_assert_eq(symlink("../elsewhere", "out/a"), 0);
	put_archive("a/evil", '0', "0", "");
	cr_expect_eq(tar_zst_extract("a.tar.zst", "out", 1 << 20, 10, NULL), ERR_IO);
	cr_expect_neq(access("elsewhere/evil", F_OK), 0);
}

Test(tar_zst, every_truncation_and_garbage_is_an_error)
{
	char packed[4096];

	put("in/file", "content", 7);
	cr_assert_eq(tar_zst_pack("in", "a.tar.zst", NULL), ERR_NONE);
	FILE *file = fopen("a.tar.zst", "r");
	size_t bytes = fread(packed, 1, sizeof packed, file);
	fclose(file);
	for (size_t cut = 0; cut < bytes; cut += 3) {
		bundle_remove_tree("out");
		cr_assert_eq(mkdir("out", 0700), 0);
		put("b.tar.zst", packed, cut);
		/* the frame's own checksum at the very end may be missing: all blocks are there */
		if (cut + 8 < bytes)
			cr_expect_eq(tar_zst_extract("b.tar.zst", "out", 1 << 20, 10, NULL),
				     ERR_FORMAT, "%zu of %zu bytes", cut, bytes);
	}
	put("b.tar.zst", "not zstd at all", 15);
	cr_expect_eq(tar_zst_extract("b.tar.zst", "out", 1 << 20, 10, NULL), ERR_FORMAT);
}

Test(tar_zst, too_many_files)
{
	for (char name[] = "in/a"; name[3] < 'd'; name[3]++)
		put(name, "x", 1);
	cr_assert_eq(tar_zst_pack("in", "a.tar.zst", NULL), ERR_NONE);
	cr_expect_eq(tar_zst_extract("a.tar.zst", "out", 1 << 20, 2, NULL), ERR_LIMIT);
}
