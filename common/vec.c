/* See vec.h. Capacity grows by half: the waste stays under a third on large arrays. */
#include "common/vec.h"

#include <stdint.h>

void *vec_grown(void *items, size_t *capacity, size_t need, size_t item_bytes)
{
	size_t grown = *capacity + *capacity / 2 + 8;

	if (grown < need)
		grown = need;
	if (grown > SIZE_MAX / item_bytes)
		return NULL;
	void *p = realloc(items, grown * item_bytes);
	if (p)
		*capacity = grown;
	return p;
}
