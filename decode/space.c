/* See space.h.
 *
 * "The same content" is: same module at the same distance from its file offset, or anonymous
 * on both sides. Only other content makes a version; what a new mapping adds beside the old
 * ones cannot change what an old ip means, so code found earlier in the space stays right.
 *
 * munmap() is not recorded: a mapping ends when another one takes its place. */
#include "decode/space.h"

#include <string.h>

static bool space_add(struct space_table *t, int32_t pid, uint64_t from_ns, space_id *id)
{
	struct sideband *s = t->sideband;
	struct space space = {.pid = pid, .from_ns = from_ns, .until_ns = TIME_NONE};

	if (s->spaces.count >= UINT32_MAX - 1 || !vec_push(&s->spaces, space))
		return false;
	id->v = (uint32_t)s->spaces.count - 1;
	return true;
}

static bool space_period_add(struct space_table *t, const struct space_process *p, uint64_t from_ns)
{
	struct space_period period = {.pid = p->pid, .from_ns = from_ns, .space = p->space};

	return vec_push(&t->sideband->space_periods, period);
}

bool space_table_init(struct space_table *t, struct sideband *sideband)
{
	space_id none, kernel;

	memset(t, 0, sizeof *t);
	t->sideband = sideband;
	return space_add(t, -1, 0, &none) && space_add(t, -1, 0, &kernel);
}

void space_table_done(struct space_table *t)
{
	map64_done(&t->by_pid);
	vec_done(&t->processes);
}

static struct space_process *space_process_find(const struct space_table *t, int32_t pid)
{
	uint32_t at = map64_get(&t->by_pid, (uint32_t)pid);

	return at == MAP64_NONE ? NULL : &t->processes.items[at];
}

/* A new process without a space, or NULL when memory is short. */
static struct space_process *space_process_add(struct space_table *t, int32_t pid)
{
	struct space_process process = {.pid = pid};

	if (t->processes.count >= MAP64_NONE || !vec_push(&t->processes, process) ||
	    !map64_set(&t->by_pid, (uint32_t)pid, (uint32_t)t->processes.count - 1))
		return NULL;
	return vec_last(&t->processes);
}

