/* Small recordings for tests of the sideband, a function per record type.
 *
 * Event 1 (id 71) is intel_pt, 2 (id 72) a sampled one with call chains, 3 (id 73) the
 * tracepoint 314, 4 (id 74) one with AUX area samples. All records carry the trailer
 * TID, TIME, CPU, IDENTIFIER. */
#ifndef DECODE_TESTS_SIDEBAND_STREAM_H
#define DECODE_TESTS_SIDEBAND_STREAM_H

#include <stdbool.h>

#include "decode/tests/perfdata_builder.h"

/* Who wrote a record, where and when. */
struct who {
	int32_t pid, tid;
	uint32_t cpu;
	uint64_t time_ns; /* 0: synthesized */
};

enum { STREAM_SNAPSHOT = 1 };

void stream_start(struct builder *b);
void stream_end(struct builder *b); /* with the descriptions of tracepoint 314, sched_switch */
void stream_info(struct builder *b, unsigned flags); /* the clock is TSC = ns */
void stream_comm(struct builder *b, struct who who, int32_t pid, int32_t tid, const char *comm,
		 bool exec);
void stream_task(struct builder *b, uint32_t type, struct who who, int32_t pid, int32_t parent_pid,
		 int32_t tid, int32_t parent_tid);
/* build_id: its first byte, the others are zero; 0 = none. pid -1: the kernel. */
void stream_mmap(struct builder *b, struct who who, int32_t pid, uint64_t start, uint64_t bytes,
		 uint64_t file_off, const char *path, uint8_t build_id);
void stream_build_id(struct builder *b, const char *path, uint8_t build_id);
void stream_switch(struct builder *b, struct who who, bool out, int32_t other); /* -1: SWITCH */
void stream_itrace_start(struct builder *b, struct who who);
void stream_aux(struct builder *b, struct who who, uint64_t offset, uint64_t bytes, uint64_t flags);
void stream_auxtrace(struct builder *b, uint32_t index, int32_t cpu, int32_t tid, uint64_t offset,
		     uint64_t reference, const void *bytes, size_t count);
void stream_lost(struct builder *b, struct who who, uint64_t count);
void stream_ksymbol(struct builder *b, struct who who, uint64_t address, uint32_t bytes,
		    bool unregister, const char *name);
void stream_text_poke(struct builder *b, struct who who, uint64_t address, uint8_t byte);
void stream_sample(struct builder *b, struct who who, uint64_t ip, const uint64_t *chain,
		   uint64_t count);
void stream_sched_switch(struct builder *b, struct who who, int32_t next_tid, uint64_t state);
void stream_aux_sample(struct builder *b, struct who who, const void *bytes, size_t count);

#endif
