/* See callers.h. */
#include "decode/callers.h"

enum {
	CALLS_MAX = 1 << 20, /* looked at, spread over the trace */
	CALLERS_MAX = 64,    /* of a function: those found first */
};

static bool callers_add(struct callers *c, uint32_t func, node_id site, node_id entry)
{
	uint64_t key = (uint64_t)func << 32 | site;
	uint32_t at = map64_get(&c->index, key), first = map64_get(&c->first, func);

	if (at != MAP64_NONE) {
		struct caller *same = &c->items.items[at];

		same->count++;
		same->entry = same->entry ? same->entry : entry;
		return true;
	}
	uint32_t first_callee = map64_get(&c->sites, site);
	struct caller caller = {.site = site,
				.count = 1,
				.next = first == MAP64_NONE ? CALLER_NONE : first,
				.entry = entry,
				.next_callee =
					first_callee == MAP64_NONE ? CALLER_NONE : first_callee};
	at = (uint32_t)c->items.count;
	return vec_push(&c->items, caller) && map64_set(&c->index, key, at) &&
	       map64_set(&c->first, func, at) && map64_set(&c->sites, site, at);
}

bool callers_of_trace(struct callers *c, const struct trace *trace, struct graph_tables g)
{
	size_t calls = 0;

	c->g = g;
	for (size_t i = 0; i < trace->threads.count; i++)
		calls += trace->threads.items[i].calls.count;
	size_t step = calls / CALLS_MAX + 1;
	for (size_t i = 0; i < trace->threads.count; i++) {
		const struct thread *t = &trace->threads.items[i];

		for (size_t k = 0; k < t->calls.count; k += step) {
			const struct call *call = &t->calls.items[k];
			bool plain = call->kind == CALL_FRAME && call->what && call->site &&
				     !(call->flags & (CALL_HIDDEN | CALL_SIGNAL | CALL_INTERRUPT));

			if (!plain)
				continue;
			const struct node *hot = &c->g.hot[call->what];
			bool entered =
				hot->flags & NODE_INTO_FUNCTION &&
				!(call->flags & (CALL_ROOT | CALL_START_INFERRED | CALL_TAIL));
			if (!callers_add(c, hot->func, call->site, entered ? call->what : 0))
				return false;
		}
	}
	return true;
}

void callers_done(struct callers *c)
{
	map64_done(&c->first);
	map64_done(&c->index);
	map64_done(&c->sites);
	vec_done(&c->items);
}

static uint32_t callers_first(const struct callers *c, uint32_t func)
{
	uint32_t at = func ? map64_get(&c->first, func) : MAP64_NONE;

	return at == MAP64_NONE ? CALLER_NONE : at;
}

bool callers_has(const struct callers *c, uint32_t func, uint32_t caller)
{
	unsigned looked = 0;

	for (uint32_t i = callers_first(c, func); i != CALLER_NONE && looked++ < CALLERS_MAX;
	     i = c->items.items[i].next)
		if (c->g.hot[c->items.items[i].site].func == caller)
			return true;
	return false;
}

node_id callers_expected(const struct callers *c, uint32_t func, uint32_t outer, bool *sure)
{
	const struct caller *best = NULL;
	unsigned looked = 0;

	*sure = true;
	for (uint32_t i = callers_first(c, func); i != CALLER_NONE && looked++ < CALLERS_MAX;
	     i = c->items.items[i].next) {
		const struct caller *caller = &c->items.items[i];
		uint32_t by = c->g.hot[caller->site].func;

		if (by == 0 || (outer && !callers_has(c, by, outer)))
			continue;
		*sure = *sure && (!best || c->g.hot[best->site].func == by);
		if (!best || caller->count > best->count)
			best = caller;
	}
	return best ? best->site : 0;
}

size_t callers_callees(const struct callers *c, node_id site, node_id *entries, size_t max)
{
	uint32_t i = map64_get(&c->sites, site);
	size_t count = 0;

	for (unsigned looked = 0; i != CALLER_NONE && looked < CALLERS_MAX && count < max;
	     looked++) {
		if (c->items.items[i].entry)
			entries[count++] = c->items.items[i].entry;
		i = c->items.items[i].next_callee;
	}
	return count;
}
