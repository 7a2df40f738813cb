/* See recall.h. */
#include "decode/recall.h"

#include <stdlib.h>

#include "decode/join.h"

enum {
	SAMPLES_MAX = 192, /* situations looked at for a join, spread over the thread */
	SAMPLES_MIN = 8,
	SAMPLES_ALL = 1 << 16, /* for all joins of a thread, if there are more than that allows */
	DEPTH_MAX = 128,       /* frames of a stack looked at */
	COMPARED_MAX = 4,      /* of those, frames whose times are compared */
	OUTER_MAX = 4,         /* frames further out than what changed that should be alike */
	SMALL_NS = 16,         /* times are compared no closer */
};

static const double ELSEWHERE = 0.02;   /* for what the thread had not come to in the same way */
static const double OUTER_UNLIKE = 0.7; /* for each of OUTER_MAX that is not alike */

/* Gaps that count as alike, in parts of the one asked for. */
static const double alike[] = {0.8, 1, 1.25}, likely[] = {0.64, 1, 0.64};
enum { ALIKE_COUNT = sizeof alike / sizeof alike[0] };

struct past_frame {
	uint32_t row, func;
	node_id wait;
};

struct past_stack {
	struct past_frame frames[DEPTH_MAX]; /* innermost first */
	size_t count;
};

static const struct call *recall_calls(const struct recall *r)
{
	return r->precedents->thread->calls.items;
}

bool recall_init(struct recall *r, struct trace *trace, const struct precedents *precedents,
		 struct graph *graph)
{
	const struct thread *t = precedents->thread;

	*r = (struct recall){.precedents = precedents, .graph = graph, .g = graph_tables(graph)};
	size_t joins = t->joins.count ? t->joins.count : 1;
	r->samples = SAMPLES_ALL / joins > SAMPLES_MAX   ? SAMPLES_MAX
		     : SAMPLES_ALL / joins < SAMPLES_MIN ? SAMPLES_MIN
							 : (uint32_t)(SAMPLES_ALL / joins);
	bool ok = spill_new(trace, t->calls.count * sizeof *r->order, &r->order_store);
	r->order = r->order_store.items;
	for (size_t i = 0; ok && i < t->calls.count; i++)
		if (t->calls.items[i].kind == CALL_FRAME &&
		    !(t->calls.items[i].flags & (CALL_ROOT | CALL_HIDDEN)))
			r->order[r->count++] = (uint32_t)i;
	return ok;
}

void recall_done(struct recall *r)
{
	spill_done(&r->order_store);
	*r = (struct recall){0};
}

/* The physical frames from a row out that are open at a time. */
static void recall_stack(const struct recall *r, uint32_t row, uint64_t time_ns,
			 struct past_stack *stack)
{
	const struct call *calls = recall_calls(r);

	stack->count = 0;
	for (row = thread_drawn(r->precedents->thread, row);
	     row != CALL_NONE && stack->count < DEPTH_MAX;
	     row = thread_drawn(r->precedents->thread, calls[row].parent)) {
		if (calls[row].kind != CALL_FRAME ||
		    (stack->count == 0 && calls[row].end_ns <= time_ns))
			continue;
		stack->frames[stack->count++] =
			(struct past_frame){row, r->g.hot[calls[row].what].func,
					    join_waits_at(r->graph, r->g, &calls[row])};
	}
}

