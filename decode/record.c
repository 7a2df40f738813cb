/* See record.h. Bodies are read in order through a bounds-checked window rather than by
 * casting to perf's structs: records may be shorter (older kernels) or longer (newer ones)
 * than the struct, and what comes out of a pipe or zstd need not be aligned. */
#include "decode/record.h"

#include <linux/perf_event.h>
#include <perf/event.h>
#include <sys/mman.h>

#include "common/bytes.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(RECORD_AUX_OUTPUT_HW_ID, PERF_RECORD_AUX_OUTPUT_HW_ID);
SAME(RECORD_TEXT_POKE, PERF_RECORD_TEXT_POKE);
SAME(RECORD_SAMPLE, PERF_RECORD_SAMPLE);
SAME(RECORD_USER_FIRST, PERF_RECORD_USER_TYPE_START);
SAME(RECORD_FINISHED_INIT, PERF_RECORD_FINISHED_INIT);
SAME(RECORD_AUXTRACE, PERF_RECORD_AUXTRACE);
SAME(RECORD_MISC_MMAP_BUILD_ID, PERF_RECORD_MISC_MMAP_BUILD_ID);
SAME(AUX_FLAG_COLLISION, PERF_AUX_FLAG_COLLISION);

const char *record_type_name(uint32_t type)
{
	static const char *const names[] = {
		[RECORD_MMAP] = "MMAP",
		[RECORD_LOST] = "LOST",
		[RECORD_COMM] = "COMM",
		[RECORD_EXIT] = "EXIT",
		[RECORD_THROTTLE] = "THROTTLE",
		[RECORD_UNTHROTTLE] = "UNTHROTTLE",
		[RECORD_FORK] = "FORK",
		[RECORD_READ] = "READ",
		[RECORD_SAMPLE] = "SAMPLE",
		[RECORD_MMAP2] = "MMAP2",
		[RECORD_AUX] = "AUX",
		[RECORD_ITRACE_START] = "ITRACE_START",
		[RECORD_LOST_SAMPLES] = "LOST_SAMPLES",
		[RECORD_SWITCH] = "SWITCH",
		[RECORD_SWITCH_CPU_WIDE] = "SWITCH_CPU_WIDE",
		[RECORD_NAMESPACES] = "NAMESPACES",
		[RECORD_KSYMBOL] = "KSYMBOL",
		[RECORD_BPF_EVENT] = "BPF_EVENT",
		[RECORD_CGROUP] = "CGROUP",
		[RECORD_TEXT_POKE] = "TEXT_POKE",
		[RECORD_AUX_OUTPUT_HW_ID] = "AUX_OUTPUT_HW_ID",
		[RECORD_CALLCHAIN_DEFERRED] = "CALLCHAIN_DEFERRED",
		[RECORD_HEADER_ATTR] = "HEADER_ATTR",
		[RECORD_HEADER_EVENT_TYPE] = "HEADER_EVENT_TYPE",
		[RECORD_HEADER_TRACING_DATA] = "HEADER_TRACING_DATA",
		[RECORD_HEADER_BUILD_ID] = "HEADER_BUILD_ID",
		[RECORD_FINISHED_ROUND] = "FINISHED_ROUND",
		[RECORD_ID_INDEX] = "ID_INDEX",
		[RECORD_AUXTRACE_INFO] = "AUXTRACE_INFO",
		[RECORD_AUXTRACE] = "AUXTRACE",
		[RECORD_AUXTRACE_ERROR] = "AUXTRACE_ERROR",
		[RECORD_THREAD_MAP] = "THREAD_MAP",
		[RECORD_CPU_MAP] = "CPU_MAP",
		[RECORD_STAT_CONFIG] = "STAT_CONFIG",
		[RECORD_STAT] = "STAT",
		[RECORD_STAT_ROUND] = "STAT_ROUND",
		[RECORD_EVENT_UPDATE] = "EVENT_UPDATE",
		[RECORD_TIME_CONV] = "TIME_CONV",
		[RECORD_HEADER_FEATURE] = "HEADER_FEATURE",
		[RECORD_COMPRESSED] = "COMPRESSED",
		[RECORD_FINISHED_INIT] = "FINISHED_INIT",
		[RECORD_COMPRESSED2] = "COMPRESSED2",
		[RECORD_BPF_METADATA] = "BPF_METADATA",
		[RECORD_SCHEDSTAT_CPU] = "SCHEDSTAT_CPU",
		[RECORD_SCHEDSTAT_DOMAIN] = "SCHEDSTAT_DOMAIN",
	};

	return type < sizeof names / sizeof *names ? names[type] : NULL;
}

