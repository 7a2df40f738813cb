/* See joiner.h.
 *
 * Frames that nobody has seen are levels of B like others, known by what is usual:
 *
 *     A         B, as it was before       without precedent
 *     main      main   goes on            main   goes on
 *     f         f      goes on            f      hardly lasts as long as the gap:
 *     g         h   ┐  called in the      f         another, of the same function
 *               k   ┘  gap, expected
 *               L1     seen to return     L1
 */
#include "decode/joiner.h"

#include "decode/call_store.h"

enum {
	RETURNS_STRONG = 6, /* so many that agree need no precedent */
	EXPECTED_MAX = 256, /* frames that a join may expect */
	PATH_NS_MAX = 1000, /* in more time too many ways are possible */
};

static const double ALIKE_MIN = 0.1;      /* less says nothing against return addresses */
static const double SURE_SHARE = 0.75;    /* less is ambiguous */
static const double SURVIVAL_SHARE = 0.6; /* so likely to last, a frame goes on */

static void joiner_name(struct call *passed, node_id node, bool sure)
{
	passed->what = node;
	passed->site = 0;
	passed->flags &= (uint16_t)~CALL_HIDDEN;
	passed->flags |= sure ? 0 : CALL_AMBIGUOUS;
}

void joiner_name_passed(struct joiner *j, const struct segment *seg, bool sure)
{
	struct call *calls = j->thread->calls.items;
	const uint32_t *roots = j->thread->roots.items;
	uint32_t inner = segment_first_row(j->thread, seg);

	for (uint32_t i = seg->first_root; i < seg->end_root; inner = roots[i++]) {
		struct call *c = &calls[roots[i]];
		bool last = i + 1 < seg->end_root && !call_is_unknown(&calls[roots[i + 1]]);
		bool only;

		if (inner == CALL_NONE || !call_is_unknown(c) || c->site != CALL_NONE)
			continue;
		node_id node = callers_expected(&j->callers, joiner_func(j, inner),
						last ? joiner_func(j, roots[i + 1]) : 0, &only);
		if (node && (only || !sure))
			joiner_name(c, node, only);
	}
}

void joiner_name_like(struct joiner *j, long i, long at)
{
	uint32_t row = j->known.levels.items[i - 1].row;
	uint32_t inner = i > 1 ? j->known.levels.items[i - 2].func : j->known.first_func;
	const struct chain_frame *x = &j->known.chain.items[at];

	if (x->func && callers_has(&j->callers, inner, x->func))
		joiner_name(&j->thread->calls.items[row], j->thread->calls.items[x->row].what,
			    false);
}

/* The depth that most of what is recalled says, of those that return addresses and the code
 * allow. */
static double joiner_recall_depth(struct joiner *j, long *depth)
{
	struct recalled *r = &j->recalled;
	double best = 0;

	for (size_t i = 0; i < r->count;) {
		const struct recall_vote *vote = &r->votes[i];

		if (aligner_allows(&j->known, vote->depth) &&
		    (vote->open || goes_on_can(&j->known, vote->depth, vote->kept)))
			i++;
		else
			r->votes[i] = r->votes[--r->count];
	}
	for (size_t i = 0; i < r->count; i++) {
		double share = recalled_depth(r, r->votes[i].depth);

		if (share > best) {
			best = share;
			*depth = r->votes[i].depth;
		}
	}
	return best;
}

/* Is any situation that says this depth much like this one? */
static bool joiner_was_alike(const struct joiner *j, long depth)
{
	for (size_t i = 0; i < j->recalled.count; i++)
		if (j->recalled.votes[i].depth == depth && j->recalled.votes[i].likest >= ALIKE_MIN)
			return true;
	return false;
}

/* A frame beneath all that is known of segment s, expected there as it was before. */
static bool joiner_expect(struct joiner *j, size_t s, const struct call *like, bool sure)
{
	struct thread *t = j->thread;
	uint32_t index = (uint32_t)t->calls.count;
	const struct segment *seg = &t->segments.items[s];
	struct level level = {.row = index, .func = j->known.g.hot[like->what].func};
	struct call row = {.start_ns = seg->start_ns,
			   .end_ns = joiner_base(j, s, index),
			   .what = like->what,
			   .site = like->site,
			   .parent = CALL_NONE,
			   .flags = CALL_ROOT | CALL_START_INFERRED | CALL_END_INFERRED |
				    (sure ? 0 : CALL_AMBIGUOUS),
			   .kind = CALL_FRAME,
			   .expected = true};
	struct root_home home = {(uint32_t)s, j->found++};

	return index < CALL_NONE - 1 && calls_add(j->trace, t, row) && vec_push(&t->roots, index) &&
	       vec_push(&j->home, home) && vec_push(&j->beneath[s].rows, index) &&
	       vec_push(&j->known.levels, level);
}

/* The frames that were called in gaps like this between those of A that go on and all that is
 * known of B. */
