noinst_LIBRARIES += libcommon.a
libcommon_a_SOURCES = \
  common/arena.c common/arena.h \
  common/bytes.h \
  common/error.c common/error.h \
  common/file_map.c common/file_map.h \
  common/intern.c common/intern.h \
  common/log.c common/log.h \
  common/map64.c common/map64.h \
  common/vec.c common/vec.h
libcommon_a_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)

COMMON_LIBS = libcommon.a $(XXHASH_LIBS)

if HAVE_CRITERION
check_PROGRAMS += common/tests/arena_test common/tests/bytes_test common/tests/intern_test \
  common/tests/map64_test common/tests/vec_test
common_tests_arena_test_SOURCES = common/tests/arena_test.c
common_tests_arena_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_arena_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
common_tests_bytes_test_SOURCES = common/tests/bytes_test.c
common_tests_bytes_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_bytes_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
common_tests_intern_test_SOURCES = common/tests/intern_test.c
common_tests_intern_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_intern_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
common_tests_map64_test_SOURCES = common/tests/map64_test.c
common_tests_map64_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_map64_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
common_tests_vec_test_SOURCES = common/tests/vec_test.c
common_tests_vec_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_vec_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
endif
