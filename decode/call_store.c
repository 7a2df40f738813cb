/* See call_store.h. Mappings are aligned to huge pages, so that moving one when it grows moves
 * page tables and neither copies nor splits a page. The file's blocks are allocated before
 * they are written to: a full disk is an error here, not a SIGBUS later. */
#include "decode/call_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE_BYTES = 2 << 20, MAPPED_LEAST_BYTES = 4 << 20, WRITE_MAX_BYTES = 1 << 30 };

/* Address space without memory, aligned to huge pages; NULL = none left. */
static char *reserve_addresses(size_t bytes)
{
	char *p = mmap(NULL, bytes + HUGE_PAGE_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	size_t before = -(uintptr_t)p % HUGE_PAGE_BYTES;
	if (before)
		munmap(p, before);
	munmap(p + before + bytes, HUGE_PAGE_BYTES - before);
	return p + before;
}

static void *map_anonymous(size_t bytes)
{
	char *at = reserve_addresses(bytes);
	void *p = at ? mmap(at, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
		     : MAP_FAILED;

	if (p == MAP_FAILED) {
		if (at)
			munmap(at, bytes);
		return NULL;
	}
	/* A wish: with small pages it is only slower. */
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

static void *grow_mapping(void *old, size_t old_bytes, size_t bytes)
{
	void *p = mremap(old, old_bytes, bytes, 0);

	if (p != MAP_FAILED)
		return p;
	char *at = reserve_addresses(bytes);
	if (!at)
		return NULL;
	p = mremap(old, old_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);
	if (p == MAP_FAILED) {
		munmap(at, bytes);
		return NULL;
	}
	return p;
}

/* A file without a name; -1 = none. */
static int open_temporary(void)
{
	const char *directory = getenv("TMPDIR");
	char path[PATH_MAX];

	if (!directory || !*directory)
		directory = "/var/tmp";
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || snprintf(path, sizeof path, "%s/pt-decode-XXXXXX", directory) >= PATH_MAX)
		return fd;
	fd = mkostemp(path, O_CLOEXEC); /* a file system without O_TMPFILE */
	if (fd >= 0)
		unlink(path);
	return fd;
}

static bool write_all(int fd, const char *data, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, data, bytes < WRITE_MAX_BYTES ? bytes : WRITE_MAX_BYTES);

		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			data += n;
			bytes -= (size_t)n;
		}
	}
	return true;
}

/* A file of `bytes` that begins with `data`, mapped; NULL = no room for it. */
static void *map_file(size_t bytes, const void *data, size_t data_bytes, int *result)
{
	int fd = open_temporary();
	void *p = MAP_FAILED;

	if (fd >= 0 && write_all(fd, data, data_bytes) && posix_fallocate(fd, 0, (off_t)bytes) == 0)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*result = fd;
	return p;
}

/* Moves the calls into a file of `bytes`. */
static bool calls_spill(struct thread *t, size_t bytes)
{
	int fd;
	void *p = map_file(bytes, t->calls.items, t->calls.count * sizeof *t->calls.items, &fd);

	if (!p)
		return false;
	munmap(t->calls.items, t->calls.capacity * sizeof *t->calls.items);
	t->calls.items = p;
	t->calls_fd = fd;
	t->calls_place = CALLS_IN_FILE;
	return true;
}

static bool calls_map(struct thread *t, size_t bytes)
{
	void *p = map_anonymous(bytes);

	if (!p)
		return false;
	if (t->calls.count)
		memcpy(p, t->calls.items, t->calls.count * sizeof *t->calls.items);
	free(t->calls.items);
	t->calls.items = p;
	t->calls_place = CALLS_MAPPED;
	return true;
}

static bool calls_grow_mapping(struct thread *t, size_t bytes)
{
	size_t old_bytes = t->calls.capacity * sizeof *t->calls.items;

	if (t->calls_place == CALLS_IN_FILE) {
		if (posix_fallocate(t->calls_fd, (off_t)old_bytes, (off_t)(bytes - old_bytes)) != 0)
			return false;
		/* Written and not needed for long: the file's, no more ours. */
		(void)madvise(t->calls.items, old_bytes, MADV_DONTNEED);
	}
	void *p = grow_mapping(t->calls.items, old_bytes, bytes);
	if (!p)
		return false;
	t->calls.items = p;
	return true;
}

bool calls_grow(struct trace *trace, struct thread *t, size_t need)
{
	size_t size = sizeof *t->calls.items, grown = t->calls.capacity + t->calls.capacity / 2 + 8;

	if (grown < need)
		grown = need;
	if (t->calls_place == CALLS_IN_HEAP && grown * size < MAPPED_LEAST_BYTES)
		return vec_reserve(&t->calls, need);
	size_t old_bytes = t->calls.capacity * size;
	size_t bytes = (grown * size + HUGE_PAGE_BYTES - 1) & -(size_t)HUGE_PAGE_BYTES;
	bool spill =
		trace->spill_bytes && trace->mapped_bytes + bytes - old_bytes > trace->spill_bytes;
	enum calls_place was = t->calls_place;
	bool ok;

	if (t->calls_place == CALLS_IN_HEAP)
		ok = calls_map(t, bytes);
	else if (t->calls_place == CALLS_MAPPED && spill)
		ok = calls_spill(t, bytes);
	else
		ok = calls_grow_mapping(t, bytes);
	if (!ok)
		return false;
	if (was == CALLS_MAPPED)
		trace->mapped_bytes -= old_bytes;
	if (t->calls_place == CALLS_MAPPED)
		trace->mapped_bytes += bytes;
	t->calls.capacity = bytes / size;
	return true;
}

void calls_done(struct thread *t)
{
	if (t->calls_place == CALLS_IN_HEAP) {
		vec_done(&t->calls);
		return;
	}
	munmap(t->calls.items, t->calls.capacity * sizeof *t->calls.items);
	if (t->calls_place == CALLS_IN_FILE)
		close(t->calls_fd);
	t->calls.items = NULL;
	t->calls.count = t->calls.capacity = 0;
	t->calls_place = CALLS_IN_HEAP;
}

bool spill_new(struct trace *trace, size_t bytes, struct spill *s)
{
	bool large = bytes >= MAPPED_LEAST_BYTES;
	bool to_file =
		large && trace->spill_bytes && trace->mapped_bytes + bytes > trace->spill_bytes;
	int fd = -1;

	if (large)
		bytes = (bytes + HUGE_PAGE_BYTES - 1) & -(size_t)HUGE_PAGE_BYTES;
	*s = (struct spill){.trace = trace, .bytes = bytes};
	s->place = to_file ? CALLS_IN_FILE : large ? CALLS_MAPPED : CALLS_IN_HEAP;
	s->items = to_file ? map_file(bytes, NULL, 0, &fd)
		   : large ? map_anonymous(bytes)
			   : calloc(1, bytes ? bytes : 1);
	if (fd >= 0)
		close(fd); /* the mapping is enough */
	if (s->items && s->place == CALLS_MAPPED)
		trace->mapped_bytes += bytes;
	return s->items != NULL;
}

void spill_done(struct spill *s)
{
	if (s->items && s->place == CALLS_IN_HEAP)
		free(s->items);
	else if (s->items)
		munmap(s->items, s->bytes);
	if (s->items && s->place == CALLS_MAPPED)
		s->trace->mapped_bytes -= s->bytes;
	*s = (struct spill){0};
}
