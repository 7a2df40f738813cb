/* The process looked at is the test itself. */
#include "capture/symbol.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int symbol_test_target(int x);
__attribute__((noinline)) int symbol_test_target(int x)
{
	return x + 1; /* the line after the one of TARGET_LINE */
}
enum { TARGET_LINE = __LINE__ - 3 }; /* of the opening brace's function: the "{" line */

static enum err resolve(const char *where, struct trigger_place *place, struct error *error)
{
	static struct arena arena; /* freed with the process: strings are looked at by the tests */
	struct trigger_place places[TRIGGER_PLACES_MAX];
	size_t count = 0;
	enum err err = symbol_resolve(getpid(), where, HIT_TRIGGER, &arena, places, &count, error);

	if (err == ERR_NONE)
		*place = places[0];
	return err;
}

static bool is_in_target(uint64_t ip)
{
	uint64_t start = (uint64_t)(uintptr_t)symbol_test_target;

	return ip >= start && ip < start + 16;
}

Test(symbol, of_the_program_itself_wherever_it_is_loaded)
{
	struct trigger_place place;

	cr_assert_eq(resolve("symbol_test_target", &place, NULL), ERR_NONE);
	cr_expect_eq(place.ip, (uint64_t)(uintptr_t)symbol_test_target);
	cr_expect_str_eq(place.where, "symbol_test_target");
	cr_assert_not_null(place.path);

	/* what a uprobe would patch is this function */
	unsigned char code[8];
	FILE *file = fopen(place.path, "r");
	cr_assert_not_null(file, "%s", place.path);
	cr_assert_eq(fseek(file, (long)place.file_off, SEEK_SET), 0);
	cr_assert_eq(fread(code, 1, sizeof code, file), sizeof code);
	cr_expect_eq(memcmp(code, (const void *)(uintptr_t)place.ip, sizeof code), 0);
	fclose(file);
}

Test(symbol, of_a_library)
{
	struct trigger_place place;

	cr_assert_eq(resolve("getpid", &place, NULL), ERR_NONE);
	cr_expect_neq(place.ip, 0);
}

Test(symbol, an_address)
{
	struct trigger_place place;
	char text[32];

	snprintf(text, sizeof text, "%p", (void *)(uintptr_t)symbol_test_target);
	cr_assert_eq(resolve(text, &place, NULL), ERR_NONE);
	cr_expect_eq(place.ip, (uint64_t)(uintptr_t)symbol_test_target);
	cr_expect_eq(resolve("0xzz", &place, NULL), ERR_USAGE);
	cr_expect_eq(resolve("0x", &place, NULL), ERR_USAGE);
}

Test(symbol, a_source_line)
{
	struct trigger_place place;
	struct error error = {0};
	char text[64];

	snprintf(text, sizeof text, "symbol_test.c:%d", TARGET_LINE);
	cr_assert_eq(resolve(text, &place, &error), ERR_NONE, "%s", error.message);
	cr_expect(is_in_target(place.ip));
	snprintf(text, sizeof text, "tests/symbol_test.c:%d", TARGET_LINE);
	cr_expect_eq(resolve(text, &place, &error), ERR_NONE, "%s", error.message);
	snprintf(text, sizeof text, "l_test.c:%d", TARGET_LINE);
	cr_expect_eq(resolve(text, &place, NULL), ERR_NOT_FOUND, "whole parts of a path only");
	cr_expect_eq(resolve("symbol_test.c:99999", &place, NULL), ERR_NOT_FOUND);
}

Test(symbol, what_does_not_exist)
{
	struct trigger_place place;
	struct error error = {0};

	cr_expect_eq(resolve("no_such_function_anywhere", &place, &error), ERR_NOT_FOUND);
	cr_expect_not_null(strstr(error.message, "no_such_function_anywhere"));
}

Test(symbol, no_more_places_than_debug_registers)
{
	struct arena arena = {0};
	struct trigger_place places[TRIGGER_PLACES_MAX];
	size_t count = 0;
	char text[32];
	enum err err = ERR_NONE;

	for (unsigned i = 0; i < TRIGGER_PLACES_MAX; i++) {
		snprintf(text, sizeof text, "0x%x", 0x1000 + i);
		err = symbol_resolve(getpid(), text, HIT_TRIGGER, &arena, places, &count, NULL);
		cr_expect_eq(err, ERR_NONE);
	}
	err = symbol_resolve(getpid(), "0x1000", HIT_TRIGGER, &arena, places, &count, NULL);
	cr_expect_eq(err, ERR_NONE, "the same one again is no new one");
	err = symbol_resolve(getpid(), "0x2000", HIT_TRIGGER, &arena, places, &count, NULL);
	cr_expect_eq(err, ERR_LIMIT);
	arena_done(&arena);
}
