/* Linker names to readable ones: C++ (Itanium), Rust legacy and v0, by libiberty. */
#ifndef SYMBOLIZE_DEMANGLE_H
#define SYMBOLIZE_DEMANGLE_H

/* A malloc()ed name without parameters and return type, clone suffixes kept as the linker
 * has them ("ns::f.part.0"). NULL: not a mangled name, or memory is short; use the name. */
char *demangle_name(const char *linkage_name);

#endif
