# perf.data: the container, its records, tracepoint fields. The only users of libperf's
# headers, zstd and libtraceevent: a library of its own, so that no other sees them.
noinst_LIBRARIES += libperfdata.a
libperfdata_a_SOURCES = \
  decode/compressed.c decode/compressed.h \
  decode/dump_records.c decode/dump_records.h \
  decode/feature.c decode/feature.h \
  decode/perfdata.c decode/perfdata.h \
  decode/record.c decode/record.h \
  decode/tracepoint.c decode/tracepoint.h
libperfdata_a_CPPFLAGS = $(AM_CPPFLAGS) $(LIBPERF_CPPFLAGS)
libperfdata_a_CFLAGS = $(AM_CFLAGS) $(ZSTD_CFLAGS) $(TRACEEVENT_CFLAGS)

PERFDATA_LIBS = libperfdata.a $(COMMON_LIBS) $(ZSTD_LIBS) $(TRACEEVENT_LIBS)
