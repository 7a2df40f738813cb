/* Every allocation fails once: nothing may crash, and what worked without a failure works.
 * The linker sends our calls of malloc() and its kin here (-Wl,--wrap). */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbolize/symbolize.h"
#include "symbolize/tests/tiny_elf.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static unsigned long until_failure = -1ul; /* counts down; the one at 0 fails */

static bool fails_now(void)
{
	return until_failure != -1ul && until_failure-- == 0;
}

void *__wrap_malloc(size_t bytes)
{
	return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	return fails_now() ? NULL : __real_realloc(p, bytes);
}

struct outcome {
	bool opened;
	char text[256]; /* of all answers */
};

static void ask(struct symbolizer *s, module_id m, struct outcome *result)
{
	static const uint64_t vaddrs[] = {TINY_TEXT,  TINY_TEXT + 64, TINY_COLD,
					  TINY_LABEL, TINY_PLT + 16,  TINY_INNER};
	size_t at = 0;
	func_id ids[2];

	for (size_t i = 0; i < sizeof vaddrs / sizeof vaddrs[0]; i++) {
		uint64_t until = 0, pad = 0;
		uint32_t line = 0;
		str_id file = {0};
		const struct inline_frame *inlined =
			symbolizer_inline_get(s, symbolizer_inline_at(s, m, vaddrs[i], &until));

		(void)symbolizer_line(s, m, vaddrs[i], &file, &line);
		(void)symbolizer_landing_pad(s, m, vaddrs[i] + 9, &pad);
		at += (size_t)snprintf(
			result->text + at, sizeof result->text - at, "%s %s %u %x;",
			symbolizer_text(s,
					symbolizer_func_name(s, symbolizer_func(s, m, vaddrs[i]))),
			inlined ? symbolizer_text(s, inlined->name) : "-", line, (unsigned)pad);
	}
	snprintf(result->text + at, sizeof result->text - at, "%zu %d",
		 symbolizer_func_find(s, "tiny_g", ids, 2),
		 symbolizer_jit(s, 1, 0xffffffffc0000008, 5, &m, &(uint64_t){0}));
	(void)symbolizer_module_advice(s, m);
}

static void run(const char *path, struct outcome *result)
{
	const struct symbolizer_options options = {.symfs = "/"};
	const struct module_request request = {.path = path};
	struct symbolizer *s = NULL;
	module_id m;

	*result = (struct outcome){0};
	if (symbolizer_new(&options, &s, NULL) == ERR_NONE &&
	    symbolizer_module(s, &request, &m) == ERR_NONE &&
	    symbolizer_add_ksymbol(s, 0xffffffffc0000000, 16, "bpf_prog", NULL, 0, UINT64_MAX) ==
		    ERR_NONE) {
		result->opened = true;
		ask(s, m, result);
	}
	symbolizer_free(s);
}

Test(nomem, every_allocation_fails_once)
{
	static const enum tiny_kind kinds[] = {TINY_SYMBOLS, TINY_STRIPPED, TINY_DWARF5,
					       TINY_PACKED};

	for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
		char path[] = "/tmp/nomem-test-XXXXXX";
		struct outcome whole, cut;
		size_t bytes;
		uint8_t *file = tiny_elf(kinds[k], &bytes);
		int fd = mkstemp(path);
		unsigned long n = 0;

		cr_assert(file && fd >= 0 && write(fd, file, bytes) == (ssize_t)bytes);
		close(fd);
		free(file);
		run(path, &whole);
		cr_assert(whole.opened);
		cr_expect_neq(whole.text[0], '\0');
		for (;; n++) {
			until_failure = n;
			run(path, &cut);
			bool reached = until_failure == -1ul;
			until_failure = -1ul;
			if (!reached)
				break; /* fewer allocations than that */
		}
		cr_expect_gt(n, 10, "kind %d: only %lu allocations", kinds[k], n);
		cr_expect_str_eq(cut.text, whole.text);
		remove(path);
	}
}
