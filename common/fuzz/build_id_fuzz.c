/* An ELF image: its build id. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/build_id.h"
#include "common/fuzz/driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct build_id id = {0};
	char text[2 * BUILD_ID_MAX + 1];

	if (build_id_find(data, size, &id) && (id.length == 0 || id.length > BUILD_ID_MAX))
		abort();
	build_id_format(&id, text);
	return 0;
}

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	static const uint8_t notes[] = {4,   0,   0,   0, 8, 0, 0, 0, 3, 0, 0, 0,
					'G', 'N', 'U', 0, 1, 2, 3, 4, 5, 6, 7, 8};
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segments[2];
		uint8_t notes[sizeof notes];
	} image = {
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_phoff = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 2},
		.segments[0] = {.p_type = PT_LOAD, .p_filesz = sizeof image},
		.segments[1] = {.p_type = PT_NOTE,
				.p_offset = sizeof image.header + sizeof image.segments,
				.p_filesz = sizeof notes,
				.p_align = n == 0 ? 4 : 8},
	};
	uint8_t *seed = n < 2 ? malloc(sizeof image) : NULL;

	memcpy(image.notes, notes, sizeof notes);
	if (seed)
		memcpy(seed, &image, sizeof image);
	*size = sizeof image;
	return seed;
}
