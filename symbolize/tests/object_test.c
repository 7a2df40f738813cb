/* Objects and what is read from them, over files made in memory. */
#include "symbolize/object.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolize/symbolize.h"
#include "symbolize/tests/tiny_elf.h"

static struct object *open_kind(enum tiny_kind kind)
{
	struct object *o = NULL;
	struct error error = {0};
	size_t bytes;
	uint8_t *heap = tiny_elf(kind, &bytes);

	cr_assert_not_null(heap);
	cr_assert_eq(object_from_heap("tiny", heap, bytes, &o, &error), ERR_NONE, "%s",
		     error.message);
	return o;
}

Test(object, segments_sections_and_build_id)
{
	struct object *o = open_kind(TINY_SYMBOLS);
	uint64_t vaddr = 0;

	cr_expect_eq(o->build_id_bytes, 20);
	cr_expect_eq(o->build_id[19], 20);
	struct bytes code = object_code(o, TINY_TEXT + 1);
	cr_expect_eq(bytes_left(&code), 255);
	cr_expect_eq(code.p[0], 0x90);
	code = object_code(o, 0x2800);
	cr_expect_eq(bytes_left(&code), 0, "data is no code");
	code = object_memory(o, 0x2800);
	cr_expect_neq(bytes_left(&code), 0);
	cr_expect_str_eq(object_code_section(o, TINY_PLT)->name, ".plt");
	cr_expect_null(object_code_section(o, TINY_GOT));
	cr_assert(object_vaddr(o, o->segments[0].file_off + 5, &vaddr));
	cr_expect_eq(vaddr, TINY_TEXT + 5);
	object_free(o);
}

Test(object, sections_stand_in_for_program_headers)
{
	struct object *o = NULL;
	size_t bytes;
	uint8_t *heap = tiny_elf(TINY_SYMBOLS, &bytes);

	cr_assert_not_null(heap);
	memset(heap + 56, 0, 2); /* e_phnum */
	cr_assert_eq(object_from_heap("tiny", heap, bytes, &o, NULL), ERR_NONE);
	struct bytes code = object_code(o, TINY_TEXT + 1);
	cr_expect_eq(bytes_left(&code), 255);
	code = object_code(o, 0x2800);
	cr_expect_eq(bytes_left(&code), 0);
	object_free(o);
}

Test(object, what_is_no_object)
{
	static const struct {
		size_t at;
		uint8_t value;
		enum err want;
	} cases[] = {{0, 0, ERR_FORMAT}, {4, 1, ERR_UNSUPPORTED}, {18, 183, ERR_UNSUPPORTED}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct object *o = NULL;
		size_t bytes;
		uint8_t *heap = tiny_elf(TINY_SYMBOLS, &bytes);

		heap[cases[i].at] = cases[i].value;
		cr_expect_eq(object_from_heap("tiny", heap, bytes, &o, NULL), cases[i].want);
		cr_expect_null(o);
	}
}

Test(object, build_ids_padded_with_zeros)
{
	static const uint8_t a[20] = {1, 2, 3, 4}, b[4] = {1, 2, 3, 4}, c[5] = {1, 2, 3, 4, 5};

	cr_expect(object_build_id_equal(a, 20, b, 4));
	cr_expect(object_build_id_equal(b, 4, a, 20));
	cr_expect_not(object_build_id_equal(a, 20, c, 5));
	cr_expect_not(object_build_id_equal(b, 4, c, 5));
}

/* The facade over a file of some kind. */
static char path[] = "/tmp/object-test-XXXXXX";

static struct symbolizer *symbolizer_of(enum tiny_kind kind, module_id *m)
{
	struct symbolizer *s = NULL;
	struct module_request request = {.path = path};
	size_t bytes;
	uint8_t *file = tiny_elf(kind, &bytes);
	int fd;

