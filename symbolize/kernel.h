/* The kernel: kcore (code as it ran), kallsyms (names as they were), vmlinux (both, at the
 * addresses before KASLR, and DWARF). */
#ifndef SYMBOLIZE_KERNEL_H
#define SYMBOLIZE_KERNEL_H

#include "symbolize/module.h"

/* Fills what all kernel modules share. ERR_NOMEM only; state says what was found. */
MUST_CHECK enum err kernel_open(struct module_entry *kernel, const struct search *search,
				struct intern *strings);
/* Looks for the vmlinux of that build id, once, for code and DWARF. */
MUST_CHECK enum err kernel_open_image(struct module_entry *kernel,
				      const struct module_request *request,
				      const struct search *search, struct intern *strings);
/* KASLR by a map record of the kernel image: map_file_off is where its reference symbol
 * (after "]" in the path) ran. */
void kernel_slide_by_map(struct module_entry *kernel, const char *path, uint64_t map_file_off);

/* Function symbols of /proc/kallsyms text, which is cut up in place and must stay; also the
 * address of _text (0 = not there). false when memory is short. */
bool kallsyms_read(struct symtab *t, char *text, size_t bytes, uint64_t *text_start);

#endif
