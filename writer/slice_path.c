/* See slice_path.h. */
#include "writer/slice_path.h"

#include "writer/call_order.h"

void path_start(struct slice_path *p, const struct trace *trace)
{
	uint64_t start_ns = trace->start_ns;

	p->floor_ns = start_ns;
	p->depth = 0;
	p->open[0] = (struct open_slice){
		.end_ns = start_ns > UINT64_MAX - INT64_MAX ? UINT64_MAX : start_ns + INT64_MAX,
		.call = CALL_NONE,
		.flags = OPEN_ROOT,
	};
}

/* Is a slice over when the call comes, whose parent is not on the path? The parent was not
 * drawn: it is too short, or too deep. When it was its turn all of the path contained it, which
 * still does; behind it only brackets of losses may have come. At one time order must tell:
 * calls are drawn in the order of their indices, but for roots, which begin a segment. If the
 * parent is over (no trace should be so), the times decide, too. */
static bool slice_is_over(const struct open_slice *slice, const struct call *call, uint32_t parent,
			  bool parent_is_root)
{
	if (slice->end_ns != call->start_ns)
		return slice->end_ns < call->start_ns;
	return !(slice->flags & OPEN_ROOT) && (parent_is_root || slice->call > parent);
}

uint32_t path_depth_around(const struct slice_path *p, const struct thread *t,
			   const struct call *call)
{
	const struct open_slice *open = p->open;
	uint32_t parent = call_drawn(t, call->parent), at = p->depth;

	if (parent == CALL_NONE)
		return 0;
	bool is_root = t->calls.items[parent].flags & CALL_ROOT;
	while (at > 0 && open[at].call != parent &&
	       (is_root || open[at].flags & OPEN_ROOT || open[at].call > parent))
		at--;
	if (at > 0 && open[at].call == parent)
		return at;
	at = p->depth;
	while (at > 0 && slice_is_over(&open[at], call, parent, is_root))
		at--;
	return at;
}

bool path_equal(const struct slice_path *a, const struct slice_path *b)
{
	if (a->depth != b->depth || a->floor_ns != b->floor_ns)
		return false;
	for (uint32_t i = 1; i <= a->depth; i++)
		if (a->open[i].end_ns != b->open[i].end_ns || a->open[i].call != b->open[i].call ||
		    a->open[i].flags != b->open[i].flags)
			return false;
	return true;
}
