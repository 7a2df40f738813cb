/* Small ELF files in memory, for tests and fuzz targets. */
#ifndef SYMBOLIZE_TESTS_TINY_ELF_H
#define SYMBOLIZE_TESTS_TINY_ELF_H

#include <stddef.h>
#include <stdint.h>

enum tiny_kind {
	TINY_SYMBOLS,  /* functions, aliases, a .cold piece, labels, a PLT, FDEs with an LSDA */
	TINY_STRIPPED, /* the same without its symbol table */
	TINY_DWARF5,   /* with a unit of two nested inlined calls, and lines */
	TINY_DWARF4,   /* the same in DWARF 4 */
	TINY_PACKED,   /* TINY_DWARF5 with its sections deflated */
	TINY_KINDS,
};

/* What they hold. */
#define TINY_TEXT  0x1000u /* .text; tiny_f [0x1000,0x1040), tiny_g [0x1040,0x1060) */
#define TINY_COLD  0x1080u /* tiny_f.cold [0x1080,0x1090) */
#define TINY_LABEL 0x10c0u /* an unsized label in a hole: to the end of .text, 0x1100 */
#define TINY_PLT   0x1100u /* .plt: the header stub, then puts */
#define TINY_GOT   0x3000u /* .got; puts at 0x3018 */
#define TINY_OUTER 0x1010u /* inlined outer() [0x1010,0x1030), called at line 10 */
#define TINY_INNER 0x1018u /* inlined inner() [0x1018,0x1020) inside it, line 20 */
#define TINY_PAD   0x1034u /* landing pad of the calls in [0x1004,0x1010) of tiny_f */

/* The file's bytes in malloc()ed memory; NULL when memory is short. */
uint8_t *tiny_elf(enum tiny_kind kind, size_t *bytes);

#endif
