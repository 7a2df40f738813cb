/* See symbol.h.
 *
 *     file offset = vaddr - segment.vaddr + segment.file_off
 *     ip          = mapping.start + (file offset - mapping.offset)
 *
 * which holds for PIE, libraries and programs at fixed addresses alike. */
#include "capture/symbol.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/vec.h"
#include "symbolize/demangle.h"
#include "symbolize/line_search.h"
#include "symbolize/object.h"
#include "symbolize/search.h"

struct code_mapping {
	uint64_t start, end, offset;
	unsigned long long inode;
	char open_path[PATH_MAX]; /* leads to the file from here */
	char path[PATH_MAX];
};

typedef VEC(struct code_mapping) code_mappings;

struct resolver {
	pid_t pid;
	const char *where;
	enum bundle_hit_kind kind;
	struct arena *arena;
	struct trigger_place *places;
	size_t *count;
	code_mappings mappings;
	bool readable; /* compare readable names too */
	struct error *error;
};

static enum err read_mappings(pid_t pid, code_mappings *mappings, struct error *error)
{
	char path[64], *line = NULL;
	size_t room = 0;
	enum err err = ERR_NONE;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	if (!maps)
		return error_set(error, ERR_NOT_FOUND, "process %d cannot be looked at", (int)pid);
	while (err == ERR_NONE && getline(&line, &room, maps) > 0) {
		struct code_mapping m;
		char perms[8];
		int at = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %llu %n", &m.start,
			   &m.end, perms, &m.offset, &m.inode, &at) < 5 ||
		    at == 0 || perms[2] != 'x' || m.inode == 0)
			continue;
		snprintf(m.path, sizeof m.path, "%s", line + at);
		snprintf(m.open_path, sizeof m.open_path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64,
			 (int)pid, m.start, m.end);
		if (access(m.open_path, R_OK) != 0) /* needs privileges */
			snprintf(m.open_path, sizeof m.open_path, "/proc/%d/root%.*s", (int)pid,
				 PATH_MAX - 32, m.path);
		if (!vec_push(mappings, m))
			err = error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	}
	free(line);
	fclose(maps);
	return err;
}

static enum err add_place(struct resolver *r, uint64_t ip, const struct code_mapping *m)
{
	struct trigger_place place = {.ip = ip, .kind = r->kind, .where = r->where};

	for (size_t i = 0; i < *r->count; i++)
		if (r->places[i].ip == ip)
			return ERR_NONE;
	if (*r->count == TRIGGER_PLACES_MAX)
		return error_set(
			r->error, ERR_LIMIT,
			"trigger %s: more than %d places: the CPU has no more debug registers",
			r->where, TRIGGER_PLACES_MAX);
	if (m) {
		place.path = arena_copy_string(r->arena, m->open_path, strlen(m->open_path));
		place.file_off = ip - m->start + m->offset;
		if (!place.path)
			return error_set(r->error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	}
	r->places[(*r->count)++] = place;
	return ERR_NONE;
}

/* The ips of a vaddr: of the mappings of that file which hold it (normally one). */
static enum err add_vaddr(struct resolver *r, const struct object *o, unsigned long long inode,
			  uint64_t vaddr)
{
	for (size_t i = 0; i < o->segment_count; i++) {
		const struct object_segment *s = &o->segments[i];

		if (!s->executable || vaddr < s->vaddr || vaddr - s->vaddr >= s->file_bytes)
			continue;
		uint64_t offset = vaddr - s->vaddr + s->file_off;
		for (size_t k = 0; k < r->mappings.count; k++) {
			const struct code_mapping *m = &r->mappings.items[k];

			if (m->inode == inode && offset >= m->offset &&
			    offset - m->offset < m->end - m->start)
				return add_place(r, m->start + (offset - m->offset), m);
		}
	}
	return ERR_NONE;
}

static bool is_named(const struct resolver *r, const char *symbol)
{
	if (!r->readable)
		return strcmp(symbol, r->where) == 0;
	/* demangling is slow and only C++ and Rust names have something to give */
	if (symbol[0] != '_' || (symbol[1] != 'Z' && symbol[1] != 'R'))
		return false;
	char *readable = demangle_name(symbol);
	bool same = readable && strcmp(readable, r->where) == 0;
	free(readable);
	return same;
}

static enum err search_symbols(struct resolver *r, const struct object *symbols,
			       const struct object *code, unsigned long long inode)
{
	enum err err = ERR_NONE;

	for (size_t i = 0; i < symbols->section_count && err == ERR_NONE; i++) {
		const struct object_section *section = &symbols->sections[i];

		if (section->type != SHT_SYMTAB && section->type != SHT_DYNSYM)
			continue;
		struct bytes table = object_section_bytes(symbols, section);
		while (bytes_left(&table) >= sizeof(Elf64_Sym) && err == ERR_NONE) {
			Elf64_Sym symbol;

			memcpy(&symbol, bytes_take(&table, sizeof symbol), sizeof symbol);
			unsigned type = ELF64_ST_TYPE(symbol.st_info);
			if (symbol.st_shndx == SHN_UNDEF ||
			    (type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC) ||
			    !is_named(r, object_string(symbols, section->link, symbol.st_name)))
				continue;
			err = add_vaddr(r, code, inode, symbol.st_value);
		}
	}
	return err;
}

static enum err search_lines(struct resolver *r, const char *path, const struct object *code,
			     unsigned long long inode)
{
	const char *colon = strrchr(r->where, ':');
	char file[PATH_MAX];
	uint64_t vaddrs[TRIGGER_PLACES_MAX];
	size_t count = 0;
	unsigned line = (unsigned)strtoul(colon + 1, NULL, 10), found;
	enum err err = ERR_NONE;

	snprintf(file, sizeof file, "%.*s", (int)(colon - r->where), r->where);
	if (line_search(path, file, line, vaddrs, TRIGGER_PLACES_MAX, &count, &found) != ERR_NONE)
		return ERR_NONE; /* not in this file */
	for (size_t i = 0; i < count && err == ERR_NONE; i++)
		err = add_vaddr(r, code, inode, vaddrs[i]);
	return err;
}

static bool is_line(const char *where)
{
	const char *colon = strrchr(where, ':');

	return colon && colon > where && colon[-1] != ':' && colon[1] &&
	       colon[1 + strspn(colon + 1, "0123456789")] == '\0';
}

static enum err search_file(struct resolver *r, const struct code_mapping *m)
{
	struct search search;
	struct symbolizer_options none = {0};
	struct search_result debug;
	struct object *code;
	bool line = is_line(r->where);
	size_t before = *r->count;

