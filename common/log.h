/* Messages to the person at the terminal: stderr only, "program: message".
 *
 * Levels: error and warn always (warn not with -q), info with -v, debug with -vv.
 * log_repeated() prints the first of a kind and counts the rest; log_finish() says
 * the counts. Thread-safe. Libraries below main may warn; they never exit. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/error.h"

enum log_level { LOG_QUIET = -1, LOG_NORMAL = 0, LOG_INFO = 1, LOG_DEBUG = 2 };

void log_init(const char *program, enum log_level level);
void log_error(const char *format, ...) PRINTF_LIKE(1, 2);
void log_warn(const char *format, ...) PRINTF_LIKE(1, 2);
void log_info(const char *format, ...) PRINTF_LIKE(1, 2);
void log_debug(const char *format, ...) PRINTF_LIKE(1, 2);
/* `kind` is a static string and the key: the message is printed for its first use. */
void log_repeated(const char *kind, const char *format, ...) PRINTF_LIKE(2, 3);
void log_finish(void);
/* The line of progress on a terminal: replaces the one before; NULL erases it. Messages
 * erase it too, so that nothing is written behind it. */
void log_status(const char *text);

#endif
