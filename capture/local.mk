# capture: see docs/architecture.md
noinst_LIBRARIES += libcapture.a
libcapture_a_SOURCES = \
  capture/capabilities.c capture/capabilities.h \
  capture/check.c capture/check.h \
  capture/child.c capture/child.h \
  capture/options.c capture/options.h \
  capture/perf_argv.c capture/perf_argv.h
libcapture_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)

CAPTURE_LIBS = libcapture.a $(COMMON_LIBS)

bin_PROGRAMS += pt-capture
pt_capture_SOURCES = capture/main.c
pt_capture_LDADD = $(CAPTURE_LIBS)

if HAVE_CRITERION
check_PROGRAMS += capture/tests/options_test capture/tests/capabilities_test \
  capture/tests/perf_argv_test capture/tests/check_test
capture_tests_options_test_SOURCES = capture/tests/options_test.c
capture_tests_options_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_options_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_capabilities_test_SOURCES = capture/tests/capabilities_test.c
capture_tests_capabilities_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_capabilities_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_perf_argv_test_SOURCES = capture/tests/perf_argv_test.c
capture_tests_perf_argv_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_perf_argv_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_check_test_SOURCES = capture/tests/check_test.c
capture_tests_check_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_check_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
endif
