/* A JSON string of text that may be any bytes, such as a path. JSON is UTF-8: where the text is
 * not, each byte beyond ASCII is U+FFFD. */
#ifndef COMMON_JSON_TEXT_H
#define COMMON_JSON_TEXT_H

#include <jansson.h>

/* null for NULL; NULL without memory. */
json_t *json_text(const char *text);

#endif
