#include "capture/child.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ARG(text) ((char[]){text})

Test(child, both_outputs_are_taken_and_cut)
{
	char *argv[] = {ARG("sh"), ARG("-c"), ARG("echo out; echo err >&2; read x || echo end"),
			NULL};
	char text[64], small[5];

	cr_assert_eq(child_output(argv, 5000, text, sizeof text, NULL), ERR_NONE);
	cr_expect_str_eq(text, "out\nerr\nend\n");
	cr_assert_eq(child_output(argv, 5000, small, sizeof small, NULL), ERR_NONE);
	cr_expect_str_eq(small, "out\n");
}

Test(child, arguments_reach_no_shell)
{
	char *argv[] = {ARG("echo"), ARG("$(id)"), ARG("; ls"), NULL};
	char text[64];

	cr_assert_eq(child_output(argv, 5000, text, sizeof text, NULL), ERR_NONE);
	cr_expect_str_eq(text, "$(id) ; ls\n");
}

Test(child, one_that_hangs_is_killed_with_its_children)
{
	char *argv[] = {ARG("sh"), ARG("-c"), ARG("echo begun; sleep 100 & sleep 100"), NULL};
	char text[64];
	time_t start = time(NULL);

	cr_assert_eq(child_output(argv, 300, text, sizeof text, NULL), ERR_NONE);
	cr_expect_str_eq(text, "begun\n");
	cr_expect_lt(time(NULL) - start, 10);
}

struct find_case {
	const char *name, *program, *search;
	enum err expected;
};

static const struct find_case cases[] = {
	{"absolute", "/bin/sh", "", ERR_NONE},
	{"in the path", "sh", "/nowhere:/bin:/usr/bin", ERR_NONE},
	{"not in the path", "sh", "/nowhere", ERR_NOT_FOUND},
	{"an empty part is the directory we are in", "tool", ":/nowhere", ERR_NONE},
	{"found, but later executable", "data", ".:/nowhere", ERR_IO},
	{"a directory", "./sub", "", ERR_IO},
	{"no such file", "./missing", "", ERR_NOT_FOUND},
	{"nothing", "", "/bin", ERR_NOT_FOUND},
};

Test(child, programs_are_found_as_a_shell_would)
{
	char dir[] = "/tmp/child_test.XXXXXX", path[4096];

	cr_assert(mkdtemp(dir) && chdir(dir) == 0 && mkdir("sub", 0700) == 0);
	cr_assert_eq(system("touch tool data && chmod +x tool && chmod 600 data"), 0);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		setenv("PATH", cases[i].search, 1);
		cr_expect_eq(child_find(cases[i].program, path, sizeof path, NULL),
			     cases[i].expected, "%s", cases[i].name);
	}
	setenv("PATH", "/bin:/usr/bin", 1);
	cr_expect_eq(unlink("tool") | unlink("data") | rmdir("sub") | chdir("/") | rmdir(dir), 0);
}
