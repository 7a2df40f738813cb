/* See align.h.
 *
 * All depths are tested in linear time: with P = A's return addresses, outermost first, and
 * Q = B's, a depth is a shift of one against the other, and the Z-function gives the length of
 * agreement of every shift at once. */
#include "decode/align.h"

#include <stdlib.h>
#include <string.h>

#include "decode/goes_on.h"

enum {
	STEP_NS_MAX = 10,       /* a branch takes no longer */
	COMPARED_MAX = 1 << 14, /* pairs of levels that a join may compare one by one */
	ASKED_MAX = 1 << 8      /* depths for which a join may ask the code */
};

/* z[i] = length of the longest common prefix of text and text[i..]. */
static bool aligner_z(struct aligner *a, size_t count)
{
	if (!vec_reserve(&a->z, count ? count : 1))
		return false;
	uint32_t *z = a->z.items;
	const node_id *text = a->text.items;
	size_t left = 0, right = 0;

	if (count)
		z[0] = (uint32_t)count;
	for (size_t i = 1; i < count; i++) {
		size_t n = i < right ? (z[i - left] < right - i ? z[i - left] : right - i) : 0;

		while (i + n < count && text[n] == text[i + n])
			n++;
		z[i] = (uint32_t)n;
		if (i + n > right) {
			left = i;
			right = i + n;
		}
	}
	return true;
}

/* Fills text with pattern, a separator, subject; z over it. */
static bool aligner_match(struct aligner *a, const node_id *pattern, size_t pattern_count,
			  const node_id *subject, size_t subject_count)
{
	size_t count = pattern_count + 1 + subject_count;

	if (!vec_reserve(&a->text, count))
		return false;
	if (pattern_count)
		memcpy(a->text.items, pattern, pattern_count * sizeof *pattern);
	a->text.items[pattern_count] = UINT32_MAX;
	if (subject_count)
		memcpy(a->text.items + pattern_count + 1, subject, subject_count * sizeof *subject);
	return aligner_z(a, count);
}

static bool aligner_not_by_code(struct aligner *a, long depth)
{
	if (a->asked == ASKED_MAX)
		return false;
	a->asked++;
	struct goes_on can = goes_on_at(a, depth);
	return can.high < can.low;
}

/* One depth as a candidate: of `possible` pairs in the overlap the outermost `agree` do. */
static void alignment_offer(struct alignment *best, struct aligner *a, long depth, size_t agree,
			    size_t possible)
{
	long top = (long)a->chain.count - 1;
	bool partial = agree < possible;
	bool equal = best->agreeing == agree && best->partial == partial;

	if (agree == 0 || agree < best->agreeing ||
	    (agree == best->agreeing && partial && !best->partial))
		return;
	bool not_by_code = aligner_not_by_code(a, depth);
	if (equal && not_by_code && !best->not_by_code) {
		best->excluded++;
		return;
	}
	if (!equal)
		best->excluded = best->candidates = 0;
	else if (best->not_by_code && !not_by_code) {
		best->excluded = best->candidates;
		best->candidates = 0;
	}
	if (best->candidates++ > 0 && labs(top - depth) >= labs(top - best->depth))
		return;
	best->depth = depth;
	best->agreeing = (uint32_t)agree;
	best->partial = partial;
	best->not_by_code = not_by_code;
}

/* Tries every depth: the longest agreement from the root inward wins, then one that holds for
 * the whole overlap, then one that the code allows, then the depth nearest to that at the loss. p
 * and q are A's and B's keys, outermost first; with p[0] and q[0] side by side L0 is at depth
 * `level`. */
static bool aligner_match_all(struct aligner *a, const uint32_t *p, size_t n, const uint32_t *q,
			      size_t m, long level, struct alignment *best)
{
	bool ok = aligner_match(a, q, m, p, n);

	for (size_t h = a->cut; ok && h < n; h++) { /* q[0] at or inside p[0] */
		size_t possible = m < n - h ? m : n - h, agree = a->z.items[m + 1 + h];

		alignment_offer(best, a, level + (long)h, agree < possible ? agree : possible,
				possible);
	}
	if (a->cut)
		return ok;
	ok = ok && aligner_match(a, p, n, q, m);
	for (size_t h = 1; ok && h < m; h++) { /* h levels lie beneath all of A */
		size_t possible = n < m - h ? n : m - h, agree = a->z.items[n + 1 + h];

		alignment_offer(best, a, level - (long)h, agree < possible ? agree : possible,
				possible);
	}
	return ok;
}

