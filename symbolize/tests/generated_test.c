/* The facade over files that name generated code, and over kernel symbols. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolize/symbolize.h"
#include "symbolize/tests/tiny_elf.h"

static char dir[] = "/tmp/generated-test-XXXXXX";
static char map_path[128], other_map_path[128], dump_path[128], kallsyms_path[128];

static void write_file(char path[128], const char *name, const void *data, size_t bytes)
{
	snprintf(path, 128, "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	cr_assert_not_null(f);
	cr_assert_eq(fwrite(data, 1, bytes, f), bytes);
	cr_assert_eq(fclose(f), 0);
}

struct load {
	uint32_t magic, version, header_bytes, machine, pad, pid;
	uint64_t time, flags;
	uint32_t id, bytes;
	uint64_t load_time;
	uint32_t load_pid, tid;
	uint64_t vma, addr, size, index;
	char name[8]; /* seven characters: the code follows the NUL */
	uint8_t code[16];
};

static void make_files(void)
{
	static const char map[] = "7f0000001000 10 interpreted@7\n";
	static const char other[] = "7f0000001000 10 of_another\n";
	static const char kallsyms[] = "ffffffff81000000 T _text\n"
				       "ffffffff81000000 T startup_64\n"
				       "ffffffff81000100 t helper\n"
				       "ffffffff81000100 T __helper_alias\n"
				       "ffffffff81000180 T __x86_return_thunk\n"
				       "ffffffff81000200 d data_symbol\n"
				       "ffffffff81200000 t helper.cold\n"
				       "ffffffff81200010 T last\n"
				       "ffffffffc0001000 t nf_hook\t[nf_tables]\n"
				       "ffffffffc0001040 t nf_next\t[nf_tables]\n"
				       "half a line";
	struct load load = {.magic = 0x4a695444,
			    .version = 1,
			    .header_bytes = 40,
			    .machine = 62,
			    .pid = 12,
			    .bytes = 16 + 40 + 8 + 16,
			    .load_time = 1000,
			    .addr = 0x7f0000002000,
			    .size = 16,
			    .name = "_Z3fffv",
			    .code = {0x90, 0xc3}};

	cr_assert_not_null(mkdtemp(dir));
	write_file(map_path, "perf-11.map", map, sizeof map - 1);
	write_file(other_map_path, "perf-13.map", other, sizeof other - 1);
	write_file(dump_path, "jit-12.dump", &load, sizeof load);
	write_file(kallsyms_path, "kallsyms", kallsyms, sizeof kallsyms - 1);
}

static void remove_files(void)
{
	remove(map_path);
	remove(other_map_path);
	remove(dump_path);
	remove(kallsyms_path);
	remove(dir);
}

TestSuite(generated, .init = make_files, .fini = remove_files);

static const char *name_at(struct symbolizer *s, module_id module, uint64_t vaddr)
{
	return symbolizer_text(s, symbolizer_func_name(s, symbolizer_func(s, module, vaddr)));
}

Test(generated, files_named_by_options)
{
	struct symbolizer_options options = {
		.symfs = dir,
		.perf_maps = (const char *const[]){map_path, other_map_path, NULL},
		.jitdumps = (const char *const[]){dump_path, NULL}};
	struct symbolizer *s = NULL;
	module_id m = {0};
	uint64_t until = 0;
	const uint8_t *code = NULL;

	cr_assert_eq(symbolizer_new(&options, &s, NULL), ERR_NONE);
	cr_assert(symbolizer_jit(s, 11, 0x7f0000001008, 5, &m, &until));
	cr_expect_str_eq(name_at(s, m, 0x7f0000001008), "interpreted@7");
	cr_expect_eq(symbolizer_module_get(s, m)->state, MODULE_FOUND);
	cr_expect_eq(symbolizer_code(s, m, 0x7f0000001008, &code), 0, "a map has no code");
	cr_assert(symbolizer_jit(s, 13, 0x7f0000001008, 5, &m, &until));
	cr_expect_str_eq(name_at(s, m, 0x7f0000001008), "of_another");
	cr_expect_not(symbolizer_jit(s, 13, 0x7f0000001010, 5, &m, &until));

	cr_assert(symbolizer_jit(s, 12, 0x7f0000002001, 2000, &m, &until));
	cr_expect_str_eq(name_at(s, m, 0x7f0000002001), "fff");
	cr_assert_eq(symbolizer_code(s, m, 0x7f0000002001, &code), 15);
	cr_expect_eq(code[0], 0xc3);
	const struct func *f = symbolizer_func_get(s, symbolizer_func(s, m, 0x7f0000002001));
	cr_expect_eq(f->start, 0x7f0000002000);
	cr_expect_eq(f->end, 0x7f0000002010);

	cr_expect(symbolizer_jit(s, 99, 0x7f0000002001, 2000, &m, &until),
		  "a process known by another number");
	func_id ids[2];
	cr_expect_eq(symbolizer_func_find(s, "of_another", ids, 2), 1);
	symbolizer_free(s);
}

