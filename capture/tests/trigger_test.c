/* Real breakpoints in a child process. Skipped where this machine gives none. */
#include "capture/trigger.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/symbol.h"

enum { DEBUG_REGISTERS = 4, PATIENCE_MS = 5000 };

static pid_t child;

uint64_t watched_function(uint64_t a, uint64_t b);
__attribute__((noinline)) uint64_t watched_function(uint64_t a, uint64_t b)
{
	__asm__ volatile("" : "+r"(a), "+r"(b)); /* really called, with its arguments */
	return a * b;
}

static void *call_for_ever(void *context)
{
	for (;;) {
		watched_function(11, 22);
		usleep(2000);
	}
	return context;
}

/* from_start: the main thread calls; else a thread that starts after half a second does. */
static void start_child(bool from_start)
{
	child = fork();
	if (child != 0)
		return;
	pthread_t thread;

	alarm(30);
	if (from_start)
		call_for_ever(NULL);
	usleep(500000);
	pthread_create(&thread, NULL, call_for_ever, NULL);
	for (;;)
		pause();
}

static void end_child(void)
{
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

TestSuite(trigger, .fini = end_child, .timeout = 30);

static int open_breakpoint(pid_t pid, uint64_t ip)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_BREAKPOINT,
				       .size = sizeof attr,
				       .bp_type = HW_BREAKPOINT_X,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};

	attr.bp_addr = ip;
	attr.bp_len = sizeof(long);
	return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void need_breakpoints(void)
{
	int fd = open_breakpoint(0, (uint64_t)(uintptr_t)watched_function);

	if (fd < 0)
		cr_skip_test("no hardware breakpoints here: %s", strerror(errno));
	close(fd);
}

static struct trigger_place place_of(struct arena *arena)
{
	struct trigger_place places[TRIGGER_PLACES_MAX];
	struct error error = {0};
	size_t count = 0;

	cr_assert_eq(symbol_resolve(child, "watched_function", HIT_TRIGGER, arena, places, &count,
				    &error),
		     ERR_NONE, "%s", error.message);
	cr_assert_eq(count, 1);
	return places[0];
}

/* Rescans until a hit that triggers, or not in time. */
static bool wait_for_hit(struct trigger *t, struct bundle *b)
{
	for (int ms = 0; ms < PATIENCE_MS; ms += 20) {
		struct pollfd p = {.fd = trigger_fd(t), .events = POLLIN};

		poll(&p, 1, 20);
		if (trigger_take_hits(t, b))
			return true;
		cr_assert_eq(trigger_rescan(t, NULL), ERR_NONE);
	}
	return false;
}

static void expect_hit(const struct bundle *b, const struct trigger_place *place)
{
	cr_assert_gt(b->hits.count, 0);
	const struct bundle_hit *hit = &b->hits.items[b->hits.count - 1];
	cr_expect_eq(hit->ip, place->ip);
	cr_expect_eq(hit->pid, (uint32_t)child);
	cr_expect_eq(hit->args[0], 11);
	cr_expect_eq(hit->args[1], 22);
	cr_expect_gt(hit->time_ns, 0);
}

Test(trigger, fires_once_each_time_it_is_armed)
{
	struct bundle b = {0};
	struct trigger *t;
	struct error error = {0};

	need_breakpoints();
	start_child(true);
	struct trigger_place place = place_of(&b.arena);
	cr_expect_eq(place.ip, (uint64_t)(uintptr_t)watched_function, "a fork has our addresses");
	cr_assert_eq(trigger_new(child, &place, 1, true, &t, &error), ERR_NONE, "%s",
		     error.message);
	cr_expect_not(trigger_patches_code(t));
	usleep(50000);
	cr_expect_not(trigger_take_hits(t, &b), "not armed yet");
	for (size_t round = 1; round <= 3; round++) {
		trigger_arm(t);
		cr_assert(wait_for_hit(t, &b), "round %zu", round);
		usleep(50000); /* it is called 25 times in this */
		cr_expect_not(trigger_take_hits(t, &b));
		cr_expect_eq(b.hits.count, round);
		expect_hit(&b, &place);
		cr_expect_gt(b.hits.items[0].frame_count, 0, "the call chain");
	}
	trigger_free(t);
	bundle_done(&b);
}

Test(trigger, finds_threads_that_start_later)
{
	struct bundle b = {0};
	struct trigger *t;

	need_breakpoints();
	start_child(false);
	struct trigger_place place = place_of(&b.arena);
	cr_assert_eq(trigger_new(child, &place, 1, false, &t, NULL), ERR_NONE);
	trigger_arm(t);
	cr_assert(wait_for_hit(t, &b));
	expect_hit(&b, &place);
	cr_expect_neq(b.hits.items[0].tid, (uint32_t)child);
	trigger_free(t);
	bundle_done(&b);
}

Test(trigger, marks_count_every_time_and_ask_for_nothing)
{
	struct bundle b = {0};
	struct trigger *t;

	need_breakpoints();
	start_child(true);
	struct trigger_place place = place_of(&b.arena);
	place.kind = HIT_MARK;
	cr_assert_eq(trigger_new(child, &place, 1, false, &t, NULL), ERR_NONE);
	for (int ms = 0; ms < PATIENCE_MS && b.hits.count < 5; ms += 10) {
		usleep(10000);
		cr_expect_not(trigger_take_hits(t, &b));
	}
	cr_expect_geq(b.hits.count, 5);
	trigger_free(t);
	bundle_done(&b);
}

Test(trigger, uprobes_when_the_debug_registers_are_taken)
{
	struct bundle b = {0};
	struct trigger *t;
	int taken[DEBUG_REGISTERS];

	need_breakpoints();
	if (access("/sys/bus/event_source/devices/uprobe/type", R_OK) != 0 || geteuid() != 0)
		cr_skip_test("no uprobes here, or not root");
	start_child(true);
	struct trigger_place place = place_of(&b.arena);
	for (int i = 0; i < DEBUG_REGISTERS; i++) {
		taken[i] = open_breakpoint(child, place.ip + 64 + (uint64_t)i);
		cr_assert_geq(taken[i], 0);
	}
	struct error error = {0};
	enum err err = trigger_new(child, &place, 1, false, &t, &error);
	if (err != ERR_NONE)
		cr_skip_test("uprobes cannot be used here: %s", error.message);
	cr_expect(trigger_patches_code(t));
	trigger_arm(t);
	cr_assert(wait_for_hit(t, &b));
	cr_expect_eq(b.hits.items[0].args[0], 11);
	trigger_free(t);
	for (int i = 0; i < DEBUG_REGISTERS; i++)
		close(taken[i]);
	bundle_done(&b);
}

Test(trigger, a_process_that_is_gone)
{
	struct trigger_place place = {.ip = 0x1000, .where = "0x1000"};
	struct trigger *t;

	child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	cr_expect_eq(trigger_new(child, &place, 1, false, &t, NULL), ERR_NOT_FOUND);
	child = 0;
}
