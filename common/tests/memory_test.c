/* A limit that is passed stays passed; none never is. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

Test(memory, what_is_used_grows_with_what_is_touched)
{
	enum { BYTES = 64 << 20 };
	uint64_t before = memory_used();
	char *volatile p = malloc(BYTES); /* or a compiler does without it */

	cr_assert_not_null(p);
	memset(p, 1, BYTES);
	cr_expect_geq(memory_used(), before + BYTES / 2);
	free(p);
}

Test(memory, limits)
{
	struct memory_limit none = {0}, high = {.bytes = UINT64_MAX}, low = {.bytes = 1};

	cr_expect(!memory_limit_is_passed(NULL));
	cr_expect(!memory_limit_is_passed(&none));
	cr_expect(!memory_limit_is_passed(&high));
	cr_expect(memory_limit_is_passed(&low));
	cr_expect_gt(low.passed_bytes, 1);
	low.bytes = UINT64_MAX;
	cr_expect(memory_limit_is_passed(&low), "does not forget");
}
