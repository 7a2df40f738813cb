/* A limit for the memory of the process: what is private to it, so mapped files do not count. */
#ifndef COMMON_MEMORY_H
#define COMMON_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory_limit {
	uint64_t bytes;        /* 0 = none */
	uint64_t passed_bytes; /* what was in use when it was found to be passed; 0 = was not */
	uint64_t asked_ns;
};

uint64_t memory_used(void);
/* Cheap enough for any loop: looks every 10 ms at the most. Once true, always true. NULL = no
 * limit. One thread at a time. */
bool memory_limit_is_passed(struct memory_limit *limit);

#endif
