/* See poke.h. Most regions are one place of two or five bytes, poked to and fro; a kprobe and
 * what it is optimised to are a byte and the five around it. */
#include "decode/poke.h"

#include <stdlib.h>

/* Pokes of a region that are looked at until one has the byte. */
enum { POKE_LOOKS_MAX = 4096 };

static uint64_t poke_end(const struct text_poke *p)
{
	uint64_t length = p->old_count > p->count ? p->old_count : p->count;

	return length > UINT64_MAX - p->ip ? UINT64_MAX : p->ip + length;
}

static int compare_place(const void *left, const void *right)
{
	const struct text_poke *a = *(const struct text_poke *const *)left;
	const struct text_poke *b = *(const struct text_poke *const *)right;

	if (a->ip != b->ip)
		return a->ip < b->ip ? -1 : 1;
	return a < b ? -1 : a > b;
}

static int compare_time(const void *left, const void *right)
{
	const struct text_poke *a = *(const struct text_poke *const *)left;
	const struct text_poke *b = *(const struct text_poke *const *)right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a < b ? -1 : a > b; /* as recorded */
}

static bool find_regions(struct pokes *p, size_t count)
{
	for (size_t first = 0, i = 0; first < count; first = i) {
		struct poke_region r = {.start = p->order[first]->ip,
					.end = poke_end(p->order[first]),
					.pokes = p->order + first};

		for (i = first + 1; i < count && p->order[i]->ip < r.end; i++)
			if (poke_end(p->order[i]) > r.end)
				r.end = poke_end(p->order[i]);
		r.count = i - first;
		qsort(r.pokes, r.count, sizeof *r.pokes, compare_time);
		if (!vec_push(&p->regions, r))
			return false;
	}
	return true;
}

bool pokes_init(struct pokes *p, const struct sideband *sideband)
{
	size_t count = sideband->text_pokes.count;

	*p = (struct pokes){0};
	if (!count)
		return true;
	p->order = malloc(count * sizeof *p->order);
	if (!p->order)
		return false;
	for (size_t i = 0; i < count; i++)
		p->order[i] = &sideband->text_pokes.items[i];
	qsort(p->order, count, sizeof *p->order, compare_place);
	return find_regions(p, count);
}

void pokes_done(struct pokes *p)
{
	free(p->order);
	vec_done(&p->regions);
}

/* The first region that ends behind ip. */
static size_t region_at(const struct pokes *p, uint64_t ip)
{
	size_t low = 0, high = p->regions.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->regions.items[middle].end <= ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Does this poke tell the byte at ip? Where it begins further on, what tells it ends there. */
static bool tells(const struct text_poke *poke, uint64_t ip, struct poked *result)
{
	if (poke->ip > ip) {
		if (poke->ip - ip < result->count)
			result->count = poke->ip - ip;
		return false;
	}
	return ip < poke_end(poke);
}

/* Of the bytes of a poke that tells: those from ip on, or none on this side of it. */
static void take(struct poked *result, const struct text_poke *poke, const uint8_t *bytes,
		 uint32_t count, uint64_t ip)
{
	uint64_t skip = ip - poke->ip;
	uint64_t left = skip < count ? count - skip : poke_end(poke) - ip;

	if (skip < count)
		result->bytes = bytes + skip;
	if (left < result->count)
		result->count = left;
}

struct poked pokes_at(const struct pokes *p, uint64_t ip, uint64_t time_ns)
{
	struct poked result = {.count = UINT64_MAX - ip, .until_ns = TIME_NONE};
	size_t at = region_at(p, ip), done = 0, looks = 0;

	if (at == p->regions.count)
		return result;
	const struct poke_region *r = &p->regions.items[at];
	if (ip < r->start) {
		result.count = r->start - ip;
		return result;
	}
	result.is_poked = true;
	result.count = r->end - ip;
	for (size_t end = r->count; done < end;) {
		size_t middle = done + (end - done) / 2;

		if (r->pokes[middle]->time_ns <= time_ns)
			done = middle + 1;
		else
			end = middle;
	}
	if (done > 0)
		result.from_ns = r->pokes[done - 1]->time_ns;
	if (done < r->count)
		result.until_ns = r->pokes[done]->time_ns;
	for (size_t i = done; i-- > 0 && looks < POKE_LOOKS_MAX; looks++) {
		if (tells(r->pokes[i], ip, &result)) {
			take(&result, r->pokes[i], r->pokes[i]->bytes, r->pokes[i]->count, ip);
			return result;
		}
	}
	for (size_t i = done; i < r->count && looks < POKE_LOOKS_MAX; i++, looks++) {
		if (tells(r->pokes[i], ip, &result)) {
			take(&result, r->pokes[i], r->pokes[i]->old_bytes, r->pokes[i]->old_count,
			     ip);
			return result;
		}
	}
	return result;
}
