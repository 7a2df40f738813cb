# Sideband: what perf.data says beside the PT bytes.
libdecode_a_SOURCES += \
  decode/aux.c decode/aux.h \
  decode/dump_sideband.c decode/dump_sideband.h \
  decode/sideband.c \
  decode/sideband_find.c \
  decode/space.c decode/space.h \
  decode/switches.c decode/switches.h \
  decode/task.c decode/task.h \
  decode/trace_config.c decode/trace_config.h