/* The stack at a time. */
static void recall_stack_at(const struct recall *r, uint64_t time_ns, struct past_stack *stack)
{
	const struct call *calls = recall_calls(r);
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (calls[r->order[mid]].start_ns <= time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	recall_stack(r, low ? r->order[low - 1] : CALL_NONE, time_ns, stack);
}

static double likeness(uint64_t a_ns, uint64_t b_ns)
{
	double a = (double)(a_ns + SMALL_NS), b = (double)(b_ns + SMALL_NS);

	return a < b ? a / b : b / a;
}

static bool times_known(const struct call *c, uint16_t inferred)
{
	return c->end_ns != TIME_NONE && !(c->flags & inferred);
}

/* How like the stack at a time is to what is known behind the loss; 0 = it is another. */
static double recall_like_after(const struct recall *r, const struct aligner *known,
				const struct join *join, uint32_t first,
				const struct past_stack *past, uint64_t time_ns)
{
	const struct call *calls = recall_calls(r);
	double like = 1;

	for (size_t i = 0; i < known->levels.count && i < past->count; i++) {
		const struct call *now = &calls[i ? known->levels.items[i - 1].row : first];
		const struct call *then = &calls[past->frames[i].row];
		node_id landed = known->levels.items[i].landed;

		if (landed && past->frames[i].wait && past->frames[i].wait != landed)
			return 0;
		if (i < COMPARED_MAX && times_known(now, CALL_END_INFERRED) &&
		    times_known(then, CALL_END_INFERRED))
			like *= likeness(now->end_ns - join->resumed_ns, then->end_ns - time_ns);
	}
	return like;
}

/* The same for the stack before the loss, of which `gone` frames had returned; *outer = frames
 * further out that are alike. */
static double recall_like_before(const struct recall *r, const struct aligner *known,
				 const struct join *join, const struct past_stack *past,
				 size_t gone, uint64_t time_ns)
{
	const struct call *calls = recall_calls(r);
	double like = 1;
	size_t i = 0;

	for (; i < past->count && i < known->chain.count && i <= gone + OUTER_MAX; i++) {
		const struct chain_frame *x = &known->chain.items[i];
		const struct call *now = &calls[x->row], *then = &calls[past->frames[i].row];

		if (x->func != past->frames[i].func) {
			if (i <= gone)
				return 0;
			break;
		}
		if (i <= gone && i < COMPARED_MAX && times_known(now, CALL_START_INFERRED) &&
		    times_known(then, CALL_START_INFERRED))
			like *= likeness(join->lost_ns - now->start_ns, time_ns - then->start_ns);
		if (x->wait && past->frames[i].wait && x->wait != past->frames[i].wait) {
			if (i < gone)
				return 0;
			break;
		}
	}
	if (i <= gone)
		return 0;
	for (; i <= gone + OUTER_MAX; i++)
		like *= OUTER_UNLIKE;
	return like;
}

static void recalled_add(struct recalled *found, const struct recall_vote *more)
{
	size_t i = 0;

	while (i < found->count &&
	       (found->votes[i].depth != more->depth || found->votes[i].kept != more->kept ||
		found->votes[i].open != more->open))
		i++;
	if (i == RECALL_VOTES_MAX)
		return;
	struct recall_vote *vote = &found->votes[i];
	if (i == found->count) {
		found->count++;
		*vote = *more;
	} else if (more->weight > vote->likest) {
		double weight = vote->weight + more->weight;

		*vote = *more;
		vote->weight = weight;
	} else {
		vote->weight += more->weight;
	}
}

void recalled_drop_open(struct recalled *found)
{
	size_t kept = 0;

	for (size_t i = 0; i < found->count; i++)
		if (!found->votes[i].open)
			found->votes[kept++] = found->votes[i];
	found->count = kept;
}

uint32_t recall_level(const struct recall *r, const struct recall_vote *vote, long i)
{
	struct past_stack stack;

	recall_stack(r, vote->row, vote->time_ns, &stack);
	return i >= 0 && i < (long)stack.count ? stack.frames[i].row : CALL_NONE;
}

static const struct segment *recall_segment(const struct recall *r, uint64_t time_ns)
{
	const struct thread *t = r->precedents->thread;
	size_t low = 0, high = t->segments.count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->segments.items[mid].start_ns <= time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &t->segments.items[low - 1] : NULL;
}

/* The innermost frame that is in both stacks: how many are further in. */
static bool recall_common(const struct recall *r, const struct past_stack *before,
			  const struct past_stack *after, size_t *gone, size_t *new)
{
	const struct call *calls = recall_calls(r);
	size_t first = 0; /* not called later than the one looked at */

	for (size_t i = 0; i < before->count; i++) {
		uint64_t start_ns = calls[before->frames[i].row].start_ns;

		while (first < after->count && calls[after->frames[first].row].start_ns > start_ns)
			first++;
		for (size_t k = first;
		     k < after->count && calls[after->frames[k].row].start_ns == start_ns; k++) {
			if (after->frames[k].row == before->frames[i].row) {
				*gone = i;
				*new = k;
				return true;
			}
		}
	}
	return false;
}

/* A situation beneath the same frames as A, from the root on, though the thread was elsewhere
 * before: tells the depth. */
static void recall_beneath(const struct aligner *known, const struct past_stack *after,
			   uint32_t row, uint64_t time_ns, double like, struct recalled *found)
{
	size_t n = known->chain.count, same = 0;

	while (same < n && same < after->count && after->count < DEPTH_MAX &&
	       known->chain.items[n - 1 - same].row == after->frames[after->count - 1 - same].row)
		same++;
	if (same == 0)
		return;
	struct recall_vote vote = {.depth = (long)after->count - 1,
				   .kept = (long)same - 1,
				   .open = true,
				   .weight = like * ELSEWHERE,
				   .likest = like * ELSEWHERE,
				   .row = row,
				   .time_ns = time_ns};
	found->beneath++;
	recalled_add(found, &vote);
}

/* A situation before, at a time when L0's like was row `like`. */
static void recall_situation(const struct recall *r, const struct aligner *known,
			     const struct join *join, uint32_t first, uint32_t like,
			     uint64_t time_ns, struct recalled *found)
{
	const struct segment *seg = recall_segment(r, time_ns);
	struct past_stack after, before;
	long top = (long)known->chain.count - 1;

	recall_stack(r, like, time_ns, &after);
	double like_after = recall_like_after(r, known, join, first, &after, time_ns);
	if (like_after == 0 || !seg)
		return;
	for (int k = 0; k < ALIKE_COUNT; k++) {
		double gap_ns = (double)(join->resumed_ns - join->lost_ns) * alike[k];
		size_t gone, new;

		/* With a damaged clock a gap may be as long as a number can say. */
		if (gap_ns >= 0x1p63 || time_ns - seg->start_ns < (uint64_t)gap_ns)
			continue;
		uint64_t gap = (uint64_t)gap_ns;
		recall_stack_at(r, time_ns - gap, &before);
		if (!recall_common(r, &before, &after, &gone, &new))
			continue;
		double like_before =
			recall_like_before(r, known, join, &before, gone, time_ns - gap);
		if (like_before == 0)
			continue;
		struct recall_vote vote = {.depth = top - (long)gone + (long)new,
					   .kept = top - (long)gone,
					   .row = like,
					   .time_ns = time_ns};
		vote.weight = vote.likest = like_before * like_after * likely[k];
		found->situations++;
		recalled_add(found, &vote);
	}
	recall_beneath(known, &after, like, time_ns, like_after, found);
}

/* The row of the first call that L0 makes; CALL_NONE = it makes none. */
static uint32_t recall_first_call(const struct recall *r, const struct segment *seg, uint32_t first)
{
	const struct call *calls = recall_calls(r);

	for (uint32_t row = first + 1; row < seg->end_call; row++) {
		uint32_t caller = calls[row].parent;

		if (calls[row].kind != CALL_FRAME || calls[row].flags & CALL_ROOT)
			continue;
		while (caller != CALL_NONE && calls[caller].kind == CALL_INLINED)
			caller = calls[caller].parent;
		return caller == first && calls[row].site ? row : CALL_NONE;
	}
	return CALL_NONE;
}

void recall_find(const struct recall *r, const struct aligner *known, const struct join *join,
		 const struct segment *seg, uint32_t first, struct recalled *found)
{
	const struct precedents *p = r->precedents;
	const struct call *calls = recall_calls(r);

	found->count = 0;
	found->situations = found->beneath = 0;
	if (first == CALL_NONE || calls[first].kind != CALL_FRAME || known->chain.count == 0)
		return;
	uint32_t call = recall_first_call(r, seg, first);
	node_id node = call != CALL_NONE     ? join_waits_at(r->graph, r->g, &calls[call])
		       : known->levels.count ? known->levels.items[0].landed
					     : 0;
	if (node == 0 || node > p->node_count)
		return;
	bool entered = !(calls[first].flags & CALL_START_INFERRED);
	uint32_t begin = p->first[node], count = p->first[node + 1] - begin;
	uint32_t samples = count < r->samples ? count : r->samples;
	for (uint32_t i = 0; i < samples; i++) {
		uint32_t row = p->calls[begin + (uint32_t)((uint64_t)count * i / samples)];
		uint32_t like = call == CALL_NONE ? row : precedents_caller(p, row);
		uint64_t ahead = call == CALL_NONE ? calls[first].end_ns - join->resumed_ns
						   : calls[call].start_ns - join->resumed_ns;
		uint64_t event = call == CALL_NONE ? calls[row].end_ns : calls[row].start_ns;

		if (like == CALL_NONE || calls[like].kind != CALL_FRAME ||
		    r->g.hot[calls[like].what].func != known->first_func)
			continue;
		uint64_t time_ns = event > ahead ? event - ahead : 0;
		if (entered || time_ns < calls[like].start_ns)
			time_ns = calls[like].start_ns;
		recall_situation(r, known, join, first, like, time_ns, found);
	}
}

double recalled_depth(const struct recalled *found, long depth)
{
	double all = 0, same = 0;

	for (size_t i = 0; i < found->count; i++) {
		all += found->votes[i].weight;
		same += found->votes[i].depth == depth ? found->votes[i].weight : 0;
	}
	return all > 0 ? same / all : 0;
}

double recalled_keeps(const struct recalled *found, long depth, long kept)
{
	double all = 0, same = 0;

	for (size_t i = 0; i < found->count; i++) {
		if (found->votes[i].open || (found->votes[i].depth != depth && depth != DEPTH_ANY))
			continue;
		all += found->votes[i].weight;
		same += found->votes[i].kept >= kept ? found->votes[i].weight : 0;
	}
	return all > 0 ? same / all : -1;
}
