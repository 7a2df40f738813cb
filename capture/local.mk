# capture: see docs/architecture.md
noinst_LIBRARIES += libcapture.a
libcapture_a_SOURCES = \
  capture/capabilities.c capture/capabilities.h \
  capture/check.c capture/check.h \
  capture/child.c capture/child.h \
  capture/clock.c capture/clock.h \
  capture/collect_plan.c capture/collect_plan.h \
  capture/collector.c capture/collector.h \
  capture/file_copy.c capture/file_copy.h \
  capture/options.c capture/options.h \
  capture/output.c capture/output.h \
  capture/perf_argv.c capture/perf_argv.h \
  capture/perf_file.c capture/perf_file.h \
  capture/recorder.c capture/recorder.h \
  capture/redact.c capture/redact.h \
  capture/session.c capture/session.h \
  capture/siphash.c capture/siphash.h \
  capture/symbol.c capture/symbol.h \
  capture/tracee.c capture/tracee.h \
  capture/trigger.c capture/trigger.h
libcapture_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(ZSTD_CFLAGS)

CAPTURE_LIBS = libcapture.a $(SYMBOLIZE_LIBS)

# For traced programs: no dependency on anything here.
lib_LIBRARIES = libpt-capture.a
libpt_capture_a_SOURCES = capture/lib/pt-capture.c capture/lib/pt-capture.h
include_HEADERS += capture/lib/pt-capture.h

bin_PROGRAMS += pt-capture
pt_capture_SOURCES = capture/main.c
pt_capture_LDADD = $(CAPTURE_LIBS)

# What the tests trace, and with what.
noinst_PROGRAMS += capture/tests/fake_perf capture/tests/traced
capture_tests_traced_SOURCES = capture/tests/traced.c
capture_tests_traced_CFLAGS = $(AM_CFLAGS) -g
capture_tests_traced_LDADD = libpt-capture.a
capture_tests_fake_perf_SOURCES = capture/tests/fake_perf.c
capture_tests_fake_perf_LDADD = $(COMMON_LIBS)

check_PROGRAMS += capture/fuzz/perf_file_fuzz
capture_fuzz_perf_file_fuzz_SOURCES = capture/fuzz/perf_file_fuzz.c $(FUZZ_DRIVER)
capture_fuzz_perf_file_fuzz_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS)
capture_fuzz_perf_file_fuzz_LDADD = $(CAPTURE_LIBS)

if HAVE_CRITERION
check_PROGRAMS += capture/tests/options_test capture/tests/capabilities_test \
  capture/tests/perf_argv_test capture/tests/check_test capture/tests/perf_file_test \
  capture/tests/recorder_test capture/tests/symbol_test capture/tests/trigger_test \
  capture/tests/child_test capture/tests/collector_test capture/tests/file_copy_test \
  capture/tests/output_test capture/tests/siphash_test
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
capture_tests_perf_file_test_SOURCES = capture/tests/perf_file_test.c
capture_tests_perf_file_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS) $(ZSTD_CFLAGS)
capture_tests_perf_file_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_recorder_test_SOURCES = capture/tests/recorder_test.c
capture_tests_recorder_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_recorder_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_symbol_test_SOURCES = capture/tests/symbol_test.c
capture_tests_symbol_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_symbol_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_trigger_test_SOURCES = capture/tests/trigger_test.c
capture_tests_trigger_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_trigger_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_child_test_SOURCES = capture/tests/child_test.c
capture_tests_child_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_child_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_collector_test_SOURCES = capture/tests/collector_test.c
capture_tests_collector_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_collector_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_file_copy_test_SOURCES = capture/tests/file_copy_test.c
capture_tests_file_copy_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_file_copy_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_output_test_SOURCES = capture/tests/output_test.c
capture_tests_output_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_output_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
capture_tests_siphash_test_SOURCES = capture/tests/siphash_test.c
capture_tests_siphash_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
capture_tests_siphash_test_LDADD = $(CAPTURE_LIBS) $(CRITERION_LIBS)
endif

check_SCRIPTS += capture/tests/pt_capture.test capture/tests/bundle_decode.test
EXTRA_DIST += capture/tests/pt_capture.test capture/tests/bundle_decode.test
dist_man_MANS += docs/pt-capture.1
