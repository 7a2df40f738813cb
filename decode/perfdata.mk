# perf.data: the container, its records, tracepoint fields. The only users of libperf's
# headers, zstd and libtraceevent: a library of its own, so that no other sees them.
noinst_LIBRARIES += libperfdata.a
libperfdata_a_SOURCES = \
  decode/compressed.c decode/compressed.h \
  decode/dump_records.c decode/dump_records.h \
  decode/feature.c decode/feature.h \
  decode/perfdata.c decode/perfdata.h \
  decode/perfdata_walk.c decode/perfdata_walk.h \
  decode/record.c decode/record.h decode/record_sample.c \
  decode/tracepoint.c decode/tracepoint.h
libperfdata_a_CPPFLAGS = $(AM_CPPFLAGS) $(LIBPERF_CPPFLAGS)
libperfdata_a_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS) $(TRACEEVENT_CFLAGS)

PERFDATA_LIBS = libperfdata.a $(COMMON_LIBS) $(ZSTD_LIBS) $(TRACEEVENT_LIBS)

PERFDATA_BUILDER = decode/tests/perfdata_builder.c decode/tests/perfdata_builder.h
check_PROGRAMS += decode/fuzz/perfdata_fuzz decode/fuzz/tracepoint_fuzz
decode_fuzz_perfdata_fuzz_SOURCES = decode/fuzz/perfdata_fuzz.c $(FUZZ_DRIVER) $(PERFDATA_BUILDER)
decode_fuzz_perfdata_fuzz_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS)
decode_fuzz_perfdata_fuzz_LDADD = $(PERFDATA_LIBS)
decode_fuzz_tracepoint_fuzz_SOURCES = decode/fuzz/tracepoint_fuzz.c $(FUZZ_DRIVER) \
  $(PERFDATA_BUILDER)
decode_fuzz_tracepoint_fuzz_LDADD = $(PERFDATA_LIBS)

if HAVE_CRITERION
check_PROGRAMS += decode/tests/compressed_test decode/tests/dump_records_test \
  decode/tests/perfdata_test decode/tests/record_test decode/tests/tracepoint_test
decode_tests_dump_records_test_SOURCES = decode/tests/dump_records_test.c $(PERFDATA_BUILDER)
decode_tests_dump_records_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_dump_records_test_LDADD = $(PERFDATA_LIBS) $(CRITERION_LIBS)
decode_tests_compressed_test_SOURCES = decode/tests/compressed_test.c $(PERFDATA_BUILDER)
decode_tests_compressed_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS) $(ZSTD_CFLAGS)
decode_tests_compressed_test_LDADD = $(PERFDATA_LIBS) $(CRITERION_LIBS)
decode_tests_perfdata_test_SOURCES = decode/tests/perfdata_test.c $(PERFDATA_BUILDER)
decode_tests_perfdata_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_perfdata_test_LDADD = $(PERFDATA_LIBS) $(CRITERION_LIBS)
decode_tests_record_test_SOURCES = decode/tests/record_test.c $(PERFDATA_BUILDER)
decode_tests_record_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_record_test_LDADD = $(PERFDATA_LIBS) $(CRITERION_LIBS)
decode_tests_tracepoint_test_SOURCES = decode/tests/tracepoint_test.c $(PERFDATA_BUILDER)
decode_tests_tracepoint_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_tracepoint_test_LDADD = $(PERFDATA_LIBS) $(CRITERION_LIBS)
endif
