/* See trigger.h. */
#include "capture/trigger.h"

#include <asm/perf_regs.h>
#include <dirent.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/bytes.h"
#include "common/log.h"
#include "common/vec.h"

enum { PAGE = 4096, RING_BYTES = PAGE, HEADER_BYTES = 8, KERNEL_FRAME_MARKS = 4095 };

/* The registers of the first six integer arguments, in the order of their bits. */
#define ARG_REGISTERS \
	(1u << PERF_REG_X86_CX | 1u << PERF_REG_X86_DX | 1u << PERF_REG_X86_SI | \
	 1u << PERF_REG_X86_DI | 1u << PERF_REG_X86_R8 | 1u << PERF_REG_X86_R9)
static const uint8_t arg_order[BUNDLE_HIT_ARGS] = {3, 2, 1, 0, 4, 5};

struct watch { /* one event: a place in a thread */
	struct perf_event_mmap_page *ring;
	int fd;
	bool armed, spent;
};

struct watched_thread {
	pid_t tid;
	bool ended;
	struct watch watches[TRIGGER_PLACES_MAX];
};

struct trigger {
	pid_t pid;
	struct trigger_place places[TRIGGER_PLACES_MAX];
	size_t place_count;
	bool callchain, armed;
	int uprobe_type; /* -1 = hardware breakpoints */
	int epoll_fd;
	VEC(struct watched_thread) threads; /* sorted by tid */
};

static int open_event(const struct trigger *t, const struct trigger_place *place, pid_t tid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof attr,
		.bp_type = HW_BREAKPOINT_X,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER |
			       (t->callchain ? PERF_SAMPLE_CALLCHAIN : 0),
		.sample_regs_user = ARG_REGISTERS,
		.wakeup_events = 1,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.exclude_callchain_kernel = 1,
	};

	attr.bp_addr = place->ip;
	attr.bp_len = sizeof(long);
	if (t->uprobe_type >= 0) {
		attr.type = (uint32_t)t->uprobe_type;
		attr.uprobe_path = (uint64_t)(uintptr_t)place->path;
		attr.probe_offset = place->file_off;
		attr.bp_type = 0;
		attr.exclude_kernel = 0; /* the handler runs in the kernel */
	}
	return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void close_watch(struct watch *w)
{
	if (w->ring)
		munmap(w->ring, PAGE + RING_BYTES);
	if (w->fd >= 0)
		close(w->fd);
	*w = (struct watch){.fd = -1};
}

static void close_thread(struct trigger *t, struct watched_thread *thread)
{
	for (size_t i = 0; i < t->place_count; i++)
		close_watch(&thread->watches[i]);
	thread->ended = true;
}

/* Marks count every time, what triggers only once. */
static void arm(struct watch *w, enum bundle_hit_kind kind)
{
	if (w->fd >= 0 && !w->armed)
		w->armed = (kind == HIT_MARK ? ioctl(w->fd, PERF_EVENT_IOC_ENABLE, 0)
					     : ioctl(w->fd, PERF_EVENT_IOC_REFRESH, 1)) == 0;
}

static enum err open_watch(struct trigger *t, struct watched_thread *thread, size_t index,
			   struct error *error)
{
	struct watch *w = &thread->watches[index];

	w->fd = open_event(t, &t->places[index], thread->tid);
	if (w->fd < 0 && errno == ESRCH)
		return ERR_NOT_FOUND; /* it has just ended */
	if (w->fd < 0)
		return error_set(error, ERR_IO, "trigger %s: %s in thread %d: %s",
				 t->places[index].where,
				 t->uprobe_type >= 0 ? "uprobe" : "hardware breakpoint",
				 (int)thread->tid, strerror(errno));
	void *ring = mmap(NULL, PAGE + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (ring == MAP_FAILED)
		return error_set(error, ERR_IO,
				 "trigger %s: memory for the event of thread %d: %s (see "
				 "kernel.perf_event_mlock_kb)",
				 t->places[index].where, (int)thread->tid, strerror(errno));
	w->ring = ring;
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)thread->tid};
	if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, w->fd, &event) != 0)
		return error_set(error, ERR_IO, "epoll_ctl: %s", strerror(errno));
	/* Only now: a hit before this would be lost, and it may be the only one. */
	if (t->armed || t->places[index].kind == HIT_MARK)
		arm(w, t->places[index].kind);
	return ERR_NONE;
}

static enum err open_thread(struct trigger *t, pid_t tid, struct watched_thread *thread,
			    struct error *error)
{
	enum err err = ERR_NONE;

