# From flow events to joined threads.
libdecode_a_SOURCES += \
  decode/align.c decode/align.h \
  decode/anchor.c decode/anchor.h \
  decode/away.c decode/away.h \
  decode/break.c decode/break.h \
  decode/call_store.c decode/call_store.h \
  decode/callers.c decode/callers.h \
  decode/doubt.c decode/doubt.h \
  decode/expect.c decode/stitch.c decode/joiner.h \
  decode/facts.c decode/facts.h \
  decode/goes_on.c decode/goes_on.h \
  decode/join.c decode/join.h \
  decode/lifetime.c decode/lifetime.h \
  decode/options.c decode/options.h \
  decode/parked.c decode/parked.h \
  decode/path.c decode/path.h \
  decode/precedent.c decode/precedent.h \
  decode/reach.c decode/reach.h \
  decode/recall.c decode/recall.h \
  decode/resume.c decode/resume.h \
  decode/schedule.c decode/schedule.h \
  decode/segment.c decode/segment.h \
  decode/select.c decode/select.h \
  decode/strand.c decode/strand.h \
  decode/trace.c decode/trace.h \
  decode/transfer.c decode/transfer.h \
  decode/tree.c decode/tree.h \
  decode/unseen.c decode/unseen.h \
  decode/unwind.c decode/unwind.h

check_PROGRAMS += decode/tests/segment_cases
FAKE_CODE = decode/tests/fake_code.c decode/tests/fake_code.h
decode_tests_segment_cases_SOURCES = decode/tests/segment_cases.c $(FAKE_CODE) \
  decode/tests/trace_compare.c decode/tests/trace_compare.h \
  decode/tests/trace_promises.c decode/tests/trace_promises.h
decode_tests_segment_cases_LDADD = libdecode.a $(COMMON_LIBS)
EXTRA_DIST += $(srcdir)/decode/tests/cases

# How well losses are joined; run by scripts/cut-experiment, and once by the test.
noinst_PROGRAMS += decode/tests/cut_experiment
decode_tests_cut_experiment_SOURCES = decode/tests/cut_experiment.c
decode_tests_cut_experiment_LDADD = $(SIDEBAND_LIBS)
check_SCRIPTS += decode/tests/cut.test
EXTRA_DIST += decode/tests/cut.test

if HAVE_CRITERION
check_PROGRAMS += decode/tests/callers_test decode/tests/goes_on_test decode/tests/path_test \
  decode/tests/precedent_test decode/tests/reach_test decode/tests/recall_test decode/tests/segment_random_test \
  decode/tests/tree_test
decode_tests_tree_test_SOURCES = decode/tests/tree_test.c $(FAKE_CODE)
decode_tests_tree_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_tree_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
decode_tests_callers_test_SOURCES = decode/tests/callers_test.c $(FAKE_CODE)
decode_tests_callers_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_callers_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
decode_tests_recall_test_SOURCES = decode/tests/recall_test.c $(FAKE_CODE)
decode_tests_recall_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_recall_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
decode_tests_goes_on_test_SOURCES = decode/tests/goes_on_test.c $(FAKE_CODE)
decode_tests_goes_on_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_goes_on_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
decode_tests_path_test_SOURCES = decode/tests/path_test.c $(FAKE_CODE)
decode_tests_path_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_path_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
decode_tests_reach_test_SOURCES = decode/tests/reach_test.c $(FAKE_CODE)
decode_tests_reach_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_reach_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
decode_tests_precedent_test_SOURCES = decode/tests/precedent_test.c $(FAKE_CODE)
decode_tests_precedent_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_precedent_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
decode_tests_segment_random_test_SOURCES = decode/tests/segment_random_test.c $(FAKE_CODE) \
  decode/tests/trace_compare.c decode/tests/trace_compare.h \
  decode/tests/trace_promises.c decode/tests/trace_promises.h
decode_tests_segment_random_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_segment_random_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
endif

if HAVE_CRITERION
check_PROGRAMS += decode/tests/call_store_test
decode_tests_call_store_test_SOURCES = decode/tests/call_store_test.c
decode_tests_call_store_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_call_store_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
endif
