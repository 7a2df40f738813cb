# testdata: see docs/architecture.md and testdata/README.md
noinst_LIBRARIES += libtestdata.a
libtestdata_a_SOURCES = \
  testdata/callstack.c testdata/callstack.h \
  testdata/container.c testdata/container.h testdata/container_header.c \
  testdata/container_private.h testdata/container_tracing.c \
  testdata/fault.c \
  testdata/image.c testdata/image.h \
  testdata/loop.c testdata/loop.h \
  testdata/machine.c testdata/machine.h testdata/machine_cpu.c testdata/machine_private.h \
  testdata/packet.c testdata/packet.h \
  testdata/recording.c testdata/recording.h \
  testdata/sim_clock.h \
  testdata/tracer.c testdata/tracer.h \
  testdata/truth.c testdata/truth.h
libtestdata_a_CFLAGS = $(AM_CFLAGS) $(ELF_CFLAGS) $(ZSTD_CFLAGS)
TESTDATA_LIBS = libtestdata.a $(COMMON_LIBS) $(ELF_LIBS) $(ZSTD_LIBS)

noinst_PROGRAMS += testdata/edgediff testdata/ptasm testdata/treediff
testdata_edgediff_SOURCES = testdata/edgediff.c
testdata_edgediff_LDADD = $(COMMON_LIBS)
testdata_treediff_SOURCES = testdata/treediff.c
testdata_treediff_CFLAGS = $(AM_CFLAGS) $(ELF_CFLAGS)
testdata_treediff_LDADD = $(COMMON_LIBS) $(ELF_LIBS)
testdata_ptasm_SOURCES = testdata/ptasm.c testdata/ptasm_packets.c testdata/ptasm_packets.h
testdata_ptasm_LDADD = $(TESTDATA_LIBS)
if HAVE_ZYDIS
noinst_PROGRAMS += testdata/ptgen
testdata_ptgen_SOURCES = testdata/ptgen.c \
  testdata/insn.c testdata/insn.h \
  testdata/proc.c testdata/proc.h \
  testdata/recorder.c testdata/recorder.h \
  testdata/symbol.c testdata/symbol.h
testdata_ptgen_CFLAGS = $(AM_CFLAGS) $(ELF_CFLAGS)
testdata_ptgen_LDADD = $(TESTDATA_LIBS) $(ZYDIS_LIBS)
endif

check_SCRIPTS += testdata/tests/perf.test testdata/tests/decode.test
EXTRA_DIST += testdata/README.md testdata/cases testdata/programs testdata/cases.list \
  testdata/recordings.list testdata/tests/perf.test testdata/tests/decode.test \
  testdata/tests/decode.todo

if HAVE_CRITERION
check_PROGRAMS += testdata/tests/callstack_test testdata/tests/loop_test \
  testdata/tests/packet_test testdata/tests/tracer_test
testdata_tests_callstack_test_SOURCES = testdata/tests/callstack_test.c
testdata_tests_callstack_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
testdata_tests_callstack_test_LDADD = $(TESTDATA_LIBS) $(CRITERION_LIBS)
testdata_tests_loop_test_SOURCES = testdata/tests/loop_test.c
testdata_tests_loop_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
testdata_tests_loop_test_LDADD = $(TESTDATA_LIBS) $(CRITERION_LIBS)
testdata_tests_packet_test_SOURCES = testdata/tests/packet_test.c
testdata_tests_packet_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
testdata_tests_packet_test_LDADD = $(TESTDATA_LIBS) $(CRITERION_LIBS)
testdata_tests_tracer_test_SOURCES = testdata/tests/tracer_test.c
testdata_tests_tracer_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
testdata_tests_tracer_test_LDADD = $(TESTDATA_LIBS) $(CRITERION_LIBS)
endif
