# The PT stream: packets, instructions, code graph, flow.
libdecode_a_SOURCES += \
  decode/insn.c decode/insn.h \
  decode/packet.c decode/packet.h

if HAVE_CRITERION
check_PROGRAMS += decode/tests/insn_test decode/tests/packet_test
decode_tests_insn_test_SOURCES = decode/tests/insn_test.c
decode_tests_insn_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_insn_test_LDADD = $(DECODE_LIBS) $(CRITERION_LIBS)
decode_tests_packet_test_SOURCES = decode/tests/packet_test.c
decode_tests_packet_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
decode_tests_packet_test_LDADD = $(DECODE_LIBS) $(CRITERION_LIBS)
if HAVE_ZYDIS
check_PROGRAMS += decode/tests/insn_zydis_test
decode_tests_insn_zydis_test_SOURCES = decode/tests/insn_zydis_test.c
decode_tests_insn_zydis_test_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS) $(ZYDIS_CFLAGS)
decode_tests_insn_zydis_test_LDADD = $(DECODE_LIBS) $(CRITERION_LIBS) $(ZYDIS_LIBS)
endif
endif
