#include "common/build_id.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	uint8_t notes[64];
};

/* A note of another owner, then the build id. */
static struct image make_image(void)
{
	static const uint8_t notes[] = {
		4, 0, 0, 0, 3, 0,  0, 0, 3, 0,  0,  0,  'X', 'Y', 'Z', 0,   1,  2,    3,
		0, 4, 0, 0, 0, 20, 0, 0, 0, 3,  0,  0,  0,   'G', 'N', 'U', 0,  0xab, 0xcd,
		1, 2, 3, 4, 5, 6,  7, 8, 9, 10, 11, 12, 13,  14,  15,  16,  17, 0xff,
	};
	struct image image = {
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_phoff = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 1},
		.segment = {.p_type = PT_NOTE,
			    .p_offset = offsetof(struct image, notes),
			    .p_filesz = sizeof notes,
			    .p_align = 4},
	};

	memcpy(image.notes, notes, sizeof notes);
	return image;
}

Test(build_id, is_found_behind_another_note)
{
	struct image image = make_image();
	struct build_id id, parsed;
	char text[2 * BUILD_ID_MAX + 1];

	cr_assert(build_id_find((const uint8_t *)&image, sizeof image, &id));
	cr_expect_eq(id.length, 20);
	build_id_format(&id, text);
	cr_expect_str_eq(text, "abcd0102030405060708090a0b0c0d0e0f1011ff");
	cr_expect(build_id_parse(text, &parsed) && build_id_equal(&id, &parsed));
}

Test(build_id, every_truncation_is_refused_without_reading_behind)
{
	struct image image = make_image();
	size_t whole = offsetof(struct image, notes) + image.segment.p_filesz;

	for (size_t bytes = 0; bytes < whole; bytes++) {
		uint8_t *cut = malloc(bytes + 1); /* the sanitizer sees a read behind it */
		struct build_id id;

		memcpy(cut, &image, bytes);
		cr_expect_not(build_id_find(cut, bytes, &id), "%zu bytes", bytes);
		free(cut);
	}
}

struct corruption {
	const char *name;
	size_t offset;
	uint8_t bytes[8];
	size_t count;
};

static const struct corruption corruptions[] = {
	{"not ELF", 0, {'M', 'Z'}, 2},
	{"32-bit", 4, {ELFCLASS32}, 1},
	{"headers beyond the end",
	 offsetof(Elf64_Ehdr, e_phoff),
	 {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	 8},
	{"notes beyond the end",
	 offsetof(struct image, segment.p_offset),
	 {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	 8},
	{"notes of any size",
	 offsetof(struct image, segment.p_filesz),
	 {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	 8},
	{"a name of 4 GiB", offsetof(struct image, notes), {0xff, 0xff, 0xff, 0xff}, 4},
	{"a description of 4 GiB", offsetof(struct image, notes) + 4, {0xff, 0xff, 0xff, 0xff}, 4},
	{"another type", offsetof(struct image, notes) + 28, {4}, 1},
};

Test(build_id, damage_is_refused)
{
	for (size_t i = 0; i < sizeof corruptions / sizeof corruptions[0]; i++) {
		struct image image = make_image();
		struct build_id id;

		memcpy((uint8_t *)&image + corruptions[i].offset, corruptions[i].bytes,
		       corruptions[i].count);
		cr_expect_not(build_id_find((const uint8_t *)&image, sizeof image, &id), "%s",
			      corruptions[i].name);
	}
}

Test(build_id, text_that_is_no_build_id)
{
	static const char *const texts[] = {
		"", "a", "xy", "AB", "ab0", "000102030405060708090a0b0c0d0e0f1011121314"};
	struct build_id id;

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		cr_expect_not(build_id_parse(texts[i], &id), "%s", texts[i]);
}
