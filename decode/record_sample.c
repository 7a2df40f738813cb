/* See record.h: what the event of a record decides, samples and the trailers of other records.
 *
 *     | header | body ......................... | sample id (kernel records) |
 *                                               pid tid time id stream cpu identifier
 *
 * The trailer has a member only where the event's sample_type has the bit. */
#include "decode/record.h"

#include <linux/perf_event.h>

#include "common/bytes.h"

/* Bits newer than our kernel headers. */
#define SAMPLE_BRANCH_COUNTERS (1u << 19)

/* The members that samples and trailers share stand in the same order in both; a sample
 * has others between them. */
static void sample_id_take(struct bytes *b, uint64_t type, struct sample_id *id)
{
	if (type & PERF_SAMPLE_TID) {
		id->pid = (int32_t)bytes_u32(b);
		id->tid = (int32_t)bytes_u32(b);
	}
	if (type & PERF_SAMPLE_TIME)
		id->time = bytes_u64(b);
	if (type & PERF_SAMPLE_ADDR)
		bytes_u64(b);
	if (type & PERF_SAMPLE_ID)
		id->id = bytes_u64(b);
	if (type & PERF_SAMPLE_STREAM_ID)
		id->stream_id = bytes_u64(b);
	if (type & PERF_SAMPLE_CPU)
		id->cpu = (int32_t)bytes_u64(b); /* the upper half is reserved */
}

static uint32_t sample_id_bits(uint64_t type)
{
	uint32_t has = 0;

	if (type & PERF_SAMPLE_TID)
		has |= SAMPLE_ID_TID;
	if (type & PERF_SAMPLE_TIME)
		has |= SAMPLE_ID_TIME;
	if (type & PERF_SAMPLE_CPU)
		has |= SAMPLE_ID_CPU;
	if (type & (PERF_SAMPLE_ID | PERF_SAMPLE_IDENTIFIER))
		has |= SAMPLE_ID_ID;
	if (type & PERF_SAMPLE_STREAM_ID)
		has |= SAMPLE_ID_STREAM;
	return has;
}

static const struct sample_id SAMPLE_ID_NONE = {.pid = -1, .tid = -1, .cpu = -1};

void record_parse_id(struct record *r, const struct perfdata_event *event)
{
	enum { HEADER = sizeof(struct perf_event_header) };
	struct sample_id id = SAMPLE_ID_NONE;

	r->id = id;
	r->body = r->data + HEADER;
	r->body_bytes = r->bytes - HEADER;
	if (!event || r->type >= RECORD_USER_FIRST)
		return;
	struct bytes b = bytes_of(r->body, r->body_bytes);
	uint64_t type = event->sample_type;
	if (r->type == RECORD_SAMPLE) {
		if (type & PERF_SAMPLE_IDENTIFIER)
			id.id = bytes_u64(&b);
		if (type & PERF_SAMPLE_IP)
			bytes_u64(&b);
		sample_id_take(&b, type, &id);
	} else {
		uint64_t members =
			type & (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
				PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER);
		size_t trailer = 8 * (size_t)__builtin_popcountll(members);

		if (!event->sample_id_all || trailer > r->body_bytes)
			return;
		b.p = b.end - trailer;
		sample_id_take(&b, members, &id);
		if (type & PERF_SAMPLE_IDENTIFIER)
			id.id = bytes_u64(&b);
		r->body_bytes -= trailer;
	}
	if (b.failed)
		return;
	id.has = sample_id_bits(type);
	r->id = id;
}

static void sample_read(struct bytes *b, uint64_t format, struct sample *s)
{
	bool group = format & PERF_FORMAT_GROUP;

	if (group)
		s->read.count = bytes_u64(b);
	else
		s->read.value = bytes_u64(b);
	if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		s->read.time_enabled = bytes_u64(b);
	if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		s->read.time_running = bytes_u64(b);
	if (group) {
		s->read.value_bytes = 8;
		if (format & PERF_FORMAT_ID)
			s->read.value_bytes += 8;
		if (format & PERF_FORMAT_LOST)
			s->read.value_bytes += 8;
		s->read.values = bytes_array(b, s->read.count, s->read.value_bytes);
		return;
	}
	if (format & PERF_FORMAT_ID)
		s->read.id = bytes_u64(b);
	if (format & PERF_FORMAT_LOST)
		s->read.lost = bytes_u64(b);
}

