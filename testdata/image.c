/* See image.h. */
#include "testdata/image.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static enum err run(char *const argv[], struct error *e)
{
	int status;
	pid_t pid;
	int failed = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);

	if (failed)
		return error_set(e, ERR_NOT_FOUND, "%s: %s", argv[0], strerror(failed));
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return error_set(e, ERR_FORMAT, "%s failed", argv[0]);
	return ERR_NONE;
}

static enum err assemble(const char *text, uint64_t address, const char *path, struct error *e)
{
	char source[4096], object[4096], place[64], output[4096];
	enum err failed;

	snprintf(source, sizeof source, "%s.s", path);
	snprintf(object, sizeof object, "%s.o", path);
	snprintf(place, sizeof place, "-Ttext=0x%" PRIx64, address);
	snprintf(output, sizeof output, "%s", path);
	FILE *f = fopen(source, "w");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		return error_set(e, ERR_IO, "%s: %s", source, strerror(errno));
	failed = run((char *[]){"as", "--64", "-o", object, source, NULL}, e);
	if (!failed)
		failed = run((char *[]){"ld", "-z", "max-page-size=4096", "-e", "0", "--build-id",
					place, "-o", output, object, NULL},
			     e);
	unlink(source);
	unlink(object);
	return failed;
}

static enum err read_symbols(struct image *image, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	GElf_Sym symbol;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
			const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
			struct image_symbol entry = {.address = symbol.st_value};

			if (!name || !*name)
				continue;
			entry.name = strdup(name);
			if (!entry.name || !vec_push(&image->symbols, entry)) {
				free(entry.name);
				return ERR_NOMEM;
			}
		}
	}
	return ERR_NONE;
}

enum err image_make(struct image *image, const char *text, uint64_t address, const char *path,
		    struct error *e)
{
	GElf_Phdr segment;
	size_t count = 0;
	enum err failed = assemble(text, address, path, e);

	if (failed)
		return failed;
	elf_version(EV_CURRENT);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf *elf = fd >= 0 ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
	if (!elf || elf_getphdrnum(elf, &count) != 0)
		failed = error_set(e, ERR_FORMAT, "%s: no ELF file", path);
	for (int i = 0; i < (int)count; i++) {
		if (gelf_getphdr(elf, i, &segment) && segment.p_type == PT_LOAD &&
		    segment.p_flags & PF_X) {
			image->start = segment.p_vaddr & ~(uint64_t)4095;
			image->length = (segment.p_vaddr + segment.p_memsz - image->start + 4095) &
					~(uint64_t)4095;
			image->file_off = segment.p_offset & ~(uint64_t)4095;
		}
	}
	if (!failed && read_symbols(image, elf))
		failed = error_set(e, ERR_NOMEM, "%s: out of memory", path);
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return failed;
}

bool image_find(const struct image *image, const char *name, uint64_t *address)
{
	for (size_t i = 0; i < image->symbols.count; i++) {
		if (strcmp(image->symbols.items[i].name, name) == 0) {
			*address = image->symbols.items[i].address;
			return true;
		}
	}
	return false;
}

void image_done(struct image *image)
{
	for (size_t i = 0; i < image->symbols.count; i++)
		free(image->symbols.items[i].name);
	vec_done(&image->symbols);
}
