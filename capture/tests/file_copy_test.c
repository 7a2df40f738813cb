#include "capture/file_copy.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bundle.h"

static char root[64];

static void make_root(void)
{
	strcpy(root, "/tmp/file_copy_test.XXXXXX");
	cr_assert(mkdtemp(root) && chdir(root) == 0 && mkdir("to", 0700) == 0);
}

static void remove_root(void)
{
	bundle_remove_tree(root);
}

TestSuite(file_copy, .init = make_root, .fini = remove_root);

static unsigned mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

Test(file_copy, whole_files_with_their_directories)
{
	static char large[700000];
	FILE *file = fopen("from", "w+");

	for (size_t i = 0; i < sizeof large; i++)
		large[i] = (char)(i * 7 >> 3);
	cr_assert_eq(fwrite(large, 1, sizeof large, file), sizeof large);
	fflush(file); /* leaves the descriptor at the end */
	cr_assert_eq(file_copy_fd(fileno(file), "to", "a/b/c", NULL), ERR_NONE);
	fclose(file);
	cr_expect_eq(system("cmp from to/a/b/c"), 0);
	cr_expect_eq(mode_of("to/a"), 0700);
	cr_expect_eq(mode_of("to/a/b/c"), 0600);
}

Test(file_copy, what_does_not_tell_its_size)
{
	int fd = open("/proc/self/status", O_RDONLY);

	cr_assert_eq(file_copy_fd(fd, "to", "status", NULL), ERR_NONE);
	close(fd);
	cr_expect_eq(system("grep -q ^Pid: to/status"), 0);
}

Test(file_copy, nothing_is_replaced_or_followed)
{
	struct error error = {0};

	cr_assert_eq(symlink("../victim", "to/link"), 0);
	cr_expect_eq(file_copy_memory("x", 1, "to", "link", &error), ERR_IO);
	cr_expect_neq(access("victim", F_OK), 0);
	cr_assert_eq(file_copy_memory("x", 1, "to", "file", NULL), ERR_NONE);
	cr_expect_eq(file_copy_memory("y", 1, "to", "file", NULL), ERR_IO);
	cr_expect_eq(system("grep -q x to/file"), 0);
}

Test(file_copy, a_full_disk_is_told)
{
	int full = open("/dev/full", O_WRONLY);

	if (full < 0)
		cr_skip_test("no /dev/full");
	close(full);
	if (geteuid() != 0 || system("mount -t tmpfs -o size=64k tmpfs to 2>/dev/null") != 0)
		cr_skip_test("no small file system can be mounted here");
	static char large[300000];
	struct error error = {0};
	enum err err = file_copy_memory(large, sizeof large, "to", "large", &error);
	cr_expect_eq(system("umount to"), 0);
	cr_expect_eq(err, ERR_IO);
	cr_expect_not_null(strstr(error.message, "No space left"), "%s", error.message);
}

Test(file_copy, trees)
{
	cr_assert_eq(
		system("mkdir -p t/kcore_dir && echo data >t/data && echo k >t/kcore_dir/kcore"),
		0);
	cr_assert_eq(file_copy_tree("t", "to", "perf.data", NULL), ERR_NONE);
	cr_expect_eq(system("diff -r t to/perf.data"), 0);
	cr_assert_eq(file_copy_tree("t/data", "to", "one", NULL), ERR_NONE);
	cr_expect_eq(file_copy_tree("missing", "to", "two", NULL), ERR_IO);
	cr_assert_eq(mkfifo("t/fifo", 0600), 0);
	cr_expect_eq(file_copy_tree("t", "to", "three", NULL), ERR_UNSUPPORTED);
}
