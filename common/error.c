/* See error.h. */
#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>

enum err error_set(struct error *e, enum err code, const char *format, ...)
{
	if (e) {
		va_list ap;

		e->code = code;
		va_start(ap, format);
		vsnprintf(e->message, sizeof e->message, format, ap);
		va_end(ap);
	}
	return code;
}

const char *error_name(enum err code)
{
	switch (code) {
	case ERR_NONE: return "success";
	case ERR_NOMEM: return "out of memory";
	case ERR_IO: return "input/output error";
	case ERR_FORMAT: return "damaged input";
	case ERR_UNSUPPORTED: return "not supported";
	case ERR_LIMIT: return "limit exceeded";
	case ERR_NOT_FOUND: return "not found";
	case ERR_USAGE: return "wrong usage";
	}
	return "unknown error";
}
