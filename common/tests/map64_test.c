#include "common/map64.h"

#include <criterion/criterion.h>

Test(map64, keeps_what_was_set_last)
{
	struct map64 m = {0};

	cr_assert_eq(map64_get(&m, 0), MAP64_NONE);
	for (uint64_t i = 0; i < 20000; i++)
		cr_assert(map64_set(&m, i * 4096, (uint32_t)i));
	cr_assert(map64_set(&m, 4096, 77));
	cr_assert_eq(m.count, 20000);
	cr_assert_eq(map64_get(&m, 4096), 77);
	cr_assert_eq(map64_get(&m, 19999 * 4096), 19999);
	cr_assert_eq(map64_get(&m, 1), MAP64_NONE);
	map64_done(&m);
}
