/* Growable arrays.
 *
 *     VEC(struct edge) edges = {0};
 *     if (!vec_push(&edges, e)) return ERR_NOMEM;
 *     edges.items[edges.count - 1]
 *     vec_done(&edges);
 *
 * A zeroed VEC is empty and valid. Growing moves the items. All macros evaluate
 * `v` more than once. They return false when memory is short and leave the
 * array as it was. */
#ifndef COMMON_VEC_H
#define COMMON_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VEC(type) \
	struct { \
		type *items; \
		size_t count, capacity; \
	}

/* Room for `need` items in all; the new items pointer, or NULL (old one still valid). */
void *vec_grown(void *items, size_t *capacity, size_t need, size_t item_bytes);

static inline bool vec_reserve_(void **items, size_t *capacity, size_t need, size_t item_bytes)
{
	if (need <= *capacity)
		return true;
	void *grown = vec_grown(*items, capacity, need, item_bytes);
	if (!grown)
		return false;
	*items = grown;
	return true;
}

#define vec_reserve(v, need) \
	vec_reserve_((void **)&(v)->items, &(v)->capacity, (need), sizeof *(v)->items)

#define vec_push(v, item) \
	(vec_reserve((v), (v)->count + 1) && ((v)->items[(v)->count++] = (item), true))

#define vec_last(v) (&(v)->items[(v)->count - 1])

#define vec_done(v) \
	do { \
		free((v)->items); \
		(v)->items = NULL; \
		(v)->count = (v)->capacity = 0; \
	} while (0)

#endif
