/* See precedent.h. The calls are sorted by the node they wait at by counting. */
#include "decode/precedent.h"

#include <stdlib.h>
#include <string.h>

#include "decode/join.h"

enum {
	SAMPLES = 128,      /* calls looked at, spread over the thread */
	RECURSION_MAX = 16, /* of the calls that may be open at a time, so many are looked at */
};

/* Gaps that count as alike, in parts of the one asked for. */
static const double alike[] = {0.7, 0.85, 1, 1.2, 1.4};
enum { ALIKE_COUNT = sizeof alike / sizeof alike[0] };

static bool call_is_whole(const struct call *c)
{
	return c->kind == CALL_FRAME && c->site && c->parent != CALL_NONE &&
	       c->end_ns != TIME_NONE &&
	       !(c->flags & (CALL_ROOT | CALL_HIDDEN | CALL_START_INFERRED | CALL_END_INFERRED |
			     CALL_SWITCHED));
}

bool precedents_init(struct precedents *p, struct trace *trace, const struct thread *thread,
		     struct graph *graph)
{
	struct graph_tables g = graph_tables(graph);
	size_t count = thread->calls.count, whole = 0;
	struct spill waits_store;
	bool ok = spill_new(trace, count * sizeof(node_id), &waits_store);
	node_id *waits = waits_store.items;

	*p = (struct precedents){.thread = thread};
	for (size_t i = 0; ok && i < count; i++) {
		const struct call *c = &thread->calls.items[i];

		waits[i] = call_is_whole(c) ? join_waits_at(graph, g, c) : 0;
		whole += waits[i] != 0;
	}
	p->node_count = graph_node_count(graph); /* asking has discovered nodes */
	p->first = calloc((size_t)p->node_count + 2, sizeof *p->first);
	ok = ok && p->first && spill_new(trace, whole * sizeof *p->calls, &p->calls_store);
	if (!ok) {
		spill_done(&waits_store);
		precedents_done(p);
		return false;
	}
	p->calls = p->calls_store.items;
	for (size_t i = 0; i < count; i++)
		if (waits[i])
			p->first[waits[i] + 1]++;
	for (uint32_t n = 0; n <= p->node_count; n++)
		p->first[n + 1] += p->first[n];
	/* first[n] moves to the end of n's calls, which is where n + 1 begins. */
	for (size_t i = 0; i < count; i++)
		if (waits[i])
			p->calls[p->first[waits[i]]++] = (uint32_t)i;
	memmove(p->first + 1, p->first, ((size_t)p->node_count + 1) * sizeof *p->first);
	p->first[0] = 0;
	spill_done(&waits_store);
	return true;
}

void precedents_done(struct precedents *p)
{
	free(p->first);
	spill_done(&p->calls_store);
	*p = (struct precedents){0};
}

uint32_t precedents_caller(const struct precedents *p, uint32_t row)
{
	const struct call *calls = p->thread->calls.items;

	do {
		row = thread_drawn(p->thread, calls[row].parent);
	} while (row != CALL_NONE && calls[row].kind == CALL_INLINED);
	return row;
}

static bool is_alike(uint64_t ns, uint64_t to_ns, bool or_longer)
{
	return to_ns / 2 <= ns && (or_longer || ns / 2 <= to_ns);
}

/* Is there a call at a time that waits at a node? *one = of frame `caller`; else it is of another
 * that the same frame has called. */
static bool precedents_find(const struct precedents *p, const struct precedent_case *c,
			    uint64_t time_ns, uint32_t caller, bool *one)
{
	const struct call *calls = p->thread->calls.items;
	uint32_t low = p->first[c->after], high = p->first[c->after + 1], begin = low;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (calls[p->calls[mid]].start_ns <= time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	for (uint32_t i = low; i-- > begin && low - i <= RECURSION_MAX;) {
		uint32_t row = p->calls[i], of = CALL_NONE;

		if (calls[row].end_ns > time_ns)
			of = precedents_caller(p, row);
		*one = of == caller;
		if (of != CALL_NONE && call_is_whole(&calls[of]) &&
		    (*one || precedents_caller(p, of) == precedents_caller(p, caller)) &&
		    is_alike(calls[of].end_ns - time_ns, c->rest_ns, c->longer))
			return true;
	}
	return false;
}

/* For how long the call was on while its caller was as old as it should be; the middle of it. */
static uint64_t precedents_moment(const struct call *call, const struct call *caller,
				  const struct precedent_case *c, uint64_t *time_ns)
{
	uint64_t start = caller->start_ns + c->age_ns / 2;
	uint64_t end = c->older ? caller->end_ns : caller->start_ns + 2 * c->age_ns + 1;

	if (start < call->start_ns)
		start = call->start_ns;
	if (end > call->end_ns)
		end = call->end_ns;
	if (start >= end)
		return 0;
	*time_ns = start + (end - start) / 2;
	return end - start;
}

struct precedent precedents_count(const struct precedents *p, const struct precedent_case *c)
{
	const struct call *calls = p->thread->calls.items;
	struct precedent found = {0};

	if (c->before == 0 || c->after == 0 || c->before > p->node_count ||
	    c->after > p->node_count)
		return found;
	uint32_t first = p->first[c->before], count = p->first[c->before + 1] - first;
	uint32_t samples = count < SAMPLES ? count : SAMPLES;
	for (uint32_t i = 0; i < samples; i++) {
		uint32_t row = p->calls[first + (uint32_t)((uint64_t)count * i / samples)];
		uint32_t caller = precedents_caller(p, row);
		uint64_t time_ns = 0, weight = 0;

		/* A loss strikes at any time: what lasts longer counts for more. */
		if (caller != CALL_NONE && call_is_whole(&calls[caller]))
			weight = precedents_moment(&calls[row], &calls[caller], c, &time_ns);
		for (int k = 0; weight && k < ALIKE_COUNT; k++) {
			double gap_ns = (double)c->gap_ns * alike[k];
			bool one;

			/* With a damaged clock a gap may be as long as a number can say. */
			if (gap_ns < 0x1p63 &&
			    precedents_find(p, c, time_ns + (uint64_t)gap_ns, caller, &one)) {
				found.count++;
				found.one_ns += one ? weight : 0;
				found.two_ns += one ? 0 : weight;
			}
		}
	}
	return found;
}
