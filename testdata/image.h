/* A program of a text case: assembled by as and ld, so that it is a real ELF file. */
#ifndef TESTDATA_IMAGE_H
#define TESTDATA_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/vec.h"

struct image_symbol {
	char *name;
	uint64_t address;
};

struct image {
	VEC(struct image_symbol) symbols;
	uint64_t start, length, file_off; /* its executable segment */
};

/* Assembles the text to the ELF file `path`, linked at `address`. */
MUST_CHECK enum err image_make(struct image *image, const char *text, uint64_t address,
			       const char *path, struct error *e);
bool image_find(const struct image *image, const char *name, uint64_t *address);
void image_done(struct image *image);

#endif
