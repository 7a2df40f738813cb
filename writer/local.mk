noinst_LIBRARIES += libwriter.a
libwriter_a_SOURCES = \
  writer/blocks.c writer/blocks.h \
  writer/buffer.c writer/buffer.h \
  writer/call_order.c writer/call_order.h \
  writer/calls_text.c writer/calls_text.h \
  writer/fxt.c writer/fxt.h \
  writer/names.c writer/names.h \
  writer/output.c writer/output.h \
  writer/segments_text.c writer/segments_text.h \
  writer/slice_args.c writer/slice_args.h \
  writer/slice_block.c writer/slice_block.h \
  writer/slice_encode.c writer/slice_encode.h \
  writer/slice_marks.c writer/slice_marks.h \
  writer/slice_path.c writer/slice_path.h \
  writer/slice_refs.c writer/slice_refs.h \
  writer/stats.c writer/stats.h \
  writer/symbols_text.c writer/symbols_text.h \
  writer/trace_fxt.c writer/trace_fxt.h \
  writer/trace_instants.c writer/trace_instants.h \
  writer/trace_slices.c writer/trace_slices.h
libwriter_a_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir)
libwriter_a_CFLAGS = $(AM_CFLAGS) $(DEFLATE_CFLAGS) $(JANSSON_CFLAGS)

WRITER_LIBS = libwriter.a $(DEFLATE_LIBS) $(JANSSON_LIBS)

# The x86-64 system calls as the kernel's headers of this machine know them.
writer/syscall_names.inc: Makefile
	$(AM_V_GEN)$(MKDIR_P) writer && \
	echo '#include <asm/unistd_64.h>' | $(CC) -E -dM - | \
	  sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9][0-9]*\)$$/[\2] = "\1",/p' | LC_ALL=C sort >$@.tmp && \
	grep -q '"read"' $@.tmp && mv $@.tmp $@
writer/libwriter_a-names.$(OBJEXT): writer/syscall_names.inc
CLEANFILES += writer/syscall_names.inc

# A reader for the test of whole traces.
noinst_PROGRAMS += writer/tests/fxt_show
writer_tests_fxt_show_SOURCES = writer/tests/fxt_show.c writer/tests/fxt_read.c writer/tests/fxt_read.h
writer_tests_fxt_show_CFLAGS = $(AM_CFLAGS) $(DEFLATE_CFLAGS)
writer_tests_fxt_show_LDADD = $(WRITER_LIBS) $(COMMON_LIBS)
check_SCRIPTS += writer/tests/traces.test
EXTRA_DIST += writer/tests/traces.test

if HAVE_CRITERION
writer_test_cflags = $(AM_CFLAGS) $(CRITERION_CFLAGS) $(DEFLATE_CFLAGS) $(JANSSON_CFLAGS)
# The encoder and the outputs need no names; what does is tested with fakes of them.
writer_test_libs = $(WRITER_LIBS) $(COMMON_LIBS) $(CRITERION_LIBS)
writer_fake_sources = writer/tests/fake.c writer/tests/fake.h writer/tests/fxt_read.c writer/tests/fxt_read.h
check_PROGRAMS += writer/tests/fxt_test writer/tests/nomem_test writer/tests/output_test \
  writer/tests/text_test writer/tests/trace_fxt_test
writer_tests_fxt_test_SOURCES = writer/tests/fxt_test.c writer/tests/fxt_read.c writer/tests/fxt_read.h
writer_tests_fxt_test_CFLAGS = $(writer_test_cflags)
writer_tests_fxt_test_LDADD = $(writer_test_libs)
writer_tests_nomem_test_SOURCES = writer/tests/nomem_test.c writer/tests/fake.c writer/tests/fake.h
writer_tests_nomem_test_CFLAGS = $(writer_test_cflags)
writer_tests_nomem_test_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
writer_tests_nomem_test_LDADD = $(writer_test_libs)
writer_tests_output_test_SOURCES = writer/tests/output_test.c writer/tests/fxt_read.c writer/tests/fxt_read.h
writer_tests_output_test_CFLAGS = $(writer_test_cflags)
writer_tests_output_test_LDADD = $(writer_test_libs)
writer_tests_text_test_SOURCES = writer/tests/text_test.c $(writer_fake_sources)
writer_tests_text_test_CFLAGS = $(writer_test_cflags)
writer_tests_text_test_LDADD = $(writer_test_libs)
writer_tests_trace_fxt_test_SOURCES = writer/tests/trace_fxt_test.c $(writer_fake_sources)
writer_tests_trace_fxt_test_CFLAGS = $(writer_test_cflags)
writer_tests_trace_fxt_test_LDADD = $(writer_test_libs)
endif

EXTRA_DIST += docs/fxt.md scripts/bench-writer

# Built on demand, by scripts/bench-writer.
EXTRA_PROGRAMS += writer/bench/writer_bench
writer_bench_writer_bench_SOURCES = writer/bench/writer_bench.c writer/tests/fake.c writer/tests/fake.h
writer_bench_writer_bench_LDADD = $(WRITER_LIBS) $(COMMON_LIBS)
