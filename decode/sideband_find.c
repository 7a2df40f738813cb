/* Questions to a finished sideband; see sideband.h. */
#include "decode/sideband.h"

const char *loss_name(enum loss loss)
{
	static const char *const names[LOSS_COUNT] = {
		[LOSS_NONE] = "none",
		[LOSS_OVERFLOW] = "overflow",
		[LOSS_AUX_TRUNCATED] = "aux truncated",
		[LOSS_AUX_PARTIAL] = "aux partial",
		[LOSS_AUX_LOST] = "aux lost",
		[LOSS_OVERWRITTEN] = "overwritten",
		[LOSS_DATA_LOST] = "sideband lost",
		[LOSS_BAD_PACKET] = "bad packet",
		[LOSS_MISMATCH] = "trace and code disagree",
		[LOSS_MISSING_CODE] = "missing code",
		[LOSS_BAD_IP] = "bad ip",
		[LOSS_INTERNAL_LIMIT] = "internal limit",
	};

	return loss < LOSS_COUNT && names[loss] ? names[loss] : "unknown";
}

/* Index of the last item for which `is_after` is false, or SIZE_MAX: a binary search over
 * anything sorted so. */
#define LAST_NOT_AFTER(result, count, is_after) \
	do { \
		size_t low_ = 0, high_ = (count); \
		while (low_ < high_) { \
			size_t at = low_ + (high_ - low_) / 2; \
			if (is_after) \
				high_ = at; \
			else \
				low_ = at + 1; \
		} \
		(result) = low_ - 1; \
	} while (0)

task_id sideband_task_on_cpu(const struct sideband *s, int32_t cpu, uint64_t time_ns)
{
	const struct cpu_switch *items = s->cpu_switches.items;
	size_t found;

	LAST_NOT_AFTER(found, s->cpu_switches.count,
		       items[at].cpu > cpu ||
			       (items[at].cpu == cpu && items[at].time_ns > time_ns));
	if (found == SIZE_MAX || items[found].cpu != cpu)
		return (task_id){0};
	return items[found].task;
}

const struct space_period *sideband_space_period(const struct sideband *s, int32_t pid,
						 uint64_t time_ns)
{
	const struct space_period *items = s->space_periods.items;
	size_t count = s->space_periods.count, found;

	LAST_NOT_AFTER(found, count,
		       items[at].pid > pid ||
			       (items[at].pid == pid && items[at].from_ns > time_ns));
	if (found == SIZE_MAX || items[found].pid != pid)
		found++;
	return found < count && items[found].pid == pid ? &items[found] : NULL;
}

space_id sideband_space_at(const struct sideband *s, int32_t pid, uint64_t time_ns)
{
	const struct space_period *period = sideband_space_period(s, pid, time_ns);

	return period ? period->space : (space_id){0};
}

const struct mapping *space_find(const struct space *space, uint64_t ip)
{
	const struct mapping *items = space->mappings.items;
	size_t found;

	LAST_NOT_AFTER(found, space->mappings.count, items[at].start > ip);
	return found != SIZE_MAX && ip < items[found].end ? &items[found] : NULL;
}

str_id sideband_comm_at(const struct sideband *s, task_id task, uint64_t time_ns)
{
	const struct task_name *items = s->task_names.items;
	size_t count = s->task_names.count, found;

	LAST_NOT_AFTER(found, count,
		       items[at].task.v > task.v ||
			       (items[at].task.v == task.v && items[at].time_ns > time_ns));
	/* before the first name: that one */
	if (found == SIZE_MAX || items[found].task.v != task.v)
		found++;
	return found < count && items[found].task.v == task.v ? items[found].comm : (str_id){0};
}

task_id sideband_task_of_tid(const struct sideband *s, int32_t tid, uint64_t time_ns)
{
	task_id found = {0};

	for (size_t i = 1; tid > 0 && i < s->tasks.count; i++) {
		if (s->tasks.items[i].tid != tid)
			continue;
		if (found.v && s->tasks.items[i].start_ns > time_ns)
			break;
		found.v = (uint32_t)i;
	}
	return found;
}

static bool is_in_ring(const struct aux_buffer *b, uint64_t from_ns, uint64_t until_ns)
{
	for (size_t i = 0; i < b->known.count && from_ns < until_ns; i++)
		if (b->known.items[i].from_ns <= from_ns && b->known.items[i].until_ns > from_ns)
			from_ns = b->known.items[i].until_ns;
	return from_ns >= until_ns;
}

/* Is the CPU's ring (with cpu -1 all CPUs' rings) known from from_ns to until_ns? A CPU without
 * a ring in the file has traced nothing. */
static bool is_cpu_known(const struct sideband *s, int32_t cpu, uint64_t from_ns, uint64_t until_ns)
{
	for (size_t i = 0; i < s->buffers.count; i++) {
		const struct aux_buffer *b = &s->buffers.items[i];

		if (b->cpu >= 0 && (cpu < 0 || b->cpu == cpu) && !is_in_ring(b, from_ns, until_ns))
			return false;
	}
	return true;
}

static bool is_thread_known(const struct sideband *s, task_id task, uint64_t from_ns,
			    uint64_t until_ns)
{
	for (size_t i = 0; i < s->buffers.count; i++)
		if (s->buffers.items[i].cpu < 0 && s->buffers.items[i].task.v == task.v)
			return is_in_ring(&s->buffers.items[i], from_ns, until_ns);
	return false;
}

enum loss sideband_unseen(const struct sideband *s, task_id task, uint64_t from_ns,
			  uint64_t until_ns)
{
	const struct task_switch *items = s->task_switches.items;
	size_t count = s->task_switches.count, at_first;

	if (is_thread_known(s, task, from_ns, until_ns))
		return LOSS_NONE;
	for (size_t i = 0; i < s->losses.count; i++)
		if (s->losses.items[i].cause == LOSS_DATA_LOST &&
		    s->losses.items[i].from_ns < until_ns && s->losses.items[i].time_ns > from_ns)
			return LOSS_DATA_LOST;
	if (!s->has_switches)
		return is_cpu_known(s, -1, from_ns, until_ns) ? LOSS_NONE : LOSS_OVERWRITTEN;
	LAST_NOT_AFTER(at_first, count,
		       items[at].task.v > task.v ||
			       (items[at].task.v == task.v && items[at].time_ns > from_ns));
	if (at_first == SIZE_MAX)
		at_first = 0;
	/* stays end at their out; the last one may have none */
	for (size_t i = at_first; i < count && items[i].task.v <= task.v; i++) {
		if (items[i].task.v < task.v)
			continue;
		bool has_next = i + 1 < count && items[i + 1].task.v == task.v;
		bool is_first = i == 0 || items[i - 1].task.v != task.v;
		uint64_t start = items[i].in ? items[i].time_ns : is_first ? 0 : items[i].time_ns;
		uint64_t end = !items[i].in ? items[i].time_ns
			       : has_next   ? items[i + 1].time_ns
					    : TIME_NONE;

		if (start >= until_ns)
			break;
		start = start > from_ns ? start : from_ns;
		end = end < until_ns ? end : until_ns;
		if (start < end && !is_cpu_known(s, items[i].cpu, start, end))
			return LOSS_OVERWRITTEN;
	}
	return LOSS_NONE;
}
