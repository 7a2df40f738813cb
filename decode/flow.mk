# The PT stream: packets, instructions, code graph, flow.
libdecode_a_SOURCES += \
  decode/dump_edges.c decode/dump_edges.h \
  decode/dump_packets.c decode/dump_packets.h \
  decode/flow.c decode/flow_context.c decode/flow_packet.c decode/flow_place.c \
  decode/flow_resume.c decode/flow_walk.c decode/flow_state.h \
  decode/flow_filter.c decode/flow_filter.h \
  decode/flow_libipt.c \
  decode/flow_time.c decode/flow_time.h \
  decode/graph.c \
  decode/insn.c decode/insn.h \
  decode/line.c decode/line.h \
  decode/packet.c decode/packet.h \
  decode/poke.c decode/poke.h \
  decode/piece.c decode/piece.h decode/piece_time.c

FLOW_FIXTURE = decode/tests/flow_fixture.c decode/tests/flow_fixture.h
check_PROGRAMS += decode/fuzz/flow_fuzz decode/fuzz/flow_diff_fuzz
decode_fuzz_flow_fuzz_SOURCES = decode/fuzz/flow_fuzz.c $(FUZZ_DRIVER) $(FLOW_FIXTURE)
decode_fuzz_flow_fuzz_LDADD = $(SIDEBAND_LIBS)
decode_fuzz_flow_diff_fuzz_SOURCES = decode/fuzz/flow_diff_fuzz.c $(FUZZ_DRIVER) $(FLOW_FIXTURE)
decode_fuzz_flow_diff_fuzz_LDADD = $(SIDEBAND_LIBS)

# Built on demand, by scripts/bench.
EXTRA_DIST += docs/performance.md scripts/bench
EXTRA_PROGRAMS += decode/bench/flow_bench
decode_bench_flow_bench_SOURCES = decode/bench/flow_bench.c
decode_bench_flow_bench_LDADD = $(SIDEBAND_LIBS)

if HAVE_CRITERION
check_PROGRAMS += decode/tests/flow_filter_test decode/tests/graph_test decode/tests/flow_test decode/tests/insn_test decode/tests/packet_test \
  decode/tests/piece_test decode/tests/poke_test decode/tests/schedule_test decode/tests/shared_edges_test
decode_tests_poke_test_SOURCES = decode/tests/poke_test.c
decode_tests_poke_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_poke_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_schedule_test_SOURCES = decode/tests/schedule_test.c $(FLOW_FIXTURE)
decode_tests_schedule_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_schedule_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_piece_test_SOURCES = decode/tests/piece_test.c
decode_tests_piece_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_piece_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_graph_test_SOURCES = decode/tests/graph_test.c
decode_tests_graph_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_graph_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_flow_filter_test_SOURCES = decode/tests/flow_filter_test.c
decode_tests_flow_filter_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_flow_filter_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_flow_test_SOURCES = decode/tests/flow_test.c $(FLOW_FIXTURE)
decode_tests_flow_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_flow_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
decode_tests_insn_test_SOURCES = decode/tests/insn_test.c
decode_tests_insn_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_insn_test_LDADD = $(DECODE_LIBS) $(CRITERION_LIBS)
decode_tests_packet_test_SOURCES = decode/tests/packet_test.c
decode_tests_packet_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_packet_test_LDADD = $(DECODE_LIBS) $(CRITERION_LIBS)
decode_tests_shared_edges_test_SOURCES = decode/tests/shared_edges_test.c
decode_tests_shared_edges_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_shared_edges_test_LDADD = $(SIDEBAND_LIBS) $(CRITERION_LIBS)
if HAVE_ZYDIS
check_PROGRAMS += decode/tests/insn_zydis_test
decode_tests_insn_zydis_test_SOURCES = decode/tests/insn_zydis_test.c
decode_tests_insn_zydis_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS) $(ZYDIS_CFLAGS)
decode_tests_insn_zydis_test_LDADD = $(DECODE_LIBS) $(CRITERION_LIBS) $(ZYDIS_LIBS)
endif
endif
