/* Where the files are: a module's code by its recorded path or build id, and its separate
 * debug file by build id or debuglink.
 *
 * With a symfs nothing of the host is read (what options name explicitly - debug dirs, a
 * bundle, debuginfod - still is): symbolic links are followed inside the symfs. A file whose
 * build id differs from the recorded one is never returned. */
#ifndef SYMBOLIZE_SEARCH_H
#define SYMBOLIZE_SEARCH_H

#include <limits.h>

#include "symbolize/object.h"
#include "symbolize/symbolize.h"

struct search {
	const struct symbolizer_options *options;
	char cache[PATH_MAX]; /* perf's build-id cache, "" = do not look */
};

enum search_outcome { SEARCH_NOTHING, SEARCH_FOUND, SEARCH_OTHER_BUILD, SEARCH_UNREADABLE };

struct search_result {
	struct object *object; /* the caller's to free */
	enum search_outcome outcome;
	char path[PATH_MAX];                   /* of the object, or of the best file refused */
	struct error error;                    /* why UNREADABLE */
	uint8_t other_id[OBJECT_BUILD_ID_MAX]; /* of the OTHER_BUILD; 0 bytes = it has none */
	uint8_t other_id_bytes;
};

void search_init(struct search *s, const struct symbolizer_options *options);
/* ERR_NOMEM only; all else is an outcome. result need not be initialised. */
MUST_CHECK enum err search_code(const struct search *s, const struct module_request *wanted,
				struct search_result *result);
MUST_CHECK enum err search_debug(const struct search *s, const struct object *code,
				 const char *code_path, struct search_result *result);

/* The kernel's image with symbols. Without a recorded build id only a symfs is believed. */
MUST_CHECK enum err search_vmlinux(const struct search *s, const struct module_request *wanted,
				   struct search_result *result);
/* A kallsyms file of the kernel with that build id, other than the one the options name. */
bool search_kallsyms(const struct search *s, const struct module_request *wanted,
		     char path[PATH_MAX]);

/* The other files of one debug file's DWARF; NULL = not found. dwz's common file (by
 * .gnu_debugaltlink of `debug`), a .dwp package, a .dwo file. */
struct object *search_supplement(const struct search *s, const struct object *debug,
				 const char *debug_path);
struct object *search_package(const struct search *s, const char *debug_path);
struct object *search_split(const struct search *s, const char *debug_path, const char *comp_dir,
			    const char *dwo_name);

/* `path` below `root`, its symbolic links followed inside root. false = too long. */
bool search_path_below(const char *root, const char *path, char result[PATH_MAX]);

#endif
