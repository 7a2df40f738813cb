/* The facade over a real ELF file: this program itself. */
#include "symbolize/symbolize.h"

#include <criterion/criterion.h>
#include <link.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Symbols as compilers make them; none is ever run. */
__asm__(".pushsection .text\n"
	".globl tested_global\n"
	".type tested_global,@function\n"
	"tested_global: nop; nop; call *tested_global_slot(%rip); nop; ret\n"
	".size tested_global, .-tested_global\n"
	".type __tested_local_alias,@function\n"
	".set __tested_local_alias, tested_global\n"
	".size __tested_local_alias, 2\n"
	".type tested_global.cold,@function\n"
	"tested_global.cold: nop; nop; ret\n"
	".size tested_global.cold, .-tested_global.cold\n"
	".type _ZN6tested3cxxEi,@function\n"
	"_ZN6tested3cxxEi: nop; ret\n"
	".size _ZN6tested3cxxEi, .-_ZN6tested3cxxEi\n"
	".type __restore_rt,@function\n"
	"__restore_rt: mov $15, %rax; syscall\n"
	".size __restore_rt, .-__restore_rt\n"
	".popsection\n"
	".pushsection .data\n"
	"tested_global_slot: .quad 0\n"
	".popsection\n");

void tested_global(void);

static struct symbolizer *s;
static module_id self;
static uint64_t map_start, map_file_off;

static int find_mapping(struct dl_phdr_info *info, size_t size, void *ip)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD ||
		    (uintptr_t)ip - info->dlpi_addr - p->p_vaddr >= p->p_memsz)
			continue;
		map_start = (info->dlpi_addr + p->p_vaddr) & ~(uint64_t)4095;
		map_file_off = p->p_offset & ~(uint64_t)4095;
		return 1;
	}
	return 0;
}

static void self_open(void)
{
	struct symbolizer_options options = {0};
	char path[4096] = "";

	cr_assert_gt(readlink("/proc/self/exe", path, sizeof path - 1), 0);
	struct module_request request = {.path = path};
	cr_assert_eq(symbolizer_new(&options, &s, NULL), ERR_NONE);
	cr_assert_eq(symbolizer_module(s, &request, &self), ERR_NONE);
	cr_assert_eq(symbolizer_module_get(s, self)->state, MODULE_FOUND);
	cr_assert(dl_iterate_phdr(find_mapping, (void *)(uintptr_t)tested_global));
}

static void self_close(void)
{
	symbolizer_free(s);
}

static uint64_t vaddr_of(const void *ip)
{
	uint64_t vaddr = 0;

	cr_assert(symbolizer_vaddr(s, self, map_start, map_file_off, (uint64_t)(uintptr_t)ip,
				   &vaddr));
	return vaddr;
}

static func_id func_at(uint64_t vaddr)
{
	func_id f = symbolizer_func(s, self, vaddr);

	cr_assert_neq(f.v, 0);
	return f;
}

static const char *name_of(func_id f)
{
	return symbolizer_text(s, symbolizer_func_name(s, f));
}

TestSuite(symbolizer, .init = self_open, .fini = self_close);

Test(symbolizer, code_is_what_runs)
{
	const uint8_t *code = NULL;
	uint64_t vaddr = vaddr_of((void *)(uintptr_t)tested_global);

	cr_assert_geq(symbolizer_code(s, self, vaddr, &code), 10);
	cr_expect_eq(memcmp(code, (void *)(uintptr_t)tested_global, 10), 0);
	cr_expect_eq(symbolizer_code(s, self, UINT64_MAX, &code), 0);
}

Test(symbolizer, functions_have_ranges_and_names)
{
	uint64_t vaddr = vaddr_of((void *)(uintptr_t)tested_global);
	func_id f = func_at(vaddr);
	const struct func *func = symbolizer_func_get(s, f);

	cr_expect_str_eq(name_of(f), "tested_global");
	cr_expect_eq(func->start, vaddr);
	cr_expect_eq(func->end, vaddr + 10);
	cr_expect_eq(func->source, FUNC_FROM_SYMBOL);
	cr_expect_eq(func->role, FUNC_PLAIN);
	cr_expect_eq(func_at(vaddr + 9).v, f.v);
	cr_expect_eq(func_at(vaddr + 10).v, f.v, "the .cold piece is part of it");
	cr_expect_str_eq(name_of(func_at(vaddr + 13)), "tested::cxx");
	cr_expect_str_eq(symbolizer_text(s, symbolizer_func_linkage_name(s, func_at(vaddr + 13))),
			 "_ZN6tested3cxxEi");
	cr_expect_eq(symbolizer_func_get(s, func_at(vaddr + 15))->role, FUNC_SIGNAL_RESTORER);
}

