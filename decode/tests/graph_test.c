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
