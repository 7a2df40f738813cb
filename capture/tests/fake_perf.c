/* A stand-in for perf record on machines without Intel PT.
 *
 * Understands what pt-capture uses: version, record -h, -o, -p, -t, --control, --snapshot,
 * SIGUSR2, SIGINT. Writes a perf.data with the executable mappings it saw in its targets
 * (with build ids) and one AUXTRACE a snapshot; or, if FILE.data stands beside it under its
 * own name, a copy of that. Words in its own name make it misbehave:
 *   -old      a perf 5.4: neither --control nor build ids
 *   -fails    refuses to start, as when Intel PT is in use
 *   -dies     is killed in the middle of the recording
 *   -full     fails to write, as on a full disk
 *   -empty    records no trace
 *   -deaf     never answers a command
 *   -orphan   is not told when its parent dies, as a perf with file capabilities */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/build_id.h"

enum { TARGETS_MAX = 64, MAPPINGS_MAX = 256, AUXTRACE = 71, AUX_BYTES = 4096 };

struct mapping {
	uint32_t pid;
	uint64_t start, bytes, offset;
	char path[512];
	struct build_id id;
};

static struct {
	const char *name, *output;
	int control, ack;
	int targets[TARGETS_MAX], pidfds[TARGETS_MAX];
	size_t target_count, mapping_count;
	struct mapping mappings[MAPPINGS_MAX];
	bool at_exit, full;
	unsigned snapshots;
} fake = {.control = -1, .ack = -1};

static volatile sig_atomic_t stopped_by, usr2;

static void on_signal(int sig)
{
	if (sig == SIGUSR2)
		usr2++;
	else
		stopped_by = sig;
}

static bool is(const char *word)
{
	return strstr(fake.name, word) != NULL;
}

static int say_version(void)
{
	printf("perf version %s\n              auxtrace: [ on  ]  # HAVE_AUXTRACE_SUPPORT\n",
	       is("-old") ? "5.4.0" : "6.1.0");
	return 0;
}

static int say_help(void)
{
	printf(" Usage: perf record [<options>] [<command>]\n    -o, --output <file>   output\n"
	       "    -S, --snapshot[=<opts>]\n");
	if (!is("-old"))
		printf("        --kcore\n        --buildid-mmap\n        --control "
		       "<fd:ctl-fd[,ack-fd]>\n"
		       "                          'enable', 'snapshot': AUX area tracing "
		       "snapshot).\n");
	return 129;
}

static void see_mappings(int pid)
{
	char path[64], *line = NULL;
	size_t room = 0;

	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "r");
	while (maps && getline(&line, &room, maps) > 0) {
		struct mapping m = {.pid = (uint32_t)pid};
		unsigned long start, end, offset;
		char perms[8];
		bool known = false;
		struct stat st;

		if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %511s", &start, &end, perms, &offset,
			   m.path) != 5 ||
		    perms[2] != 'x' || m.path[0] != '/')
			continue;
		m.start = start, m.bytes = end - start, m.offset = offset;
		for (size_t i = 0; i < fake.mapping_count; i++)
			known |= fake.mappings[i].start == m.start &&
				 strcmp(fake.mappings[i].path, m.path) == 0;
		if (known || fake.mapping_count == MAPPINGS_MAX)
			continue;
		snprintf(path, sizeof path, "/proc/%d/map_files/%lx-%lx", pid, start, end);
		int fd = open(path, O_RDONLY);
		if (fd >= 0 && fstat(fd, &st) == 0) {
			void *image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

			if (image != MAP_FAILED) {
				build_id_find(image, (size_t)st.st_size, &m.id);
				munmap(image, (size_t)st.st_size);
			}
		}
		if (fd >= 0)
			close(fd);
		fake.mappings[fake.mapping_count++] = m;
	}
	free(line);
	if (maps)
		fclose(maps);
}

static void put(FILE *out, uint64_t value, int bytes)
{
	fwrite(&value, 1, (size_t)bytes, out); /* little-endian */
}

static void put_name(FILE *out, const char *name)
{
	char padded[520] = {0};
	size_t length = strlen(name);

	memcpy(padded, name, length);
	fwrite(padded, 1, (length + 8) & ~(size_t)7, out);
}

static void put_records(FILE *out)
{
	for (size_t i = 0; i < fake.target_count; i++) {
		put(out, PERF_RECORD_COMM, 4);
		put(out, PERF_RECORD_MISC_COMM_EXEC | PERF_RECORD_MISC_USER, 2);
		put(out, 16 + 16, 2); /* "traced-comm" takes 16 with its padding */
		put(out, (uint64_t)fake.targets[i], 4);
		put(out, (uint64_t)fake.targets[i], 4);
		put_name(out, "traced-comm");
	}
	for (size_t i = 0; i < fake.mapping_count; i++) {
		const struct mapping *m = &fake.mappings[i];
		size_t name_bytes = (strlen(m->path) + 8) & ~(size_t)7;
		bool id = m->id.length > 0 && !is("-old");

		put(out, PERF_RECORD_MMAP2, 4);
		put(out, PERF_RECORD_MISC_USER | (id ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0), 2);
		put(out, 72 + name_bytes, 2);
		put(out, m->pid, 4);
		put(out, m->pid, 4);
		put(out, m->start, 8);
		put(out, m->bytes, 8);
		put(out, m->offset, 8);
		put(out, id ? m->id.length : 0, 4);
		fwrite(m->id.bytes, 1, 20, out);
		put(out, PROT_READ | PROT_EXEC, 4);
		put(out, MAP_PRIVATE, 4);
		put_name(out, m->path);
	}
	for (unsigned i = 0; i < fake.snapshots && !is("-empty"); i++) {
		static const char trace[AUX_BYTES];

		put(out, AUXTRACE, 4);
		put(out, 48 << 16, 4);
		put(out, AUX_BYTES, 8);
		put(out, (uint64_t)i * AUX_BYTES, 8);
		put(out, i, 8);
		put(out, 0, 8);
		put(out, 0, 8);
		fwrite(trace, 1, AUX_BYTES, out);
	}
}

