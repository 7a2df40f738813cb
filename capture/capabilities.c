/* See capabilities.h. */
#include "capture/capabilities.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "capture/child.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

enum { TEXT_MAX = 64 << 10, PERF_TIMEOUT_MS = 10000 };

/* The beginning of a small file below root; empty if there is none. */
static bool read_text(const char *root, const char *path, char *text, size_t bytes)
{
	char full[PATH_MAX];
	size_t used = 0;
	ssize_t n;

	text[0] = '\0';
	if (snprintf(full, sizeof full, "%s%s", root ? root : "", path) >= (int)sizeof full)
		return false;
	int fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	while (used < bytes - 1 && (n = read(fd, text + used, bytes - 1 - used)) > 0)
		used += (size_t)n;
	close(fd);
	text[used] = '\0';
	return used > 0;
}

static long long read_number(const char *root, const char *path, int base, long long missing)
{
	char text[64], *end;

	if (!read_text(root, path, text, sizeof text))
		return missing;
	long long value = strtoll(text, &end, base);
	return end == text ? missing : value;
}

/* The value of "key : value" or "key:value" in a text of lines. */
static bool find_field(const char *text, const char *key, char *value, size_t bytes)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) != 0)
			continue;
		const char *at = line + length;
		at += strspn(at, " \t");
		if (*at++ != ':')
			continue;
		at += strspn(at, " \t");
		snprintf(value, bytes, "%.*s", (int)strcspn(at, "\n"), at);
		return true;
	}
	return false;
}

static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += length)
		if ((at == text || isspace((unsigned char)at[-1])) &&
		    (!at[length] || isspace((unsigned char)at[length])))
			return true;
	return false;
}

static struct version parse_version(const char *text)
{
	struct version v = {0};

	return sscanf(text, "%u.%u", &v.major, &v.minor) == 2 ? v : (struct version){0};
}

