/* The symbolizer from inside: what the parts of the facade (symbolize.c, func.c, inline.c,
 * generated.c) share. Ids index vectors of pointers into the arena: what was handed out
 * never moves. */
#ifndef SYMBOLIZE_SYMBOLIZER_H
#define SYMBOLIZE_SYMBOLIZER_H

#include "common/arena.h"
#include "common/intern.h"
#include "common/map64.h"
#include "common/vec.h"
#include "symbolize/jit.h"
#include "symbolize/module.h"
#include "symbolize/search.h"
#include "symbolize/symbolize.h"

struct func_entry {
	struct func pub;
	const char *name; /* the linker's; NULL = made from module and address */
	str_id linkage, display;
	bool plt;        /* "@plt" follows the name */
	bool whole_name; /* an '@' in it is no symbol version */
	bool named;
};

struct inline_entry {
	struct inline_frame pub;
	struct module_entry *module;
	uint32_t node; /* of the module's table */
	str_id call_file;
	bool call_file_known;
};

/* A perf map, a jitdump, or the kernel symbols told at one time. Its layers are the modules
 * first_module .. first_module + layers - 1. */
struct generated {
	struct jit jit;
	uint32_t first_module;
	bool dump;  /* has code */
	bool named; /* by the user or the bundle: may serve a process of another pid */
};

#define PID_KERNEL (-1)
#define PID_ANY    (-2) /* of a file whose name does not tell */

struct symbolizer {
	struct symbolizer_options options;
	struct search search;
	struct jit_clock jit_clock;
	struct arena arena;
	struct intern strings;
	struct module_entry *kernel; /* what all kernel modules share; NULL = not opened */
	VEC(struct module_entry *) modules;
	struct map64 module_at; /* hash of a request -> the newest module's index */
	VEC(struct func_entry *) funcs;
	VEC(struct inline_entry *) inlines;
	VEC(struct generated *) generated;
	struct generated *ksymbols; /* told, but not yet in use; NULL = none */
	struct map64 pids;          /* whose /tmp/perf-PID.map was looked for */
	VEC(str_id) dumps;          /* mapped as files in the trace; the first ones are read */
	size_t dumps_loaded;
	bool generated_named; /* the files that options and bundle name were read */
};

static inline struct module_entry *module_of(const struct symbolizer *s, module_id id)
{
	return id.v && id.v <= s->modules.count ? s->modules.items[id.v - 1] : NULL;
}

/* A jitdump that was found in the trace as a mapping of that file. */
MUST_CHECK enum err generated_add_dump(struct symbolizer *s, str_id path);
void generated_done(struct symbolizer *s);

#endif