Test(generated, map_below_symfs)
{
	char tmp[160], path[160];
	struct symbolizer_options options = {.symfs = dir};
	struct symbolizer *s = NULL;
	module_id m = {0};
	uint64_t until;

	snprintf(tmp, sizeof tmp, "%s/tmp", dir);
	snprintf(path, sizeof path, "%s/tmp/perf-11.map", dir);
	cr_assert_eq(mkdir(tmp, 0700), 0);
	cr_assert_eq(rename(map_path, path), 0);
	cr_assert_eq(symbolizer_new(&options, &s, NULL), ERR_NONE);
	cr_expect(symbolizer_jit(s, 11, 0x7f0000001008, 5, &m, &until));
	cr_expect_str_eq(name_at(s, m, 0x7f0000001008), "interpreted@7");
	cr_expect_not(symbolizer_jit(s, 12, 0x7f0000001008, 5, &m, &until), "not of that process");
	symbolizer_free(s);
	remove(path);
	remove(tmp);
}

/* In a container the dump's pid is another than the recorded one, which has a map. */
Test(generated, a_dump_before_a_map)
{
	static const char map[] = "7f0000002000 10 only_a_name\n";
	char path[128];
	struct symbolizer_options options = {.symfs = dir,
					     .perf_maps = (const char *const[]){path, NULL},
					     .jitdumps = (const char *const[]){dump_path, NULL}};
	struct symbolizer *s = NULL;
	module_id m = {0};
	uint64_t until;

	write_file(path, "perf-500.map", map, sizeof map - 1);
	cr_assert_eq(symbolizer_new(&options, &s, NULL), ERR_NONE);
	cr_assert(symbolizer_jit(s, 500, 0x7f0000002001, 2000, &m, &until));
	cr_expect_str_eq(name_at(s, m, 0x7f0000002001), "fff");
	symbolizer_free(s);
	remove(path);
}

Test(generated, a_dump_mapped_in_the_trace)
{
	struct symbolizer_options options = {.symfs = dir};
	struct module_request request = {.path = "/jit-12.dump"};
	struct symbolizer *s = NULL;
	module_id m = {0};
	uint64_t until;

	cr_assert_eq(symbolizer_new(&options, &s, NULL), ERR_NONE);
	cr_assert_eq(symbolizer_module(s, &request, &m), ERR_NONE);
	cr_assert(symbolizer_jit(s, 12, 0x7f0000002001, 2000, &m, &until));
	cr_expect_str_eq(name_at(s, m, 0x7f0000002001), "fff");
	cr_expect_not(symbolizer_jit(s, 13, 0x7f0000002001, 2000, &m, &until));
	symbolizer_free(s);
}

Test(generated, kernel_symbols_by_time)
{
	static const uint8_t code[] = {0xc3, 0x90};
	struct symbolizer *s = NULL;
	module_id m = {0}, later = {0};
	uint64_t until;

	cr_assert_eq(symbolizer_new(NULL, &s, NULL), ERR_NONE);
	cr_assert_eq(
		symbolizer_add_ksymbol(s, 0xffffffffc0100000, 0x40, "bpf_prog_1", NULL, 0, 500),
		ERR_NONE);
	cr_assert_eq(symbolizer_add_ksymbol(s, 0xffffffffc0100000, 2, "bpf_prog_2", code, 600,
					    UINT64_MAX),
		     ERR_NONE);
	cr_assert(symbolizer_jit(s, 7, 0xffffffffc0100001, 100, &m, &until));
	cr_expect_str_eq(name_at(s, m, 0xffffffffc0100001), "bpf_prog_1");
	cr_expect_eq(until, 500);
	cr_expect(symbolizer_module_get(s, m)->kernel);
	cr_assert(symbolizer_jit(s, -1, 0xffffffffc0100001, 700, &later, &until));
	cr_expect_str_eq(name_at(s, later, 0xffffffffc0100001), "bpf_prog_2");
	const uint8_t *bytes = NULL;
	cr_expect_eq(symbolizer_code(s, later, 0xffffffffc0100000, &bytes), 2);
	cr_expect_str_eq(name_at(s, m, 0xffffffffc0100001), "bpf_prog_1", "ids keep their meaning");
	symbolizer_free(s);
}