enum pair { PAIR_UNKNOWN, PAIR_AGREES, PAIR_DISAGREES };

/* Can chain frame `at` be followed outwards by this level? */
static enum pair aligner_pair(struct aligner *a, size_t at, const struct level *l)
{
	node_id wait = a->chain.items[at].wait;
	uint32_t outer = at + 1 < a->chain.count ? a->chain.items[at + 1].func : 0;
	const struct node_cold *ret = &a->g.cold[wait], *pad = &a->g.cold[l->pad];
	uint64_t pad_vaddr = 0;

	if (l->landed)
		return wait == l->landed ? PAIR_AGREES : PAIR_DISAGREES;
	if (wait == 0 || l->pad == 0)
		return PAIR_UNKNOWN;
	if (outer && outer != l->func)
		return PAIR_DISAGREES;
	graph_lock(a->graph);
	bool known = symbolizer_landing_pad(graph_symbolizer(a->graph), ret->module, ret->vaddr,
					    &pad_vaddr);
	graph_unlock(a->graph);
	return !known ? PAIR_UNKNOWN : pad_vaddr == pad->vaddr ? PAIR_AGREES : PAIR_DISAGREES;
}

/* The same where some levels are not known by a return: each depth for itself, those near the
 * one at the loss first. n = waits of the chain that are known, `level` as above. */
static void aligner_match_each(struct aligner *a, size_t n, long level, struct alignment *best)
{
	long top = (long)a->chain.count - 1, m = (long)a->levels.count;
	long low = a->cut ? level + 1 : level - (m - 1), high = level + (long)n - 1;
	size_t compared = 0;

	for (long away = 0; compared<COMPARED_MAX; away = away> 0 ? -away : 1 - away) {
		long depth = top + away, h = depth - level, at = h > 0 ? h : 0;
		size_t agree = 0, agreeing = 0, possible = 0;

		if (top + labs(away) > high && top - labs(away) < low)
			break;
		if (depth < low || depth > high)
			continue;
		for (; at < (long)n && at - h < m && compared < COMPARED_MAX; at++, compared++) {
			enum pair pair = aligner_pair(a, (size_t)((long)n - 1 - at),
						      &a->levels.items[m - 1 - (at - h)]);

			possible += pair != PAIR_UNKNOWN;
			agree += pair == PAIR_AGREES;
			if (agree == possible)
				agreeing = agree;
		}
		alignment_offer(best, a, depth, agreeing, possible);
	}
}

bool aligner_allows(struct aligner *a, long depth)
{
	long top = (long)a->chain.count - 1, m = (long)a->levels.count;

	if (!aligner_sees(a, depth))
		return false;
	for (long i = m; i > 0; i--) {
		long k = depth - i + 1; /* the frame that returned into level i */
		enum pair pair =
			k < 0 || k > top || a->chain.items[top - k].wait == 0
				? PAIR_UNKNOWN
				: aligner_pair(a, (size_t)(top - k), &a->levels.items[i - 1]);

		if (pair != PAIR_UNKNOWN)
			return pair == PAIR_AGREES;
	}
	return true;
}

/* Keys for "nothing known": equal to no other. */
enum { KEY_UNKNOWN_A = -2, KEY_UNKNOWN_B = -3 };

static bool aligner_returns(struct aligner *a, struct alignment *best)
{
	/* The outermost frame waits at a node nobody knows, unless it was tail-called. */
	size_t n = a->chain.count, m = a->levels.count;
	if (n && a->chain.items[n - 1].wait == 0)
		n--;
	uint32_t *p = calloc(n + m + 1, sizeof *p);
	bool gaps = false;

	if (!p)
		return false;
	uint32_t *q = p + n;
	for (size_t i = 0; i < n; i++) {
		node_id wait = a->chain.items[n - 1 - i].wait;

		p[i] = wait ? wait : (uint32_t)KEY_UNKNOWN_A;
	}
	for (size_t i = 0; i < m; i++) {
		node_id landed = a->levels.items[m - 1 - i].landed;

		q[i] = landed ? landed : (uint32_t)KEY_UNKNOWN_B;
		gaps = gaps || landed == 0;
	}
	/* What level k waits for lies in level k - 1: that is where Lm is. */
	long level = (long)(a->chain.count - n) - 1 + (long)m;
	bool ok = true;
	if (gaps)
		aligner_match_each(a, n, level, best);
	else
		ok = aligner_match_all(a, p, n, q, m, level, best);
	free(p);
	if (best->agreeing)
		best->evidence = JOIN_RETURNS;
	return ok;
}

