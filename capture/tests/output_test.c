#include "capture/output.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bundle.h"

static char root[64];

static void make_root(void)
{
	strcpy(root, "/tmp/output_test.XXXXXX");
	cr_assert(mkdtemp(root) && chdir(root) == 0);
}

static void remove_root(void)
{
	bundle_remove_tree(root);
}

TestSuite(output, .init = make_root, .fini = remove_root);

static void fill(const struct output *o)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof path, "%s/file", o->dir);
	FILE *file = fopen(path, "w");
	cr_assert_not_null(file);
	fclose(file);
}

Test(output, a_directory_appears_when_it_is_complete)
{
	struct output o;
	struct stat st;

	cr_assert_eq(output_begin("out/", "run", &o, NULL), ERR_NONE);
	cr_expect_neq(access("out", F_OK), 0);
	cr_expect(stat(o.dir, &st) == 0 && (st.st_mode & 07777) == 0700);
	fill(&o);
	cr_assert_eq(output_finish(&o, NULL), ERR_NONE);
	cr_expect_eq(access("out/file", F_OK), 0);
	cr_expect_neq(access(o.dir, F_OK), 0);
}

Test(output, an_archive_appears_alone)
{
	struct output o;

	cr_assert_eq(output_begin("x.tar.zst", "run", &o, NULL), ERR_NONE);
	fill(&o);
	cr_assert_eq(output_finish(&o, NULL), ERR_NONE);
	cr_expect_eq(system("test \"$(ls)\" = x.tar.zst"), 0);
}

Test(output, what_exists_is_never_replaced)
{
	struct output o;
	struct error error = {0};

	cr_assert_eq(symlink("nowhere", "link"), 0);
	cr_expect_eq(output_begin("link", "run", &o, &error), ERR_USAGE);
	cr_expect_not_null(strstr(error.message, "link exists"), "%s", error.message);

	/* it comes into being meanwhile: the capture is not lost, and the message says where */
	cr_assert_eq(output_begin("late.tar.zst", "run", &o, NULL), ERR_NONE);
	fill(&o);
	cr_assert_eq(system("echo mine >late.tar.zst"), 0);
	cr_expect_eq(output_finish(&o, &error), ERR_IO);
	cr_expect_eq(system("grep -q mine late.tar.zst"), 0);
	cr_expect_eq(access(o.dir, F_OK), 0);
	cr_expect_not_null(strstr(error.message, o.dir), "%s", error.message);
	output_discard(&o);
	cr_expect_neq(access(o.dir, F_OK), 0);
}

Test(output, the_default_name_tells_command_and_time)
{
	struct output o;

	cr_assert_eq(output_begin(NULL, "attach", &o, NULL), ERR_NONE);
	cr_expect_eq(strncmp(o.target, "pt-attach-20", 12), 0, "%s", o.target);
	output_discard(&o);
}

Test(output, where_nothing_can_be_made)
{
	struct output o;

	cr_expect_eq(output_begin("missing/dir/out", "run", &o, NULL), ERR_IO);
}