	strcpy(path, "/tmp/object-test-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, file, bytes), (ssize_t)bytes);
	close(fd);
	free(file);
	cr_assert_eq(symbolizer_new(NULL, &s, NULL), ERR_NONE);
	cr_assert_eq(symbolizer_module(s, &request, m), ERR_NONE);
	cr_assert_eq(symbolizer_module_get(s, *m)->state, MODULE_FOUND);
	return s;
}

static void symbolizer_end(struct symbolizer *s)
{
	symbolizer_free(s);
	remove(path);
}

struct function {
	uint64_t vaddr;
	const char *name; /* NULL = made of the file's name and the start */
	uint64_t start, end;
	enum func_source source;
	enum func_role role;
};

static void check_functions(enum tiny_kind kind, const struct function *want, size_t count)
{
	module_id m;
	struct symbolizer *s = symbolizer_of(kind, &m);

	for (; count; count--, want++) {
		char made[64];
		func_id id = symbolizer_func(s, m, want->vaddr);
		const struct func *f = symbolizer_func_get(s, id);

		cr_assert_not_null(f);
		snprintf(made, sizeof made, "%s+%#x", strrchr(path, '/') + 1,
			 (unsigned)want->start);
		cr_expect_str_eq(symbolizer_text(s, symbolizer_func_name(s, id)),
				 want->name ? want->name : made);
		cr_expect_eq(f->start, want->start, "%#x: starts at %#x", (unsigned)want->vaddr,
			     (unsigned)f->start);
		cr_expect_eq(f->end, want->end, "%#x: ends at %#x", (unsigned)want->vaddr,
			     (unsigned)f->end);
		cr_expect_eq(f->source, want->source, "%#x: source %d", (unsigned)want->vaddr,
			     f->source);
		cr_expect_eq(f->role, want->role, "%#x: role %d", (unsigned)want->vaddr, f->role);
	}
	symbolizer_end(s);
}

#define CHECK(kind, ...) \
	check_functions(kind, (const struct function[]){__VA_ARGS__}, \
			sizeof((const struct function[]){__VA_ARGS__}) / sizeof(struct function))

Test(object, functions_by_symbols)
{
	CHECK(TINY_SYMBOLS, {TINY_TEXT + 5, "tiny_f", 0x1000, 0x1040, FUNC_FROM_SYMBOL, FUNC_PLAIN},
	      {TINY_TEXT + 64, "tiny_g", 0x1040, 0x1060, FUNC_FROM_SYMBOL, FUNC_PLAIN},
	      {TINY_COLD + 1, "tiny_f", 0x1000, 0x1040, FUNC_FROM_SYMBOL, FUNC_PLAIN},
	      {TINY_LABEL + 9, "tiny_label", 0x10c0, 0x1100, FUNC_FROM_SYMBOL, FUNC_PLAIN},
	      {0x1070, NULL, 0x1060, 0x1080, FUNC_FROM_BOUNDARY, FUNC_PLAIN},
	      {TINY_PLT, "_dl_runtime_resolve@plt", 0x1100, 0x1110, FUNC_FROM_BOUNDARY, FUNC_PLT},
	      {TINY_PLT + 17, "puts@plt", 0x1110, 0x1120, FUNC_FROM_SYMBOL, FUNC_PLT});
}

Test(object, functions_of_a_stripped_file)
{
	CHECK(TINY_STRIPPED, {TINY_TEXT + 5, NULL, 0x1000, 0x1040, FUNC_FROM_FDE, FUNC_PLAIN},
	      {TINY_TEXT + 64, NULL, 0x1040, 0x1080, FUNC_FROM_BOUNDARY, FUNC_PLAIN},
	      {TINY_COLD, NULL, 0x1080, 0x1090, FUNC_FROM_FDE, FUNC_PLAIN},
	      {TINY_PLT + 17, "puts@plt", 0x1110, 0x1120, FUNC_FROM_SYMBOL, FUNC_PLT});
}

Test(object, outlined_pieces_landing_pads_and_slots)
{
	module_id m;
	struct symbolizer *s = symbolizer_of(TINY_STRIPPED, &m);
	uint64_t pad = 0;
	str_id name = {0};

	cr_expect(symbolizer_func_get(s, symbolizer_func(s, m, TINY_COLD))->headless);
	cr_expect_not(symbolizer_func_get(s, symbolizer_func(s, m, TINY_TEXT))->headless);
	cr_expect(symbolizer_landing_pad(s, m, 0x1009, &pad));
	cr_expect_eq(pad, TINY_PAD);
	cr_expect_not(symbolizer_landing_pad(s, m, 0x1020, &pad));
	cr_assert(symbolizer_got_target(s, m, TINY_GOT + 0x18, &name));
	cr_expect_str_eq(symbolizer_text(s, name), "puts");
	cr_expect_not(symbolizer_got_target(s, m, TINY_GOT + 0x10, &name));
	symbolizer_end(s);
}

Test(object, inlined_frames_and_lines)
{
	static const struct {
		uint64_t vaddr, until;
		const char *names[3]; /* innermost first */
		uint32_t line;
	} cases[] = {
		{0x1000, 0x1010, {NULL}, 100},    {0x100f, 0x1010, {NULL}, 100},
		{0x1010, 0x1018, {"outer"}, 100}, {0x1018, 0x1020, {"inner", "outer"}, 103},
		{0x1020, 0x1030, {"outer"}, 103}, {0x1030, 0x1060, {NULL}, 103},
		{0x1060, UINT64_MAX, {NULL}, 0},
	};
	static const enum tiny_kind kinds[] = {TINY_DWARF5, TINY_DWARF4, TINY_PACKED};

	for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
		module_id m;
		struct symbolizer *s = symbolizer_of(kinds[k], &m);

		for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
			uint64_t until = 0;
			uint32_t line = 0;
			str_id file;
			inline_id id = symbolizer_inline_at(s, m, cases[i].vaddr, &until);

			cr_expect_eq(until, cases[i].until, "%d %#x: until %#x", kinds[k],
				     (unsigned)cases[i].vaddr, (unsigned)until);
			for (size_t n = 0; cases[i].names[n]; n++) {
				const struct inline_frame *f = symbolizer_inline_get(s, id);

				cr_assert_not_null(f, "%d %#x", kinds[k], (unsigned)cases[i].vaddr);
				cr_expect_str_eq(symbolizer_text(s, f->name), cases[i].names[n]);
				cr_expect_eq(f->call_line, f->parent.v ? 20 : 10);
				cr_expect_str_eq(
					symbolizer_text(s, symbolizer_inline_call_file(s, id)),
					"/src/tiny.c");
				id = f->parent;
			}
			cr_expect_eq(id.v, 0);
			if (symbolizer_line(s, m, cases[i].vaddr, &file, &line))
				cr_expect_str_eq(symbolizer_text(s, file), "/src/tiny.c");
			cr_expect_eq(line, cases[i].line, "%d %#x: line %u", kinds[k],
				     (unsigned)cases[i].vaddr, line);
		}
		cr_expect_eq(symbolizer_inline_at(s, m, 0x1018, &(uint64_t){0}).v,
			     symbolizer_inline_at(s, m, 0x101f, &(uint64_t){0}).v,
			     "one instance is one id");
		symbolizer_end(s);
	}
}
