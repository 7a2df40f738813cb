/* See sideband_stream.h. */
#include "decode/tests/sideband_stream.h"

#include <linux/perf_event.h>
#include <string.h>

#include "decode/record.h"

enum {
	TRAILER = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER,
	SCHED_SWITCH = 314,
};

void stream_start(struct builder *b)
{
	static const struct build_event events[] = {
		{.type = 8, .config = 0x2600, .sample_type = TRAILER, .sample_id_all = 1, .id = 71},
		{.type = 4,
		 .sample_type = TRAILER | PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN,
		 .sample_id_all = 1,
		 .id = 72},
		{.type = 2,
		 .config = SCHED_SWITCH,
		 .sample_type = TRAILER | PERF_SAMPLE_RAW,
		 .sample_id_all = 1,
		 .id = 73},
		{.type = 4,
		 .config = 1,
		 .sample_type = TRAILER | PERF_SAMPLE_AUX,
		 .sample_id_all = 1,
		 .id = 74},
	};

	build_file_start(b, events, sizeof events / sizeof *events);
}

static void build_file_text(struct builder *b, const char *text)
{
	build_u64(b, strlen(text));
	build_bytes(b, text, strlen(text));
}

void stream_end(struct builder *b)
{
	struct builder blob = {0};

	build_bytes(&blob, "\x17\x08\x44tracing0.6\0", 14);
	build_u8(&blob, 0);
	build_u8(&blob, 8);
	build_u32(&blob, 4096);
	build_bytes(&blob, "header_page", 12);
	build_file_text(&blob, "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n");
	build_bytes(&blob, "header_event", 13);
	build_file_text(&blob, "# compressed entry header\n");
	build_u32(&blob, 0);
	build_u32(&blob, 1);
	build_bytes(&blob, "sched", 6);
	build_u32(&blob, 1);
	build_file_text(&blob,
			"name: sched_switch\n"
			"ID: 314\n"
			"format:\n"
			"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
			"\n"
			"\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n"
			"\tfield:pid_t next_pid;\toffset:16;\tsize:4;\tsigned:1;\n"
			"\n"
			"print fmt: \"\"\n");
	struct build_feature feature = {.bit = 1, .data = blob.out.items, .bytes = blob.out.count};
	build_file_end(b, &feature, 1);
	build_done(&blob);
}

static void stream_who(struct builder *b, struct who who, uint64_t id)
{
	build_u32(b, (uint32_t)who.pid);
	build_u32(b, (uint32_t)who.tid);
	build_u64(b, who.time_ns);
	build_u32(b, who.cpu);
	build_u32(b, 0);
	build_u64(b, id);
	build_record_end(b);
}

void stream_info(struct builder *b, unsigned flags)
{
	const uint64_t values[] = {
		8, 0,     1,       0, 1, 0x400, 0x800, 3, (flags & STREAM_SNAPSHOT) != 0,
		1, 0x200, 0x3c000, 2, 1, 2,     20,    0};

	build_record_start(b, RECORD_AUXTRACE_INFO, 0);
	build_u32(b, AUXTRACE_INTEL_PT);
	build_u32(b, 0);
	build_bytes(b, values, sizeof values);
	build_record_end(b);
}

void stream_comm(struct builder *b, struct who who, int32_t pid, int32_t tid, const char *comm,
		 bool exec)
{
	build_record_start(b, RECORD_COMM, exec ? RECORD_MISC_COMM_EXEC : 0);
	build_u32(b, (uint32_t)pid);
	build_u32(b, (uint32_t)tid);
	build_string(b, comm);
	stream_who(b, who, 71);
}

void stream_task(struct builder *b, uint32_t type, struct who who, int32_t pid, int32_t parent_pid,
		 int32_t tid, int32_t parent_tid)
{
	build_record_start(b, type, 0);
	build_u32(b, (uint32_t)pid);
	build_u32(b, (uint32_t)parent_pid);
	build_u32(b, (uint32_t)tid);
	build_u32(b, (uint32_t)parent_tid);
	build_u64(b, who.time_ns);
	stream_who(b, who, 71);
}

void stream_mmap(struct builder *b, struct who who, int32_t pid, uint64_t start, uint64_t bytes,
		 uint64_t file_off, const char *path, uint8_t build_id)
{
	uint16_t misc = pid == -1 ? 1 : 2;
	uint8_t id[20] = {build_id};

	build_record_start(b, RECORD_MMAP2, build_id ? misc | RECORD_MISC_MMAP_BUILD_ID : misc);
	build_u32(b, (uint32_t)pid);
	build_u32(b, (uint32_t)pid);
	build_u64(b, start);
	build_u64(b, bytes);
	build_u64(b, file_off);
	build_u32(b, build_id ? 20 : 0);
	build_bytes(b, id, sizeof id);
	build_u32(b, 5); /* PROT_READ | PROT_EXEC */
	build_u32(b, 2); /* MAP_PRIVATE */
	build_string(b, path);
	stream_who(b, who, 71);
}

