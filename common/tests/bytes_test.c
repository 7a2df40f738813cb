#include "common/bytes.h"

#include <criterion/criterion.h>

Test(bytes, reads_little_endian_and_stops_at_the_end)
{
	static const uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 'a', 0, 'b'};
	struct bytes b = bytes_of(data, sizeof data);

	cr_assert_eq(bytes_u16(&b), 0x0201);
	cr_assert_eq(bytes_u32(&b), 0x06050403);
	cr_assert_eq(bytes_le(&b, 3), 0x090807);
	cr_assert_str_eq(bytes_string(&b), "a");
	cr_assert_not(b.failed);
	cr_assert_null(bytes_string(&b), "a string without NUL is refused");
	cr_assert(b.failed);
	cr_assert_eq(bytes_u8(&b), 0);
	cr_assert_eq(bytes_left(&b), 0);
}

Test(bytes, a_length_that_wraps_is_refused)
{
	static const uint8_t data[4] = {0};
	struct bytes b = bytes_of(data, sizeof data);

	cr_assert_null(bytes_take(&b, SIZE_MAX));
	cr_assert(b.failed);
}
