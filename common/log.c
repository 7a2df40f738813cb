/* See log.h. Each message is one write(2), so that lines of threads do not mix. */
#include "common/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KINDS_MAX = 64, LINE_MAX_BYTES = 2048 };

static struct {
	pthread_mutex_t lock;
	const char *program;
	enum log_level level;
	atomic_bool status_shown;
	struct {
		const char *kind;
		unsigned long count;
	} kinds[KINDS_MAX];
} logger = {.lock = PTHREAD_MUTEX_INITIALIZER, .program = "pt"};

void log_init(const char *program, enum log_level level)
{
	logger.program = program;
	logger.level = level;
}

#define ERASE_LINE "\r\033[K"

static void log_line(const char *prefix, const char *format, va_list ap)
{
	char line[LINE_MAX_BYTES];
	bool erase = atomic_exchange(&logger.status_shown, false);
	int at = snprintf(line, sizeof line - 1, "%s%s: %s", erase ? ERASE_LINE : "",
			  logger.program, prefix);

	if (at < 0 || (size_t)at >= sizeof line - 1)
		at = 0;
	int text = vsnprintf(line + at, sizeof line - 1 - (size_t)at, format, ap);
	size_t length = strlen(line);
	if (text < 0)
		return;
	line[length++] = '\n';
	while (length > 0) {
		ssize_t done = write(STDERR_FILENO, line, length);

		if (done <= 0)
			return;
		length -= (size_t)done;
		memmove(line, line + done, length);
	}
}

#define LOG_AT(prefix) \
	do { \
		va_list ap; \
		va_start(ap, format); \
		log_line(prefix, format, ap); \
		va_end(ap); \
	} while (0)

void log_error(const char *format, ...)
{
	LOG_AT("");
}

void log_warn(const char *format, ...)
{
	if (logger.level >= LOG_NORMAL)
		LOG_AT("warning: ");
}

void log_info(const char *format, ...)
{
	if (logger.level >= LOG_INFO)
		LOG_AT("");
}

void log_debug(const char *format, ...)
{
	if (logger.level >= LOG_DEBUG)
		LOG_AT("debug: ");
}

void log_repeated(const char *kind, const char *format, ...)
{
	bool first = false;

	pthread_mutex_lock(&logger.lock);
	for (int i = 0; i < KINDS_MAX; i++) {
		if (!logger.kinds[i].kind)
			logger.kinds[i].kind = kind;
		if (strcmp(logger.kinds[i].kind, kind) == 0) {
			first = logger.kinds[i].count++ == 0;
			break;
		}
	}
	pthread_mutex_unlock(&logger.lock);
	if (first && logger.level >= LOG_NORMAL)
		LOG_AT("warning: ");
}

void log_finish(void)
{
	for (int i = 0; i < KINDS_MAX && logger.kinds[i].kind; i++)
		if (logger.kinds[i].count > 1)
			log_warn("%s: %lu times in all", logger.kinds[i].kind, logger.kinds[i].count);
}

void log_status(const char *text)
{
	char line[LINE_MAX_BYTES];
	bool shown = atomic_exchange(&logger.status_shown, text != NULL);

	if (!shown && !text)
		return;
	int length = snprintf(line, sizeof line, "%s%s", ERASE_LINE, text ? text : "");
	ssize_t ignored = write(STDERR_FILENO, line,
				length < (int)sizeof line ? (size_t)length : sizeof line - 1);
	(void)ignored;
}
