/* Functions of ELF files by name. */
#ifndef TESTDATA_SYMBOL_H
#define TESTDATA_SYMBOL_H

#include <stdint.h>

/* Where the function's first byte lies in the file; 0 if there is none of that name. */
uint64_t symbol_place(const char *path, const char *name);

#endif