bool record_parse_attr(const uint8_t *bytes, size_t length, struct perfdata_event *out)
{
	struct perf_event_attr attr = {0};

	/* Newer attrs are longer, older ones shorter: both only at the end. */
	if (length < PERF_ATTR_SIZE_VER0)
		return false;
	memcpy(&attr, bytes, length < sizeof attr ? length : sizeof attr);
	out->type = attr.type;
	out->config = attr.config;
	out->config1 = attr.config1;
	out->config2 = attr.config2;
	out->sample_period = attr.sample_period;
	out->sample_type = attr.sample_type;
	out->read_format = attr.read_format;
	out->branch_sample_type = attr.branch_sample_type;
	out->regs_user_mask = attr.sample_regs_user;
	out->regs_intr_mask = attr.sample_regs_intr;
	out->aux_sample_bytes = attr.aux_sample_size;
	out->clockid = attr.clockid;
	out->sample_id_all = attr.sample_id_all;
	out->exclude_user = attr.exclude_user;
	out->exclude_kernel = attr.exclude_kernel;
	out->exclude_hv = attr.exclude_hv;
	out->is_frequency = attr.freq;
	out->context_switch = attr.context_switch;
	out->write_backward = attr.write_backward;
	out->use_clockid = attr.use_clockid;
	out->aux_output = attr.aux_output;
	out->text_poke = attr.text_poke;
	out->comm_exec = attr.comm_exec;
	out->inherit = attr.inherit;
	return true;
}

static struct bytes record_body(const struct record *r)
{
	return bytes_of(r->body, r->body_bytes);
}

bool record_mmap(const struct record *r, struct record_mmap *out)
{
	struct bytes b = record_body(r);
	struct record_mmap m = {0};

	if (r->type != RECORD_MMAP && r->type != RECORD_MMAP2)
		return false;
	m.pid = (int32_t)bytes_u32(&b);
	m.tid = (int32_t)bytes_u32(&b);
	m.start = bytes_u64(&b);
	m.length = bytes_u64(&b);
	m.file_off = bytes_u64(&b);
	if (r->type == RECORD_MMAP) {
		m.prot = PROT_READ | (r->misc & RECORD_MISC_MMAP_DATA ? 0 : PROT_EXEC);
	} else if (r->misc & RECORD_MISC_MMAP_BUILD_ID) {
		m.build_id_bytes = bytes_u8(&b);
		bytes_take(&b, 3);
		const uint8_t *build_id = bytes_take(&b, BUILD_ID_MAX);

		if (m.build_id_bytes > BUILD_ID_MAX)
			return false;
		if (build_id)
			memcpy(m.build_id, build_id, m.build_id_bytes);
	} else {
		m.device_major = bytes_u32(&b);
		m.device_minor = bytes_u32(&b);
		m.inode = bytes_u64(&b);
		m.inode_generation = bytes_u64(&b);
	}
	if (r->type == RECORD_MMAP2) {
		m.prot = bytes_u32(&b);
		m.flags = bytes_u32(&b);
	}
	m.path = bytes_string(&b);
	if (b.failed)
		return false;
	*out = m;
	return true;
}

bool record_comm(const struct record *r, struct record_comm *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_COMM)
		return false;
	out->pid = (int32_t)bytes_u32(&b);
	out->tid = (int32_t)bytes_u32(&b);
	out->comm = bytes_string(&b);
	out->exec = r->misc & RECORD_MISC_COMM_EXEC;
	return !b.failed;
}

