/* What goes into the bundle besides perf.data, and its copying.
 *
 * perf.data says which files were mapped; they come from the collector's open files or by
 * their name on this host, and build ids decide whether it is the right one. Added are the
 * separate debug files, JIT maps and dumps, the vdso and kallsyms. */
#ifndef CAPTURE_COLLECT_PLAN_H
#define CAPTURE_COLLECT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/collector.h"
#include "capture/options.h"
#include "capture/perf_file.h"
#include "common/bundle.h"
#include "common/error.h"

struct collect_plan;

/* Decides what goes into the bundle; the sizes are then known. JIT maps are names: --redact
 * leaves them out. */
MUST_CHECK enum err collect_plan_new(const struct collector *collector,
				     const struct perf_summary *summary,
				     const struct capture_options *options,
				     struct collect_plan **plan, struct error *error);
uint64_t collect_plan_bytes(const struct collect_plan *plan);
size_t collect_plan_files(const struct collect_plan *plan);
/* Copies all into dir and describes it in the bundle. */
MUST_CHECK enum err collect_plan_copy(struct collect_plan *plan, const char *dir,
				      struct bundle *bundle, struct error *error);
void collect_plan_free(struct collect_plan *plan);

#endif
