/* See tiny_elf.h. Sections are written one after the other, then the section headers. */
#include "symbolize/tests/tiny_elf.h"

#include <dwarf.h>
#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MAX_SECTIONS 24
#define MAX_BYTES    65536

struct bytes_out {
	uint8_t *p;
	size_t at;
};

struct tiny {
	struct bytes_out out;
	struct bytes_out names;
	uint8_t name_bytes[512];
	Elf64_Shdr sections[MAX_SECTIONS];
	size_t count;
	bool packed;
};

static void put(struct bytes_out *o, uint64_t value, size_t bytes)
{
	memcpy(o->p + o->at, &value, bytes);
	o->at += bytes;
}

static void put_text(struct bytes_out *o, const char *text)
{
	memcpy(o->p + o->at, text, strlen(text) + 1);
	o->at += strlen(text) + 1;
}

static void put_all(struct bytes_out *o, const void *data, size_t bytes)
{
	memcpy(o->p + o->at, data, bytes);
	o->at += bytes;
}

static void put_at(struct bytes_out *o, size_t at, uint32_t value)
{
	memcpy(o->p + at, &value, sizeof value);
}

static Elf64_Shdr *section(struct tiny *t, const char *name, uint32_t type, uint64_t flags,
			   uint64_t vaddr, const struct bytes_out *data)
{
	Elf64_Shdr *s = &t->sections[t->count++];

	*s = (Elf64_Shdr){.sh_name = (uint32_t)t->names.at,
			  .sh_type = type,
			  .sh_flags = flags,
			  .sh_addr = vaddr,
			  .sh_size = data->at};
	put_text(&t->names, name);
	if (t->packed && strncmp(name, ".debug_", 7) == 0) {
		Elf64_Chdr header = {.ch_type = ELFCOMPRESS_ZLIB, .ch_size = data->at};
		uLongf room = 2048;

		t->out.at = (t->out.at + 7) & ~(size_t)7;
		s->sh_offset = t->out.at;
		s->sh_flags |= SHF_COMPRESSED;
		put_all(&t->out, &header, sizeof header);
		compress(t->out.p + t->out.at, &room, data->p, data->at);
		t->out.at += room;
		s->sh_size = sizeof header + room;
		return s;
	}
	/* File offsets of code and data are congruent with their addresses. */
	if (flags & SHF_ALLOC)
		t->out.at = (t->out.at + 4095) / 4096 * 4096 + vaddr % 4096;
	s->sh_offset = t->out.at;
	put_all(&t->out, data->p, data->at);
	return s;
}

static void put_symbol(struct bytes_out *symbols, struct bytes_out *strings, const char *name,
		       unsigned bind, unsigned type, uint16_t shndx, uint64_t value, uint64_t size)
{
	Elf64_Sym sym = {.st_name = (uint32_t)strings->at,
			 .st_info = (unsigned char)ELF64_ST_INFO(bind, type),
			 .st_shndx = shndx,
			 .st_value = value,
			 .st_size = size};

	put_text(strings, name);
	put_all(symbols, &sym, sizeof sym);
}

enum { TEXT = 1, PLT, GOT };

static void add_code(struct tiny *t)
{
	uint8_t bytes[512] = {0};
	struct bytes_out b = {.p = bytes};

	memset(bytes, 0x90, 256);
	b.at = 256;
	section(t, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TINY_TEXT, &b);

	/* push GOT+8(%rip); jmp *GOT+16(%rip) and jmp *slot(%rip); push $0; jmp PLT0 */
	memset(bytes, 0x90, 32);
	bytes[0] = 0xff, bytes[1] = 0x35;
	bytes[6] = 0xff, bytes[7] = 0x25;
	bytes[16] = 0xff, bytes[17] = 0x25;
	put_at(&b, 18, TINY_GOT + 0x18 - (TINY_PLT + 22));
	bytes[22] = 0x68;
	b.at = 32;
	section(t, ".plt", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TINY_PLT, &b)->sh_entsize = 16;
	memset(bytes, 0, 32);
	section(t, ".got", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, TINY_GOT, &b);
}

