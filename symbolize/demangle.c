/* See demangle.h. libiberty writes suffixes as "f [clone .part.0]"; the linker's form is
 * shorter and what users grep for, so the suffix is taken off before and put back after. */
#include "symbolize/demangle.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

/* Far beyond real names; bounds the work on a hostile one. */
#define DEMANGLE_MAX_BYTES 16384u

static char *demangle_base(const char *name)
{
	char *text = rust_demangle(name, DMGL_NO_OPTS);

	/* As c++filt -p prints them: verbose spells std::string out, as std::vector is anyway.
	 * (For Rust it would print the hash.) */
	return text ? text : cplus_demangle_v3(name, DMGL_ANSI | DMGL_VERBOSE);
}

char *demangle_name(const char *name)
{
	size_t length = strlen(name);

	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') || length > DEMANGLE_MAX_BYTES)
		return NULL;
	const char *dot = strchr(name, '.');
	/* ".llvm.HASH" and what legacy Rust names hold are noise, not pieces of a function. */
	if (!dot || name[1] == 'R' || strncmp(dot, ".llvm.", 6) == 0)
		dot = name + length;

	char *base = strndup(name, (size_t)(dot - name));
	if (!base)
		return NULL;
	char *text = demangle_base(base);
	free(base);
	if (!text) /* dots may belong to the name itself */
		return demangle_base(name);
	if (*dot) {
		size_t at = strlen(text);
		char *whole = realloc(text, at + strlen(dot) + 1);

		if (!whole) {
			free(text);
			return NULL;
		}
		strcpy(whole + at, dot);
		text = whole;
	}
	return text;
}