bool record_task(const struct record *r, struct record_task *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_FORK && r->type != RECORD_EXIT)
		return false;
	out->pid = (int32_t)bytes_u32(&b);
	out->parent_pid = (int32_t)bytes_u32(&b);
	out->tid = (int32_t)bytes_u32(&b);
	out->parent_tid = (int32_t)bytes_u32(&b);
	out->time = bytes_u64(&b);
	return !b.failed;
}

bool record_switch(const struct record *r, struct record_switch *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_SWITCH && r->type != RECORD_SWITCH_CPU_WIDE)
		return false;
	out->in = !(r->misc & RECORD_MISC_SWITCH_OUT);
	out->preempted = !out->in && r->misc & RECORD_MISC_SWITCH_PREEMPT;
	out->has_other = r->type == RECORD_SWITCH_CPU_WIDE;
	out->other_pid = out->has_other ? (int32_t)bytes_u32(&b) : -1;
	out->other_tid = out->has_other ? (int32_t)bytes_u32(&b) : -1;
	return !b.failed;
}

bool record_itrace_start(const struct record *r, struct record_itrace_start *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_ITRACE_START)
		return false;
	out->pid = (int32_t)bytes_u32(&b);
	out->tid = (int32_t)bytes_u32(&b);
	return !b.failed;
}

bool record_aux(const struct record *r, struct record_aux *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_AUX)
		return false;
	out->offset = bytes_u64(&b);
	out->bytes = bytes_u64(&b);
	out->flags = bytes_u64(&b);
	return !b.failed;
}

bool record_lost(const struct record *r, struct record_lost *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_LOST && r->type != RECORD_LOST_SAMPLES)
		return false;
	out->id = r->type == RECORD_LOST ? bytes_u64(&b) : 0;
	out->count = bytes_u64(&b);
	return !b.failed;
}

bool record_ksymbol(const struct record *r, struct record_ksymbol *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_KSYMBOL)
		return false;
	out->address = bytes_u64(&b);
	out->bytes = bytes_u32(&b);
	out->kind = bytes_u16(&b);
	out->flags = bytes_u16(&b);
	out->name = bytes_string(&b);
	return !b.failed;
}

bool record_bpf(const struct record *r, struct record_bpf *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_BPF_EVENT)
		return false;
	out->kind = bytes_u16(&b);
	out->flags = bytes_u16(&b);
	out->id = bytes_u32(&b);
	const uint8_t *tag = bytes_take(&b, sizeof out->tag);
	if (!tag)
		return false;
	memcpy(out->tag, tag, sizeof out->tag);
	return true;
}

bool record_text_poke(const struct record *r, struct record_text_poke *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_TEXT_POKE)
		return false;
	out->address = bytes_u64(&b);
	out->old_bytes = bytes_u16(&b);
	out->new_bytes = bytes_u16(&b);
	out->old_code = bytes_take(&b, out->old_bytes);
	out->new_code = bytes_take(&b, out->new_bytes);
	return !b.failed;
}

bool record_namespaces(const struct record *r, struct record_namespaces *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_NAMESPACES)
		return false;
	out->pid = (int32_t)bytes_u32(&b);
	out->tid = (int32_t)bytes_u32(&b);
	out->count = bytes_u64(&b);
	out->links = bytes_array(&b, out->count, 16);
	return !b.failed;
}

bool record_cgroup(const struct record *r, struct record_cgroup *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_CGROUP)
		return false;
	out->id = bytes_u64(&b);
	out->path = bytes_string(&b);
	return !b.failed;
}

bool record_throttle(const struct record *r, struct record_throttle *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_THROTTLE && r->type != RECORD_UNTHROTTLE)
		return false;
	out->time = bytes_u64(&b);
	out->id = bytes_u64(&b);
	out->stream_id = bytes_u64(&b);
	return !b.failed;
}

