/* See clock.h. The page of any perf event tells: linux/perf_event.h, struct
 * perf_event_mmap_page, cap_user_time_zero. */
#include "capture/clock.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum { PAGE = 4096 };

static void read_page(const volatile struct perf_event_mmap_page *page, struct bundle_clock *clock)
{
	struct bundle_clock c = {.known = page->cap_user_time_zero};
	struct timespec wall;

	if (!c.known)
		return;
	c.time_zero = page->time_zero;
	c.time_mult = page->time_mult;
	c.time_shift = page->time_shift;
	uint64_t tsc = __rdtsc();
	clock_gettime(CLOCK_REALTIME, &wall);
	uint64_t low = tsc & (((uint64_t)1 << c.time_shift) - 1);
	c.perf_ns = c.time_zero + (tsc >> c.time_shift) * c.time_mult +
		    (low * c.time_mult >> c.time_shift);
	c.realtime_ns = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
	*clock = c;
}

void clock_read(struct bundle_clock *clock)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof attr,
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	*clock = (struct bundle_clock){0};
	if (fd < 0)
		return;
	void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (page != MAP_FAILED) {
		read_page(page, clock);
		munmap(page, PAGE);
	}
	close(fd);
}
