#include "symbolize/jit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct question {
	uint64_t ip, time_ns;
	const char *want; /* NULL = nothing */
	uint64_t until_ns;
};

static void check(const char *test, const struct jit *j, const struct question *q, size_t count)
{
	for (; count; count--, q++) {
		uint64_t until = 0;
		const struct jit_code *code = jit_find(j, q->ip, q->time_ns, &until);

		cr_expect_str_eq(code ? code->name : "(none)", q->want ? q->want : "(none)",
				 "%s: %#x at %d is %s", test, (unsigned)q->ip, (int)q->time_ns,
				 code ? code->name : "(none)");
		cr_expect_eq(until, q->until_ns, "%s: %#x at %d until %lld", test, (unsigned)q->ip,
			     (int)q->time_ns, (long long)until);
	}
}

#define CHECK(test, j, ...) \
	check(test, j, (const struct question[]){__VA_ARGS__}, \
	      sizeof((const struct question[]){__VA_ARGS__}) / sizeof(struct question))

static struct jit map_of(const char *text)
{
	struct jit j = {0};

	cr_assert(jit_read_map(&j, bytes_of(text, strlen(text))));
	cr_assert(jit_finish(&j));
	return j;
}

Test(jit, maps_of_all_runtimes)
{
	struct jit j =
		map_of("7f0000001000 20 LazyCompile:*tick /srv/app.js:12:3\n"
		       "0x7f0000002000 0x40 Lcom/example/Main;::run\r\n"
		       "00007F0000003000 10 instance void [app] Program::Main(string[])[Tier0]\n"
		       "7f0000004000 30 py::main:/srv/app.py\n"
		       "nonsense\n"
		       "7f0000005000\n"
		       "7f0000006000 zz name\n"
		       "fffffffffffffff0 20 past_the_end\n"
		       "7f0000007000 0 empty\n"
		       "7f0000008000 8 no newline");

	cr_expect_eq(j.codes.count, 5);
	CHECK("map", &j, {0x7f000000101f, 5, "LazyCompile:*tick /srv/app.js:12:3", UINT64_MAX},
	      {0x7f0000001020, 5, NULL, UINT64_MAX},
	      {0x7f0000002000, 5, "Lcom/example/Main;::run", UINT64_MAX},
	      {0x7f0000003008, 5, "instance void [app] Program::Main(string[])[Tier0]", UINT64_MAX},
	      {0x7f0000004001, 5, "py::main:/srv/app.py", UINT64_MAX},
	      {0x7f0000008007, 5, "no newline", UINT64_MAX});
	jit_done(&j);
}

Test(jit, the_later_line_of_a_map_wins)
{
	struct jit j = map_of("1000 100 old\n1000 40 new\n1080 10 inner\n");

	CHECK("map", &j, {0x1000, 0, "new", UINT64_MAX}, {0x1040, 0, "old", UINT64_MAX},
	      {0x1088, 0, "inner", UINT64_MAX});
	cr_expect_eq(jit_layer_count(&j), 2);
	jit_done(&j);
}

/* A jitdump, written field by field. */
struct dump {
	uint8_t bytes[1024];
	size_t at;
};

static void put(struct dump *d, uint64_t value, size_t bytes)
{
	cr_assert_leq(d->at + bytes, sizeof d->bytes);
	memcpy(d->bytes + d->at, &value, bytes);
	d->at += bytes;
}

static void put_header(struct dump *d, uint64_t flags)
{
	put(d, 0x4a695444, 4);
	put(d, 1, 4);
	put(d, 40, 4);
	put(d, 62, 4);
	put(d, 0, 4);
	put(d, 77, 4);
	put(d, 5, 8);
	put(d, flags, 8);
}

static void put_load(struct dump *d, uint64_t time, uint64_t addr, uint64_t size, const char *name,
		     uint8_t fill)
{
	put(d, 0, 4);
	put(d, 16 + 40 + strlen(name) + 1 + size, 4);
	put(d, time, 8);
	put(d, 77, 4);
	put(d, 78, 4);
	put(d, addr, 8);
	put(d, addr, 8);
	put(d, size, 8);
	put(d, 1, 8);
	for (const char *p = name; p == name || p[-1]; p++)
		put(d, (uint8_t)*p, 1);
	for (uint64_t i = 0; i < size; i++)
		put(d, fill, 1);
}

