noinst_LIBRARIES += libwriter.a
libwriter_a_SOURCES = \
  writer/buffer.c writer/buffer.h
libwriter_a_CFLAGS = $(AM_CFLAGS) $(DEFLATE_CFLAGS) $(JANSSON_CFLAGS)
noinst_HEADERS = writer/calls_text.h writer/output.h writer/segments_text.h writer/stats.h writer/trace_fxt.h

WRITER_LIBS = libwriter.a $(DEFLATE_LIBS) $(JANSSON_LIBS)
