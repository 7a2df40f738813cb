/* Looks at itself and at children of its own. */
#include "capture/collector.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct held_file *find(const struct collector *c, const char *part)
{
	for (size_t i = 0; i < c->files.count; i++)
		if (strstr(c->files.items[i].path, part))
			return &c->files.items[i];
	return NULL;
}

static const struct held_process *find_process(const struct collector *c, pid_t pid)
{
	for (size_t i = 0; i < c->processes.count; i++)
		if (c->processes.items[i].pid == pid)
			return &c->processes.items[i];
	return NULL;
}

Test(collector, holds_what_is_mapped_once)
{
	struct collector c = {0};
	struct stat mine, held;

	collector_look(&c, getpid());
	const struct held_file *self = find(&c, "collector_test");
	cr_assert_not_null(self);
	cr_assert(stat("/proc/self/exe", &mine) == 0 && fstat(self->fd, &held) == 0);
	cr_expect(mine.st_ino == held.st_ino && mine.st_dev == held.st_dev);
	cr_expect_not_null(find(&c, "libc.so"));
	cr_expect_null(find(&c, "[vdso]"));
	size_t count = c.files.count;
	collector_look(&c, getpid());
	cr_expect_eq(c.files.count, count, "a second look finds nothing new");
	const struct held_process *process = find_process(&c, getpid());
	cr_assert_not_null(process);
	cr_expect_neq(process->comm[0], '\0');
	cr_expect_not_null(process->cmdline);
	collector_done(&c);
}

Test(collector, without_binaries_it_holds_none)
{
	struct collector c = {.no_binaries = true};

	collector_look(&c, getpid());
	cr_expect_eq(c.files.count, 0);
	cr_expect_eq(c.processes.count, 1);
	collector_done(&c);
}

Test(collector, memory_without_a_name_in_the_file_system)
{
	struct collector c = {0};
	int fd = memfd_create("jit-code", MFD_CLOEXEC);
	char byte;

	cr_assert(fd >= 0 && ftruncate(fd, 4096) == 0 && pwrite(fd, "\xc3", 1, 0) == 1);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (code == MAP_FAILED)
		cr_skip_test("a memfd may not be executed here");
	close(fd);
	if (geteuid() != 0)
		cr_skip_test("map_files needs privileges");
	collector_look(&c, getpid());
	const struct held_file *file = find(&c, "memfd:jit-code");
	cr_assert_not_null(file);
	cr_expect_null(strstr(file->path, "(deleted)"));
	cr_expect(pread(file->fd, &byte, 1, 0) == 1 && byte == '\xc3');
	munmap(code, 4096);
	collector_done(&c);
}

Test(collector, descendants_are_looked_at, .timeout = 30)
{
	struct collector c = {0};
	pid_t child = fork();

	if (child == 0) {
		pid_t grandchild = fork();

		if (grandchild == 0)
			execl("/bin/sleep", "sleep", "20", NULL);
		waitpid(grandchild, NULL, 0);
		_exit(0);
	}
	for (int i = 0; i < 100 && !find(&c, "/sleep"); i++) {
		usleep(20000);
		collector_look(&c, child);
	}
	cr_expect_not_null(find(&c, "/sleep"));
	cr_expect_eq(c.processes.count, 2);
	for (size_t i = 0; i < c.processes.count; i++)
		kill(c.processes.items[i].pid, SIGKILL);
	waitpid(child, NULL, 0);
	collector_done(&c);
}

Test(collector, perf_maps_of_the_process_s_own_user_only)
{
	struct collector c = {0};
	char path[64];

	snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
	unlink(path);
	cr_assert_eq(symlink("/etc/passwd", path), 0);
	collector_look(&c, getpid());
	cr_expect_eq(find_process(&c, getpid())->perf_map_fd, -1, "a link is not followed");
	cr_assert_eq(unlink(path), 0);
	FILE *map = fopen(path, "w");
	fputs("1000 10 function\n", map);
	fclose(map);
	if (geteuid() == 0 && chown(path, 65534, 65534) == 0) {
		collector_look(&c, getpid());
		cr_expect_eq(find_process(&c, getpid())->perf_map_fd, -1, "somebody else's");
		cr_assert_eq(chown(path, geteuid(), getegid()), 0);
	}
	collector_look(&c, getpid());
	cr_expect_geq(find_process(&c, getpid())->perf_map_fd, 0);
	unlink(path);
	collector_done(&c);
}

Test(collector, a_process_that_is_gone)
{
	struct collector c = {0};
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	collector_look(&c, child);
	cr_expect_eq(c.files.count + c.processes.count, 0);
	collector_done(&c);
}
