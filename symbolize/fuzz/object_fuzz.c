/* An ELF file: everything that is read from one. */
#include <stdlib.h>
#include <string.h>

#include "common/fuzz/driver.h"
#include "symbolize/eh_frame.h"
#include "symbolize/got.h"
#include "symbolize/inline_table.h"
#include "symbolize/minidebug.h"
#include "symbolize/search.h"
#include "symbolize/symtab.h"
#include "symbolize/tests/tiny_elf.h"

static void read_symbols(const struct object *o)
{
	struct symtab symbols = {0};
	uint64_t start = 0, end = UINT64_MAX, value;

	if (symtab_add(&symbols, o) && symtab_finish(&symbols))
		for (size_t i = 1; i < symbols.pieces.count; i++)
			if (symbols.pieces.items[i].start < symbols.pieces.items[i - 1].end)
				abort();
	symtab_find(&symbols, TINY_TEXT, &start, &end);
	(void)symtab_value(o, "tiny_f", &value);
	symtab_done(&symbols);
}

static void read_stubs(const struct object *o)
{
	struct got got = {0};
	struct plt_stub stub;

	if (got_load(&got, o))
		for (uint64_t vaddr = TINY_PLT; vaddr < TINY_PLT + 64; vaddr += 8)
			if (plt_find(&got, o, vaddr, &stub))
				(void)got_find(&got, stub.slot);
	got_done(&got);
}

static void read_frames(const struct object *o)
{
	struct eh_frame eh = {0};
	uint64_t pad;

	if (eh_frame_load(&eh, o))
		for (size_t i = 0; i < eh.ranges.count && i < 16; i++)
			(void)eh_frame_landing_pad(o, &eh.ranges.items[i],
						   eh.ranges.items[i].start + 5, &pad);
	eh_frame_done(&eh);
}

static void read_inlines(const struct object *o)
{
	static const struct symbolizer_options options = {.symfs = "/nonexistent"};
	struct inline_table *inlines = NULL;
	struct search search;
	char path[PATH_MAX];
	uint64_t until;
	uint32_t line;

	search_init(&search, &options);
	if (inline_table_new(o, "/nonexistent/file", o, &search, &inlines) != ERR_NONE)
		return;
	for (uint64_t vaddr = TINY_TEXT; vaddr < TINY_TEXT + 0x60; vaddr += 4) {
		uint32_t node = inline_table_find(inlines, vaddr, &until);

		if (until <= vaddr)
			abort();
		for (; node; node = inline_table_node(inlines, node)->parent) {
			(void)inline_table_name(inlines, node);
			(void)inline_table_call_file(inlines, node, path);
		}
		(void)inline_table_line(inlines, vaddr, path, &line);
	}
	inline_table_free(inlines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct object *o = NULL, *packed = NULL;
	uint8_t *heap = malloc(size ? size : 1);
	uint64_t vaddr;

	if (!heap)
		return 0;
	memcpy(heap, data, size);
	if (object_from_heap("input", heap, size, &o, NULL) != ERR_NONE)
		return 0;
	(void)object_vaddr(o, 0x1010, &vaddr);
	read_symbols(o);
	read_stubs(o);
	read_frames(o);
	read_inlines(o);
	if (minidebug_open(o, &packed) == ERR_NONE)
		object_free(packed);
	object_free(o);
	return 0;
}

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	return n < TINY_KINDS ? tiny_elf((enum tiny_kind)n, size) : NULL;
}
