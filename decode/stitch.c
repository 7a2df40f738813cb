/* See joiner.h. A level of B that goes on is hidden into the earlier row, which ends when it did;
 * one beneath all that A knows becomes a root of the segment in which A's outermost frame is. */
#include "decode/joiner.h"

#include <stdlib.h>

enum {
	INLINE_DEPTH_MAX = 64,
	PRECEDENTS_MIN = 4,  /* fewer prove nothing */
	PRECEDENTS_ODDS = 3, /* to draw two frames as one misleads more than the reverse */
};

/* Index in thread->roots, which is in the order of rows. */
static size_t joiner_root_index(const struct joiner *j, uint32_t row)
{
	size_t low = 0, high = j->thread->roots.count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (j->thread->roots.items[mid] < row)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

uint32_t joiner_home(const struct joiner *j, uint32_t row)
{
	const struct thread *t = j->thread;
	size_t low = 0, high = t->segments.count;

	if (t->calls.items[row].flags & CALL_ROOT)
		return j->home.items[joiner_root_index(j, row)].segment;
	while (high - low > 1) {
		size_t mid = (low + high) / 2;

		if (t->segments.items[mid].first_call <= row)
			low = mid;
		else
			high = mid;
	}
	return (uint32_t)low;
}

/* Does level i continue A's frame chain[at]? */
static bool joiner_continues(const struct joiner *j, long i, uint32_t l, long at,
			     const struct join *join)
{
	uint32_t x = j->known.chain.items[at].row;
	const struct call *lc = &j->thread->calls.items[l], *xc = &j->thread->calls.items[x];
	long k = (long)j->known.chain.count - 1 - at;

	if (lc->kind != xc->kind)
		return false;
	if (lc->kind == CALL_BRACKET)
		return true; /* missing code on both sides */
	uint32_t func = joiner_func(j, x);
	if (func != joiner_func(j, l) && !call_is_unknown(lc))
		return false;
	if (k > j->can.high)
		return false;
	if (k <= j->can.low)
		return true;
	uint64_t age = join->lost_ns > xc->start_ns ? join->lost_ns - xc->start_ns : 0;
	uint64_t gap = join->resumed_ns - join->lost_ns;
	uint64_t rest = lc->end_ns > join->resumed_ns ? lc->end_ns - join->resumed_ns : 0;
	if (lc->expected && lc->flags & CALL_END_INFERRED)
		rest = 0;
	bool sure = recalled_depth(&j->recalled, k + i) >= RECALL_MOST;
	double keeps = recalled_keeps(&j->recalled, sure ? k + i : DEPTH_ANY, k);
	if (keeps >= 0 && (keeps < RECALL_KEEPS || j->recalled.situations >= PRECEDENTS_MIN))
		return keeps >= RECALL_KEEPS;
	/* Both made calls: is it known what such calls, so far apart, mean? */
	if (i > 0 && at > 0) {
		struct precedent_case here = {
			.before = j->known.chain.items[at - 1].wait,
			.after = j->known.levels.items[i - 1].landed,
			.age_ns = age,
			.gap_ns = gap,
			.rest_ns = rest,
			.older = xc->flags & (CALL_ROOT | CALL_START_INFERRED),
			.longer = lc->flags & CALL_END_INFERRED || lc->end_ns == TIME_NONE};
		struct precedent seen = precedents_count(&j->precedents, &here);

		if (seen.count >= PRECEDENTS_MIN)
			return seen.one_ns >= PRECEDENTS_ODDS * seen.two_ns;
	}
	return lifetimes_continues(&j->lifetimes, func, age, gap, rest);
}

static void joiner_merge(struct joiner *j, uint32_t l, uint32_t x)
{
	struct call *lc = &j->thread->calls.items[l], *xc = &j->thread->calls.items[x];

	xc->end_ns = lc->end_ns;
	xc->flags &= (uint16_t)~CALL_END_INFERRED;
	xc->flags |= CALL_STITCHED | (lc->flags & (CALL_END_INFERRED | CALL_UNWOUND));
	lc->flags |= CALL_HIDDEN;
	j->thread->has_hidden = true;
	lc->site = x;
}

/* The inlined frames in which A's frame chain[at] made its call (or stood, the innermost) go
 * on in those that B opened when it landed in `l`. Returns the innermost row that goes on. */
static uint32_t joiner_merge_inlined(struct joiner *j, uint32_t l, long at)
{
	const struct call *calls = j->thread->calls.items;
	uint32_t x = j->known.chain.items[at].row, open[INLINE_DEPTH_MAX], landed = l + 1;
	uint32_t row =
		at > 0 ? joiner_row(j, calls[j->known.chain.items[at - 1].row].parent) : j->top;
	uint32_t kept = x;
	size_t depth = 0;

	for (; row != CALL_NONE && row != x && depth < INLINE_DEPTH_MAX;
	     row = joiner_row(j, calls[row].parent))
		open[depth++] = row;
	for (uint32_t outer = l; depth > 0 && landed < j->thread->calls.count; landed++) {
		const struct call *c = &calls[landed], *a = &calls[open[--depth]];

		if (c->kind != CALL_INLINED || c->parent != outer || c->what != a->what)
			break;
		outer = landed;
		kept = open[depth];
		joiner_merge(j, landed, kept);
	}
	return kept;
}

/* What level row `l` of segment s had called when it was found stands in the inlined frame
 * `inlined`. That may have been in a later segment. */
static void joiner_move_into_inlined(struct joiner *j, size_t s, uint32_t l, uint32_t inlined)
{
	struct thread *t = j->thread;
	struct call *calls = t->calls.items;
	uint32_t row = l;

	for (; s < t->segments.count && t->segments.items[s].first_call < l; s++) {
		const struct segment *seg = &t->segments.items[s];

		for (uint32_t i = seg->first_base; i < seg->end_base; i++)
			if (calls[t->bases.items[i]].parent == l)
				calls[t->bases.items[i]].parent = inlined;
		if (seg->bracket != CALL_NONE && calls[seg->bracket].parent == l)
			calls[seg->bracket].parent = inlined;
		row = seg->first_call;
	}
	for (; row < l; row++)
		if (calls[row].parent == l)
			calls[row].parent = inlined;
}

/* Level row `l` is older than all of A: a root of the segment where A's outermost frame is. */
static bool joiner_hoist(struct joiner *j, uint32_t l, uint32_t home)
{
	struct thread *t = j->thread;

	t->calls.items[l].start_ns = t->segments.items[home].start_ns;
	j->home.items[joiner_root_index(j, l)] = (struct root_home){home, j->found++};
	return vec_push(&j->beneath[home].rows, l);
}

uint64_t joiner_base(struct joiner *j, size_t s, uint32_t parent)
{
	const struct segment *seg = &j->thread->segments.items[s];
	const struct row_list *beneath = &j->beneath[s];
	size_t bases = seg->end_base - seg->first_base;
	uint64_t end_ns = seg->end_ns;

	for (size_t i = 0; i < bases + beneath->rows.count; i++) {
		uint32_t row = i < bases ? j->thread->bases.items[seg->first_base + i]
					 : beneath->rows.items[i - bases];
		struct call *c = &j->thread->calls.items[row];

		if (c->parent != CALL_NONE || row == parent || c->flags & CALL_HIDDEN)
			continue;
		c->parent = parent;
		if (c->end_ns > end_ns)
			end_ns = c->end_ns;
	}
	return end_ns;
}

uint32_t joiner_outermost(const struct joiner *j, uint32_t row)
{
	for (uint32_t parent = row; parent != CALL_NONE;
	     parent = joiner_row(j, j->thread->calls.items[row].parent))
		row = parent;
	return row;
}

/* The earliest segment that an outermost row of segment s, or what goes on in it, belongs to: a
 * frame that is found beneath them all has been there since then. */
static uint32_t joiner_oldest_home(const struct joiner *j, uint32_t s)
{
	for (uint32_t home = s;; s = home) {
		const struct segment *seg = &j->thread->segments.items[s];
		uint32_t parent = CALL_NONE;

		for (uint32_t i = seg->first_base; i < seg->end_base; i++) {
			uint32_t row = joiner_row(j, j->thread->bases.items[i]);

			if (row == CALL_NONE || (parent != CALL_NONE &&
						 j->thread->calls.items[row].parent == parent))
				continue; /* beneath it is what is beneath the one before */
			parent = j->thread->calls.items[row].parent;
			uint32_t of_row = joiner_home(j, joiner_outermost(j, row));
			if (of_row < home)
				home = of_row;
		}
		if (home == s)
			return home;
	}
}

/* What the code allows at the depth that was taken (nothing is known if that is none), and what
 * else there is to say of it. */
static void joiner_explain(struct joiner *j, struct join *join, const struct alignment *a)
{
	long assumed = a->depth - (long)j->known.levels.count - 1;

	j->can = goes_on_at(&j->known, a->depth);
	if (j->can.high < j->can.low)
		j->can = goes_on_anything;
	assumed = assumed > 0 ? assumed : 0;
	join->proven = j->can.low > assumed ? (uint32_t)(j->can.low - assumed) : 0;
	join->returned = (uint32_t)(j->can.alike - j->can.high);
	join->excluded = a->excluded;
	if (a->evidence == JOIN_PRECEDENT)
		join->like = j->recalled.situations ? j->recalled.situations : j->recalled.beneath;
}

static int still_open_order(const void *a, const void *b)
{
	const struct still_open *x = a, *y = b;

	if (x->until_ns != y->until_ns)
		return x->until_ns > y->until_ns ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

void joiner_extend_open(struct joiner *j)
{
	struct call *calls = j->thread->calls.items;

	if (j->still_open.count)
		qsort(j->still_open.items, j->still_open.count, sizeof *j->still_open.items,
		      still_open_order);
	/* The latest first: where a row lasts as long, so do all further out. */
	for (size_t i = 0; i < j->still_open.count; i++) {
		const struct still_open *o = &j->still_open.items[i];

		for (uint32_t row = joiner_row(j, o->row); row != CALL_NONE;
		     row = joiner_row(j, calls[row].parent)) {
			if (calls[row].kind == CALL_INLINED)
				continue; /* joiner_extend_inlined */
			if (calls[row].end_ns >= o->until_ns)
				break;
			calls[row].end_ns = o->until_ns;
			calls[row].flags |= (uint16_t)(o->marks | CALL_END_INFERRED);
		}
	}
	j->still_open.count = 0;
}

bool joiner_apply(struct joiner *j, size_t s, const struct alignment *a)
{
	struct thread *t = j->thread;
	struct segment *seg = &t->segments.items[s];
	struct join *join = &t->joins.items[seg->join];
	long top = (long)j->known.chain.count - 1, outermost = (long)j->known.levels.count;
	uint32_t home = joiner_home(j, j->known.chain.items[top].row);
	uint32_t kept = CALL_NONE, outer = CALL_NONE;
	unsigned marks = CALL_STITCHED | (a->candidates > 1 ? CALL_AMBIGUOUS : 0);
	bool going_on = true, inlined = false, ok = true;

	joiner_explain(j, join, a);
	/* Frames further out than any level of B: nothing contradicts them, they stay open. */
	long open = a->depth - outermost < top + 1 ? a->depth - outermost : top + 1;
	if (open > 0)
		kept = j->known.chain.items[top - (open - 1)].row;
	uint64_t open_until_ns = joiner_base(j, s, kept);
	for (long k = 0; k < open; k++) {
		struct call *x = &t->calls.items[j->known.chain.items[top - k].row];

		x->end_ns = open_until_ns;
		x->flags |= (uint16_t)(marks | CALL_END_INFERRED);
		join->kept++;
	}
	if (j->known.cut)
		ok = vec_push(
			&j->still_open,
			((struct still_open){open_until_ns,
					     t->calls.items[j->known.chain.items[top].row].parent,
					     (uint16_t)marks}));
	if (a->depth < outermost) { /* L(K+1) and those beyond lie beneath A */
		uint32_t last = home;

		kept = j->known.levels.items[a->depth].row;
		home = joiner_oldest_home(j, home);
		for (uint32_t i = home; i <= last; i++)
			joiner_base(j, i, kept);
		for (long i = a->depth; ok && i < outermost; i++)
			ok = joiner_hoist(j, j->known.levels.items[i].row, home);
	}
	for (long i = a->depth < outermost ? a->depth : outermost; i >= 0; i--) {
		uint32_t l = i ? j->known.levels.items[i - 1].row : segment_first_row(t, seg);
		long k = a->depth - i;

		if (l == CALL_NONE)
			continue;
		going_on = going_on && k <= top && i >= a->innermost &&
			   joiner_continues(j, i, l, top - k, join);
		if (!going_on) {
			if (inlined)
				joiner_move_into_inlined(j, s, outer, kept);
			inlined = false;
			if (call_is_unknown(&t->calls.items[l]) && k <= top)
				joiner_name_like(j, i, top - k);
			join->inferred += i > 0 && !call_is_unknown(&t->calls.items[l]);
			continue;
		}
		uint32_t x = j->known.chain.items[top - k].row;

		joiner_merge(j, l, x);
		t->calls.items[x].flags |= (uint16_t)marks;
		kept = call_is_unknown(&t->calls.items[l]) ? x
							   : joiner_merge_inlined(j, l, top - k);
		outer = l;
		inlined = kept != x;
		join->kept++;
	}
	if (seg->bracket != CALL_NONE)
		t->calls.items[seg->bracket].parent = kept;
	j->kept = kept;
	if (join->waiting < j->known.chain.count) /* found by later returns */
		join->waiting = (uint32_t)j->known.chain.count;
	join->evidence = (uint8_t)a->evidence;
	join->agreeing = a->agreeing;
	join->candidates = a->candidates;
	join->ambiguous = a->candidates > 1;
	return ok;
}
