/* See container.h. This file: the records. container_header.c: what stands around them. */
#include "testdata/container.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

#include "testdata/container_private.h"
#include "testdata/sim_clock.h"

/* User space's record types, after the kernel's. */
enum {
	RECORD_FINISHED_ROUND = 68,
	RECORD_ID_INDEX = 69,
	RECORD_AUXTRACE_INFO = 70,
	RECORD_AUXTRACE = 71,
	RECORD_THREAD_MAP = 73,
	RECORD_CPU_MAP = 74,
	RECORD_TIME_CONV = 79,
	RECORD_COMPRESSED = 81,
	RECORD_FINISHED_INIT = 82,
};

enum { RECORD_BYTES_MAX = 1 << 15, PAGE_MASK = 4095 };

/* One record being put together. */
struct record {
	uint8_t bytes[RECORD_BYTES_MAX];
	size_t count;
};

static void add(struct record *r, const void *bytes, size_t count)
{
	if (count > sizeof r->bytes - r->count)
		count = sizeof r->bytes - r->count;
	memcpy(r->bytes + r->count, bytes, count);
	r->count += count;
}

static void add32(struct record *r, uint32_t value)
{
	add(r, &value, 4);
}

static void add64(struct record *r, uint64_t value)
{
	add(r, &value, 8);
}

/* NUL-terminated and padded to 8. */
static void add_string(struct record *r, const char *text)
{
	add(r, text, strlen(text) + 1);
	while (r->count % 8)
		add(r, "", 1);
}

static struct record *record_begin(uint32_t type, uint16_t misc)
{
	static struct record r;
	struct perf_event_header header = {.type = type, .misc = misc};

	r.count = 0;
	add(&r, &header, sizeof header);
	return &r;
}

static void put_bytes(struct container *c, const void *bytes, size_t count)
{
	if (fwrite(bytes, 1, count, c->file) != count)
		c->failed = true;
	c->data_bytes += count;
}

static void set_size(struct record *r)
{
	uint16_t size = (uint16_t)r->count;

	memcpy(r->bytes + offsetof(struct perf_event_header, size), &size, 2);
}

/* Straight to the file: records that perf itself writes. */
static void put(struct container *c, struct record *r)
{
	set_size(r);
	put_bytes(c, r->bytes, r->count);
}

static void to_ring(struct container *c, const struct moment *m, struct record *r)
{
	if (c->first_ns == 0 || m->ns < c->first_ns)
		c->first_ns = m->ns;
	if (m->ns > c->last_ns)
		c->last_ns = m->ns;
	set_size(r);
	if (!vec_reserve(&c->rings[m->ring], c->rings[m->ring].count + r->count)) {
		c->failed = true;
		return;
	}
	memcpy(c->rings[m->ring].items + c->rings[m->ring].count, r->bytes, r->count);
	c->rings[m->ring].count += r->count;
}

/* The sample_id trailer of a kernel record, then to the ring (or the file, if ns is 0). */
static void emit(struct container *c, const struct moment *m, struct record *r,
		 enum container_event event)
{
	bool synthetic = m->ns == 0;

	add32(r, synthetic ? 0 : (uint32_t)m->pid);
	add32(r, synthetic ? 0 : (uint32_t)m->tid);
	if (!c->config.timeless)
		add64(r, m->ns);
	if (c->config.per_cpu)
		add64(r, synthetic ? 0 : m->cpu);
	add64(r, synthetic ? 0 : container_id(c, event, m->ring));
	if (synthetic)
		put(c, r);
	else
		to_ring(c, m, r);
}

/* The fields that all samples begin with. */
static struct record *sample_begin(struct container *c, const struct moment *m, uint16_t misc,
				   enum container_event event, uint64_t ip)
{
	struct record *r = record_begin(PERF_RECORD_SAMPLE, misc);

	add64(r, container_id(c, event, m->ring));
	add64(r, ip);
	add32(r, (uint32_t)m->pid);
	add32(r, (uint32_t)m->tid);
	if (!c->config.timeless)
		add64(r, m->ns);
	if (c->config.per_cpu)
		add64(r, m->cpu);
	add64(r, 1); /* period */
	return r;
}

