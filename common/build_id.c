/* See build_id.h. */
#include "common/build_id.h"

#include <elf.h>
#include <string.h>

#include "common/bytes.h"

enum { NOTES_MAX_BYTES = 1 << 20 };

static bool find_in_notes(struct bytes notes, size_t align, struct build_id *id)
{
	while (bytes_left(&notes) >= 12) {
		size_t name_bytes = bytes_u32(&notes), desc_bytes = bytes_u32(&notes);
		uint32_t type = bytes_u32(&notes);
		/* 32-bit sizes: no overflow in 64-bit arithmetic */
		const uint8_t *name = bytes_take(&notes, (name_bytes + align - 1) & ~(align - 1));
		const uint8_t *desc = bytes_take(&notes, desc_bytes);

		if (!name || !desc)
			return false;
		if (type == NT_GNU_BUILD_ID && name_bytes == 4 && memcmp(name, "GNU", 4) == 0 &&
		    desc_bytes > 0) {
			id->length = desc_bytes < BUILD_ID_MAX ? (uint8_t)desc_bytes : BUILD_ID_MAX;
			memcpy(id->bytes, desc, id->length);
			return true;
		}
		size_t padding = (align - desc_bytes % align) % align;
		if (!bytes_take(&notes, padding))
			return false;
	}
	return false;
}

bool build_id_find(const uint8_t *image, size_t bytes, struct build_id *id)
{
	struct build_id found = {0};
	Elf64_Ehdr header;

	if (bytes < sizeof header)
		return false;
	memcpy(&header, image, sizeof header);
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > bytes)
		return false;
	for (size_t i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment;
		size_t at = header.e_phoff + i * sizeof segment;

		if (at + sizeof segment > bytes)
			return false;
		memcpy(&segment, image + at, sizeof segment);
		if (segment.p_type != PT_NOTE || segment.p_offset > bytes ||
		    segment.p_filesz > bytes - segment.p_offset ||
		    segment.p_filesz > NOTES_MAX_BYTES)
			continue;
		if (find_in_notes(bytes_of(image + segment.p_offset, segment.p_filesz),
				  segment.p_align == 8 ? 8 : 4, &found)) {
			*id = found;
			return true;
		}
	}
	return false;
}

bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
	return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

void build_id_format(const struct build_id *id, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < id->length; i++) {
		*text++ = digits[id->bytes[i] >> 4];
		*text++ = digits[id->bytes[i] & 15];
	}
	*text = '\0';
}

static int digit_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool build_id_parse(const char *text, struct build_id *id)
{
	struct build_id parsed = {0};

	for (; text[0]; text += 2) {
		int high = digit_value(text[0]), low = high < 0 ? -1 : digit_value(text[1]);

		if (low < 0 || parsed.length == BUILD_ID_MAX)
			return false;
		parsed.bytes[parsed.length++] = (uint8_t)(high << 4 | low);
	}
	*id = parsed;
	return parsed.length > 0;
}
