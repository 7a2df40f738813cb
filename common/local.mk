noinst_LIBRARIES += libcommon.a
libcommon_a_SOURCES = \
  common/arena.c common/arena.h \
  common/build_id.c common/build_id.h \
  common/bundle.c common/bundle.h \
  common/bytes.h \
  common/error.c common/error.h \
  common/file_map.c common/file_map.h \
  common/intern.c common/intern.h \
  common/json_text.c common/json_text.h \
  common/log.c common/log.h \
  common/map64.c common/map64.h \
  common/memory.c common/memory.h \
  common/path.h \
  common/tar_zst.c common/tar_zst.h \
  common/vec.c common/vec.h
libcommon_a_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) $(JANSSON_CFLAGS) $(ZSTD_CFLAGS)

COMMON_LIBS = libcommon.a $(XXHASH_LIBS) $(JANSSON_LIBS) $(ZSTD_LIBS)

# Runs a fuzz target on seeds and mutations of them.
FUZZ_DRIVER = common/fuzz/driver.c common/fuzz/driver.h

check_PROGRAMS += common/fuzz/build_id_fuzz common/fuzz/bundle_fuzz common/fuzz/tar_zst_fuzz
common_fuzz_build_id_fuzz_SOURCES = common/fuzz/build_id_fuzz.c $(FUZZ_DRIVER)
common_fuzz_build_id_fuzz_LDADD = $(COMMON_LIBS)
common_fuzz_bundle_fuzz_SOURCES = common/fuzz/bundle_fuzz.c $(FUZZ_DRIVER)
common_fuzz_bundle_fuzz_LDADD = $(COMMON_LIBS)
common_fuzz_tar_zst_fuzz_SOURCES = common/fuzz/tar_zst_fuzz.c $(FUZZ_DRIVER)
common_fuzz_tar_zst_fuzz_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS)
common_fuzz_tar_zst_fuzz_LDADD = $(COMMON_LIBS)

if HAVE_CRITERION
check_PROGRAMS += common/tests/arena_test common/tests/build_id_test common/tests/bundle_test \
  common/tests/bytes_test common/tests/intern_test common/tests/tar_zst_test \
  common/tests/map64_test common/tests/memory_test common/tests/vec_test
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
common_tests_memory_test_SOURCES = common/tests/memory_test.c
common_tests_memory_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_memory_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
common_tests_vec_test_SOURCES = common/tests/vec_test.c
common_tests_vec_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_vec_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
common_tests_build_id_test_SOURCES = common/tests/build_id_test.c
common_tests_build_id_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_build_id_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
common_tests_bundle_test_SOURCES = common/tests/bundle_test.c
common_tests_bundle_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_bundle_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
common_tests_tar_zst_test_SOURCES = common/tests/tar_zst_test.c
common_tests_tar_zst_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
common_tests_tar_zst_test_LDADD = $(COMMON_LIBS) $(CRITERION_LIBS)
endif