	*thread = (struct watched_thread){.tid = tid};
	for (size_t i = 0; i < TRIGGER_PLACES_MAX; i++)
		thread->watches[i].fd = -1;
	for (size_t i = 0; i < t->place_count && err == ERR_NONE; i++)
		err = open_watch(t, thread, i, error);
	if (err != ERR_NONE)
		close_thread(t, thread);
	return err;
}

static int uprobe_pmu_type(void)
{
	int type = -1;
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");

	if (file && fscanf(file, "%d", &type) != 1)
		type = -1;
	if (file)
		fclose(file);
	return type;
}

enum err trigger_new(pid_t pid, const struct trigger_place *places, size_t place_count,
		     bool callchain, struct trigger **result, struct error *error)
{
	struct trigger *t = calloc(1, sizeof *t);

	if (!t)
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	t->pid = pid;
	t->callchain = callchain;
	t->uprobe_type = -1;
	t->place_count = place_count < TRIGGER_PLACES_MAX ? place_count : TRIGGER_PLACES_MAX;
	memcpy(t->places, places, t->place_count * sizeof *places);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0) {
		free(t);
		return error_set(error, ERR_IO, "epoll: %s", strerror(errno));
	}
	enum err err = trigger_rescan(t, error);
	int type = err == ERR_IO ? uprobe_pmu_type() : -1;
	if (type >= 0) { /* no debug registers: all in use, or none in this virtual machine */
		t->uprobe_type = type;
		if (trigger_rescan(t, NULL) == ERR_NONE)
			err = ERR_NONE;
	}
	if (err != ERR_NONE) {
		trigger_free(t);
		return err;
	}
	*result = t;
	return ERR_NONE;
}

bool trigger_patches_code(const struct trigger *t)
{
	return t->uprobe_type >= 0;
}

static int compare_tids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

/* The process's threads now, sorted. false: the process is gone. */
static bool list_threads(pid_t pid, pid_t *tids, size_t *count)
{
	char path[64];
	struct dirent *entry;

	*count = 0;
	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return false;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (*count == TRIGGER_THREADS_MAX) {
			log_repeated("threads without a trigger", "only %d threads are watched",
				     TRIGGER_THREADS_MAX);
			break;
		}
		tids[(*count)++] = (pid_t)atoi(entry->d_name);
	}
	closedir(dir);
	qsort(tids, *count, sizeof *tids, compare_tids);
	return *count > 0;
}

/* Both lists are sorted: one pass. */
enum err trigger_rescan(struct trigger *t, struct error *error)
{
	static pid_t tids[TRIGGER_THREADS_MAX]; /* too large for a stack; one thread uses it */
	VEC(struct watched_thread) now = {0};
	enum err err = ERR_NONE;
	size_t count, old = 0;

	if (!list_threads(t->pid, tids, &count))
		return ERR_NOT_FOUND;
	if (!vec_reserve(&now, count))
		return error_set(error, ERR_NOMEM, "%s", error_name(ERR_NOMEM));
	for (size_t i = 0; i < count; i++) {
		struct watched_thread thread;

		while (old < t->threads.count && t->threads.items[old].tid < tids[i])
			close_thread(t, &t->threads.items[old++]);
		if (old < t->threads.count && t->threads.items[old].tid == tids[i] &&
		    !t->threads.items[old].ended) {
			now.items[now.count++] = t->threads.items[old++];
			continue;
		}
		if (err != ERR_NONE)
			continue;
		enum err opened = open_thread(t, tids[i], &thread, error);
		if (opened == ERR_NONE)
			now.items[now.count++] = thread;
		else if (opened != ERR_NOT_FOUND)
			err = opened;
	}
	while (old < t->threads.count)
		close_thread(t, &t->threads.items[old++]);
	vec_done(&t->threads);
	memcpy(&t->threads, &now, sizeof now);
	return err;
}

void trigger_arm(struct trigger *t)
{
	t->armed = true;
	for (size_t i = 0; i < t->threads.count; i++) {
		struct watched_thread *thread = &t->threads.items[i];

		for (size_t k = 0; k < t->place_count && !thread->ended; k++) {
			struct watch *w = &thread->watches[k];

			/* Opened anew: since Linux 6.16 a breakpoint that has reached its limit
			 * stays stopped, whatever refreshes it. */
			if (w->spent) {
				close_watch(w);
				if (open_watch(t, thread, k, NULL) != ERR_NONE)
					close_thread(t, thread);
			} else {
				arm(w, t->places[k].kind);
			}
		}
	}
}

int trigger_fd(const struct trigger *t)
{
	return t->epoll_fd;
}

