#include "symbolize/search.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/search-test-XXXXXX";

static void below(char path[PATH_MAX], const char *rest)
{
	snprintf(path, PATH_MAX, "%s/%s", root, rest);
}

static void make_dir(const char *rest)
{
	char path[PATH_MAX];

	below(path, rest);
	cr_assert_eq(mkdir(path, 0700), 0);
}

static void make_link(const char *target, const char *rest)
{
	char path[PATH_MAX];

	below(path, rest);
	cr_assert_eq(symlink(target, path), 0);
}

Test(search, links_stay_below_the_root)
{
	static const struct {
		const char *path, *want;
	} cases[] = {
		{"/usr/lib/libc.so", "usr/lib/libc.so"},
		{"/lib/libc.so", "usr/lib/libc.so"},
		{"/lib/absolute/libc.so", "usr/lib/libc.so"},
		{"/usr/../usr/./lib//x", "usr/lib/x"},
		{"/../../etc/passwd", "etc/passwd"},
		{"/lib/out/passwd", "etc/passwd"},
		{"/missing/../etc", "etc"},
	};
	char result[PATH_MAX], want[PATH_MAX];

	cr_assert_not_null(mkdtemp(root));
	make_dir("usr");
	make_dir("usr/lib");
	make_dir("etc");
	make_link("usr/lib", "lib");
	make_link("/lib", "usr/lib/absolute");
	make_link("../../../../../etc", "usr/lib/out");
	make_link("loop", "loop");
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		cr_assert(search_path_below(root, cases[i].path, result));
		below(want, cases[i].want);
		cr_expect_str_eq(result, want, "%s: %s", cases[i].path, result);
	}
	cr_expect(search_path_below(root, "/loop/x", result), "a loop ends");

	char command[PATH_MAX];
	snprintf(command, sizeof command, "rm -rf %s", root);
	cr_expect_eq(system(command), 0);
}

Test(search, too_long_is_refused)
{
	char path[PATH_MAX + 1], result[PATH_MAX];

	memset(path, 'a', PATH_MAX);
	path[PATH_MAX] = '\0';
	cr_expect_not(search_path_below("/tmp", path, result));
}
