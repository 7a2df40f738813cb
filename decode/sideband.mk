# Sideband: what perf.data says beside the PT bytes.
libdecode_a_SOURCES += \
  decode/aux.c decode/aux.h \
  decode/dump_sideband.c decode/dump_sideband.h \
  decode/hits.c decode/hits.h \
  decode/replay.c decode/replay.h \
  decode/sideband.c \
  decode/sideband_find.c \
  decode/space.c decode/space.h \
  decode/switches.c decode/switches.h \
  decode/task.c decode/task.h \
  decode/trace_config.c decode/trace_config.h

SIDEBAND_LIBS = libdecode.a $(PERFDATA_LIBS) $(IPT_LIBS) $(SYMBOLIZE_LIBS)

SIDEBAND_STREAM = decode/tests/sideband_stream.c decode/tests/sideband_stream.h $(PERFDATA_BUILDER)
check_PROGRAMS += decode/fuzz/sideband_fuzz
decode_fuzz_sideband_fuzz_SOURCES = decode/fuzz/sideband_fuzz.c $(FUZZ_DRIVER) $(SIDEBAND_STREAM)
decode_fuzz_sideband_fuzz_LDADD = $(SIDEBAND_LIBS)

if HAVE_CRITERION
check_PROGRAMS += decode/tests/aux_test decode/tests/hits_test decode/tests/sideband_cases_test \
  decode/tests/sideband_test decode/tests/space_test decode/tests/switches_test \
  decode/tests/task_test decode/tests/trace_config_test
decode_tests_sideband_cases_test_SOURCES = decode/tests/sideband_cases_test.c
decode_tests_sideband_cases_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS) $(ZLIB_CFLAGS)
decode_tests_sideband_cases_test_LDADD = $(SIDEBAND_LIBS) $(ZLIB_LIBS) $(CRITERION_LIBS)
decode_tests_sideband_test_SOURCES = decode/tests/sideband_test.c $(SIDEBAND_STREAM)
decode_tests_sideband_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_sideband_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_hits_test_SOURCES = decode/tests/hits_test.c
decode_tests_hits_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_hits_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_aux_test_SOURCES = decode/tests/aux_test.c
decode_tests_aux_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_aux_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_space_test_SOURCES = decode/tests/space_test.c
decode_tests_space_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_space_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_switches_test_SOURCES = decode/tests/switches_test.c
decode_tests_switches_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_switches_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_task_test_SOURCES = decode/tests/task_test.c
decode_tests_task_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_task_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_trace_config_test_SOURCES = decode/tests/trace_config_test.c
decode_tests_trace_config_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_trace_config_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
endif
