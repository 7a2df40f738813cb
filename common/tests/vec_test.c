#include "common/vec.h"

#include <criterion/criterion.h>
#include <stdint.h>

Test(vec, grows_and_refuses_the_impossible)
{
	VEC(uint64_t) v = {0};

	for (uint64_t i = 0; i < 1000; i++)
		cr_assert(vec_push(&v, i));
	cr_assert_eq(v.count, 1000);
	cr_assert_eq(*vec_last(&v), 999);
	cr_assert_not(vec_reserve(&v, SIZE_MAX / 4));
	cr_assert_eq(v.items[500], 500);
	vec_done(&v);
	cr_assert_eq(v.capacity, 0);
}
