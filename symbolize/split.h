/* Split DWARF: the units that a file only refers to, in .dwo files or one .dwp package. */
#ifndef SYMBOLIZE_SPLIT_H
#define SYMBOLIZE_SPLIT_H

#include "common/error.h"
#include "symbolize/debug_file.h"

struct search;

struct split_file {
	struct object *object;
	struct debug_file file;
};

struct splits {
	VEC(struct split_file *) files;
	struct split_file *package; /* one of files; NULL = none */
	bool package_searched;
	VEC(struct debug_unit *) units; /* that were handed out */
};

/* The unit that the skeleton stands for, ready to be read; NULL = not found or no memory. */
struct debug_unit *split_unit(struct splits *s, struct debug_unit *skeleton, const char *debug_path,
			      const struct search *search);
void splits_done(struct splits *s);

#endif
