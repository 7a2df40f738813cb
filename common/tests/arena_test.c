#include "common/arena.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

Test(arena, memory_is_zeroed_aligned_and_separate)
{
	struct arena a = {0};
	unsigned char *previous = NULL;

	for (size_t n = 0; n < 3000; n += 7) {
		unsigned char *p = arena_alloc(&a, n);

		cr_assert_not_null(p);
		cr_assert_eq((uintptr_t)p % 16, 0);
		for (size_t i = 0; i < n; i++)
			cr_assert_eq(p[i], 0);
		memset(p, 0xff, n);
		cr_assert_neq(p, previous);
		previous = p;
	}
	arena_done(&a);
	cr_assert_eq(a.total_bytes, 0);
}

Test(arena, a_request_larger_than_a_block_is_served)
{
	struct arena a = {0};
	char *p = arena_alloc(&a, 3 << 20);

	cr_assert_not_null(p);
	p[(3 << 20) - 1] = 1;
	cr_assert_null(arena_alloc(&a, SIZE_MAX));
	cr_assert_str_eq(arena_copy_string(&a, "abcdef", 3), "abc");
	arena_done(&a);
}