/* The same by functions, for a chain that left its outermost known frame by another call. */
static bool aligner_functions(struct aligner *a, struct alignment *best)
{
	size_t n = a->chain.count, m = a->levels.count + a->has_first;
	uint32_t *p = calloc(n + m + 1, sizeof *p);

	if (!p)
		return false;
	uint32_t *q = p + n;
	for (size_t i = 0; i < n; i++) {
		uint32_t func = a->chain.items[n - 1 - i].func;

		p[i] = func ? func : (uint32_t)KEY_UNKNOWN_A;
	}
	for (size_t i = 0; i < m; i++) {
		uint32_t func = i < a->levels.count ? a->levels.items[a->levels.count - 1 - i].func
						    : a->first_func;

		q[i] = func ? func : (uint32_t)KEY_UNKNOWN_B;
	}
	bool ok = aligner_match_all(a, p, n, q, m, (long)a->levels.count, best);
	free(p);
	if (best->agreeing)
		best->evidence = JOIN_FUNCTION;
	return ok;
}

/* How far in the levels can be those of A: where a return address in the overlap disagrees,
 * all further in are others. */
long aligner_innermost(const struct aligner *a, long depth)
{
	long top = (long)a->chain.count - 1, m = (long)a->levels.count;
	long level = depth < m ? depth : m;

	for (; level > 0 && depth - level + 1 <= top; level--) {
		node_id wait = a->chain.items[top - (depth - level + 1)].wait;
		node_id landed = a->levels.items[level - 1].landed;

		if (wait && landed && wait != landed)
			break;
	}
	return level;
}

/* Does the very next branch lead from where A stopped to where B starts, in no time, and does
 * nothing speak against the depth that this gives? */
static bool aligner_step(struct aligner *a, const struct join *join, struct alignment *best)
{
	long top = (long)a->chain.count - 1;
	node_id next = 0;

	if (!join->lost_at || !join->resumed_at || join->resumed_ns - join->lost_ns > STEP_NS_MAX)
		return false;
	switch (a->g.hot[join->lost_at].kind) {
	case NODE_CALL:
		best->depth = top + 1;
		next = graph_successor(a->graph, join->lost_at, 1);
		break;
	case NODE_CALL_INDIRECT:
		best->depth = top + 1;
		if (a->g.hot[join->resumed_at].flags & NODE_INTO_FUNCTION)
			next = join->resumed_at;
		break;
	case NODE_RETURN:
		best->depth = top - 1;
		next = a->chain.items[0].wait;
		break;
	case NODE_COND:
	case NODE_JUMP:
		best->depth = top;
		next = graph_successor(a->graph, join->lost_at, 1);
		break;
	default: break;
	}
	if (next == 0 || best->depth < 0 || !aligner_sees(a, best->depth) ||
	    a->g.cold[next].ip != a->g.cold[join->resumed_at].ip)
		return false;
	/* The frame called in between has no counterpart. */
	best->innermost = aligner_innermost(a, best->depth);
	if (best->innermost > (best->depth > top))
		return false;
	best->evidence = JOIN_PATH;
	best->candidates = 1;
	return true;
}

/* Could L0 be A's innermost frame, with the same functions beneath? */
static bool aligner_same_functions(const struct aligner *a)
{
	for (size_t i = 0; i < a->levels.count && i + 1 < a->chain.count; i++)
		if (a->levels.items[i].func && a->chain.items[i + 1].func &&
		    a->levels.items[i].func != a->chain.items[i + 1].func)
			return false;
	return true;
}

bool aligner_find(struct aligner *a, const struct join *join, struct alignment *best)
{
	*best = (struct alignment){.evidence = JOIN_NONE};
	a->asked = 0;
	if (a->chain.count == 0 || aligner_step(a, join, best))
		return true;
	best->depth = 0;
	if (!aligner_returns(a, best))
		return false;
	long top = (long)a->chain.count - 1;
	bool same_place = join->lost_at && join->resumed_at &&
			  a->g.cold[join->lost_at].ip == a->g.cold[join->resumed_at].ip;
	if (best->evidence == JOIN_NONE && same_place && aligner_same_functions(a)) {
		best->depth = top;
		best->evidence = JOIN_RESUME_POINT;
		best->candidates = 1;
	}
	if (best->evidence == JOIN_NONE && !aligner_functions(a, best))
		return false;
	best->innermost = aligner_innermost(a, best->depth);
	return true;
}

void aligner_done(struct aligner *a)
{
	vec_done(&a->chain);
	vec_done(&a->levels);
	vec_done(&a->text);
	vec_done(&a->z);
}