static void put_move(struct dump *d, uint64_t time, uint64_t old, uint64_t addr, uint64_t size)
{
	put(d, 1, 4);
	put(d, 16 + 48, 4);
	put(d, time, 8);
	put(d, 77, 4);
	put(d, 78, 4);
	put(d, addr, 8);
	put(d, old, 8);
	put(d, addr, 8);
	put(d, size, 8);
	put(d, 1, 8);
}

static struct dump make_dump(void)
{
	struct dump d = {.at = 0};

	put_header(&d, 0);
	put_load(&d, 100, 0x1000, 0x20, "first", 0x11);
	put_load(&d, 200, 0x2000, 0x20, "other", 0x22);
	put(&d, 2, 4); /* debug information, skipped by its size */
	put(&d, 16 + 8, 4);
	put(&d, 200, 8);
	put(&d, 0, 8);
	put_load(&d, 300, 0x1000, 0x10, "second", 0x33);
	put_move(&d, 400, 0x2000, 0x3000, 0x20);
	return d;
}

Test(jit, dump_by_time)
{
	struct dump d = make_dump();
	struct jit j = {0};

	cr_assert_eq(jit_read_dump(&j, bytes_of(d.bytes, d.at), NULL), ERR_NONE);
	cr_assert(jit_finish(&j));
	cr_expect_eq(j.pid, 77);
	CHECK("dump", &j, {0x1000, 150, "first", 300}, {0x1000, 299, "first", 300},
	      {0x1000, 300, "second", UINT64_MAX}, {0x1018, 300, "first", UINT64_MAX},
	      {0x2000, 250, "other", 400}, {0x2000, 400, NULL, UINT64_MAX},
	      {0x3000, 400, "other", UINT64_MAX}, {0x3000, 250, "other", 400},
	      {0x1000, 50, "first", 100}, {0x4000, 500, NULL, UINT64_MAX},
	      {0x1000, UINT64_MAX, "second", UINT64_MAX}, {0x2000, UINT64_MAX, NULL, UINT64_MAX});
	uint64_t until;
	cr_expect_eq(jit_find(&j, 0x3000, 500, &until)->bytes[0x1f], 0x22, "bytes move along");
	cr_expect_eq(jit_find(&j, 0x1000, 500, &until)->bytes[0], 0x33);
	jit_done(&j);
}

Test(jit, dump_in_tsc_ticks)
{
	struct dump d = {.at = 0};
	const struct jit_clock clock = {.time_zero = 1000, .time_mult = 1u << 10, .time_shift = 11};
	struct jit j = {0};

	put_header(&d, 1);
	put_load(&d, 400, 0x1000, 0x10, "f", 0x90);
	cr_assert_eq(jit_read_dump(&j, bytes_of(d.bytes, d.at), &clock), ERR_NONE);
	cr_assert_eq(j.codes.count, 1);
	cr_expect_eq(j.codes.items[0].from_ns, 1200);
	jit_done(&j);
}

Test(jit, damaged_dumps)
{
	struct dump d = make_dump();
	struct jit j = {0};

	cr_expect_eq(jit_read_dump(&j,
				   bytes_of("\x7f"
					    "ELF",
					    4),
				   NULL),
		     ERR_FORMAT);
	for (size_t cut = 0; cut < d.at; cut++) {
		uint8_t *copy = malloc(cut + 1);
		struct jit part = {0};

		cr_assert_not_null(copy);
		memcpy(copy, d.bytes, cut);
		enum err err = jit_read_dump(&part, bytes_of(copy, cut), NULL);
		cr_expect_eq(err, cut < 40 ? ERR_FORMAT : ERR_NONE, "cut at %zu: %d", cut, err);
		cr_expect(jit_finish(&part));
		jit_done(&part);
		free(copy);
	}
	d.bytes[0] = 0x4a, d.bytes[1] = 0x69, d.bytes[2] = 0x54, d.bytes[3] = 0x44;
	cr_expect_eq(jit_read_dump(&j, bytes_of(d.bytes, d.at), NULL), ERR_UNSUPPORTED,
		     "of a big-endian machine");
	jit_done(&j);
}
