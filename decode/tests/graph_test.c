#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode/graph.h"

/* ---- code that is replaced: a jitdump with two functions at one address ---- */

static void put_load(FILE *out, uint64_t time_ns, uint64_t ip, const char *code, size_t bytes)
{
	struct {
		uint32_t id, total_size;
		uint64_t timestamp;
		uint32_t pid, tid;
		uint64_t vma, code_addr, code_size, code_index;
	} load = {.total_size = (uint32_t)(sizeof load + 2 + bytes),
		  .timestamp = time_ns,
		  .pid = 1,
		  .tid = 1,
		  .vma = ip,
		  .code_addr = ip,
		  .code_size = bytes,
		  .code_index = time_ns};

	fwrite(&load, sizeof load, 1, out);
	fwrite("f", 2, 1, out);
	fwrite(code, bytes, 1, out);
}

static void write_dump(const char *path)
{
	struct {
		uint32_t magic, version, total_size, elf_mach, pad, pid;
		uint64_t timestamp, flags;
	} header = {.magic = 0x4A695444,
		    .version = 1,
		    .total_size = sizeof header,
		    .elf_mach = 62,
		    .pid = 1};
	FILE *out = fopen(path, "wb");

	cr_assert_not_null(out);
	fwrite(&header, sizeof header, 1, out);
	put_load(out, 1000, 0x10000, "\x90\x90\xc3", 3);
	put_load(out, 2000, 0x10000, "\x90\x75\xfd\xc3", 4);
	cr_assert_eq(fclose(out), 0);
}

Test(graph, generated_code_has_versions)
{
	char path[] = "/tmp/graph_test.XXXXXX";
	const char *dumps[] = {path, NULL};
	struct symbolizer_options options = {.jitdumps = dumps};
	struct symbolizer *symbolizer;
	struct sideband s = {.clock = {.time_mult = 1, .valid = true}};
	struct mapping m = {.start = 0x10000, .end = 0x20000, .flags = MAPPING_ANONYMOUS};
	struct graph *g;

	close(mkstemp(path));
	write_dump(path);
	cr_assert_eq(symbolizer_new(&options, &symbolizer, NULL), ERR_NONE);
	for (int i = 0; i < 3; i++)
		cr_assert(vec_push(&s.spaces, (struct space){.pid = 1}));
	cr_assert(vec_push(&s.spaces.items[2].mappings, m));
	cr_assert_eq(graph_new(&s, symbolizer, 0, &g, NULL), ERR_NONE);
	struct graph_tables t = graph_tables(g);
	space_id space = {2};

	/* The later one first: nothing may depend on the order of discovery. */
	node_id later = graph_node_at(g, space, INSN_64, 0x10000, 2500);
	node_id first = graph_node_at(g, space, INSN_64, 0x10000, 1500);
	cr_expect_eq(t.hot[first].kind, NODE_RETURN);
	cr_expect_eq(t.hot[first].insn_count, 3);
	cr_expect_eq(t.hot[later].kind, NODE_COND);
	cr_expect_eq(graph_node_at(g, space, INSN_64, 0x10000, 1000), first);
	cr_expect_eq(graph_node_at(g, space, INSN_64, 0x10000, 1999), first);
	cr_expect_eq(graph_node_at(g, space, INSN_64, 0x10000, 2000), later);
	cr_expect_eq(graph_node_at(g, space, INSN_64, 0x10000, 90000), later);
	cr_expect_eq(graph_successor(g, later, 1), later, "a branch stays in its version");
	graph_free(g);
	symbolizer_free(symbolizer);
	vec_done(&s.spaces.items[2].mappings);
	vec_done(&s.spaces);
	unlink(path);
}

/* ---- kernel code that is poked ---- */

Test(graph, poked_code_has_versions)
{
	const uint64_t ip = 0xffffffff81000000;
	/* inc %eax; nop, then jmp +1; inc %eax; ret */
	struct text_poke pokes[] = {
		{.time_ns = 50,
		 .ip = ip,
		 .bytes = (const uint8_t *)"\xff\xc0\x66\x90\x90\xff\xc0\xc3",
		 .count = 8},
		{.time_ns = 100,
		 .ip = ip + 2,
		 .bytes = (const uint8_t *)"\xeb\x01",
		 .old_bytes = (const uint8_t *)"\x66\x90",
		 .count = 2,
		 .old_count = 2},
	};
	struct symbolizer_options options = {0};
	struct symbolizer *symbolizer;
	struct sideband s = {0};
	struct space none = {.pid = -1};
	struct graph *g;

	cr_assert(vec_push(&s.spaces, none) && vec_push(&s.spaces, none));
	for (size_t i = 0; i < 2; i++)
		cr_assert(vec_push(&s.text_pokes, pokes[i]));
	cr_assert_eq(symbolizer_new(&options, &symbolizer, NULL), ERR_NONE);
	cr_assert_eq(graph_new(&s, symbolizer, 0, &g, NULL), ERR_NONE);
	struct graph_tables t = graph_tables(g);

	node_id all = graph_node_at(g, SPACE_KERNEL, INSN_64, ip, 70);
	cr_expect_eq(t.hot[all].kind, NODE_THROUGH);
	cr_expect_eq(t.hot[all].insn_count, 0);
	cr_expect_eq(graph_node_at(g, SPACE_KERNEL, INSN_64, ip, 200), all, "whatever the time");
	cr_expect_eq(graph_node(g, SPACE_KERNEL, ip), all);

	node_id before = graph_version(g, all, 99), after = graph_version(g, all, 100);
	cr_expect_eq(t.hot[before].insn_count, 5);
	cr_expect_eq(t.hot[after].insn_count, 4);
	cr_expect_eq(t.hot[before].kind, NODE_RETURN);
	cr_expect_eq(t.hot[after].kind, NODE_RETURN);
	cr_expect_eq(graph_version(g, all, 51), before, "found again, also earlier");
	cr_expect_eq(graph_version(g, all, TIME_NONE), after);
	cr_expect_eq(graph_successor(g, all, 0), after, "without a time: the last");
	cr_expect(graph_node_has_instruction(g, before, ip + 4));
	cr_expect(!graph_node_has_instruction(g, after, ip + 4));
	cr_expect_eq(t.hot[graph_version(g, all, 20)].kind, NODE_MISSING, "not yet there");
	graph_free(g);
	symbolizer_free(symbolizer);
	vec_done(&s.spaces);
	vec_done(&s.text_pokes);
}
