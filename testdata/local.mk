# testdata: see docs/architecture.md
if HAVE_ZYDIS
noinst_PROGRAMS += testdata/ptgen
testdata_ptgen_SOURCES = testdata/ptgen.c \
  testdata/callstack.c testdata/callstack.h \
  testdata/container.c testdata/container.h testdata/container_header.c \
  testdata/container_private.h testdata/container_tracing.c \
  testdata/insn.c testdata/insn.h \
  testdata/loop.c testdata/loop.h \
  testdata/fault.c \
  testdata/machine.c testdata/machine.h testdata/machine_cpu.c testdata/machine_private.h \
  testdata/packet.c testdata/packet.h \
  testdata/proc_maps.c testdata/proc_maps.h \
  testdata/recorder.c testdata/recorder.h \
  testdata/recording.c testdata/recording.h \
  testdata/sim_clock.h \
  testdata/tracer.c testdata/tracer.h \
  testdata/truth.c testdata/truth.h
testdata_ptgen_CFLAGS = $(AM_CFLAGS) $(ELF_CFLAGS) $(ZSTD_CFLAGS)
testdata_ptgen_LDADD = $(COMMON_LIBS) $(ZYDIS_LIBS) $(ELF_LIBS) $(ZSTD_LIBS)
endif
check_SCRIPTS += testdata/tests/perf.test testdata/tests/decode.test
EXTRA_DIST += testdata/cases testdata/programs testdata/cases.list testdata/recordings.list testdata/tests/perf.test \
  testdata/tests/decode.test testdata/tests/decode.todo
noinst_PROGRAMS += testdata/ptasm
testdata_ptasm_SOURCES = testdata/ptasm.c \
  testdata/container.c testdata/container.h testdata/container_header.c \
  testdata/container_private.h testdata/container_tracing.c \
  testdata/image.c testdata/image.h \
  testdata/packet.c testdata/packet.h \
  testdata/ptasm_packets.c testdata/ptasm_packets.h \
  testdata/recording.c testdata/recording.h testdata/sim_clock.h
testdata_ptasm_CFLAGS = $(AM_CFLAGS) $(ELF_CFLAGS) $(ZSTD_CFLAGS)
testdata_ptasm_LDADD = $(COMMON_LIBS) $(ELF_LIBS) $(ZSTD_LIBS)
noinst_PROGRAMS += testdata/edgediff
testdata_edgediff_SOURCES = testdata/edgediff.c
testdata_edgediff_LDADD = $(COMMON_LIBS)
