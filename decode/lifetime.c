/* See lifetime.h.
 *
 * With S(x) = share of calls that last longer than x:
 *     one activation    S(age + gap + rest) / S(age)
 *     two               (1 - S(age + gap) / S(age)) * S(rest)     it ended, another began
 */
#include "decode/lifetime.h"

static unsigned lifetime_bin(uint64_t ns)
{
	unsigned bin = ns < 2 ? 0 : 63 - (unsigned)__builtin_clzll(ns);

	return bin < LIFETIME_BINS ? bin : LIFETIME_BINS - 1;
}

bool lifetimes_add(struct lifetimes *l, uint32_t func, uint64_t duration_ns)
{
	uint32_t at = map64_get(&l->by_func, func);

	if (at == MAP64_NONE) {
		at = (uint32_t)l->items.count;
		if (!vec_push(&l->items, (struct lifetime){0}) || !map64_set(&l->by_func, func, at))
			return false;
	}
	l->items.items[at].count++;
	l->items.items[at].bins[lifetime_bin(duration_ns)]++;
	return true;
}

bool lifetimes_of_trace(struct lifetimes *l, const struct trace *trace, struct graph_tables g)
{
	for (size_t i = 0; i < trace->threads.count; i++) {
		const struct thread *t = &trace->threads.items[i];

		for (size_t k = 0; k < t->calls.count; k++) {
			const struct call *c = &t->calls.items[k];

			if (c->kind != CALL_FRAME || c->end_ns == TIME_NONE ||
			    c->flags & (CALL_START_INFERRED | CALL_END_INFERRED | CALL_SWITCHED))
				continue;
			if (!lifetimes_add(l, g.hot[c->what].func, c->end_ns - c->start_ns))
				return false;
		}
	}
	return true;
}

/* Half a call is assumed to outlive everything seen: rare is not impossible. */
static double lifetime_survival(const struct lifetime *f, uint64_t ns)
{
	unsigned bin = lifetime_bin(ns);
	double longer = 0.5;

	for (unsigned b = bin + 1; b < LIFETIME_BINS; b++)
		longer += f->bins[b];
	double low = bin ? (double)((uint64_t)1 << bin) : 0;
	double high = (double)((uint64_t)2 << bin);
	double inside = ((double)ns - low) / (high - low);
	if (inside < 0)
		inside = 0;
	if (inside > 1)
		inside = 1;
	longer += f->bins[bin] * (1 - inside);
	return longer / (f->count + 0.5);
}

bool lifetimes_continues(const struct lifetimes *l, uint32_t func, uint64_t age_ns, uint64_t gap_ns,
			 uint64_t rest_ns)
{
	uint32_t at = map64_get(&l->by_func, func);

	if (at == MAP64_NONE)
		return true;
	const struct lifetime *f = &l->items.items[at];
	double s_age = lifetime_survival(f, age_ns);
	double one = lifetime_survival(f, age_ns + gap_ns + rest_ns) / s_age;
	double two =
		(1 - lifetime_survival(f, age_ns + gap_ns) / s_age) * lifetime_survival(f, rest_ns);
	return one >= two;
}

double lifetimes_survives(const struct lifetimes *l, uint32_t func, uint64_t age_ns,
			  uint64_t gap_ns)
{
	uint32_t at = map64_get(&l->by_func, func);

	if (at == MAP64_NONE)
		return 1;
	const struct lifetime *f = &l->items.items[at];
	return lifetime_survival(f, age_ns + gap_ns) / lifetime_survival(f, age_ns);
}

void lifetimes_done(struct lifetimes *l)
{
	map64_done(&l->by_func);
	vec_done(&l->items);
}