static void add_dynamic(struct tiny *t)
{
	uint8_t symbol_bytes[256] = {0}, string_bytes[64] = {0}, rela_bytes[64];
	struct bytes_out symbols = {.p = symbol_bytes, .at = sizeof(Elf64_Sym)};
	struct bytes_out strings = {.p = string_bytes, .at = 1}, rela = {.p = rela_bytes};
	Elf64_Rela r = {.r_offset = TINY_GOT + 0x18, .r_info = ELF64_R_INFO(1, R_X86_64_JUMP_SLOT)};

	put_symbol(&symbols, &strings, "puts", STB_GLOBAL, STT_FUNC, SHN_UNDEF, 0, 0);
	put_all(&rela, &r, sizeof r);
	uint32_t first = (uint32_t)t->count;
	section(t, ".dynsym", SHT_DYNSYM, 0, 0, &symbols)->sh_link = first + 1;
	section(t, ".dynstr", SHT_STRTAB, 0, 0, &strings);
	Elf64_Shdr *s = section(t, ".rela.plt", SHT_RELA, SHF_ALLOC, 0x400, &rela);
	s->sh_link = first;
}

static void add_symbols(struct tiny *t)
{
	uint8_t symbol_bytes[512] = {0}, string_bytes[256] = {0};
	struct bytes_out symbols = {.p = symbol_bytes, .at = sizeof(Elf64_Sym)};
	struct bytes_out strings = {.p = string_bytes, .at = 1};

	put_symbol(&symbols, &strings, "tiny.c", STB_LOCAL, STT_FILE, SHN_ABS, 0, 0);
	put_symbol(&symbols, &strings, "tiny_f.cold", STB_LOCAL, STT_FUNC, TEXT, TINY_COLD, 16);
	put_symbol(&symbols, &strings, "__tiny_f_alias", STB_LOCAL, STT_FUNC, TEXT, TINY_TEXT, 64);
	put_symbol(&symbols, &strings, "_text", STB_GLOBAL, STT_NOTYPE, TEXT, TINY_TEXT, 0);
	put_symbol(&symbols, &strings, "tiny_label", STB_LOCAL, STT_NOTYPE, TEXT, TINY_LABEL, 0);
	put_symbol(&symbols, &strings, "tiny_f", STB_GLOBAL, STT_FUNC, TEXT, TINY_TEXT, 64);
	put_symbol(&symbols, &strings, "_Z6tiny_gv", STB_WEAK, STT_FUNC, TEXT, TINY_TEXT + 64, 32);
	uint32_t first = (uint32_t)t->count;
	section(t, ".symtab", SHT_SYMTAB, 0, 0, &symbols)->sh_link = first + 1;
	section(t, ".strtab", SHT_STRTAB, 0, 0, &strings);
}

