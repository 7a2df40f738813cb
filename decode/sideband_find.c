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
