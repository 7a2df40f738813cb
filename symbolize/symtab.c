/* See symtab.h.
 *
 *   symbols  a:[0,40) b:[8,16) b2:[8,16) .L:60          (sorted by address, best name first)
 *   funcs    a:[0,40) b:[8,16) .L:[60,next)             (one per address)
 *   pieces   a:[0,8) b:[8,16) a:[16,40) .L:[60,next)    (disjoint; .cold pieces name f)
 */
#include "symbolize/symtab.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/map64.h"
#include "symbolize/role.h"
#include "symbolize/symbolize.h"

#define SYMTAB_MAX_SYMBOLS (1u << 26)

size_t symtab_piece_parent_length(const char *name)
{
	static const char *const marks[] = {".cold", ".warm", ".__part"};

	for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
		const char *at = strstr(name, marks[i]);

		if (!at || at == name)
			continue;
		const char *rest = at + strlen(marks[i]);
		while (*rest == '.' || (*rest >= '0' && *rest <= '9'))
			rest++;
		if (!*rest)
			return (size_t)(at - name);
	}
	return 0;
}

#define RANK_DOT 8 /* the name has a suffix, as outlined pieces do */

/* Of two names of one function the better has the lower rank. */
static uint8_t symbol_rank(bool sized, bool label, unsigned binding, const char *name)
{
	unsigned rank = sized ? 0 : 128;

	rank += label ? 64 : 0;
	rank += binding == STB_LOCAL ? 32 : binding == STB_WEAK ? 16 : 0;
	rank += strchr(name, '.') ? RANK_DOT : 0;
	for (unsigned i = 0; i < 4 && name[i] == '_'; i++)
		rank++;
	return (uint8_t)rank;
}

/* Section borders that linkers name as if they were code. */
static bool symbol_is_border(const char *name)
{
	static const char *const borders[] = {
		"_end",   "end",   "_etext",      "etext",  "__etext",
		"_edata", "edata", "__bss_start", "_stext", "__executable_start"};

	for (size_t i = 0; i < sizeof borders / sizeof borders[0]; i++)
		if (strcmp(name, borders[i]) == 0)
			return true;
	return false;
}

/* false: not a symbol of code. */
static bool symbol_of(const struct object *o, const struct object_section *table,
		      const Elf64_Sym *sym, struct symtab_symbol *result)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
	    sym->st_value == 0 || sym->st_shndx == SHN_UNDEF || sym->st_name == 0)
		return false;
	const struct object_section *section =
		sym->st_shndx < o->section_count ? &o->sections[sym->st_shndx] : NULL;
	if (!section || !(section->flags & SHF_EXECINSTR) || sym->st_value < section->vaddr ||
	    sym->st_value - section->vaddr >= section->bytes)
		return false;

	const char *name = object_string(o, table->link, sym->st_name);
	bool label = type == STT_NOTYPE && sym->st_size == 0;
	if (!*name || *name == '$' || (label && (*name == '.' || symbol_is_border(name))))
		return false;
	uint64_t limit = section->vaddr + section->bytes;
	uint64_t bytes = sym->st_size;
	if (bytes > limit - sym->st_value)
		bytes = limit - sym->st_value;
	unsigned binding = ELF64_ST_BIND(sym->st_info);
	*result = (struct symtab_symbol){.start = sym->st_value,
					 .bytes = bytes,
					 .limit = limit,
					 .name = name,
					 .rank = symbol_rank(bytes, label, binding, name),
					 .label = label,
					 .local = binding == STB_LOCAL};
	return true;
}

static bool symtab_add_table(struct symtab *t, const struct object *o,
			     const struct object_section *table)
{
	struct bytes b = object_section_bytes(o, table);
	uint32_t file = 0;
	Elf64_Sym sym;

	while (bytes_left(&b) >= sizeof sym && t->symbols.count < SYMTAB_MAX_SYMBOLS) {
		struct symtab_symbol symbol;

		memcpy(&sym, bytes_take(&b, sizeof sym), sizeof sym);
		if (ELF64_ST_TYPE(sym.st_info) == STT_FILE)
			file++;
		if (!symbol_of(o, table, &sym, &symbol))
			continue;
		symbol.file = symbol.local ? file : 0;
		if (!vec_push(&t->symbols, symbol))
			return false;
	}
	return true;
}

bool symtab_add(struct symtab *t, const struct object *o)
{
	for (size_t i = 1; i < o->section_count; i++)
		if ((o->sections[i].type == SHT_SYMTAB || o->sections[i].type == SHT_DYNSYM) &&
		    !symtab_add_table(t, o, &o->sections[i]))
			return false;
	return true;
}

