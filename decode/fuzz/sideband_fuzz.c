/* A whole recording through sideband_read() and the dump. The seeds hold one of each kind of
 * record, so that mutations reach every reader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fuzz/driver.h"
#include "common/log.h"
#include "decode/dump_sideband.h"
#include "decode/perfdata.h"
#include "decode/tests/sideband_stream.h"

/* What users of a sideband rely on without looking. */
static void check(const struct sideband *s)
{
	for (size_t i = 1; i < s->spaces.count; i++)
		for (size_t m = 1; m < s->spaces.items[i].mappings.count; m++)
			if (s->spaces.items[i].mappings.items[m - 1].end >
			    s->spaces.items[i].mappings.items[m].start)
				abort();
	for (size_t i = 0; i < s->buffers.count; i++) {
		const struct aux_buffer *b = &s->buffers.items[i];

		for (size_t e = 1; e < b->extents.count; e++)
			if (b->extents.items[e].stream_off <
			    b->extents.items[e - 1].stream_off + b->extents.items[e - 1].bytes)
				abort();
		for (size_t c = 1; c < b->cuts.count; c++)
			if (b->cuts.items[c].stream_off <= b->cuts.items[c - 1].stream_off)
				abort();
		if (b->task.v >= s->tasks.count || b->last_switch > s->cpu_switches.count ||
		    b->first_switch > b->last_switch)
			abort();
	}
	for (size_t i = 1; i < s->cpu_switches.count; i++) {
		const struct cpu_switch *a = &s->cpu_switches.items[i - 1], *b = a + 1;

		if (b->task.v >= s->tasks.count || b->cpu < a->cpu ||
		    (b->cpu == a->cpu && b->time_ns < a->time_ns))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct symbolizer_options options = {.symfs = "/nonexistent"};
	static FILE *null;
	char path[32];
	const char *paths[] = {path};
	struct perfdata file;
	struct symbolizer *symbolizer = NULL;
	struct sideband s = {0};
	struct error error;
	int fd = memfd_create("perf.data", MFD_CLOEXEC);

	log_init("sideband_fuzz", LOG_QUIET);
	if (!null)
		null = fopen("/dev/null", "w");
	if (fd < 0 || !null || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (perfdata_open(&file, paths, 1, &error) == ERR_NONE) {
		if (symbolizer_new(&options, &symbolizer, &error) != ERR_NONE)
			abort();
		if (sideband_read(&file, symbolizer, &s, &error) == ERR_NONE) {
			check(&s);
			if (dump_sideband(&s, symbolizer, null, &error) != ERR_NONE)
				abort();
		}
		sideband_done(&s);
		symbolizer_free(symbolizer);
		perfdata_done(&file);
	}
	close(fd);
	return 0;
}

static struct who by(int32_t tid, uint32_t cpu, uint64_t time_ns)
{
	return (struct who){7, tid, cpu, time_ns};
}

/* PSB, TSC, PSBEND and a few TNTs. */
static void seed_trace(uint8_t bytes[64], uint8_t tsc)
{
	memset(bytes, 0xf6, 64);
	for (int i = 0; i < 16; i++)
		bytes[i] = i & 1 ? 0x82 : 0x02;
	memset(bytes + 16, 0, 8);
	bytes[16] = 0x19;
	bytes[17] = tsc;
	bytes[24] = 0x02;
	bytes[25] = 0x23;
}

static void seed_tasks(struct builder *b)
{
	stream_comm(b, by(7, 0, 0), 7, 7, "sh", false);
	stream_mmap(b, by(7, 0, 0), 7, 0x1000, 0x2000, 0, "/bin/sh", 0);
	stream_mmap(b, by(7, 0, 0), -1, 0xffffffff81000000, 0x1000, 0, "[kernel.kallsyms]_text", 0);
	stream_build_id(b, "/bin/sh", 1);
	stream_task(b, RECORD_FORK, by(7, 0, 30), 8, 7, 8, 7);
	stream_comm(b, by(8, 1, 40), 8, 8, "ls", true);
	stream_mmap(b, by(8, 1, 45), 8, 0x1800, 0x1000, 0, "/bin/ls", 2);
	stream_mmap(b, by(7, 0, 50), 7, 0x1800, 0x1000, 0, "//anon", 0);
	stream_ksymbol(b, by(7, 0, 51), 0xffffffffc0000000, 64, false, "bpf_prog");
	stream_text_poke(b, by(7, 0, 52), 0xffffffff81000010, 0xcc);
	stream_lost(b, by(7, 0, 53), 9);
	stream_task(b, RECORD_EXIT, by(8, 1, 60), 8, 7, 8, 7);
}

static void seed_full(struct builder *b)
{
	uint8_t trace[64];

	stream_info(b, 0);
	seed_tasks(b);
	stream_itrace_start(b, by(7, 0, 10));
	stream_switch(b, by(7, 0, 10), false, 0);
	stream_switch(b, by(7, 0, 20), true, 8);
	stream_aux(b, by(7, 0, 20), 0, 61, 1);
	stream_aux(b, by(9, 0, 70), 61, 64, 4);
	stream_switch(b, by(7, 0, 90), true, -1);
	for (uint32_t i = 0; i < 3; i++) {
		seed_trace(trace, (uint8_t)(15 + 20 * i));
		stream_auxtrace(b, 0, 0, -1, i * 61 + i / 2, 80, trace, 64);
	}
}

static void seed_snapshots(struct builder *b)
{
	uint8_t trace[192];

	stream_info(b, STREAM_SNAPSHOT);
	seed_tasks(b);
	for (int i = 0; i < 3; i++)
		seed_trace(trace + 64 * i, (uint8_t)(15 + 20 * i));
	stream_auxtrace(b, 0, -1, 7, 0, 80, trace, 128);
	stream_auxtrace(b, 0, -1, 7, 64, 90, trace + 64, 128);
	stream_aux(b, by(7, 0, 20), 10, 128, 2);
	stream_sched_switch(b, by(7, 1, 20), 9, 0);
}

static void seed_samples(struct builder *b)
{
	const uint64_t chain[] = {(uint64_t)-512, 0x1234};
	uint8_t trace[64];

	stream_info(b, 0);
	seed_trace(trace, 5);
	stream_sample(b, by(7, 1, 15), 0x1234, chain, 2);
	stream_aux_sample(b, by(7, 1, 20), trace, 64);
	stream_aux_sample(b, by(7, 1, 30), trace, 64);
	stream_sched_switch(b, by(7, 1, 40), 9, 0);
}

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	static void (*const seeds[])(struct builder *) = {seed_full, seed_snapshots, seed_samples};
	struct builder b = {0};

	if (n >= sizeof seeds / sizeof *seeds)
		return NULL;
	stream_start(&b);
	seeds[n](&b);
	stream_end(&b);
	*size = b.out.count;
	return b.out.items; /* the caller's now */
}
