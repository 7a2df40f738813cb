/* Functions that move control in another way than call and return do. */
#ifndef SYMBOLIZE_ROLE_H
#define SYMBOLIZE_ROLE_H

#include <stddef.h>
#include <stdint.h>

/* enum func_role (symbolize.h) by linker name, and by the first bytes of its code. */
uint8_t role_of_name(const char *name);
uint8_t role_of_code(const uint8_t *code, size_t bytes);

#endif