void stream_build_id(struct builder *b, const char *path, uint8_t build_id)
{
	uint8_t id[24] = {build_id};

	id[20] = 20;
	build_record_start(b, RECORD_HEADER_BUILD_ID, 2 | 1 << 15); /* user, has a size */
	build_u32(b, (uint32_t)-1);
	build_bytes(b, id, sizeof id);
	build_string(b, path);
	build_record_end(b);
}

void stream_switch(struct builder *b, struct who who, bool out, int32_t other)
{
	build_record_start(b, other < 0 ? RECORD_SWITCH : RECORD_SWITCH_CPU_WIDE,
			   out ? RECORD_MISC_SWITCH_OUT : 0);
	if (other >= 0) {
		build_u32(b, (uint32_t)other);
		build_u32(b, (uint32_t)other);
	}
	stream_who(b, who, 71);
}

void stream_itrace_start(struct builder *b, struct who who)
{
	build_record_start(b, RECORD_ITRACE_START, 0);
	build_u32(b, (uint32_t)who.pid);
	build_u32(b, (uint32_t)who.tid);
	stream_who(b, who, 71);
}

void stream_aux(struct builder *b, struct who who, uint64_t offset, uint64_t bytes, uint64_t flags)
{
	build_record_start(b, RECORD_AUX, 0);
	build_u64(b, offset);
	build_u64(b, bytes);
	build_u64(b, flags);
	stream_who(b, who, 71);
}

void stream_auxtrace(struct builder *b, uint32_t index, int32_t cpu, int32_t tid, uint64_t offset,
		     uint64_t reference, const void *bytes, size_t count)
{
	build_record_start(b, RECORD_AUXTRACE, 0);
	build_u64(b, count);
	build_u64(b, offset);
	build_u64(b, reference);
	build_u32(b, index);
	build_u32(b, (uint32_t)tid);
	build_u32(b, (uint32_t)cpu);
	build_u32(b, 0);
	build_record_end(b);
	build_bytes(b, bytes, count);
}

void stream_lost(struct builder *b, struct who who, uint64_t count)
{
	build_record_start(b, RECORD_LOST, 0);
	build_u64(b, 71);
	build_u64(b, count);
	stream_who(b, who, 71);
}

void stream_ksymbol(struct builder *b, struct who who, uint64_t address, uint32_t bytes,
		    bool unregister, const char *name)
{
	build_record_start(b, RECORD_KSYMBOL, 1);
	build_u64(b, address);
	build_u32(b, bytes);
	build_u16(b, 1); /* BPF */
	build_u16(b, unregister);
	build_string(b, name);
	stream_who(b, who, 71);
}

void stream_text_poke(struct builder *b, struct who who, uint64_t address, uint8_t byte)
{
	build_record_start(b, RECORD_TEXT_POKE, 1);
	build_u64(b, address);
	build_u16(b, 1);
	build_u16(b, 1);
	build_u8(b, 0x90);
	build_u8(b, byte);
	build_u16(b, 0);
	stream_who(b, who, 71);
}

static void stream_sample_start(struct builder *b, struct who who, uint64_t id, const uint64_t *ip)
{
	build_record_start(b, RECORD_SAMPLE, 2);
	build_u64(b, id);
	if (ip)
		build_u64(b, *ip);
	build_u32(b, (uint32_t)who.pid);
	build_u32(b, (uint32_t)who.tid);
	build_u64(b, who.time_ns);
	build_u32(b, who.cpu);
	build_u32(b, 0);
}

void stream_sample(struct builder *b, struct who who, uint64_t ip, const uint64_t *chain,
		   uint64_t count)
{
	stream_sample_start(b, who, 72, &ip);
	build_u64(b, count);
	build_bytes(b, chain, count * 8);
	build_record_end(b);
}

void stream_sched_switch(struct builder *b, struct who who, int32_t next_tid, uint64_t state)
{
	stream_sample_start(b, who, 73, NULL);
	build_u32(b, 20);
	build_u64(b, SCHED_SWITCH);
	build_u64(b, state);
	build_u32(b, (uint32_t)next_tid);
	build_record_end(b);
}

void stream_aux_sample(struct builder *b, struct who who, const void *bytes, size_t count)
{
	stream_sample_start(b, who, 74, NULL);
	build_u64(b, count);
	build_bytes(b, bytes, count);
	build_record_end(b);
}