bool symtab_add_name(struct symtab *t, uint64_t start, uint64_t bytes, uint64_t limit,
		     const char *name)
{
	if (start >= limit || t->symbols.count >= SYMTAB_MAX_SYMBOLS)
		return true;
	if (bytes > limit - start)
		bytes = limit - start;
	struct symtab_symbol symbol = {.start = start,
				       .bytes = bytes,
				       .limit = limit,
				       .name = name,
				       .rank = symbol_rank(true, false, STB_GLOBAL, name)};
	return vec_push(&t->symbols, symbol);
}

static int symbol_compare(const void *left, const void *right)
{
	const struct symtab_symbol *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int piece_compare(const void *left, const void *right)
{
	const struct symtab_piece *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* One function per address, of the symbols that are no labels. */
static bool symtab_merge(struct symtab *t)
{
	for (size_t i = 0; i < t->symbols.count; i++) {
		struct symtab_symbol *s = &t->symbols.items[i];
		struct symtab_func *last = t->funcs.count ? vec_last(&t->funcs) : NULL;

		s->func = SYMTAB_NONE;
		if (s->label)
			continue;
		if (!last || last->start != s->start) {
			struct symtab_func f = {
				.start = s->start, .end = s->start, .name = s->name};

			if (last && last->end == last->start) /* unsized: reaches to here */
				last->end = s->start;
			if (!vec_push(&t->funcs, f))
				return false;
			last = vec_last(&t->funcs);
			last->piece_of = (uint32_t)t->funcs.count - 1;
		}
		s->func = (uint32_t)t->funcs.count - 1;
		if (last->end < s->start + s->bytes)
			last->end = s->start + s->bytes;
		if (last->role == FUNC_PLAIN)
			last->role = role_of_name(s->name);
	}
	return true;
}

/* An unsized function ends with its section, also when the next symbol lies behind that. */
static void symtab_limit(struct symtab *t)
{
	for (size_t i = 0; i < t->symbols.count; i++) {
		const struct symtab_symbol *s = &t->symbols.items[i];

		if (s->func == SYMTAB_NONE)
			continue;
		struct symtab_func *f = &t->funcs.items[s->func];
		if (f->end > s->limit || f->end == f->start)
			f->end = s->limit;
	}
}

/* Outlined pieces, keyed by the hash of their parent's name. */
struct piece_list {
	struct map64 first;       /* hash -> index into next */
	VEC(uint32_t) func, next; /* the piece; the next of the same hash */
	VEC(uint8_t) quality;     /* of the parent found: 0 none, 1 any, 2 global, 3 same file */
	VEC(uint32_t) file;
};

static void piece_list_done(struct piece_list *l)
{
	map64_done(&l->first);
	vec_done(&l->func);
	vec_done(&l->next);
	vec_done(&l->quality);
	vec_done(&l->file);
}

static bool piece_list_add(struct piece_list *l, const struct symtab_symbol *s, size_t length)
{
	uint64_t hash = XXH3_64bits(s->name, length);

	return vec_push(&l->func, s->func) && vec_push(&l->next, map64_get(&l->first, hash)) &&
	       vec_push(&l->quality, 0) && vec_push(&l->file, s->file) &&
	       map64_set(&l->first, hash, (uint32_t)l->func.count - 1);
}

/* Static functions of one name exist in several files: the piece's own file decides. */
static void piece_list_offer(struct piece_list *l, struct symtab *t, const struct symtab_symbol *s)
{
	size_t length = strlen(s->name);
	uint32_t at = map64_get(&l->first, XXH3_64bits(s->name, length));

	for (; at != MAP64_NONE; at = l->next.items[at]) {
		struct symtab_func *piece = &t->funcs.items[l->func.items[at]];
		bool same_file = s->local && s->file == l->file.items[at];
		uint8_t quality = same_file ? 3 : !s->local ? 2 : 1;

		if (strncmp(piece->name, s->name, length) != 0 || piece->name[length] != '.' ||
		    quality <= l->quality.items[at])
			continue;
		l->quality.items[at] = quality;
		piece->piece_of = s->func;
	}
}

static bool symtab_join_pieces(struct symtab *t)
{
	struct piece_list list = {0};
	bool ok = true;

	for (size_t i = 0; ok && i < t->symbols.count; i++) {
		const struct symtab_symbol *s = &t->symbols.items[i];
		size_t length = s->func != SYMTAB_NONE && s->rank & RANK_DOT &&
						t->funcs.items[s->func].name == s->name
					? symtab_piece_parent_length(s->name)
					: 0;

		if (length)
			ok = piece_list_add(&list, s, length);
	}
	for (size_t i = 0; ok && list.func.count && i < t->symbols.count; i++)
		if (t->symbols.items[i].func != SYMTAB_NONE)
			piece_list_offer(&list, t, &t->symbols.items[i]);
	piece_list_done(&list);
	return ok;
}

/* Cuts the functions, sorted by start, into disjoint pieces. `open` is the stack of those
 * that began before `at`; the last of them that has not ended owns the bytes at `at`. */
static bool symtab_cut(struct symtab *t)
{
	VEC(uint32_t) open = {0};
	uint64_t at = 0;
	bool ok = true;

	for (size_t i = 0; ok && i <= t->funcs.count; i++) {
		uint64_t until = i < t->funcs.count ? t->funcs.items[i].start : UINT64_MAX;

		while (ok && open.count && at < until) {
			const struct symtab_func *f = &t->funcs.items[*vec_last(&open)];
			struct symtab_piece piece = {.start = at,
						     .end = f->end < until ? f->end : until,
						     .func = f->piece_of};

			if (piece.end > piece.start) {
				ok = vec_push(&t->pieces, piece);
				at = piece.end;
			}
			if (f->end <= at)
				open.count--;
		}
		at = until;
		if (i < t->funcs.count)
			ok = ok && vec_push(&open, (uint32_t)i);
	}
	vec_done(&open);
	return ok;
}

/* Labels outside all functions: one function from the first of a hole to the hole's end. */
static bool symtab_fill_holes(struct symtab *t)
{
	size_t known = t->funcs.count, known_pieces = t->pieces.count, next = 0;
	uint64_t covered = 0; /* end of what functions and filled holes take so far */

	for (size_t i = 0; i < t->symbols.count; i++) {
		struct symtab_symbol *s = &t->symbols.items[i];

		if (!s->label)
			continue;
		for (; next < known && t->funcs.items[next].start <= s->start; next++)
			if (covered < t->funcs.items[next].end)
				covered = t->funcs.items[next].end;
		if (s->start < covered)
			continue;
		struct symtab_func f = {.start = s->start,
					.end = s->limit,
					.name = s->name,
					.piece_of = (uint32_t)t->funcs.count,
					.role = role_of_name(s->name)};
		if (next < known && t->funcs.items[next].start < f.end)
			f.end = t->funcs.items[next].start;
		struct symtab_piece piece = {.start = f.start, .end = f.end, .func = f.piece_of};
		if (!vec_push(&t->funcs, f) || !vec_push(&t->pieces, piece))
			return false;
		s->func = f.piece_of;
		covered = f.end;
	}
	if (t->pieces.count > known_pieces)
		qsort(t->pieces.items, t->pieces.count, sizeof *t->pieces.items, piece_compare);
	return true;
}

bool symtab_finish(struct symtab *t)
{
	if (t->symbols.count)
		qsort(t->symbols.items, t->symbols.count, sizeof *t->symbols.items, symbol_compare);
	if (!symtab_merge(t))
		return false;
	symtab_limit(t);
	if (!symtab_join_pieces(t) || !symtab_cut(t) || !symtab_fill_holes(t))
		return false;
	vec_done(&t->symbols);
	return true;
}

void symtab_done(struct symtab *t)
{
	vec_done(&t->symbols);
	vec_done(&t->funcs);
	vec_done(&t->pieces);
}

uint32_t symtab_find(const struct symtab *t, uint64_t vaddr, uint64_t *gap_start, uint64_t *gap_end)
{
	size_t low = 0, high = t->pieces.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->pieces.items[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low && vaddr < t->pieces.items[low - 1].end)
		return t->pieces.items[low - 1].func;
	*gap_start = low ? t->pieces.items[low - 1].end : 0;
	*gap_end = low < t->pieces.count ? t->pieces.items[low].start : UINT64_MAX;
	return SYMTAB_NONE;
}

bool symtab_value(const struct object *o, const char *name, uint64_t *value)
{
	Elf64_Sym sym;

	for (size_t i = 1; i < o->section_count; i++) {
		const struct object_section *table = &o->sections[i];
		struct bytes b = object_section_bytes(o, table);

		if (table->type != SHT_SYMTAB && table->type != SHT_DYNSYM)
			continue;
		while (bytes_left(&b) >= sizeof sym) {
			memcpy(&sym, bytes_take(&b, sizeof sym), sizeof sym);
			if (sym.st_shndx == SHN_UNDEF ||
			    strcmp(object_string(o, table->link, sym.st_name), name) != 0)
				continue;
			*value = sym.st_value;
			return true;
		}
	}
	return false;
}