static void put_time_conv(struct container *c)
{
	struct record *r = record_begin(RECORD_TIME_CONV, 0);

	add64(r, SIM_TIME_SHIFT);
	add64(r, SIM_TIME_MULT);
	add64(r, SIM_TIME_ZERO);
	add64(r, 0);
	add64(r, 0);
	add64(r, 1); /* cap_user_time_zero, cap_user_time_short, padding */
	put(c, r);
}

static void put_id_index(struct container *c, const int32_t *tids, int32_t pid)
{
	struct record *r = record_begin(RECORD_ID_INDEX, 0);

	add64(r, (uint64_t)c->event_count * c->config.rings);
	for (unsigned e = 0; e < c->event_count; e++) {
		for (uint32_t ring = 0; ring < c->config.rings; ring++) {
			bool system_wide =
				c->events[e] == EVENT_SWITCH || c->events[e] == EVENT_SCHED;
			int64_t tid = c->config.per_cpu ? pid : tids[ring];

			add64(r, container_id(c, c->events[e], ring));
			add64(r, ring);
			add64(r, c->config.per_cpu ? ring : (uint64_t)-1);
			add64(r, system_wide ? (uint64_t)-1 : (uint64_t)tid);
		}
	}
	put(c, r);
}

static void put_auxtrace_info(struct container *c)
{
	struct record *r = record_begin(RECORD_AUXTRACE_INFO, 0);
	const struct container_config *config = &c->config;

	add64(r, 1); /* Intel PT */
	add64(r, CONTAINER_PT_TYPE);
	add64(r, SIM_TIME_SHIFT);
	add64(r, SIM_TIME_MULT);
	add64(r, SIM_TIME_ZERO);
	add64(r, 1);
	add64(r, CONFIG_TSC);
	add64(r, CONFIG_NO_RETURN_COMPRESSION);
	add64(r, config->switches == SWITCHES_CPU_WIDE     ? 3
		 : config->switches == SWITCHES_OWN        ? 2
		 : config->switches == SWITCHES_TRACEPOINT ? 1
							   : 0);
	add64(r, config->snapshot);
	add64(r, config->per_cpu);
	add64(r, CONFIG_MTC);
	add64(r, 0xfull * CONFIG_MTC_PERIOD);
	add64(r, SIM_CTC_NUMERATOR);
	add64(r, SIM_CTC_DENOMINATOR);
	add64(r, CONFIG_CYC);
	add64(r, SIM_MAX_NON_TURBO_RATIO);
	add64(r, config->filter ? (strlen(config->filter) + 8) & ~(size_t)7 : 0);
	if (config->filter)
		add_string(r, config->filter);
	add64(r, 0); /* no event trace */
	put(c, r);
}

static void put_kernel_map(struct container *c)
{
	struct record *r = record_begin(PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);

	add32(r, UINT32_MAX);
	add32(r, 0);
	add64(r, 0xffffffff81000000);
	add64(r, 0x1400000);
	add64(r, 0xffffffff81000000);
	add_string(r, "[kernel.kallsyms]_text");
	emit(c, &(struct moment){0}, r, EVENT_DUMMY);
}

void container_start(struct container *c, const int32_t *tids, int32_t pid)
{
	put_time_conv(c);
	put_id_index(c, tids, pid);
	put_auxtrace_info(c);
	put_kernel_map(c);

	struct record *r = record_begin(RECORD_THREAD_MAP, 0);
	add64(r, 1);
	add64(r, c->config.system_wide ? (uint64_t)-1 : (uint64_t)pid);
	char comm[16] = "";
	strncpy(comm, recording_string(c->recording, c->recording->comm), sizeof comm - 1);
	add(r, comm, sizeof comm);
	put(c, r);

	r = record_begin(RECORD_CPU_MAP, 0);
	uint16_t count = c->config.per_cpu ? (uint16_t)c->config.rings : 1;
	add(r, "\0", 2); /* a list */
	add(r, &count, 2);
	for (uint16_t i = 0; i < count; i++) {
		uint16_t cpu = c->config.per_cpu ? i : UINT16_MAX;

		add(r, &cpu, 2);
	}
	while (r->count % 8)
		add(r, "", 1);
	put(c, r);
}

void container_comm(struct container *c, const struct moment *m, const char *name, bool exec)
{
	struct record *r = record_begin(PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);

	add32(r, (uint32_t)m->pid);
	add32(r, (uint32_t)m->tid);
	char comm[16] = "";
	strncpy(comm, name, sizeof comm - 1);
	add_string(r, comm);
	emit(c, m, r, EVENT_DUMMY);
}

