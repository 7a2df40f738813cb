#include "common/intern.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(intern, equal_strings_share_an_id_and_survive_growth)
{
	struct intern t = {0};
	str_id id, again;
	char text[32];

	for (int i = 0; i < 5000; i++) {
		snprintf(text, sizeof text, "name%d", i);
		cr_assert(intern_string(&t, text, &id));
		cr_assert_eq(id.v, (uint32_t)i + 1);
	}
	cr_assert(intern_string(&t, "name4321", &again));
	cr_assert_str_eq(intern_text(&t, again), "name4321");
	cr_assert_eq(again.v, 4322);
	cr_assert(intern_string(&t, "", &id));
	cr_assert_eq(id.v, 0);
	cr_assert(intern_bytes(&t, "a\0b", 3, &id));
	cr_assert_eq(intern_length(&t, id), 3);
	cr_assert_str_eq(intern_text(&t, (str_id){UINT32_MAX}), "", "an id of nobody is harmless");
	intern_done(&t);
}
