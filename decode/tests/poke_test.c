#include <criterion/criterion.h>

#include "decode/poke.h"

#define IP 0xffffffff81000000

static struct sideband sideband;
static struct pokes pokes;

static void add(uint64_t time_ns, uint64_t ip, const char *old, const char *new)
{
	struct text_poke p = {.time_ns = time_ns,
			      .ip = ip,
			      .bytes = (const uint8_t *)new,
			      .old_bytes = (const uint8_t *)old,
			      .count = (uint32_t)strlen(new),
			      .old_count = (uint32_t)strlen(old)};

	cr_assert(vec_push(&sideband.text_pokes, p));
}

static void setup(void)
{
	/* a jump label, to and fro; the copy of an instruction, made and taken away; a kprobe at
	 * the second byte, optimised, and armed again */
	add(100, IP, "NNNNN", "JJJJJ");
	add(300, IP, "JJJJJ", "NNNNN");
	add(200, IP + 0x100, "", "copy");
	add(400, IP + 0x100, "copy", "");
	add(10, IP + 0x201, "b", "!");
	add(20, IP + 0x200, "a!cde", "AxCDE");
	add(30, IP + 0x201, "x", "!");
	cr_assert(pokes_init(&pokes, &sideband));
}

static void teardown(void)
{
	pokes_done(&pokes);
	vec_done(&sideband.text_pokes);
}

TestSuite(poke, .init = setup, .fini = teardown);

static void expect(uint64_t ip, uint64_t time_ns, const char *bytes, uint64_t from_ns,
		   uint64_t until_ns)
{
	struct poked p = pokes_at(&pokes, ip, time_ns);

	cr_expect(p.is_poked);
	cr_expect_eq(p.count, strlen(bytes), "%lx at %lu: %lu bytes", ip, time_ns, p.count);
	cr_assert_not_null(p.bytes);
	cr_expect_eq(memcmp(p.bytes, bytes, strlen(bytes)), 0, "%lx at %lu: %.*s", ip, time_ns,
		     (int)p.count, (const char *)p.bytes);
	cr_expect_eq(p.from_ns, from_ns);
	cr_expect_eq(p.until_ns, until_ns);
}

Test(poke, old_and_new)
{
	expect(IP, 0, "NNNNN", 0, 100);
	expect(IP, 99, "NNNNN", 0, 100);
	expect(IP, 100, "JJJJJ", 100, 300);
	expect(IP + 2, 299, "JJJ", 100, 300);
	expect(IP, 300, "NNNNN", 300, TIME_NONE);
	expect(IP, TIME_NONE, "NNNNN", 300, TIME_NONE);
}

Test(poke, not_poked)
{
	struct poked before = pokes_at(&pokes, IP - 8, 150),
		     between = pokes_at(&pokes, IP + 5, 150),
		     behind = pokes_at(&pokes, IP + 0x1000, 150);

	cr_expect(!before.is_poked && !before.bytes && before.count == 8);
	cr_expect(!between.is_poked && !between.bytes && between.count == 0x100 - 5);
	cr_expect(!behind.is_poked && !behind.bytes && behind.count > 0x1000);
	cr_expect_eq(behind.until_ns, TIME_NONE);
}

Test(poke, came_and_went)
{
	struct poked none = pokes_at(&pokes, IP + 0x101, 199),
		     gone = pokes_at(&pokes, IP + 0x101, 400);

	cr_expect(none.is_poked && !none.bytes && none.count == 3);
	cr_expect(gone.is_poked && !gone.bytes && gone.count == 3);
	expect(IP + 0x101, 200, "opy", 200, 400);
}

Test(poke, overlapping)
{
	expect(IP + 0x200, 0, "a", 0, 10);
	expect(IP + 0x201, 0, "b", 0, 10);
	expect(IP + 0x202, 0, "cde", 0, 10);
	expect(IP + 0x201, 15, "!", 10, 20);
	expect(IP + 0x200, 25, "AxCDE", 20, 30);
	expect(IP + 0x200, 30, "A", 30, TIME_NONE);
	expect(IP + 0x201, 30, "!", 30, TIME_NONE);
	expect(IP + 0x202, 30, "CDE", 30, TIME_NONE);
}
