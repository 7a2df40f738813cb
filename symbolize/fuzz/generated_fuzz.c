/* What names generated and kernel code: the first byte says whether the rest is a perf map, a
 * jitdump or kallsyms. */
#include <stdlib.h>
#include <string.h>

#include "common/fuzz/driver.h"
#include "symbolize/jit.h"
#include "symbolize/kernel.h"

static void read_jit(struct bytes bytes, bool dump)
{
	const struct jit_clock clock = {.time_zero = 5, .time_mult = 3, .time_shift = 1};
	struct jit j = {0};
	uint64_t until;

	if ((dump ? jit_read_dump(&j, bytes, &clock) == ERR_NONE : jit_read_map(&j, bytes)) &&
	    jit_finish(&j))
		for (uint64_t ip = 0x1000; ip < 0x3000; ip += 0x100) {
			const struct jit_code *code = jit_find(&j, ip, 250, &until);

			if (code && (ip < code->start || ip >= code->end))
				abort();
		}
	jit_done(&j);
}

static void read_kallsyms(struct bytes bytes)
{
	struct symtab t = {0};
	uint64_t text_start, start, end;
	char *text = malloc(bytes_left(&bytes) ? bytes_left(&bytes) : 1);

	if (!text)
		return;
	memcpy(text, bytes.p, bytes_left(&bytes));
	if (kallsyms_read(&t, text, bytes_left(&bytes), &text_start) && symtab_finish(&t))
		symtab_find(&t, 0xffffffff81000010, &start, &end);
	symtab_done(&t);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct bytes rest = bytes_of(data + 1, size - 1);
	if (data[0] == 2)
		read_kallsyms(rest);
	else
		read_jit(rest, data[0] == 1);
	return 0;
}

static const char map[] = "\0001000 20 first\n0x1800 0x10 second name\n1008 8 third\n";
static const char kallsyms[] = "\002ffffffff81000000 T _text\nffffffff81000000 T start\n"
			       "ffffffff81000040 t f.cold\nffffffff81000080 T f\t[module]\n";
/* header; load of 4 bytes at 0x1000; move to 0x2000 */
static const uint32_t dump[] = {
	0x4a695444, 1,          40,     62,      0,      77,
	5,          0,          0,      0,       0,      16 + 40 + 4 + 4,
	100,        0,          77,     78,      0x1000, 0,
	0x1000,     0,          4,      0,       1,      0,
	'f',        0x90909090, 1,      16 + 48, 200,    0,
	77,         78,         0x2000, 0,       0x1000, 0,
	0x2000,     0,          4,      0,       1,      0,
};

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	const void *seeds[] = {map, kallsyms, NULL};
	const size_t sizes[] = {sizeof map - 1, sizeof kallsyms - 1, sizeof dump + 1};

	if (n >= sizeof seeds / sizeof seeds[0])
		return NULL;
	*size = sizes[n];
	uint8_t *seed = malloc(sizes[n]);
	if (seed && n < 2)
		memcpy(seed, seeds[n], sizes[n]);
	if (seed && n == 2) {
		seed[0] = 1;
		memcpy(seed + 1, dump, sizeof dump);
	}
	return seed;
}
