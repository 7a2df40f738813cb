/* See got.h. Psabi: x86-64, "Procedure Linkage Table"; stubs of GNU ld (plain, bnd, IBT),
 * lld and mold are known by their bytes, not by their number, so that linkers may differ. */
#include "symbolize/got.h"

#include <stdlib.h>
#include <string.h>

static const char *rela_symbol(const struct object *o, const struct object_section *rela,
			       uint64_t index)
{
	if (rela->link >= o->section_count || index == 0)
		return "";
	const struct object_section *table = &o->sections[rela->link];
	struct bytes symbols = object_section_bytes(o, table);
	Elf64_Sym sym;

	if (index >= bytes_left(&symbols) / sizeof sym)
		return "";
	memcpy(&sym, symbols.p + index * sizeof sym, sizeof sym);
	return object_string(o, table->link, sym.st_name);
}

static bool section_holds(const struct object_section *s, uint64_t vaddr)
{
	return s && vaddr >= s->vaddr && vaddr - s->vaddr < s->bytes;
}

static bool got_add_rela(struct got *g, const struct object *o, const struct object_section *rela,
			 const struct object_section *got)
{
	struct bytes b = object_section_bytes(o, rela);
	bool plt = strcmp(rela->name, ".rela.plt") == 0;
	Elf64_Rela r;

	while (bytes_left(&b) >= sizeof r) {
		memcpy(&r, bytes_take(&b, sizeof r), sizeof r);
		struct got_slot slot = {.vaddr = r.r_offset, .symbol = ""};

		if (plt && !vec_push(&g->plt_slots, r.r_offset))
			return false;
		switch (ELF64_R_TYPE(r.r_info)) {
		case R_X86_64_GLOB_DAT:
		case R_X86_64_JUMP_SLOT:
		case R_X86_64_64: slot.symbol = rela_symbol(o, rela, ELF64_R_SYM(r.r_info)); break;
		case R_X86_64_RELATIVE: /* of all data, millions: only the GOT's matter */
			if (!section_holds(got, r.r_offset))
				continue;
			slot.target = (uint64_t)r.r_addend;
			break;
		case R_X86_64_IRELATIVE: /* the resolver carries the function's name */
			slot.target = (uint64_t)r.r_addend;
			break;
		default: continue;
		}
		if (!vec_push(&g->slots, slot))
			return false;
	}
	return true;
}

/* Without relocations (static binaries) and with packed ones (.relr.dyn) the slot itself
 * holds the address. */
static bool got_add_contents(struct got *g, const struct object *o,
			     const struct object_section *got)
{
	struct bytes b = object_section_bytes(o, got);

	for (uint64_t at = 0; bytes_left(&b) >= 8; at += 8) {
		struct got_slot slot = {
			.vaddr = got->vaddr + at, .symbol = "", .target = bytes_u64(&b)};

		if (object_code_section(o, slot.target) && !vec_push(&g->slots, slot))
			return false;
	}
	return true;
}

static int slot_compare(const void *left, const void *right)
{
	const struct got_slot *a = left, *b = right;

	if (a->vaddr != b->vaddr)
		return a->vaddr < b->vaddr ? -1 : 1;
	return (b->symbol[0] != '\0') - (a->symbol[0] != '\0'); /* relocations win */
}

bool got_load(struct got *g, const struct object *o)
{
	const struct object_section *got = object_find_section(o, ".got");

	for (size_t i = 1; i < o->section_count; i++)
		if (o->sections[i].type == SHT_RELA && o->sections[i].flags & SHF_ALLOC &&
		    !got_add_rela(g, o, &o->sections[i], got))
			return false;
	if (got && !got_add_contents(g, o, got))
		return false;
	if (g->slots.count)
		qsort(g->slots.items, g->slots.count, sizeof *g->slots.items, slot_compare);
	return true;
}

const struct got_slot *got_find(const struct got *g, uint64_t vaddr)
{
	size_t low = 0, high = g->slots.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (g->slots.items[middle].vaddr < vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < g->slots.count && g->slots.items[low].vaddr == vaddr ? &g->slots.items[low]
									  : NULL;
}

void got_done(struct got *g)
{
	vec_done(&g->slots);
	vec_done(&g->plt_slots);
}

static bool stub_skip(struct bytes *b, const char *opcode, size_t opcode_bytes, size_t skip)
{
	if (bytes_left(b) < opcode_bytes + skip || memcmp(b->p, opcode, opcode_bytes) != 0)
		return false;
	b->p += opcode_bytes + skip;
	return true;
}

static void stub_decode(const struct got *g, struct bytes code, struct plt_stub *stub)
{
	const uint8_t *start = code.p;

	stub_skip(&code, "\xf3\x0f\x1e\xfa", 4, 0);                /* endbr64 */
	stub_skip(&code, "\x41\xbb", 2, 4);                        /* mov $i,%r11d (mold) */
	stub->header = stub_skip(&code, "\x41\x53", 2, 0) ||       /* push %r11 (mold) */
		       stub_skip(&code, "\xff\x35", 2, 4);         /* push GOT+8(%rip) */
	stub_skip(&code, "\xf2", 1, 0);                            /* bnd */
	if (stub_skip(&code, "\xff\x25", 2, 0) && !stub->header) { /* jmp *slot(%rip) */
		int32_t displacement = (int32_t)bytes_u32(&code);

		stub->slot =
			stub->start + (uint64_t)(code.p - start) + (uint64_t)(int64_t)displacement;
	} else if (stub_skip(&code, "\x68", 1, 0)) { /* push $i: a lazy stub behind .plt.sec */
		uint32_t index = bytes_u32(&code);

		if (index < g->plt_slots.count)
			stub->slot = g->plt_slots.items[index];
	}
}

bool plt_find(const struct got *g, const struct object *o, uint64_t vaddr, struct plt_stub *stub)
{
	const struct object_section *s = object_code_section(o, vaddr);

	if (!s || (strncmp(s->name, ".plt", 4) != 0 && strcmp(s->name, ".iplt") != 0))
		return false;
	uint64_t step = s->entry_bytes == 8 || s->entry_bytes == 16 || s->entry_bytes == 32
				? s->entry_bytes
				: 16;
	*stub = (struct plt_stub){.start = s->vaddr + (vaddr - s->vaddr) / step * step};
	stub->end = stub->start + step;
	if (stub->end > s->vaddr + s->bytes)
		stub->end = s->vaddr + s->bytes;
	struct bytes code = object_code(o, stub->start);
	if (bytes_left(&code) > stub->end - stub->start)
		code.end = code.p + (stub->end - stub->start);
	stub_decode(g, code, stub);
	return true;
}
