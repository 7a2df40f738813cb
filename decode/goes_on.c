/* See goes_on.h. */
#include "decode/goes_on.h"

#include <limits.h>

const struct goes_on goes_on_anything = {.low = -1, .high = LONG_MAX, .alike = LONG_MAX};

enum { FRAMES_MAX = 64 }; /* looked at for a depth, from the innermost out; of others no claim */

/* i = 0: L0. */
static uint32_t level_func(const struct aligner *a, long i)
{
	return i == 0 ? a->first_func : a->levels.items[i - 1].func;
}

/* Where a function or a return address disagrees, all frames further in are others. */
static long innermost_alike(const struct aligner *a, long depth)
{
	long top = (long)a->chain.count - 1, c = depth - (long)a->levels.count;

	for (c = c > 0 ? c : 0; c <= top && c <= depth; c++) {
		uint32_t func = a->chain.items[top - c].func, other = level_func(a, depth - c);

		if (func && other && func != other)
			return c - 1;
		if (c == top || c == depth)
			return c;
		node_id wait = a->chain.items[top - c - 1].wait;
		node_id landed = a->levels.items[depth - c - 1].landed;
		if (wait && landed && wait != landed)
			return c;
	}
	return c - 1;
}

/* Where A left the frame X(c); 0 = unknown. */
static node_id left_at(const struct aligner *a, long c)
{
	long top = (long)a->chain.count - 1;

	if (c < top)
		return a->chain.items[top - c - 1].wait;
	/* In code that is not drawn, such as a PLT stub, the trace stopped outside the frame. */
	bool inside = a->lost_at && a->g.hot[a->lost_at].func == a->chain.items[0].func;
	return inside ? a->lost_at : 0;
}

/* Can X(c) have come from where A left it to where B knows it? */
static bool can_come(struct aligner *a, long depth, long c)
{
	long top = (long)a->chain.count - 1, m = (long)a->levels.count, i = depth - c;
	node_id from = left_at(a, c), to = a->resumed_at;

	if (from == 0 || i > m + 1)
		return true;
	if (i == 0)
		return to == 0 || a->g.hot[to].func != a->first_func ||
		       reach_place(a->reach, from, to);
	node_id landed = i <= m ? a->levels.items[i - 1].landed : 0;
	if (i <= m && landed == 0)
		return true;
	/* What it had called may have jumped into another function, which took its place. */
	if (c < top && (landed == 0 || landed == from)) {
		node_id inner = left_at(a, c + 1);

		if (inner == 0 || reach_jump_out(a->reach, inner))
			return true;
	}
	return landed ? reach_call_before(a->reach, from, landed)
		      : reach_call_of(a->reach, from, level_func(a, m));
}

struct goes_on goes_on_at(struct aligner *a, long depth)
{
	long outermost = depth - (long)a->levels.count - 1;
	struct goes_on found = {.low = 0, .high = -1};

	if (depth < 0 || outermost >= (long)a->chain.count)
		return goes_on_anything;
	if (outermost < 0)
		outermost = 0;
	long c = found.alike = innermost_alike(a, depth);
	for (unsigned looked = 0; c >= outermost; c--, looked++) {
		if (looked < FRAMES_MAX && !can_come(a, depth, c))
			continue;
		if (found.high < 0)
			found.high = c;
		found.low = looked < FRAMES_MAX ? c : outermost;
		if (looked == FRAMES_MAX)
			break;
	}
	return found;
}

bool goes_on_can(struct aligner *a, long depth, long c)
{
	if (c < 0 || c < depth - (long)a->levels.count - 1 || c >= (long)a->chain.count)
		return true;
	return c <= innermost_alike(a, depth) && can_come(a, depth, c);
}