static void add_frames(struct tiny *t)
{
	static const uint8_t cie[] = {20, 0, 0,    0,  0, 0, 0, 0,    1, 'z', 'L',  'R',
				      0,  1, 0x78, 16, 2, 3, 3, 0x0c, 7, 8,   0x90, 1};
	static const uint8_t lsda[] = {0xff, 0xff, 0x01, 4, 0x04, 12, 0x34, 1};
	uint8_t bytes[128];
	struct bytes_out b = {.p = bytes};

	put_all(&b, cie, sizeof cie);
	for (int i = 0; i < 2; i++) {
		put(&b, 20, 4);
		put(&b, b.at, 4); /* back to the CIE at 0 */
		put(&b, i ? TINY_COLD : TINY_TEXT, 4);
		put(&b, i ? 16 : 64, 4);
		put(&b, 4, 1);
		put(&b, i ? 0 : 0x2800, 4);
		put(&b, i ? 0x200e : 0, 3); /* the piece begins with def_cfa_offset 32 */
	}
	put(&b, 0, 4);
	section(t, ".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0x2000, &b);
	b.at = 0;
	put_all(&b, lsda, sizeof lsda);
	section(t, ".gcc_except_table", SHT_PROGBITS, SHF_ALLOC, 0x2800, &b);
}

static void add_note(struct tiny *t)
{
	uint8_t bytes[64];
	struct bytes_out b = {.p = bytes};

	put(&b, 4, 4);
	put(&b, 20, 4);
	put(&b, NT_GNU_BUILD_ID, 4);
	put_text(&b, "GNU");
	for (int i = 1; i <= 20; i++)
		put(&b, (uint64_t)i, 1);
	section(t, ".note.gnu.build-id", SHT_NOTE, 0, 0, &b);
}

static void put_abbrev(struct bytes_out *b, uint8_t code, uint8_t tag, bool children,
		       const uint8_t *specs)
{
	put(b, code, 1);
	put(b, tag, 1);
	put(b, children, 1);
	for (; specs[0]; specs += 2) {
		put(b, specs[0], 1);
		put(b, specs[1], 1);
	}
	put(b, 0, 2);
}

static void add_abbrevs(struct tiny *t)
{
	static const uint8_t unit[] = {DW_AT_name,
				       DW_FORM_string,
				       DW_AT_comp_dir,
				       DW_FORM_string,
				       DW_AT_low_pc,
				       DW_FORM_addr,
				       DW_AT_high_pc,
				       DW_FORM_data4,
				       DW_AT_stmt_list,
				       DW_FORM_sec_offset,
				       0};
	static const uint8_t abstract[] = {DW_AT_name, DW_FORM_string, DW_AT_linkage_name,
					   DW_FORM_string, 0};
	static const uint8_t function[] = {DW_AT_name,
					   DW_FORM_string,
					   DW_AT_low_pc,
					   DW_FORM_addr,
					   DW_AT_high_pc,
					   DW_FORM_udata,
					   0};
	static const uint8_t inlined[] = {DW_AT_abstract_origin, DW_FORM_ref4,    DW_AT_ranges,
					  DW_FORM_sec_offset,    DW_AT_call_file, DW_FORM_data1,
					  DW_AT_call_line,       DW_FORM_data1,   0};
	uint8_t bytes[256];
	struct bytes_out b = {.p = bytes};

	put_abbrev(&b, 1, DW_TAG_compile_unit, true, unit);
	put_abbrev(&b, 2, DW_TAG_subprogram, false, abstract);
	put_abbrev(&b, 3, DW_TAG_subprogram, true, function);
	put_abbrev(&b, 4, DW_TAG_inlined_subroutine, true, inlined);
	put_abbrev(&b, 5, DW_TAG_namespace, true, (const uint8_t[]){0});
	put(&b, 0, 1);
	section(t, ".debug_abbrev", SHT_PROGBITS, 0, 0, &b);
}

static void put_inlined(struct bytes_out *b, uint32_t origin, uint32_t ranges, uint8_t line)
{
	put(b, 4, 1);
	put(b, origin, 4);
	put(b, ranges, 4);
	put(b, 1, 1);
	put(b, line, 1);
}

static void add_info(struct tiny *t, bool five)
{
	uint8_t bytes[256];
	struct bytes_out b = {.p = bytes};

	put(&b, 0, 4);
	put(&b, five ? 5 : 4, 2);
	put(&b, five ? DW_UT_compile | 8 << 8 : 0, five ? 2 : 0);
	put(&b, 0, 4);
	put(&b, 8, five ? 0 : 1);
	put(&b, 1, 1);
	put_text(&b, "tiny.c");
	put_text(&b, "/src");
	put(&b, TINY_TEXT, 8);
	put(&b, 0x60, 4);
	put(&b, 0, 4);
	uint32_t outer = (uint32_t)b.at;
	put(&b, 2, 1);
	put_text(&b, "outer");
	put_text(&b, "_Z5outerv");
	uint32_t inner = (uint32_t)b.at;
	put(&b, 2, 1);
	put_text(&b, "inner");
	put_text(&b, "");
	put(&b, 5, 1); /* namespace */
	put(&b, 3, 1);
	put_text(&b, "tiny_f");
	put(&b, TINY_TEXT, 8);
	put(&b, 64, 1);
	put_inlined(&b, outer, five ? 12 : 0, 10);
	put_inlined(&b, inner, five ? 16 : 32, 20);
	put(&b, 0, 5); /* ends inner, outer, tiny_f, namespace, unit */
	put_at(&b, 0, (uint32_t)b.at - 4);
	section(t, ".debug_info", SHT_PROGBITS, 0, 0, &b);
}

static void add_ranges(struct tiny *t, bool five)
{
	uint8_t bytes[128];
	struct bytes_out b = {.p = bytes};

	if (five) {
		put(&b, 16, 4);
		put(&b, 5 | 8 << 16, 4); /* version, address size, selector size */
		put(&b, 0, 4);
		for (int i = 0; i < 2; i++) {
			put(&b, DW_RLE_offset_pair, 1);
			put(&b, (i ? TINY_INNER : TINY_OUTER) - TINY_TEXT, 1);
			put(&b, (i ? 0x1020 : 0x1030) - TINY_TEXT, 1);
			put(&b, DW_RLE_end_of_list, 1);
		}
	} else {
		for (int i = 0; i < 2; i++) {
			put(&b, (i ? TINY_INNER : TINY_OUTER) - TINY_TEXT, 8);
			put(&b, (i ? 0x1020 : 0x1030) - TINY_TEXT, 8);
			put(&b, 0, 8);
			put(&b, 0, 8);
		}
	}
	section(t, five ? ".debug_rnglists" : ".debug_ranges", SHT_PROGBITS, 0, 0, &b);
}

static void add_lines(struct tiny *t, bool five)
{
	static const uint8_t operands[] = {0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1};
	/* set_address 0x1000; line 100 there; 0x10 on; a special opcode: 2 on and line 103;
	 * 0x40 on, end of the sequence */
	static const char program[] = "\0\x09\x02\0\x10\0\0\0\0\0\0\x03\xe3\0\x01"
				      "\x02\x10\x31\x02\x40\0\x01\x01";
	uint8_t bytes[256];
	struct bytes_out b = {.p = bytes};

	put(&b, 0, 4);
	put(&b, five ? 5 : 4, 2);
	put(&b, 8, five ? 2 : 0);
	size_t length_at = b.at;
	put(&b, 0, 4);
	put(&b, 1, 1);
	put(&b, 1, 1);
	put(&b, 1, 1);
	put(&b, (uint8_t)-5, 1); /* line_base */
	put(&b, 14, 1);          /* line_range */
	put(&b, 13, 1);
	put_all(&b, operands, sizeof operands);
	if (five) {
		put(&b, 1 | DW_LNCT_path << 8 | DW_FORM_string << 16, 3);
		put(&b, 1, 1);
		put_text(&b, "/src");
		put(&b, 2 | DW_LNCT_path << 8 | DW_FORM_string << 16, 3);
		put(&b, DW_LNCT_directory_index | DW_FORM_udata << 8, 2);
		put(&b, 2, 1);
		put_text(&b, "unused.c");
		put(&b, 0, 1);
		put_text(&b, "tiny.c");
		put(&b, 0, 1);
	} else {
		put(&b, 0, 1);
		put_text(&b, "tiny.c");
		put(&b, 0, 4);
	}
	put_at(&b, length_at, (uint32_t)(b.at - length_at - 4));
	put_all(&b, program, sizeof program - 1);
	put_at(&b, 0, (uint32_t)b.at - 4);
	section(t, ".debug_line", SHT_PROGBITS, 0, 0, &b);
}

static void write_headers(struct tiny *t)
{
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = EM_X86_64,
			     .e_version = EV_CURRENT,
			     .e_phoff = sizeof header,
			     .e_ehsize = sizeof header,
			     .e_phentsize = sizeof(Elf64_Phdr),
			     .e_shentsize = sizeof(Elf64_Shdr)};
	Elf64_Phdr loads[] = {{.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_offset = t->sections[TEXT].sh_offset,
			       .p_vaddr = TINY_TEXT,
			       .p_filesz = t->sections[TEXT].sh_size,
			       .p_memsz = t->sections[TEXT].sh_size},
			      {.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_offset = t->sections[PLT].sh_offset,
			       .p_vaddr = TINY_PLT,
			       .p_filesz = t->sections[PLT].sh_size,
			       .p_memsz = t->sections[PLT].sh_size},
			      {.p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = 0x2800}};

	for (size_t i = 0; i < t->count; i++)
		if (t->sections[i].sh_addr == 0x2800) {
			loads[2].p_offset = t->sections[i].sh_offset;
			loads[2].p_filesz = loads[2].p_memsz = t->sections[i].sh_size;
		}
	struct bytes_out names = t->names;
	names.at += strlen(".shstrtab") + 1;
	section(t, ".shstrtab", SHT_STRTAB, 0, 0, &names);
	header.e_phnum = sizeof loads / sizeof loads[0];
	header.e_shnum = (uint16_t)t->count;
	header.e_shstrndx = (uint16_t)(t->count - 1);
	t->out.at = (t->out.at + 7) & ~(size_t)7;
	header.e_shoff = t->out.at;
	put_all(&t->out, t->sections, t->count * sizeof t->sections[0]);
	memcpy(t->out.p, &header, sizeof header);
	memcpy(t->out.p + sizeof header, loads, sizeof loads);
}

uint8_t *tiny_elf(enum tiny_kind kind, size_t *bytes)
{
	static struct tiny t;
	bool dwarf = kind == TINY_DWARF5 || kind == TINY_DWARF4 || kind == TINY_PACKED;

	memset(&t, 0, sizeof t);
	t.packed = kind == TINY_PACKED;
	t.out.p = calloc(1, MAX_BYTES);
	if (!t.out.p)
		return NULL;
	t.out.at = 512;
	t.names.p = t.name_bytes;
	t.names.at = 1;
	t.count = 1;
	add_code(&t);
	add_note(&t);
	add_dynamic(&t);
	add_frames(&t);
	if (kind != TINY_STRIPPED)
		add_symbols(&t);
	if (dwarf) {
		add_abbrevs(&t);
		add_info(&t, kind != TINY_DWARF4);
		add_ranges(&t, kind != TINY_DWARF4);
		add_lines(&t, kind != TINY_DWARF4);
	}
	write_headers(&t);
	*bytes = t.out.at;
	return t.out.p;
}