static bool copy_beside(FILE *out)
{
	char path[4096], buffer[65536];
	size_t n;

	snprintf(path, sizeof path, "%s.data", fake.name);
	FILE *in = fopen(path, "r");
	if (!in)
		return false;
	while ((n = fread(buffer, 1, sizeof buffer, in)) > 0)
		fwrite(buffer, 1, n, out);
	fclose(in);
	return true;
}

static int write_output(void)
{
	FILE *out = fopen(fake.output, "w");

	if (!out || is("-full")) {
		fprintf(stderr, "failed to write perf data, error: %s\n",
			is("-full") ? "No space left on device" : strerror(errno));
		return 255;
	}
	if (!copy_beside(out)) {
		fwrite("PERFILE2", 1, 8, out);
		put(out, 104, 8);
		for (int i = 0; i < 11; i++)
			put(out, i == 3 ? 104 : 0, 8); /* data offset; sizes and features 0 */
		put_records(out);
		long end = ftell(out);
		fseek(out, 48, SEEK_SET);
		put(out, (uint64_t)end - 104, 8);
	}
	fclose(out);
	fprintf(stderr, "[ perf record: Captured and wrote 0.1 MB %s ]\n", fake.output);
	return 0;
}

static void take_commands(void)
{
	char text[256];
	ssize_t n = read(fake.control, text, sizeof text - 1);

	if (n <= 0) {
		fake.control = -1;
		return;
	}
	text[n] = '\0';
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		fake.snapshots += strcmp(line, "snapshot") == 0;
		if (!is("-deaf") && write(fake.ack, "ack\n", 5) != 5)
			exit(1);
	}
}

static bool some_target_lives(void)
{
	for (size_t i = 0; i < fake.target_count; i++) {
		struct pollfd p = {.fd = fake.pidfds[i], .events = POLLIN};

		if (poll(&p, 1, 0) == 0)
			return true;
	}
	return false;
}

static int record_targets(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof attr,
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1};
	struct sigaction action = {.sa_handler = on_signal};

	if (is("-fails")) {
		fprintf(stderr,
			"Error:\nThe sys_perf_event_open() syscall returned with 16 (Device or "
			"resource busy) for event (intel_pt//u).\n");
		return 255;
	}
	if (is("-orphan"))
		prctl(PR_SET_PDEATHSIG, 0);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0); /* kept: readiness is seen by it */
	for (unsigned round = 0; !stopped_by && some_target_lives(); round++) {
		struct pollfd p = {.fd = fake.control, .events = POLLIN};

		for (size_t i = 0; i < fake.target_count; i++)
			see_mappings(fake.targets[i]);
		if (is("-dies") && round > 5)
			raise(SIGKILL);
		if (poll(&p, 1, 10) > 0)
			take_commands();
	}
	fake.snapshots += (unsigned)usr2 + (fake.at_exit || fake.full);
	int status = write_output();
	if (status == 0 && stopped_by) { /* as perf ends */
		signal(stopped_by, SIG_DFL);
		raise(stopped_by);
	}
	return status;
}

int main(int argc, char **argv)
{
	fake.name = argv[0];
	fake.full = true;
	if (argc > 1 && strcmp(argv[1], "version") == 0)
		return say_version();
	for (int i = 2; i < argc; i++) {
		const char *arg = argv[i];

		if (strcmp(arg, "-h") == 0)
			return say_help();
		if (strcmp(arg, "-o") == 0) {
			fake.output = argv[++i];
		} else if (strncmp(arg, "--control=fd:", 13) == 0) {
			sscanf(arg + 13, "%d,%d", &fake.control, &fake.ack);
		} else if (strncmp(arg, "--snapshot", 10) == 0) {
			fake.full = false;
			fake.at_exit = strcmp(arg, "--snapshot=e") == 0;
		} else if (strcmp(arg, "-p") == 0 || strcmp(arg, "-t") == 0) {
			for (char *at = argv[++i]; *at; at += *at == ',') {
				int pid = (int)strtol(at, &at, 10);

				fake.targets[fake.target_count] = pid;
				fake.pidfds[fake.target_count++] =
					(int)syscall(SYS_pidfd_open, pid, 0);
			}
		}
	}
	return record_targets();
}