void container_mmap(struct container *c, const struct moment *m, const struct rec_map *map)
{
	const char *path = recording_string(c->recording, map->path);
	char file[4096];
	uint8_t id[20];
	size_t id_bytes = 0;

	snprintf(file, sizeof file, "%s%s", c->config.symfs ? c->config.symfs : "", path);
	if (c->config.mmap_build_ids)
		id_bytes = build_id_read(file, id);
	struct record *r = record_begin(PERF_RECORD_MMAP2,
					PERF_RECORD_MISC_USER |
						(id_bytes ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0));
	add32(r, (uint32_t)m->pid);
	add32(r, (uint32_t)m->tid);
	add64(r, map->start);
	add64(r, map->length);
	add64(r, path[0] == '[' ? 0 : map->file_off);
	if (id_bytes) {
		add32(r, (uint32_t)id_bytes);
		add(r, id, sizeof id);
	} else {
		add32(r, map->major);
		add32(r, map->minor);
		add64(r, map->inode);
		add64(r, map->inode ? 19088743 : 0); /* generation */
	}
	add32(r, map->prot);
	add32(r, 2); /* MAP_PRIVATE */
	add_string(r, path);
	emit(c, m, r, EVENT_DUMMY);
}

static void task(struct container *c, const struct moment *m, uint32_t type, const int32_t ids[4])
{
	struct record *r = record_begin(type, 0);

	for (int i = 0; i < 4; i++)
		add32(r, (uint32_t)ids[i]);
	add64(r, m->ns);
	emit(c, m, r, EVENT_DUMMY);
}

void container_fork(struct container *c, const struct moment *m, int32_t pid, int32_t tid)
{
	task(c, m, PERF_RECORD_FORK, (int32_t[]){pid, m->pid, tid, m->tid});
}

void container_exit(struct container *c, const struct moment *m, int32_t parent_pid,
		    int32_t parent_tid)
{
	task(c, m, PERF_RECORD_EXIT, (int32_t[]){m->pid, parent_pid, m->tid, parent_tid});
}

void container_itrace_start(struct container *c, const struct moment *m)
{
	struct record *r = record_begin(PERF_RECORD_ITRACE_START, 0);

	add32(r, (uint32_t)m->pid);
	add32(r, (uint32_t)m->tid);
	emit(c, m, r, EVENT_PT);
}

void container_switch(struct container *c, const struct moment *m, bool out, bool preempt,
		      int32_t other_pid, int32_t other_tid)
{
	uint16_t misc = (out ? PERF_RECORD_MISC_SWITCH_OUT : 0) |
			(preempt ? PERF_RECORD_MISC_SWITCH_OUT_PREEMPT : 0);

	if (c->config.switches == SWITCHES_OWN) {
		struct record *r = record_begin(PERF_RECORD_SWITCH, misc);
		emit(c, m, r, EVENT_DUMMY);
	} else if (c->config.switches == SWITCHES_CPU_WIDE) {
		struct record *r = record_begin(PERF_RECORD_SWITCH_CPU_WIDE, misc);
		add32(r, (uint32_t)other_pid);
		add32(r, (uint32_t)other_tid);
		emit(c, m, r, EVENT_SWITCH);
	}
}

void container_text_poke(struct container *c, const struct moment *m,
			 const struct container_poke *poke)
{
	struct record *r = record_begin(PERF_RECORD_TEXT_POKE, PERF_RECORD_MISC_KERNEL);

	add64(r, poke->ip);
	add(r, &poke->old_bytes, 2);
	add(r, &poke->new_bytes, 2);
	add(r, poke->old_code, poke->old_bytes);
	add(r, poke->new_code, poke->new_bytes);
	while (r->count % 8)
		add(r, "", 1);
	emit(c, m, r, EVENT_DUMMY);
}

