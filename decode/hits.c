/* See hits.h. */
#include "decode/hits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES = 512 };

static const char *hit_kind_name(enum bundle_hit_kind kind)
{
	switch (kind) {
	case HIT_TRIGGER: return "trigger";
	case HIT_SNAPSHOT_CALL: return "snapshot call";
	case HIT_MARK: return "mark";
	}
	return "hit";
}

/* "trigger parse" and "snapshot, args 0x1 0x2 0x3 0x4 0x5 0x6" */
static bool hit_texts(struct intern *names, const struct bundle_hit *hit, struct instant *instant)
{
	char text[TEXT_BYTES];
	size_t at;

	snprintf(text, sizeof text, "%s%s%s", hit_kind_name(hit->kind),
		 hit->where && hit->where[0] ? " " : "", hit->where ? hit->where : "");
	if (!intern_string(names, text, &instant->name))
		return false;
	at = (size_t)snprintf(text, sizeof text, "%sargs", hit->snapshot ? "snapshot, " : "");
	for (size_t i = 0; i < BUNDLE_HIT_ARGS; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, " 0x%" PRIx64, hit->args[i]);
	return intern_string(names, text, &instant->detail);
}

static int instant_compare(const void *a, const void *b)
{
	const struct instant *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->task.v != y->task.v)
		return x->task.v < y->task.v ? -1 : 1;
	if (x->name.v != y->name.v)
		return x->name.v < y->name.v ? -1 : 1;
	return x->detail.v < y->detail.v ? -1 : x->detail.v > y->detail.v;
}

enum err hits_add(struct sideband *sideband, const struct bundle *bundle)
{
	for (size_t i = 0; i < bundle->hits.count; i++) {
		const struct bundle_hit *hit = &bundle->hits.items[i];
		struct instant instant = {
			.time_ns = hit->time_ns,
			.task = sideband_task_of_tid(sideband, (int32_t)hit->tid, hit->time_ns),
			.cpu = (int32_t)hit->cpu,
			.ip = hit->ip,
			.callchain = hit->frames,
			.callchain_count = hit->frame_count,
		};

		if (!hit_texts(&sideband->names, hit, &instant) ||
		    !vec_push(&sideband->instants, instant))
			return ERR_NOMEM;
	}
	if (bundle->hits.count)
		qsort(sideband->instants.items, sideband->instants.count,
		      sizeof *sideband->instants.items, instant_compare);
	return ERR_NONE;
}
