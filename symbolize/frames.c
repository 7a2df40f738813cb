/* frames [--debuginfod] FILE [SYMFS]: for each hexadecimal vaddr on stdin, its inlined frames by
 * linkage name, innermost first, and its function. For scripts/compare-inlines and for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolize/symbolize.h"

static void print_frames(struct symbolizer *s, module_id module, uint64_t vaddr, bool lines)
{
	const struct inline_frame *frame;
	uint64_t until;
	uint32_t line;
	str_id file;
	inline_id id = symbolizer_inline_at(s, module, vaddr, &until);

	printf("%#" PRIx64, vaddr);
	for (; (frame = symbolizer_inline_get(s, id)); id = frame->parent)
		printf("\t%s", symbolizer_text(s, frame->name));
	printf("\t%s", symbolizer_text(s, symbolizer_func_linkage_name(
						  s, symbolizer_func(s, module, vaddr))));
	if (lines && symbolizer_line(s, module, vaddr, &file, &line))
		printf("\t%s:%u", symbolizer_text(s, file), line);
	else if (lines)
		printf("\t??:0");
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct symbolizer_options options = {.no_demangle = true};
	struct symbolizer *s = NULL;
	module_id module;
	char line[64];
	bool lines = false;

	for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
		options.debuginfod |= strcmp(argv[1], "--debuginfod") == 0;
		lines |= strcmp(argv[1], "--lines") == 0;
	}
	if (argc < 2) {
		fprintf(stderr,
			"usage: frames [--debuginfod] [--lines] FILE [SYMFS] < ADDRESSES\n");
		return 2;
	}
	options.symfs = argc > 2 ? argv[2] : NULL;
	struct module_request request = {.path = argv[1]};
	if (symbolizer_new(&options, &s, NULL) != ERR_NONE ||
	    symbolizer_module(s, &request, &module) != ERR_NONE) {
		fprintf(stderr, "frames: out of memory\n");
		symbolizer_free(s);
		return 1;
	}
	if (symbolizer_module_get(s, module)->state != MODULE_FOUND) {
		fprintf(stderr, "frames: %s\n", symbolizer_module_advice(s, module));
		symbolizer_free(s);
		return 1;
	}
	while (fgets(line, sizeof line, stdin))
		print_frames(s, module, strtoull(line, NULL, 16), lines);
	symbolizer_free(s);
	return 0;
}