/* User frames, innermost first; the marks between the contexts are left out. */
static bool read_frames(struct bytes *b, struct bundle *bundle, struct bundle_hit *hit)
{
	uint64_t count = bytes_u64(b);

	if (count > RING_BYTES / 8)
		return false;
	uint64_t *frames = arena_alloc(&bundle->arena, (size_t)count * sizeof *frames);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t ip = bytes_u64(b);

		if (frames && ip < (uint64_t)-KERNEL_FRAME_MARKS &&
		    hit->frame_count < BUNDLE_HIT_FRAMES)
			frames[hit->frame_count++] = ip;
	}
	hit->frames = frames;
	return !b->failed;
}

/* In the order of the sample_type bits: perf_event_open(2), PERF_RECORD_SAMPLE. */
static bool read_sample(struct trigger *t, struct bytes b, struct bundle *bundle,
			const struct trigger_place *place)
{
	struct bundle_hit hit = {.kind = place->kind, .where = place->where};

	hit.ip = bytes_u64(&b);
	hit.pid = bytes_u32(&b);
	hit.tid = bytes_u32(&b);
	hit.time_ns = bytes_u64(&b);
	hit.cpu = bytes_u32(&b);
	bytes_u32(&b);
	if (t->callchain && !read_frames(&b, bundle, &hit))
		return false;
	if (bytes_u64(&b) != PERF_SAMPLE_REGS_ABI_NONE)
		for (size_t i = 0; i < BUNDLE_HIT_ARGS; i++)
			hit.args[arg_order[i]] = bytes_u64(&b);
	return !b.failed && bundle->hits.count < BUNDLE_HITS_MAX && vec_push(&bundle->hits, hit);
}

static size_t drain(struct trigger *t, struct watch *w, struct bundle *bundle,
		    const struct trigger_place *place)
{
	const uint8_t *data = (const uint8_t *)w->ring + PAGE;
	uint64_t head = __atomic_load_n(&w->ring->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = w->ring->data_tail;
	size_t hits = 0;

	while (head - tail >= HEADER_BYTES && head - tail <= RING_BYTES) {
		uint8_t record[RING_BYTES]; /* unwrapped */
		struct perf_event_header header;

		for (size_t i = 0; i < sizeof header; i++)
			record[i] = data[(tail + i) % RING_BYTES];
		memcpy(&header, record, sizeof header);
		if (header.size < sizeof header || header.size > head - tail)
			break;
		for (size_t i = sizeof header; i < header.size; i++)
			record[i] = data[(tail + i) % RING_BYTES];
		if (header.type == PERF_RECORD_SAMPLE)
			hits += read_sample(
				t, bytes_of(record + sizeof header, header.size - sizeof header),
				bundle, place);
		tail += header.size;
	}
	__atomic_store_n(&w->ring->data_tail, head, __ATOMIC_RELEASE);
	return hits;
}

static int compare_hits(const void *a, const void *b)
{
	const struct bundle_hit *x = a, *y = b;

	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static bool drain_thread(struct trigger *t, struct watched_thread *thread, struct bundle *bundle)
{
	bool wanted = false;

	for (size_t k = 0; k < t->place_count; k++) {
		if (drain(t, &thread->watches[k], bundle, &t->places[k]) == 0)
			continue;
		if (t->places[k].kind != HIT_MARK)
			thread->watches[k].spent = wanted = true; /* disarmed in the kernel */
	}
	return wanted;
}

bool trigger_take_hits(struct trigger *t, struct bundle *bundle)
{
	struct epoll_event events[64];
	size_t first = bundle->hits.count;
	bool wanted = false;

	/* All rings, not those that epoll names: asking a perf event whether it is readable
	 * takes that state away, and who polls our epoll descriptor has asked already. */
	for (size_t i = 0; i < t->threads.count; i++)
		if (!t->threads.items[i].ended)
			wanted |= drain_thread(t, &t->threads.items[i], bundle);
	int n = epoll_wait(t->epoll_fd, events, sizeof events / sizeof events[0], 0);
	for (int i = 0; i < n; i++) {
		pid_t tid = (pid_t)events[i].data.u64;
		struct watched_thread *thread =
			bsearch(&tid, t->threads.items, t->threads.count, sizeof *thread,
				compare_tids); /* tid is the first member */

		/* One that has ended stays readable for ever. */
		if (thread && !thread->ended && (events[i].events & (EPOLLHUP | EPOLLERR))) {
			wanted |= drain_thread(t, thread, bundle);
			close_thread(t, thread);
		}
	}
	if (bundle->hits.count > first + 1)
		qsort(bundle->hits.items + first, bundle->hits.count - first,
		      sizeof *bundle->hits.items, compare_hits);
	return wanted;
}

void trigger_free(struct trigger *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->threads.count; i++)
		close_thread(t, &t->threads.items[i]);
	vec_done(&t->threads);
	close(t->epoll_fd);
	free(t);
}