static bool joiner_expect_called(struct joiner *j, size_t s, long depth)
{
	const struct recalled *r = &j->recalled;
	const struct recall_vote *vote = NULL;
	long top = (long)j->known.chain.count - 1, kept = top;
	bool ok = true;

	for (size_t i = 0; i < r->count; i++)
		if (r->votes[i].depth == depth && (!vote || r->votes[i].weight > vote->weight))
			vote = &r->votes[i];
	if (recalled_keeps(r, depth, 0) < 0)
		kept = vote->kept;
	else
		while (kept >= 0 && recalled_keeps(r, depth, kept) < RECALL_KEEPS)
			kept--;
	if (kept < 0 || depth - (long)j->known.levels.count - kept > EXPECTED_MAX)
		return true;
	for (long i = (long)j->known.levels.count + 1; ok && depth - i > kept; i++) {
		uint32_t row = depth - i > vote->kept ? recall_level(&j->recall, vote, i)
						      : j->known.chain.items[top - (depth - i)].row;

		if (row == CALL_NONE || j->thread->calls.items[row].kind != CALL_FRAME)
			break;
		ok = joiner_expect(j, s, &j->thread->calls.items[row], false);
	}
	return ok;
}

bool joiner_recall(struct joiner *j, size_t s, enum effort effort, struct alignment *a)
{
	const struct segment *seg = &j->thread->segments.items[s];
	const struct join *join = &j->thread->joins.items[seg->join];
	struct recalled *r = &j->recalled;
	long depth = 0;

	r->count = 0;
	if (a->evidence == JOIN_PATH || join->unwound)
		return true;
	recall_find(&j->recall, &j->known, join, seg, segment_first_row(j->thread, seg), r);
	bool same_way = recalled_keeps(r, DEPTH_ANY, 0) >= 0;
	if (same_way)
		recalled_drop_open(r);
	else if (effort != EFFORT_ANY)
		return true;
	double share = joiner_recall_depth(j, &depth);
	if (share < RECALL_MOST || (a->evidence == JOIN_RETURNS && a->agreeing >= RETURNS_STRONG))
		return true;
	if (depth != a->depth && a->evidence == JOIN_RETURNS && !joiner_was_alike(j, depth))
		return true;
	if (effort == EFFORT_CERTAIN) {
		if (depth != a->depth)
			a->candidates = 2;
		return true;
	}
	if (depth != a->depth || a->evidence != JOIN_RETURNS) {
		a->evidence = JOIN_PRECEDENT;
		a->depth = depth;
		a->agreeing = 0;
	}
	a->candidates = share < SURE_SHARE ? 2 : 1;
	a->innermost = aligner_innermost(&j->known, depth);
	return joiner_expect_called(j, s, depth);
}

bool joiner_search(struct joiner *j, size_t s, struct alignment *a)
{
	const struct join *join = &j->thread->joins.items[j->thread->segments.items[s].join];
	const struct path_frame *frames;
	struct path path;
	bool ok = true;

	if (join->resumed_ns - join->lost_ns > PATH_NS_MAX)
		return true;
	if (!paths_find(&j->paths, &j->known, &path))
		return false;
	frames = j->paths.frames.items;
	if (path.kept < 0 || frames[path.frame].depth - path.kept > EXPECTED_MAX ||
	    !aligner_sees(&j->known, frames[path.frame].depth))
		return true;
	a->evidence = JOIN_PATH;
	a->depth = frames[path.frame].depth;
	a->innermost = a->depth - path.kept;
	a->candidates = path.only ? 1 : 2;
	uint32_t frame = path.frame;
	for (long i = 0; ok && a->depth - i > path.kept; i++, frame = frames[frame].outer) {
		struct call like = {.what = frames[frame].entry, .site = frames[frame].site};

		if (i > (long)j->known.levels.count)
			ok = joiner_expect(j, s, &like, path.only);
	}
	return ok;
}

bool joiner_expect_same(struct joiner *j, size_t s, const struct alignment *a)
{
	const struct join *join = &j->thread->joins.items[j->thread->segments.items[s].join];
	long top = (long)j->known.chain.count - 1, depth = j->known.cut;
	long open = a->depth - (long)j->known.levels.count;
	uint64_t gap = join->resumed_ns - join->lost_ns;
	bool ok = true;

	for (; depth < open && depth <= top; depth++) {
		const struct chain_frame *x = &j->known.chain.items[top - depth];
		const struct call *c = &j->thread->calls.items[x->row];
		uint64_t age = join->lost_ns > c->start_ns ? join->lost_ns - c->start_ns : 0;

		if (c->kind == CALL_FRAME &&
		    lifetimes_survives(&j->lifetimes, x->func, age, gap) < SURVIVAL_SHARE)
			break;
	}
	if (open > top + 1)
		open = top + 1;
	if (open - depth > EXPECTED_MAX)
		return true;
	for (long i = open; ok && i > depth; i--) {
		uint32_t row = j->known.chain.items[top - (i - 1)].row;

		if (j->thread->calls.items[row].kind != CALL_FRAME)
			break;
		ok = joiner_expect(j, s, &j->thread->calls.items[row], false);
	}
	return ok;
}