Test(generated, kernel_names_from_kallsyms)
{
	static const struct {
		uint64_t ip;
		const char *name; /* NULL = none of the symbols */
		uint64_t start, end;
	} cases[] = {
		{0xffffffff81000005, "startup_64", 0xffffffff81000000, 0xffffffff81000100},
		{0xffffffff81000150, "helper", 0xffffffff81000100, 0xffffffff81000180},
		{0xffffffff81200001, "helper", 0xffffffff81000100, 0xffffffff81000180},
		{0xffffffff81000300, NULL, 0xffffffff81000200, 0xffffffff81200000},
		{0xffffffff81200800, "last", 0xffffffff81200010, 0xffffffff81201000},
		{0xffffffffc0001000, "nf_hook", 0xffffffffc0001000, 0xffffffffc0001040},
	};
	struct symbolizer_options options = {.symfs = dir, .kallsyms = kallsyms_path};
	struct module_request request = {.path = "[kernel.kallsyms]_text", .kernel = true};
	struct symbolizer *s = NULL;
	module_id m = {0};
	uint64_t vaddr = 0;

	cr_assert_eq(symbolizer_new(&options, &s, NULL), ERR_NONE);
	cr_assert_eq(symbolizer_module(s, &request, &m), ERR_NONE);
	cr_assert_eq(symbolizer_module_get(s, m)->state, MODULE_FOUND);
	cr_assert(symbolizer_vaddr(s, m, 0xffffffff81000000, 0xffffffff81000000, 0xffffffff81000005,
				   &vaddr));
	cr_expect_eq(vaddr, 0xffffffff81000005);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const struct func *f = symbolizer_func_get(s, symbolizer_func(s, m, cases[i].ip));

		cr_assert_not_null(f);
		if (cases[i].name)
			cr_expect_str_eq(name_at(s, m, cases[i].ip), cases[i].name);
		else
			cr_expect_eq(f->source, FUNC_FROM_BOUNDARY);
		cr_expect_eq(f->start, cases[i].start, "%#llx", (long long)f->start);
		cr_expect_eq(f->end, cases[i].end, "%#llx", (long long)f->end);
	}
	cr_expect_eq(symbolizer_func_get(s, symbolizer_func(s, m, 0xffffffff81000180))->role,
		     FUNC_RETURN_THUNK);
	func_id ids[2];
	cr_expect_eq(symbolizer_func_find(s, "nf_next", ids, 2), 1);
	symbolizer_free(s);
}

/* KASLR moved the image by `slide`; the map record tells where _text was. */
Test(generated, kernel_from_vmlinux)
{
	const uint64_t slide = 0xffffffff90000000;
	struct symbolizer_options options = {.symfs = dir};
	struct module_request request = {.path = "[kernel.kallsyms]_text", .kernel = true};
	struct symbolizer *s = NULL;
	char path[128];
	module_id m = {0};
	uint64_t vaddr = 0, until = 0;
	const uint8_t *code = NULL;
	size_t bytes;
	uint8_t *image = tiny_elf(TINY_DWARF5, &bytes);

	cr_assert_not_null(image);
	write_file(path, "vmlinux", image, bytes);
	free(image);
	cr_assert_eq(symbolizer_new(&options, &s, NULL), ERR_NONE);
	cr_assert_eq(symbolizer_module(s, &request, &m), ERR_NONE);
	cr_assert_eq(symbolizer_module_get(s, m)->state, MODULE_FOUND);
	cr_expect_eq(symbolizer_code(s, m, slide + TINY_INNER, &code), 0, "not before the map");
	cr_assert(symbolizer_vaddr(s, m, slide + TINY_TEXT, slide + TINY_TEXT, slide + TINY_INNER,
				   &vaddr));
	cr_expect_eq(vaddr, slide + TINY_INNER);
	cr_expect_eq(symbolizer_code(s, m, vaddr, &code), 0x1100 - TINY_INNER);
	cr_expect_str_eq(name_at(s, m, vaddr), "tiny_f");
	const struct func *f = symbolizer_func_get(s, symbolizer_func(s, m, vaddr));
	cr_expect_eq(f->start, slide + TINY_TEXT);
	cr_expect_eq(f->end, slide + TINY_TEXT + 64);
	const struct inline_frame *inlined =
		symbolizer_inline_get(s, symbolizer_inline_at(s, m, vaddr, &until));
	cr_assert_not_null(inlined);
	cr_expect_str_eq(symbolizer_text(s, inlined->name), "inner");
	cr_expect_eq(until, slide + 0x1020);
	func_id ids[2];
	cr_expect_eq(symbolizer_func_find(s, "tiny_f", ids, 2), 1);
	symbolizer_free(s);
	remove(path);
}

Test(generated, a_kernel_without_any_file_says_what_to_do)
{
	struct symbolizer_options options = {.symfs = dir};
	struct module_request request = {.path = "[kernel.kallsyms]_text", .kernel = true};
	struct symbolizer *s = NULL;
	module_id m = {0};

	cr_assert_eq(symbolizer_new(&options, &s, NULL), ERR_NONE);
	cr_assert_eq(symbolizer_module(s, &request, &m), ERR_NONE);
	cr_expect_eq(symbolizer_module_get(s, m)->state, MODULE_NOT_FOUND);
	cr_expect(strstr(symbolizer_module_advice(s, m), "--kcore"), "%s",
		  symbolizer_module_advice(s, m));
	symbolizer_free(s);
}