/* The first mapping that ends after ip. */
static size_t space_lower(const struct space *space, uint64_t ip)
{
	size_t low = 0, high = space->mappings.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (space->mappings.items[middle].end <= ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool space_same_content(const struct mapping *a, const struct mapping *b)
{
	if (a->module.v != b->module.v || a->flags != b->flags || a->path.v != b->path.v)
		return false;
	/* offsets of anonymous memory are conventions: /proc says 0, the kernel the address */
	return (a->flags & MAPPING_ANONYMOUS) || a->start - a->file_off == b->start - b->file_off;
}

static bool space_insert(struct space *space, size_t at, const struct mapping *m)
{
	if (!vec_reserve(&space->mappings, space->mappings.count + 1))
		return false;
	struct mapping *items = space->mappings.items;
	memmove(&items[at + 1], &items[at], (space->mappings.count - at) * sizeof *items);
	items[at] = *m;
	space->mappings.count++;
	return true;
}

static struct mapping space_part(const struct mapping *m, uint64_t start, uint64_t end)
{
	struct mapping part = *m;

	part.file_off += start - m->start;
	part.start = start;
	part.end = end;
	return part;
}

/* Puts m in, over whatever was there: cut the ends of its neighbours, drop what it covers. */
static bool space_replace(struct space_table *t, struct space *space, const struct mapping *m)
{
	size_t first = space_lower(space, m->start);
	size_t before = space->mappings.count;

	if (first < space->mappings.count) {
		struct mapping old = space->mappings.items[first];

		if (old.start < m->start) {
			struct mapping tail = space_part(&old, m->start, old.end);

			if (!space_insert(space, first + 1, &tail))
				return false;
			space->mappings.items[first].end = m->start;
			first++;
		}
	}
	size_t last = first;
	while (last < space->mappings.count && space->mappings.items[last].end <= m->end)
		last++;
	if (last < space->mappings.count && space->mappings.items[last].start < m->end) {
		struct mapping *old = &space->mappings.items[last];

		*old = space_part(old, m->end, old->end);
	}
	struct mapping *items = space->mappings.items;
	memmove(&items[first], &items[last], (space->mappings.count - last) * sizeof *items);
	space->mappings.count -= last - first;
	if (!space_insert(space, first, m))
		return false;
	t->mapping_count += space->mappings.count - before;
	return true;
}

/* Adds those parts of m that nothing covers; what is there has the same content. */
static bool space_fill(struct space_table *t, struct space *space, const struct mapping *m)
{
	uint64_t start = m->start;
	size_t at = space_lower(space, start);

	while (start < m->end) {
		bool is_last = at == space->mappings.count;
		uint64_t next = is_last ? m->end : space->mappings.items[at].start;

		if (next > start) {
			struct mapping part = space_part(m, start, next < m->end ? next : m->end);

			if (!space_insert(space, at, &part))
				return false;
			t->mapping_count++;
			at++;
		}
		if (is_last || next >= m->end)
			break;
		start = space->mappings.items[at].end;
		at++;
	}
	return true;
}

/* What m does to the space. */
enum space_effect { SPACE_NOTHING, SPACE_ADDS, SPACE_CONTRADICTS };

static enum space_effect space_effect_of(const struct space *space, const struct mapping *m)
{
	uint64_t covered = m->start;

	for (size_t at = space_lower(space, m->start); at < space->mappings.count; at++) {
		const struct mapping *old = &space->mappings.items[at];

		if (old->start >= m->end)
			break;
		if (!space_same_content(old, m))
			return SPACE_CONTRADICTS;
		if (old->start <= covered)
			covered = old->end;
	}
	return covered >= m->end ? SPACE_NOTHING : SPACE_ADDS;
}

/* Moves the process to a copy of its space that only it uses. */
static bool space_renew(struct space_table *t, struct space_process *p, uint64_t time_ns)
{
	space_id id;

	if (!space_add(t, p->pid, time_ns, &id))
		return false;
	const struct space *old = &t->sideband->spaces.items[p->space.v];
	struct space *renewed = &t->sideband->spaces.items[id.v];
	size_t count = old->mappings.count;
	if (count) {
		if (!vec_reserve(&renewed->mappings, count))
			return false;
		memcpy(renewed->mappings.items, old->mappings.items,
		       count * sizeof *old->mappings.items);
		renewed->mappings.count = count;
	}
	t->mapping_count += count;
	p->space = id;
	p->is_shared = false;
	return space_period_add(t, p, time_ns);
}

static bool space_map_kernel(struct space_table *t, const struct mapping *mapping)
{
	struct space *kernel = &t->sideband->spaces.items[SPACE_KERNEL.v];

	if (kernel->mappings.count >= SPACE_MAPPINGS_MAX) {
		t->refused++;
		return true;
	}
	switch (space_effect_of(kernel, mapping)) {
	case SPACE_NOTHING: return true;
	case SPACE_ADDS: return space_fill(t, kernel, mapping);
	case SPACE_CONTRADICTS: break;
	}
	/* the kernel's text is recorded too long: modules stand inside it */
	return space_replace(t, kernel, mapping);
}

bool space_map(struct space_table *t, int32_t pid, const struct mapping *mapping)
{
	uint64_t time_ns = mapping->from_ns;

	if (mapping->start >= mapping->end)
		return true;
	if (mapping->flags & MAPPING_KERNEL)
		return space_map_kernel(t, mapping);
	struct space_process *p = space_process_find(t, pid);
	if (!p) {
		p = space_process_add(t, pid);
		/* nothing else is known of the process: no reason to start later than always */
		if (!p || !space_add(t, pid, 0, &p->space) || !space_period_add(t, p, 0))
			return false;
	}
	struct space *space = &t->sideband->spaces.items[p->space.v];
	enum space_effect effect = space_effect_of(space, mapping);
	if (effect == SPACE_NOTHING)
		return true;
	if (space->mappings.count >= SPACE_MAPPINGS_MAX) {
		t->refused++;
		return true;
	}
	bool must_renew = p->is_shared || (effect == SPACE_CONTRADICTS && space->from_ns < time_ns);
	if (must_renew && t->mapping_count + space->mappings.count > SPACE_COPIES_MAX) {
		t->refused++;
		must_renew = false;
	}
	if (must_renew) {
		if (!space_renew(t, p, time_ns))
			return false;
		space = &t->sideband->spaces.items[p->space.v];
	}
	return effect == SPACE_ADDS ? space_fill(t, space, mapping)
				    : space_replace(t, space, mapping);
}

bool space_fork(struct space_table *t, int32_t parent_pid, int32_t pid, uint64_t time_ns)
{
	struct space_process *parent = space_process_find(t, parent_pid);

	if (parent_pid == pid || !parent)
		return true;
	parent->is_shared = true;
	space_id space = parent->space;
	struct space_process *p = space_process_find(t, pid);
	if (!p)
		p = space_process_add(t, pid);
	if (!p)
		return false;
	p->space = space;
	p->is_shared = true;
	return space_period_add(t, p, time_ns);
}

bool space_exec(struct space_table *t, int32_t pid, uint64_t time_ns)
{
	struct space_process *p = space_process_find(t, pid);
	/* of a process never seen before, the exec'ed image is all that is known */
	uint64_t from_ns = p ? time_ns : 0;

	if (!p)
		p = space_process_add(t, pid);
	if (!p || !space_add(t, pid, from_ns, &p->space))
		return false;
	p->is_shared = false;
	return space_period_add(t, p, from_ns);
}

static int space_period_compare(const void *left, const void *right)
{
	const struct space_period *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->from_ns != b->from_ns)
		return a->from_ns < b->from_ns ? -1 : 1;
	/* ids grow with time: the later of two at one instant is the one that stays */
	return a->space.v < b->space.v ? -1 : a->space.v > b->space.v;
}

void space_finish(struct space_table *t)
{
	struct sideband *s = t->sideband;
	struct space_period *periods = s->space_periods.items;
	size_t count = s->space_periods.count;

	if (count == 0)
		return;
	qsort(periods, count, sizeof *periods, space_period_compare);
	for (size_t i = 2; i < s->spaces.count; i++)
		s->spaces.items[i].until_ns = 0;
	for (size_t i = 0; i < count; i++) {
		bool has_next = i + 1 < count && periods[i + 1].pid == periods[i].pid;
		uint64_t until = has_next ? periods[i + 1].from_ns : TIME_NONE;
		struct space *space = &s->spaces.items[periods[i].space.v];

		if (until > space->until_ns)
			space->until_ns = until;
	}
}
