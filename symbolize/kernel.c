/* See kernel.h. One module_entry stands for all kernel modules: its code is kcore, else
 * vmlinux; its names come from kallsyms, else from vmlinux. Lookups are by run-time address;
 * what is read from vmlinux is `slide` below. */
#include "symbolize/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KALLSYMS_MAX_BYTES (64u << 20)
#define KALLSYMS_MAX_FUNC  (1u << 20) /* a gap longer than that is no function */

struct kallsym {
	uint64_t addr;
	const char *name;
	char type;
};

struct kallsyms {
	VEC(struct kallsym) symbols;
};

/* All of a file that cannot be mapped (/proc); NULL with errno on failure. */
static char *read_whole(const char *path, size_t *bytes)
{
	size_t capacity = 1 << 20, count = 0;
	char *text = malloc(capacity);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	while (text && fd >= 0) {
		ssize_t n = read(fd, text + count, capacity - count);

		if (n == 0) {
			close(fd);
			*bytes = count;
			return text;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		count += (size_t)n;
		if (count < capacity)
			continue;
		char *grown = capacity < KALLSYMS_MAX_BYTES ? realloc(text, capacity * 2) : NULL;
		if (!grown)
			break;
		text = grown;
		capacity *= 2;
	}
	if (fd >= 0)
		close(fd);
	free(text);
	return NULL;
}

/* "ffffffff81000000 T _text" or with "\t[module]" behind; cuts the name off in place. */
static bool kallsyms_line(char *line, char *end, struct kallsym *symbol)
{
	char *p;

	*end = '\0';
	symbol->addr = strtoull(line, &p, 16);
	if (p == line || p[0] != ' ' || !p[1] || p[2] != ' ' || !p[3])
		return false;
	symbol->type = p[1];
	symbol->name = p + 3;
	p[3 + strcspn(p + 3, "\t ")] = '\0';
	return symbol->addr != 0;
}

static int kallsym_compare(const void *left, const void *right)
{
	const struct kallsym *a = left, *b = right;

	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

/* Symbols carry no sizes: a function ends where the next symbol of any kind begins. */
static bool kallsyms_functions(struct symtab *t, const struct kallsyms *k)
{
	for (size_t i = 0, next; i < k->symbols.count; i = next) {
		const struct kallsym *first = &k->symbols.items[i];
		uint64_t bytes = 1;

		for (next = i + 1; next < k->symbols.count; next++)
			if (k->symbols.items[next].addr != first->addr)
				break;
		if (next < k->symbols.count)
			bytes = k->symbols.items[next].addr - first->addr;
		if (bytes > KALLSYMS_MAX_FUNC)
			bytes = 4096 - first->addr % 4096;
		for (size_t same = i; same < next; same++) {
			const struct kallsym *symbol = &k->symbols.items[same];

			if (strchr("tTwW", symbol->type) &&
			    !symtab_add_name(t, symbol->addr, bytes, symbol->addr + bytes,
					     symbol->name))
				return false;
		}
	}
	return true;
}

bool kallsyms_read(struct symtab *t, char *text, size_t bytes, uint64_t *text_start)
{
	struct kallsyms k = {0};
	char *end = text + bytes;
	bool ok = true;

	*text_start = 0;
	for (char *line = text, *newline; ok && line < end; line = newline + 1) {
		struct kallsym symbol;

		newline = memchr(line, '\n', (size_t)(end - line));
		if (!newline)
			break; /* a last line without end may be cut */
		if (!kallsyms_line(line, newline, &symbol))
			continue;
		if (strcmp(symbol.name, "_text") == 0 || strcmp(symbol.name, "_stext") == 0) {
			if (!*text_start)
				*text_start = symbol.addr;
			continue;
		}
		ok = vec_push(&k.symbols, symbol);
	}
	if (ok && k.symbols.count)
		qsort(k.symbols.items, k.symbols.count, sizeof *k.symbols.items, kallsym_compare);
	ok = ok && kallsyms_functions(t, &k);
	vec_done(&k.symbols);
	return ok;
}

/* false when memory is short. Names that are hidden (all zero) count as none. */
static bool kernel_read_names(struct module_entry *kernel, const char *path)
{
	struct symtab table = {0};
	size_t bytes = 0;
	char *text = read_whole(path, &bytes);

	if (!text)
		return errno != ENOMEM;
	if (!kallsyms_read(&table, text, bytes, &kernel->text_start) || !symtab_finish(&table)) {
		symtab_done(&table);
		free(text);
		return false;
	}
	if (!table.funcs.count) {
		symtab_done(&table);
		free(text);
		return true;
	}
	kernel->func_ids = calloc(table.funcs.count, sizeof *kernel->func_ids);
	if (!kernel->func_ids) {
		symtab_done(&table);
		free(text);
		return false;
	}
	kernel->symtab = table;
	kernel->names_text = text;
	kernel->symbols_loaded = true;
	return true;
}

enum err kernel_open(struct module_entry *kernel, const struct search *search,
		     struct intern *strings)
{
	const char *kcore = search->options->kcore, *kallsyms = search->options->kallsyms;
	struct error error = {0};
	str_id kept;

	if (kallsyms && !kernel_read_names(kernel, kallsyms))
		return ERR_NOMEM;
	if (kcore && object_open(kcore, &kernel->code, &error) == ERR_NOMEM)
		return ERR_NOMEM;
	if (!intern_string(strings, kcore && kernel->code ? kcore : "", &kernel->pub.file) ||
	    !intern_string(strings, error.message, &kept))
		return ERR_NOMEM;
	kernel->trouble = intern_text(strings, kept);
	return ERR_NONE;
}

enum err kernel_open_image(struct module_entry *kernel, const struct module_request *request,
			   const struct search *search, struct intern *strings)
{
	struct search_result found;
	char path[PATH_MAX];

	if (kernel->image)
		return ERR_NONE;
	enum err err = search_vmlinux(search, request, &found);
	if (err != ERR_NONE)
		return err;
	if (found.outcome == SEARCH_FOUND) {
		kernel->image = found.object;
		if (!intern_string(strings, found.path, &kernel->image_file))
			return ERR_NOMEM;
		if (!kernel->code)
			kernel->pub.file = kernel->image_file;
	}
	if (!kernel->symbols_loaded && search_kallsyms(search, request, path) &&
	    !kernel_read_names(kernel, path))
		return ERR_NOMEM;
	uint64_t in_file;
	if (kernel->image && kernel->text_start && symtab_value(kernel->image, "_text", &in_file)) {
		kernel->slide = kernel->text_start - in_file;
		kernel->slide_known = true;
	}
	return ERR_NONE;
}

void kernel_slide_by_map(struct module_entry *kernel, const char *path, uint64_t map_file_off)
{
	const char *reference = strrchr(path, ']');
	uint64_t in_file;

	if (kernel->slide_known || !kernel->image || !reference || !reference[1] || !map_file_off ||
	    !symtab_value(kernel->image, reference + 1, &in_file))
		return;
	kernel->slide = map_file_off - in_file;
	kernel->slide_known = true;
}
