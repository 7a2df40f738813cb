# decode: see docs/architecture.md
noinst_LIBRARIES += libdecode.a
libdecode_a_SOURCES = \
  decode/clock.h \
  decode/flow.h \
  decode/graph.h \
  decode/sideband.h
libdecode_a_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)

DECODE_LIBS = libdecode.a $(PERFDATA_LIBS) $(IPT_LIBS)

include decode/perfdata.mk
include decode/flow.mk
include decode/sideband.mk
include decode/segment.mk

if HAVE_CRITERION
check_PROGRAMS += decode/tests/options_test
decode_tests_options_test_SOURCES = decode/tests/options_test.c
decode_tests_options_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_options_test_LDADD = libdecode.a $(COMMON_LIBS) $(CRITERION_LIBS)
endif
