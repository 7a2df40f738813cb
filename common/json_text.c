/* See json_text.h. */
#include "common/json_text.h"

#include <limits.h>
#include <string.h>

json_t *json_text(const char *text)
{
	if (!text)
		return json_null();
	json_t *value = json_string(text);
	if (value)
		return value;
	char copy[PATH_MAX * 3], *out = copy;
	for (; *text && out < copy + sizeof copy - 4; text++) {
		if ((unsigned char)*text < 0x80) {
			*out++ = *text;
		} else {
			memcpy(out, "\xef\xbf\xbd", 3);
			out += 3;
		}
	}
	*out = '\0';
	return json_string(copy);
}
