noinst_LIBRARIES += libsymbolize.a
libsymbolize_a_SOURCES = \
  symbolize/debug_file.c symbolize/debug_file.h \
  symbolize/demangle.c symbolize/demangle.h \
  symbolize/die.c symbolize/die.h \
  symbolize/eh_frame.c symbolize/eh_frame.h \
  symbolize/func.c \
  symbolize/generated.c \
  symbolize/got.c symbolize/got.h \
  symbolize/inline.c \
  symbolize/inline_table.c symbolize/inline_table.h \
  symbolize/line_search.c symbolize/line_search.h \
  symbolize/jit.c symbolize/jit.h \
  symbolize/kernel.c symbolize/kernel.h \
  symbolize/line_table.c symbolize/line_table.h \
  symbolize/minidebug.c symbolize/minidebug.h \
  symbolize/module.c symbolize/module.h \
  symbolize/object.c symbolize/object.h \
  symbolize/remote.c symbolize/remote.h \
  symbolize/role.c symbolize/role.h \
  symbolize/search.c symbolize/search.h \
  symbolize/split.c symbolize/split.h \
  symbolize/symbolize.c symbolize/symbolize.h symbolize/symbolizer.h \
  symbolize/symtab.c symbolize/symtab.h
libsymbolize_a_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(ZLIB_CFLAGS) $(LZMA_CFLAGS) \
  $(DEBUGINFOD_CFLAGS) $(DEFLATE_CFLAGS) $(ZSTD_CFLAGS)

SYMBOLIZE_LIBS = libsymbolize.a $(COMMON_LIBS) $(IBERTY_LIBS) $(ZLIB_LIBS) $(LZMA_LIBS) \
  $(DEFLATE_LIBS) $(ZSTD_LIBS)

TINY_ELF = symbolize/tests/tiny_elf.c symbolize/tests/tiny_elf.h

if HAVE_CRITERION
check_PROGRAMS += symbolize/tests/demangle_test symbolize/tests/eh_frame_test \
  symbolize/tests/generated_test symbolize/tests/jit_test symbolize/tests/nomem_test symbolize/tests/object_test \
  symbolize/tests/role_test symbolize/tests/search_test \
  symbolize/tests/symbolize_test symbolize/tests/symtab_test
symbolize_tests_demangle_test_SOURCES = symbolize/tests/demangle_test.c
symbolize_tests_demangle_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_demangle_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_eh_frame_test_SOURCES = symbolize/tests/eh_frame_test.c
symbolize_tests_eh_frame_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_eh_frame_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_generated_test_SOURCES = symbolize/tests/generated_test.c $(TINY_ELF)
symbolize_tests_generated_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_generated_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_jit_test_SOURCES = symbolize/tests/jit_test.c
symbolize_tests_jit_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_jit_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_nomem_test_SOURCES = symbolize/tests/nomem_test.c $(TINY_ELF)
symbolize_tests_nomem_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_nomem_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_nomem_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc -Wl,--wrap=calloc \
  -Wl,--wrap=realloc
symbolize_tests_object_test_SOURCES = symbolize/tests/object_test.c $(TINY_ELF)
symbolize_tests_object_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_object_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_role_test_SOURCES = symbolize/tests/role_test.c
symbolize_tests_role_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_role_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_search_test_SOURCES = symbolize/tests/search_test.c
symbolize_tests_search_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_search_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_symbolize_test_SOURCES = symbolize/tests/symbolize_test.c
symbolize_tests_symbolize_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_symbolize_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
symbolize_tests_symtab_test_SOURCES = symbolize/tests/symtab_test.c
symbolize_tests_symtab_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
symbolize_tests_symtab_test_LDADD = $(SYMBOLIZE_LIBS) $(CRITERION_LIBS)
endif

check_PROGRAMS += symbolize/fuzz/generated_fuzz symbolize/fuzz/object_fuzz
symbolize_fuzz_generated_fuzz_SOURCES = symbolize/fuzz/generated_fuzz.c $(FUZZ_DRIVER)
symbolize_fuzz_generated_fuzz_LDADD = $(SYMBOLIZE_LIBS)
symbolize_fuzz_object_fuzz_SOURCES = symbolize/fuzz/object_fuzz.c $(FUZZ_DRIVER) $(TINY_ELF)
symbolize_fuzz_object_fuzz_LDADD = $(SYMBOLIZE_LIBS)

noinst_PROGRAMS += symbolize/frames
symbolize_frames_SOURCES = symbolize/frames.c
symbolize_frames_LDADD = $(SYMBOLIZE_LIBS)

check_SCRIPTS += symbolize/tests/files.test symbolize/tests/inlines.test \
  symbolize/tests/plt.test
EXTRA_DIST += docs/symbols.md symbolize/tests/plt.test symbolize/tests/files.test symbolize/tests/inlines.test symbolize/tests/inline_sample.cc scripts/compare-inlines
