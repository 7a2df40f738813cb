/* MiniDebugInfo: a small ELF file with a symbol table, packed by xz into .gnu_debugdata. */
#ifndef SYMBOLIZE_MINIDEBUG_H
#define SYMBOLIZE_MINIDEBUG_H

#include "symbolize/object.h"

/* ERR_NOT_FOUND: has none; ERR_FORMAT: broken; ERR_LIMIT: unpacks to too much; ERR_NOMEM. */
MUST_CHECK enum err minidebug_open(const struct object *o, struct object **result);

#endif
