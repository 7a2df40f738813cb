#include "symbolize/symtab.h"

#include <criterion/criterion.h>

struct row {
	uint64_t start, bytes;
	const char *name;
};

struct question {
	uint64_t vaddr;
	const char *want;    /* NULL = in a gap */
	uint64_t start, end; /* of the function, or of the gap */
};

static void check(const char *test, const struct row *rows, const struct question *questions)
{
	struct symtab t = {0};

	for (; rows->name; rows++)
		cr_assert(symtab_add_name(&t, rows->start, rows->bytes, 1000, rows->name));
	cr_assert(symtab_finish(&t));
	for (; questions->vaddr; questions++) {
		uint64_t start = 0, end = 0;
		uint32_t f = symtab_find(&t, questions->vaddr, &start, &end);
		const char *name = NULL;

		if (f != SYMTAB_NONE) {
			name = t.funcs.items[f].name;
			start = t.funcs.items[f].start;
			end = t.funcs.items[f].end;
		}
		cr_expect_str_eq(name ? name : "(gap)", questions->want ? questions->want : "(gap)",
				 "%s: %d is %s", test, (int)questions->vaddr, name);
		cr_expect_eq(start, questions->start, "%s: %d starts at %d", test,
			     (int)questions->vaddr, (int)start);
		cr_expect_eq(end, questions->end, "%s: %d ends at %d", test, (int)questions->vaddr,
			     (int)end);
	}
	symtab_done(&t);
}

Test(symtab, ranges_and_gaps)
{
	check("empty", (struct row[]){{0}}, (struct question[]){{5, NULL, 0, UINT64_MAX}, {0}});
	check("two", (struct row[]){{100, 20, "b"}, {50, 10, "a"}, {0}},
	      (struct question[]){{49, NULL, 0, 50},
				  {50, "a", 50, 60},
				  {59, "a", 50, 60},
				  {60, NULL, 60, 100},
				  {119, "b", 100, 120},
				  {120, NULL, 120, UINT64_MAX},
				  {0}});
	check("unsized reach to the next and to the section's end",
	      (struct row[]){{50, 0, "a"}, {100, 0, "b"}, {0}},
	      (struct question[]){{99, "a", 50, 100},
				  {999, "b", 100, 1000},
				  {1000, NULL, 1000, UINT64_MAX},
				  {0}});
	check("too long is cut at the section", (struct row[]){{50, UINT64_MAX, "a"}, {0}},
	      (struct question[]){{999, "a", 50, 1000}, {0}});
}

Test(symtab, nested_ranges_belong_to_the_later_start)
{
	check("nested", (struct row[]){{100, 100, "outer"}, {120, 10, "inner"}, {0}},
	      (struct question[]){{119, "outer", 100, 200},
				  {120, "inner", 120, 130},
				  {130, "outer", 100, 200},
				  {0}});
	check("overlapping", (struct row[]){{100, 50, "a"}, {120, 80, "b"}, {140, 5, "c"}, {0}},
	      (struct question[]){{119, "a", 100, 150},
				  {142, "c", 140, 145},
				  {149, "b", 120, 200},
				  {199, "b", 120, 200},
				  {200, NULL, 200, UINT64_MAX},
				  {0}});
}

Test(symtab, aliases_are_one_function)
{
	check("plainest name, largest size",
	      (struct row[]){
		      {100, 10, "__GI_read"}, {100, 20, "read"}, {100, 5, "read.localalias"}, {0}},
	      (struct question[]){{115, "read", 100, 120}, {0}});
}

Test(symtab, cold_pieces_belong_to_their_parent)
{
	check("cold", (struct row[]){{100, 20, "f"}, {500, 8, "f.cold"}, {600, 8, "f.part.0"}, {0}},
	      (struct question[]){{503, "f", 100, 120}, {603, "f.part.0", 600, 608}, {0}});
	check("by an alias",
	      (struct row[]){
		      {100, 20, "f"}, {100, 20, "__f_impl"}, {500, 8, "__f_impl.cold.3"}, {0}},
	      (struct question[]){{503, "f", 100, 120}, {0}});
	check("piece of a piece",
	      (struct row[]){{100, 20, "f.part.0"}, {500, 8, "f.part.0.cold"}, {0}},
	      (struct question[]){{503, "f.part.0", 100, 120}, {0}});
	check("orphan", (struct row[]){{500, 8, "g.cold"}, {0}},
	      (struct question[]){{503, "g.cold", 500, 508}, {0}});
}

Test(symtab, piece_names)
{
	static const struct {
		const char *name;
		size_t want;
	} cases[] = {{"f", 0},          {"f.cold", 1},     {"f.cold.12", 1},
		     {"f.coldness", 0}, {".cold", 0},      {"f.part.0", 0},
		     {"f.warm.0", 1},   {"f.__part.1", 1}, {"f.part.0.cold", 8}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		cr_expect_eq(symtab_piece_parent_length(cases[i].name), cases[i].want, "%s",
			     cases[i].name);
}
