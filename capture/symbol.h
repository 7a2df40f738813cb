/* Trigger places: SYMBOL, 0xADDRESS or FILE:LINE to run-time addresses in a process. */
#ifndef CAPTURE_SYMBOL_H
#define CAPTURE_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "capture/trigger.h"
#include "common/arena.h"
#include "common/error.h"

/* Adds the places of `where` behind *count, at most TRIGGER_PLACES_MAX in all. Symbols are
 * names as the linker has them or readable ones ("ns::f"), in any file that the process has
 * mapped now; the first file that has one wins, the program itself before its libraries.
 * Strings go to the arena. ERR_NOT_FOUND: nothing of that name is mapped (yet). ERR_LIMIT:
 * more places than can be watched. */
MUST_CHECK enum err symbol_resolve(pid_t pid, const char *where, enum bundle_hit_kind kind,
				   struct arena *arena, struct trigger_place *places, size_t *count,
				   struct error *error);

/* The same for one function of the program file itself, by its exact name; finding nothing
 * is no error. Cheap: for what most programs do not have. */
MUST_CHECK enum err symbol_resolve_own(pid_t pid, const char *name, enum bundle_hit_kind kind,
				       struct arena *arena, struct trigger_place *places,
				       size_t *count);

#endif