	if (object_open(m->open_path, &code, NULL) != ERR_NONE)
		return ERR_NONE;
	enum err err = line ? search_lines(r, m->open_path, code, m->inode)
			    : search_symbols(r, code, code, m->inode);
	if (err == ERR_NONE && *r->count == before) {
		search_init(&search, &none);
		err = search_debug(&search, code, m->path, &debug);
		if (err == ERR_NONE && debug.object)
			err = line ? search_lines(r, debug.path, code, m->inode)
				   : search_symbols(r, debug.object, code, m->inode);
		if (debug.object)
			object_free(debug.object);
	}
	object_free(code);
	return err;
}

static enum err resolve_address(struct resolver *r)
{
	char *end;
	uint64_t ip = strtoull(r->where, &end, 16);

	if (*end || ip == 0)
		return error_set(r->error, ERR_USAGE, "trigger %s: not an address", r->where);
	for (size_t i = 0; i < r->mappings.count; i++)
		if (ip >= r->mappings.items[i].start && ip < r->mappings.items[i].end)
			return add_place(r, ip, &r->mappings.items[i]);
	return add_place(r, ip, NULL); /* JIT code, or mapped later */
}

static enum err search_files(struct resolver *r)
{
	size_t before = *r->count;
	enum err err = ERR_NONE;

	for (size_t i = 0; i < r->mappings.count && err == ERR_NONE && *r->count == before; i++) {
		bool seen = false;

		for (size_t k = 0; k < i; k++)
			seen |= r->mappings.items[k].inode == r->mappings.items[i].inode;
		if (!seen)
			err = search_file(r, &r->mappings.items[i]);
	}
	return err;
}

static enum err resolve_name(struct resolver *r)
{
	size_t before = *r->count;
	enum err err = search_files(r);

	if (err == ERR_NONE && *r->count == before && !is_line(r->where)) {
		r->readable = true;
		err = search_files(r);
	}
	if (err == ERR_NONE && *r->count == before)
		err = error_set(r->error, ERR_NOT_FOUND, "trigger %s: not found in process %d",
				r->where, (int)r->pid);
	return err;
}

enum err symbol_resolve_own(pid_t pid, const char *name, enum bundle_hit_kind kind,
			    struct arena *arena, struct trigger_place *places, size_t *count)
{
	struct resolver r = {.pid = pid,
			     .where = name,
			     .kind = kind,
			     .arena = arena,
			     .places = places,
			     .count = count};
	struct object *code;
	enum err err = read_mappings(pid, &r.mappings, NULL);
	char exe[64];
	struct stat st;

	snprintf(exe, sizeof exe, "/proc/%d/exe", (int)pid);
	if (err == ERR_NONE && stat(exe, &st) == 0 && object_open(exe, &code, NULL) == ERR_NONE) {
		err = search_symbols(&r, code, code, st.st_ino);
		object_free(code);
	}
	vec_done(&r.mappings);
	return err;
}

enum err symbol_resolve(pid_t pid, const char *where, enum bundle_hit_kind kind,
			struct arena *arena, struct trigger_place *places, size_t *count,
			struct error *error)
{
	struct resolver r = {.pid = pid,
			     .where = where,
			     .kind = kind,
			     .arena = arena,
			     .places = places,
			     .count = count,
			     .error = error};
	enum err err = read_mappings(pid, &r.mappings, error);

	if (err == ERR_NONE)
		err = where[0] == '0' && (where[1] == 'x' || where[1] == 'X') ? resolve_address(&r)
									      : resolve_name(&r);
	vec_done(&r.mappings);
	return err;
}