bool record_aux_output_hw_id(const struct record *r, struct record_aux_output_hw_id *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_AUX_OUTPUT_HW_ID)
		return false;
	out->hw_id = bytes_u64(&b);
	return !b.failed;
}

bool record_auxtrace_info(const struct record *r, struct record_auxtrace_info *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_AUXTRACE_INFO)
		return false;
	out->kind = bytes_u32(&b);
	bytes_u32(&b);
	if (b.failed)
		return false;
	out->priv = b.p;
	out->priv_count = bytes_left(&b) / 8;
	return true;
}

bool record_auxtrace(const struct record *r, struct record_auxtrace *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_AUXTRACE)
		return false;
	out->bytes = bytes_u64(&b);
	out->offset = bytes_u64(&b);
	out->reference = bytes_u64(&b);
	out->index = bytes_u32(&b);
	out->tid = (int32_t)bytes_u32(&b);
	out->cpu = (int32_t)bytes_u32(&b);
	return !b.failed;
}

bool record_auxtrace_error(const struct record *r, struct record_auxtrace_error *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_AUXTRACE_ERROR)
		return false;
	out->kind = bytes_u32(&b);
	out->code = bytes_u32(&b);
	out->cpu = (int32_t)bytes_u32(&b);
	out->pid = (int32_t)bytes_u32(&b);
	out->tid = (int32_t)bytes_u32(&b);
	uint32_t format = bytes_u32(&b); /* 0: no time */
	out->ip = bytes_u64(&b);
	out->time = format ? bytes_u64(&b) : 0;
	if (b.failed)
		return false;
	size_t room =
		bytes_left(&b) < MAX_AUXTRACE_ERROR_MSG ? bytes_left(&b) : MAX_AUXTRACE_ERROR_MSG;
	out->text = (const char *)b.p;
	out->text_bytes = strnlen(out->text, room);
	return true;
}

bool record_time_conv(const struct record *r, struct record_time_conv *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_TIME_CONV)
		return false;
	out->time_shift = bytes_u64(&b);
	out->time_mult = bytes_u64(&b);
	out->time_zero = bytes_u64(&b);
	if (b.failed)
		return false;
	/* Before Linux 5.10 the record ended here, and was written only with a time_zero. */
	bool is_old = bytes_left(&b) == 0;
	out->time_cycles = is_old ? 0 : bytes_u64(&b);
	out->time_mask = is_old ? ~(uint64_t)0 : bytes_u64(&b);
	out->has_zero = is_old || bytes_u8(&b);
	out->is_short = !is_old && bytes_u8(&b);
	return !b.failed;
}

bool record_id_index(const struct record *r, struct record_id_index *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_ID_INDEX)
		return false;
	out->count = bytes_u64(&b);
	out->entries = bytes_array(&b, out->count, sizeof(struct id_index_entry));
	return !b.failed;
}

bool record_thread_map(const struct record *r, struct record_thread_map *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_THREAD_MAP)
		return false;
	out->count = bytes_u64(&b);
	out->entries = bytes_array(&b, out->count, sizeof(struct perf_record_thread_map_entry));
	return !b.failed;
}

bool record_build_id(const struct record *r, struct record_build_id *out)
{
	struct bytes b = record_body(r);

	if (r->type != RECORD_HEADER_BUILD_ID)
		return false;
	out->pid = (int32_t)bytes_u32(&b);
	const uint8_t *field = bytes_take(&b, BUILD_ID_MAX + 4);
	out->path = bytes_string(&b);
	if (b.failed)
		return false;
	/* Older files have no size: 20 bytes then, SHA-1. */
	out->build_id_bytes = BUILD_ID_MAX;
	if (r->misc & PERF_RECORD_MISC_BUILD_ID_SIZE && field[BUILD_ID_MAX] < BUILD_ID_MAX)
		out->build_id_bytes = field[BUILD_ID_MAX];
	memcpy(out->build_id, field, out->build_id_bytes);
	out->misc = r->misc;
	return true;
}