void container_sched_switch(struct container *c, const struct moment *m, const char *comm,
			    const char *next_comm, int32_t next_tid)
{
	const uint64_t in_schedule = 0xffffffff81a00000;
	char names[2][16] = {"", ""};
	struct record *r = sample_begin(c, m, PERF_RECORD_MISC_KERNEL, EVENT_SCHED, in_schedule);

	strncpy(names[0], comm, 15);
	strncpy(names[1], next_comm, 15);
	add32(r, SCHED_SWITCH_BYTES + 4); /* with padding */
	add32(r, SCHED_SWITCH_TYPE);      /* common_type, flags, preempt count */
	add32(r, (uint32_t)m->tid);
	add(r, names[0], 16);
	add32(r, (uint32_t)m->tid);
	add32(r, 120);
	add64(r, m->tid == 0 ? 0 : 1);
	add(r, names[1], 16);
	add32(r, (uint32_t)next_tid);
	add32(r, 120);
	add32(r, 0);
	to_ring(c, m, r);
}

void container_callchain(struct container *c, const struct moment *m, const uint64_t *ips,
			 uint32_t count)
{
	struct record *r = sample_begin(c, m, PERF_RECORD_MISC_USER, EVENT_CLOCK, ips[0]);

	add64(r, count + 1ull);
	add64(r, (uint64_t)PERF_CONTEXT_USER);
	for (uint32_t i = 0; i < count; i++)
		add64(r, ips[i]);
	to_ring(c, m, r);
}

void container_aux_sample(struct container *c, const struct moment *m, uint64_t ip,
			  const uint8_t *bytes, size_t count)
{
	struct record *r = sample_begin(c, m, PERF_RECORD_MISC_USER, EVENT_CLOCK, ip);
	size_t padded = (count + 7) & ~(size_t)7;

	add64(r, padded);
	add(r, bytes, count);
	add(r, "\0\0\0\0\0\0\0", padded - count);
	to_ring(c, m, r);
}

void container_aux(struct container *c, const struct moment *m, uint64_t offset, uint64_t bytes,
		   uint64_t flags)
{
	struct record *r = record_begin(PERF_RECORD_AUX, 0);

	add64(r, offset);
	add64(r, bytes);
	add64(r, flags);
	emit(c, m, r, EVENT_PT);
}

void container_auxtrace(struct container *c, uint32_t ring, int32_t tid, uint64_t offset,
			uint64_t reference, const uint8_t *bytes, size_t count)
{
	struct record *r = record_begin(RECORD_AUXTRACE, 0);
	size_t padded = (count + 7) & ~(size_t)7;
	struct aux_place entry = {c->data_at + c->data_bytes, 0};

	add64(r, padded);
	add64(r, offset);
	add64(r, reference);
	add32(r, ring);
	add32(r, c->config.per_cpu ? UINT32_MAX : (uint32_t)tid);
	add32(r, c->config.per_cpu ? ring : UINT32_MAX);
	add32(r, 0);
	entry.bytes = r->count;
	if (!vec_push(&c->aux_index, entry))
		c->failed = true;
	put(c, r);
	put_bytes(c, bytes, count);
	put_bytes(c, "\0\0\0\0\0\0\0", padded - count);
}

/* One record may carry 64 KB; the zstd stream goes on across records. */
static void put_compressed(struct container *c, const uint8_t *bytes, size_t count)
{
	ZSTD_inBuffer in = {bytes, count, 0};
	size_t left;

	if (!c->zstd)
		c->zstd = ZSTD_createCStream();
	if (!c->zstd) {
		c->failed = true;
		return;
	}
	do {
		struct record *r = record_begin(RECORD_COMPRESSED, 0);
		ZSTD_outBuffer out = {r->bytes + r->count, sizeof r->bytes - r->count, 0};

		left = ZSTD_compressStream2(c->zstd, &out, &in, ZSTD_e_flush);
		if (ZSTD_isError(left)) {
			c->failed = true;
			return;
		}
		r->count += out.pos;
		put(c, r);
	} while (left || in.pos < in.size);
}

void container_drain(struct container *c)
{
	for (uint32_t i = 0; i < c->config.rings; i++) {
		if (c->config.compressed && c->rings[i].count > 0)
			put_compressed(c, c->rings[i].items, c->rings[i].count);
		else
			put_bytes(c, c->rings[i].items, c->rings[i].count);
		c->rings[i].count = 0;
	}
}

void container_round(struct container *c)
{
	put(c, record_begin(RECORD_FINISHED_ROUND, 0));
}

void container_init_done(struct container *c)
{
	put(c, record_begin(RECORD_FINISHED_INIT, 0));
}