static void sample_branches(struct bytes *b, uint64_t branch_type, struct sample *s)
{
	s->branch_count = bytes_u64(b);
	if (branch_type & PERF_SAMPLE_BRANCH_HW_INDEX)
		s->branch_hw_index = bytes_u64(b);
	s->branches = bytes_array(b, s->branch_count, 24);
	if (branch_type & SAMPLE_BRANCH_COUNTERS)
		bytes_array(b, s->branch_count, 8);
}

static const uint8_t *sample_regs(struct bytes *b, uint64_t mask, uint64_t *abi)
{
	*abi = bytes_u64(b);
	if (*abi == PERF_SAMPLE_REGS_ABI_NONE)
		return NULL;
	return bytes_array(b, (uint64_t)__builtin_popcountll(mask), 8);
}

static void sample_stack(struct bytes *b, struct sample *s)
{
	uint64_t room = bytes_u64(b);

	if (room == 0)
		return;
	s->stack = bytes_array(b, room, 1);
	s->stack_bytes = bytes_u64(b);
	if (s->stack_bytes > room)
		b->failed = true;
}

bool record_sample(const struct record *r, const struct perfdata_event *event, struct sample *out)
{
	if (r->type != RECORD_SAMPLE)
		return false;
	struct bytes b = bytes_of(r->body, r->body_bytes);
	uint64_t type = event->sample_type;
	struct sample s = {.type = type, .id = r->id, .period = event->sample_period};

	if (type & PERF_SAMPLE_IDENTIFIER)
		bytes_u64(&b);
	if (type & PERF_SAMPLE_IP)
		s.ip = bytes_u64(&b);
	if (type & PERF_SAMPLE_TID)
		bytes_u64(&b);
	if (type & PERF_SAMPLE_TIME)
		bytes_u64(&b);
	if (type & PERF_SAMPLE_ADDR)
		s.addr = bytes_u64(&b);
	/* all but addr: already in r->id */
	if (type & PERF_SAMPLE_ID)
		bytes_u64(&b);
	if (type & PERF_SAMPLE_STREAM_ID)
		bytes_u64(&b);
	if (type & PERF_SAMPLE_CPU)
		bytes_u64(&b);
	if (type & PERF_SAMPLE_PERIOD)
		s.period = bytes_u64(&b);
	if (type & PERF_SAMPLE_READ)
		sample_read(&b, event->read_format, &s);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		s.callchain_count = bytes_u64(&b);
		s.callchain = bytes_array(&b, s.callchain_count, 8);
	}
	if (type & PERF_SAMPLE_RAW) {
		s.raw_bytes = bytes_u32(&b);
		s.raw = bytes_take(&b, s.raw_bytes);
	}
	if (type & PERF_SAMPLE_BRANCH_STACK)
		sample_branches(&b, event->branch_sample_type, &s);
	if (type & PERF_SAMPLE_REGS_USER)
		s.regs_user = sample_regs(&b, event->regs_user_mask, &s.regs_user_abi);
	if (type & PERF_SAMPLE_STACK_USER)
		sample_stack(&b, &s);
	if (type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT))
		s.weight = bytes_u64(&b);
	if (type & PERF_SAMPLE_DATA_SRC)
		s.data_src = bytes_u64(&b);
	if (type & PERF_SAMPLE_TRANSACTION)
		s.transaction = bytes_u64(&b);
	if (type & PERF_SAMPLE_REGS_INTR)
		s.regs_intr = sample_regs(&b, event->regs_intr_mask, &s.regs_intr_abi);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		s.phys_addr = bytes_u64(&b);
	if (type & PERF_SAMPLE_CGROUP)
		s.cgroup = bytes_u64(&b);
	if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
		s.data_page_size = bytes_u64(&b);
	if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
		s.code_page_size = bytes_u64(&b);
	if (type & PERF_SAMPLE_AUX) {
		s.aux_bytes = bytes_u64(&b);
		s.aux = bytes_array(&b, s.aux_bytes, 1);
	}
	if (b.failed)
		return false;
	*out = s;
	return true;
}
