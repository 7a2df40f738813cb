/* Hardware execute breakpoints in every thread of a process, present and future.
 *
 * One perf event per thread and place: inherited events could neither be mapped nor armed
 * one by one. New threads are found by rescanning /proc/PID/task. Each event disarms itself
 * in the kernel at its hit (PERF_EVENT_IOC_REFRESH), so a hot place costs one exception a
 * thread, not one a call. The traced process is never stopped.
 *
 * Source: perf_event_open(2), PERF_TYPE_BREAKPOINT. */
#ifndef CAPTURE_TRIGGER_H
#define CAPTURE_TRIGGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/bundle.h"
#include "common/error.h"

struct trigger;

enum { TRIGGER_PLACES_MAX = 4, TRIGGER_THREADS_MAX = 4096 };

struct trigger_place {
	uint64_t ip;
	const char *path; /* the file it is in, to open from here, and where in it: for uprobes */
	uint64_t file_off;
	enum bundle_hit_kind kind;
	const char *where; /* as the user wrote it */
};

/* Not armed yet. The places' strings must outlive the trigger. Where no hardware breakpoint
 * can be had, uprobes are used. */
MUST_CHECK enum err trigger_new(pid_t pid, const struct trigger_place *places, size_t place_count,
				bool callchain, struct trigger **result, struct error *error);
/* uprobes are in use: they patch the program's text while they are armed. */
bool trigger_patches_code(const struct trigger *trigger);
/* Finds threads that are new and drops those that ended. ERR_NOT_FOUND: no thread is left;
 * other errors say why breakpoints cannot be had. */
MUST_CHECK enum err trigger_rescan(struct trigger *trigger, struct error *error);
/* Arms every event for one hit (again). */
void trigger_arm(struct trigger *trigger);
/* Readable (poll) when there was a hit. */
int trigger_fd(const struct trigger *trigger);
/* Takes all hits into the list (frames are copied to the arena); true if one of them asks
 * for a snapshot. */
bool trigger_take_hits(struct trigger *trigger, struct bundle *bundle);
void trigger_free(struct trigger *trigger);

#endif