Test(symbolizer, functions_are_found_by_name)
{
	static const char *const names[] = {"tested_global", "__tested_local_alias", "tested::cxx",
					    "_ZN6tested3cxxEi"};
	func_id ids[4];

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		cr_expect_eq(symbolizer_func_find(s, names[i], ids, 4), 1, "%s", names[i]);
	cr_expect_eq(symbolizer_func_find(s, "tested_globa", ids, 4), 0);
}

Test(symbolizer, plt_stubs_are_named_after_their_target)
{
	/* The call of an imported function goes through the GOT or a stub, as the linker likes:
	 * some stub with that name must exist where there is a .plt at all. */
	uint64_t vaddr = vaddr_of((void *)(uintptr_t)tested_global);
	size_t stubs = 0;
	bool seen = false;

	for (uint64_t at = vaddr & ~(uint64_t)4095; at > 4096 && !seen; at -= 16) {
		func_id f = symbolizer_func(s, self, at);
		const struct func *func = symbolizer_func_get(s, f);

		if (!func || func->role != FUNC_PLT)
			continue;
		stubs++;
		seen = strcmp(name_of(f), "dl_iterate_phdr@plt") == 0;
	}
	cr_expect(stubs == 0 || seen, "%zu stubs, none for dl_iterate_phdr", stubs);
}

Test(symbolizer, equal_requests_are_one_module)
{
	const struct module *m = symbolizer_module_get(s, self);
	struct module_request request = {.path = symbolizer_text(s, m->path)};
	module_id again;

	cr_assert_eq(symbolizer_module(s, &request, &again), ERR_NONE);
	cr_expect_eq(again.v, self.v);
	request.build_id = (const uint8_t[20]){0};
	request.build_id_bytes = 20;
	cr_assert_eq(symbolizer_module(s, &request, &again), ERR_NONE);
	cr_expect_eq(again.v, self.v, "an id of zeros is none");
}

Test(symbolizer, states)
{
	static const uint8_t other[20] = {1, 2, 3};
	const char *me = symbolizer_text(s, symbolizer_module_get(s, self)->path);
	const struct {
		struct module_request request;
		enum module_state want;
		const char *advice; /* part of it */
	} cases[] = {
		{{.path = "/nonexistent/libfoo.so"}, MODULE_NOT_FOUND, "libfoo.so"},
		{{.path = me, .build_id = other, .build_id_bytes = 20},
		 MODULE_OTHER_BUILD,
		 "another build"},
		{{.path = "/etc/passwd"}, MODULE_UNREADABLE, "not an ELF file"},
		{{.path = "/dev/zero"}, MODULE_ANONYMOUS, "--jitdump"},
		{{.path = "//anon"}, MODULE_ANONYMOUS, "--perf-map"},
		{{.path = "[vdso]"}, MODULE_NOT_FOUND, "[vdso]"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		module_id id;

		cr_assert_eq(symbolizer_module(s, &cases[i].request, &id), ERR_NONE);
		cr_expect_eq(symbolizer_module_get(s, id)->state, cases[i].want, "%s: %d",
			     cases[i].request.path, symbolizer_module_get(s, id)->state);
		cr_expect(strstr(symbolizer_module_advice(s, id), cases[i].advice), "%s: %s",
			  cases[i].request.path, symbolizer_module_advice(s, id));
		cr_expect_eq(symbolizer_func(s, id, 0x1000).v, 0);
	}
}

Test(symbolizer, a_contradicted_file_is_suspected)
{
	cr_expect_str_eq(symbolizer_module_advice(s, self), "");
	cr_expect(symbolizer_module_suspect(s, self));
	cr_expect(strstr(symbolizer_module_advice(s, self), "probably another build"), "%s",
		  symbolizer_module_advice(s, self));
}
