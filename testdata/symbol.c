/* See symbol.h. */
#include "testdata/symbol.h"

#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

static uint64_t find_address(Elf *elf, const char *name)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Sym entry;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) ||
		    (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &entry); i++) {
			const char *found = elf_strptr(elf, header.sh_link, entry.st_name);

			if (found && entry.st_value && strcmp(found, name) == 0)
				return entry.st_value;
		}
	}
	return 0;
}

uint64_t symbol_place(const char *path, const char *name)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t place = 0;
	GElf_Phdr segment;
	size_t count = 0;

	if (fd < 0)
		return 0;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	uint64_t address = elf ? find_address(elf, name) : 0;
	if (address && elf_getphdrnum(elf, &count) == 0)
		for (int i = 0; i < (int)count; i++)
			if (gelf_getphdr(elf, i, &segment) && segment.p_type == PT_LOAD &&
			    address - segment.p_vaddr < segment.p_filesz)
				place = address - segment.p_vaddr + segment.p_offset;
	elf_end(elf);
	close(fd);
	return place;
}
