/* Can this machine trace, and if not, what is missing and what fixes it? Pure: all from
 * struct capabilities. */
#ifndef CAPTURE_CHECK_H
#define CAPTURE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "capture/capabilities.h"

enum check_status {
	CHECK_OK,
	CHECK_NOTE,    /* tracing works, with less */
	CHECK_MISSING, /* no tracing until fixed */
};

enum { CHECKS_MAX = 24, CHECK_TEXT_MAX = 320 };

struct check_item {
	const char *name; /* static, short: "cpu", "perf", ... */
	enum check_status status;
	char text[CHECK_TEXT_MAX]; /* what is so */
	char fix[CHECK_TEXT_MAX];  /* the command or step that changes it; may be empty */
};

struct check_report {
	struct check_item items[CHECKS_MAX];
	size_t count;
	bool ready; /* nothing is missing */
};

void check_build(const struct capabilities *caps, struct check_report *report);

/* The first missing item, or NULL. */
const struct check_item *check_first_missing(const struct check_report *report);

/* Malloced text: one line an item, or one JSON object. NULL when memory is short. */
char *check_text(const struct check_report *report);
char *check_json(const struct check_report *report);

#endif
