/* Errors: a code for the program, a message for the person.
 *
 * Functions that can fail return `enum err` and are warn_unused_result. Those
 * that can say more take a caller-owned `struct error *` (may be NULL) and fill
 * it through error_set(). Only the programs' mains print it.
 *
 * Damage inside a trace is not an error but data (gap records); an error means
 * that the call as a whole produced nothing. */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

enum err {
	ERR_NONE = 0,
	ERR_NOMEM,       /* allocation failed */
	ERR_IO,          /* a system call failed; the message has strerror() */
	ERR_FORMAT,      /* the input contradicts its format */
	ERR_UNSUPPORTED, /* well-formed, but needs something we lack; named in the message */
	ERR_LIMIT,       /* a named ceiling would be passed */
	ERR_NOT_FOUND,
	ERR_USAGE,       /* the caller's options contradict each other */
};

struct error {
	enum err code;
	char message[512];
};

/* Fills *e (if not NULL) and returns code, so that `return error_set(...)` reads well. */
enum err error_set(struct error *e, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);

/* "out of memory" and friends: a readable name when there is no message. */
const char *error_name(enum err code);

#endif