static void probe_cpu(const char *root, char *text, struct capabilities *c)
{
	char value[8192];

	read_text(root, "/proc/cpuinfo", text, TEXT_MAX);
	c->cpu_intel = find_field(text, "vendor_id", value, sizeof value) &&
		       strcmp(value, "GenuineIntel") == 0;
	find_field(text, "model name", c->cpu_model, sizeof c->cpu_model);
	if (find_field(text, "flags", value, sizeof value)) {
		c->cpu_pt = has_word(value, "intel_pt");
		c->cpu_hypervisor = has_word(value, "hypervisor");
	}
	/* "0-3,8-11" */
	if (read_text(root, "/sys/devices/system/cpu/online", text, TEXT_MAX)) {
		for (char *at = text; isdigit((unsigned char)*at); at += *at == ',') {
			unsigned long first = strtoul(at, &at, 10);
			unsigned long last = *at == '-' ? strtoul(at + 1, &at, 10) : first;

			if (last >= first && last - first < 1u << 16)
				c->cpu_count += (unsigned)(last - first) + 1;
		}
	}
	if (c->cpu_count == 0)
		c->cpu_count = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

#define PMU "/sys/bus/event_source/devices/intel_pt/"

static void probe_pmu(const char *root, struct pt_capabilities *pt)
{
	long long type = read_number(root, PMU "type", 10, -1);

	pt->present = type >= 0;
	if (!pt->present)
		return;
	pt->type = (unsigned)type;
	pt->address_filters = (unsigned)read_number(root, PMU "nr_addr_filters", 10, 0);
	pt->psb_cyc = read_number(root, PMU "caps/psb_cyc", 10, 0) > 0;
	pt->mtc = read_number(root, PMU "caps/mtc", 10, 0) > 0;
	pt->ptwrite = read_number(root, PMU "caps/ptwrite", 10, 0) > 0;
	pt->event_trace = read_number(root, PMU "caps/event_trace", 10, 0) > 0;
	pt->cycle_thresholds = (uint64_t)read_number(root, PMU "caps/cycle_thresholds", 16, 0);
	pt->mtc_periods = (uint64_t)read_number(root, PMU "caps/mtc_periods", 16, 0);
	pt->psb_periods = (uint64_t)read_number(root, PMU "caps/psb_periods", 16, 0);
}

/* 0, or why the event cannot be opened for ourselves. */
static int try_event(struct perf_event_attr *attr)
{
	attr->size = sizeof *attr;
	attr->disabled = attr->exclude_kernel = attr->exclude_hv = 1;
	int fd = (int)syscall(SYS_perf_event_open, attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static void probe_kernel(const char *root, struct capabilities *c)
{
	char text[16];

	if (read_text(root, "/proc/sys/kernel/osrelease", c->kernel_release,
		      sizeof c->kernel_release))
		c->kernel_release[strcspn(c->kernel_release, "\n")] = '\0';
	c->kernel = parse_version(c->kernel_release);
	c->kernel_mmap_build_id = version_at_least(c->kernel, 5, 12);
	c->kernel_aux_pause = version_at_least(c->kernel, 6, 13);
	c->perf_events = read_text(root, "/proc/sys/kernel/perf_event_paranoid", text, sizeof text);
	c->perf_event_paranoid =
		(int)read_number(root, "/proc/sys/kernel/perf_event_paranoid", 10, 2);
	c->kptr_restrict = (int)read_number(root, "/proc/sys/kernel/kptr_restrict", 10, 1);
	c->perf_event_mlock_bytes =
		(uint64_t)read_number(root, "/proc/sys/kernel/perf_event_mlock_kb", 10, 516) << 10;
	if (root)
		return;

	struct perf_event_attr software = {.type = PERF_TYPE_SOFTWARE,
					   .config = PERF_COUNT_SW_DUMMY};
	c->software_event_errno = try_event(&software);
	if (c->software_event_errno == 0) { /* distributions backport: ask, don't guess */
		struct perf_event_attr attr = software;
		attr.mmap = attr.mmap2 = attr.build_id = 1;
		c->kernel_mmap_build_id = try_event(&attr) == 0;
	}
	if (c->pt.present) {
		struct perf_event_attr attr = {.type = c->pt.type};
		c->pt.open_errno = try_event(&attr);
	}
	int kcore = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
	c->kcore_readable = kcore >= 0;
	if (kcore >= 0)
		close(kcore);
}

static void probe_user(const char *root, char *text, struct capabilities *c)
{
	char value[64];
	unsigned uid = 0;

	read_text(root, "/proc/self/status", text, TEXT_MAX);
	if (find_field(text, "CapEff", value, sizeof value))
		c->caps = strtoull(value, NULL, 16);
	if (find_field(text, "Seccomp", value, sizeof value))
		c->seccomp = atoi(value);
	/* real, effective, ...: the effective one counts */
	c->root = find_field(text, "Uid", value, sizeof value) &&
		  sscanf(value, "%*u %u", &uid) == 1 && uid == 0;
	c->container = read_text(root, "/run/.containerenv", value, sizeof value) ||
		       (read_text(root, "/proc/1/cgroup", text, TEXT_MAX) &&
			(strstr(text, "docker") || strstr(text, "kubepods") ||
			 strstr(text, "libpod") || strstr(text, "lxc")));
	char dockerenv[PATH_MAX];
	if (snprintf(dockerenv, sizeof dockerenv, "%s/.dockerenv", root ? root : "") <
	    (int)sizeof dockerenv)
		c->container |= access(dockerenv, F_OK) == 0;

	/* "Max locked memory         8388608              8388608              bytes" */
	c->memlock_bytes = 64 << 10;
	read_text(root, "/proc/self/limits", text, TEXT_MAX);
	const char *line = strstr(text, "Max locked memory");
	if (line && sscanf(line, "Max locked memory %63s", value) == 1)
		c->memlock_bytes =
			strcmp(value, "unlimited") == 0 ? UINT64_MAX : strtoull(value, NULL, 10);
}

/* The permitted set that "setcap ...=ep" gave the file. */
static uint64_t file_caps(const char *path)
{
	struct vfs_ns_cap_data data;
	ssize_t n = getxattr(path, "security.capability", &data, sizeof data);

	if (n < (ssize_t)XATTR_CAPS_SZ_2 || !(data.magic_etc & VFS_CAP_FLAGS_EFFECTIVE))
		return 0;
	return (uint64_t)data.data[1].permitted << 32 | data.data[0].permitted;
}

void perf_capabilities_parse(const char *version_text, const char *help_text,
			     struct perf_capabilities *perf)
{
	const char *number = strstr(version_text, "perf version ");
	struct version v =
		number ? parse_version(number + strlen("perf version ")) : (struct version){0};

	perf->version = v;
	for (const char *line = version_text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		size_t length = strcspn(line, "\n");
		const char *off = memmem(line, length, "[ OFF ]", 7);

		if (off && (memmem(line, length, "HAVE_AUXTRACE_SUPPORT", 21)))
			perf->no_auxtrace = true;
	}
	/* The options perf lists are what it has; the version decides where it lists nothing. */
	bool listed = strstr(help_text, "--output") != NULL;
	perf->unusable = v.major == 0 && !listed;
	perf->control = listed ? strstr(help_text, "--control") != NULL : version_at_least(v, 5, 9);
	perf->control_snapshot = perf->control && (listed ? strstr(help_text, "'snapshot'") != NULL
							  : version_at_least(v, 5, 10));
	perf->kcore = listed ? strstr(help_text, "--kcore") != NULL : version_at_least(v, 5, 5);
	perf->buildid_mmap =
		listed ? strstr(help_text, "--buildid-mmap") != NULL : version_at_least(v, 5, 12);
}

static void probe_perf(const char *program, char *text, struct perf_capabilities *perf)
{
	char version[8192] = "";

	if (child_find(program, perf->path, sizeof perf->path, NULL) != ERR_NONE) {
		perf->path[0] = '\0';
		return;
	}
	text[0] = '\0';
	char *version_argv[] = {perf->path, "version", "--build-options", NULL};
	char *help_argv[] = {perf->path, "record", "-h", NULL};
	if (child_output(version_argv, PERF_TIMEOUT_MS, version, sizeof version, NULL) !=
		    ERR_NONE ||
	    child_output(help_argv, PERF_TIMEOUT_MS, text, TEXT_MAX, NULL) != ERR_NONE) {
		perf->path[0] = '\0';
		return;
	}
	perf_capabilities_parse(version, text, perf);
	perf->file_caps = file_caps(perf->path);
}

void capabilities_probe(const char *perf_program, const char *system_root,
			struct capabilities *result)
{
	static char text[TEXT_MAX]; /* scratch; probing happens once, in one thread */
	struct capabilities c = {0};

	probe_cpu(system_root, text, &c);
	probe_pmu(system_root, &c.pt);
	probe_kernel(system_root, &c);
	probe_user(system_root, text, &c);
	probe_perf(perf_program ? perf_program : "perf", text, &c.perf);
	*result = c;
}

bool capabilities_perf_has(const struct capabilities *c, unsigned cap)
{
	return (c->caps | c->perf.file_caps) >> cap & 1;
}

static bool is_perfmon_capable(const struct capabilities *c)
{
	return capabilities_perf_has(c, CAP_SYS_ADMIN) || capabilities_perf_has(c, CAP_PERFMON);
}

bool capabilities_may_trace_user(const struct capabilities *c)
{
	/* 3 and more: Debian's and Ubuntu's "no unprivileged use at all" */
	return c->perf_event_paranoid <= 2 || is_perfmon_capable(c);
}

bool capabilities_may_trace_kernel(const struct capabilities *c)
{
	return c->perf_event_paranoid <= 1 || is_perfmon_capable(c);
}

uint64_t capabilities_lockable_bytes(const struct capabilities *c)
{
	/* kernel/events/core.c, perf_mmap(): what all CPUs' allowance does not cover counts
	 * against RLIMIT_MEMLOCK, unless paranoid is -1 or CAP_IPC_LOCK is held. */
	if (c->perf_event_paranoid < 0 || capabilities_perf_has(c, CAP_IPC_LOCK) ||
	    c->memlock_bytes == UINT64_MAX)
		return UINT64_MAX;
	return c->perf_event_mlock_bytes * c->cpu_count + c->memlock_bytes;
}

enum err capabilities_may_attach(const struct capabilities *c, int pid, struct error *error)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof attr,
				       .config = PERF_COUNT_SW_DUMMY,
				       .disabled = 1,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0) {
		close(fd);
		return ERR_NONE;
	}
	if (errno == ESRCH)
		return error_set(error, ERR_NOT_FOUND, "process %d does not exist", pid);
	if ((errno == EACCES || errno == EPERM) && c->perf.file_caps == 0)
		return error_set(
			error, ERR_IO,
			"process %d may not be traced by this user: run as its owner or root, "
			"or give perf CAP_PERFMON and CAP_SYS_PTRACE",
			pid);
	return ERR_NONE; /* perf will say it */
}
