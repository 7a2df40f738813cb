/* ptasm CASE DIR: a readable text file becomes a trace.
 *
 * Writes DIR/perf.data, DIR/truth.txt, DIR/expect, DIR/symfs/PROGRAM and, if the case has a
 * kernel, DIR/kernel (an ELF file that serves as vmlinux and as kcore). A case has lines
 *
 *     # prose
 *     expect exact                       as in cases.list
 *     options kernel ...                 kernel: not only user mode; noretcomp, cyc
 *     program PATH PID COMM ADDRESS      then assembly (GNU as) up to a line "end"
 *     kernel ADDRESS                     the same for the kernel
 *     filter TEXT                        the address filter, as perf keeps it
 *     thread PID TID COMM                another thread or process than program's
 *     cpu N                              then packets and sideband (ptasm_packets.h) up to "end"
 *     edges                              then TID KIND FROM TO [NOTE] up to "end": the truth
 *     calls                              then the tree of --dump calls, without times and marks
 *
 * Where an address is wanted: LABEL, LABEL+N, LABEL-N or a number; - is 0. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/log.h"
#include "testdata/ptasm_packets.h"

enum { TEXT_MAX = 1 << 16, LINE_MAX_BYTES = 1024 };

static bool failed_at(struct ptasm *p, const char *what)
{
	log_error("%s:%u: %s", p->path, p->line, what);
	return false;
}

static bool next_line(struct ptasm *p, char *line)
{
	if (!fgets(line, LINE_MAX_BYTES, p->file))
		return false;
	p->line++;
	line[strcspn(line, "\n")] = '\0';
	return true;
}

/* The lines up to "end", as they are. */
static bool read_text(struct ptasm *p, char *text)
{
	char line[LINE_MAX_BYTES];
	size_t bytes = 0;

	while (next_line(p, line)) {
		if (strcmp(line, "end") == 0)
			return true;
		size_t n = (size_t)snprintf(text + bytes, TEXT_MAX - bytes, "%s\n", line);
		if (n >= TEXT_MAX - bytes)
			return failed_at(p, "too long");
		bytes += n;
	}
	return failed_at(p, "no \"end\"");
}

static bool make_parents(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		bool ok = mkdir(path, 0777) == 0 || errno == EEXIST;
		*slash = '/';
		if (!ok)
			return false;
	}
	return true;
}

static bool read_image(struct ptasm *p, struct image *image, uint64_t address, const char *where)
{
	static char text[TEXT_MAX];
	char path[4096];
	struct error e = {0};

	text[0] = '\0';
	snprintf(path, sizeof path, "%s/%s", p->dir, where);
	if (!read_text(p, text) || !make_parents(path))
		return failed_at(p, "no program");
	if (image_make(image, text, address, path, &e))
		return failed_at(p, e.message);
	return true;
}

static bool add_thread(struct ptasm *p, int32_t pid, int32_t tid, const char *comm)
{
	struct ptasm_thread t = {.pid = pid, .tid = tid};

	t.comm = recording_add_string(&p->recording, comm);
	return vec_push(&p->threads, t);
}

static bool on_program(struct ptasm *p, const char *rest)
{
	char path[256], comm[16], where[512];
	struct rec_map map = {.prot = PROT_READ | PROT_EXEC, .existed = 1, .major = 8, .minor = 1};
	int32_t pid;
	uint64_t address;
	struct image image = {0};

	if (sscanf(rest, "%255s %" SCNd32 " %15s %" SCNx64, path, &pid, comm, &address) != 4)
		return failed_at(p, "program PATH PID COMM ADDRESS");
	snprintf(where, sizeof where, "symfs%s", path);
	if (!read_image(p, &image, address, where) || !add_thread(p, pid, pid, comm))
		return false;
	map.start = image.start;
	map.length = image.length;
	map.file_off = image.file_off;
	map.pid = pid;
	map.inode = 1000 + p->images.count;
	map.path = recording_add_string(&p->recording, path);
	return vec_push(&p->images, image) && vec_push(&p->recording.maps, map);
}

static bool on_kernel(struct ptasm *p, const char *rest)
{
	struct image image = {0};

	return read_image(p, &image, strtoull(rest, NULL, 16), "kernel") &&
	       vec_push(&p->images, image);
}

static bool on_options(struct ptasm *p, const char *rest)
{
	p->kernel = strstr(rest, "kernel") != NULL;
	p->no_compression = strstr(rest, "noretcomp") != NULL;
	p->cyc = strstr(rest, "cyc") != NULL;
	p->timeless = strstr(rest, "timeless") != NULL;
	return true;
}

static bool on_filter(struct ptasm *p, const char *rest)
{
	snprintf(p->filter, sizeof p->filter, "%s", rest);
	return true;
}

static bool on_thread(struct ptasm *p, const char *rest)
{
	int32_t pid, tid;
	char comm[16];

	if (sscanf(rest, "%" SCNd32 " %" SCNd32 " %15s", &pid, &tid, comm) != 3)
		return failed_at(p, "thread PID TID COMM");
	return add_thread(p, pid, tid, comm);
}

static bool on_cpu(struct ptasm *p, const char *rest)
{
	char line[LINE_MAX_BYTES];
	uint32_t cpu = (uint32_t)strtoul(rest, NULL, 10);

	if (cpu >= PTASM_CPUS)
		return failed_at(p, "too many CPUs");
	if (cpu >= p->cpus)
		p->cpus = cpu + 1;
	while (next_line(p, line)) {
		const char *wrong = NULL;

		if (strcmp(line, "end") == 0)
			return true;
		if (!ptasm_packet(p, &p->streams[cpu], line, &wrong))
			return failed_at(p, wrong ? wrong : line);
	}
	return failed_at(p, "no \"end\"");
}

static bool write_file(struct ptasm *p, const char *name, const char *text)
{
	char path[4096];

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	FILE *f = fopen(path, "w");
	return f && fputs(text, f) >= 0 && fclose(f) == 0;
}

static bool on_edges(struct ptasm *p, const char *rest)
{
	static char text[TEXT_MAX], out[2 * TEXT_MAX];
	size_t bytes = (size_t)sprintf(out, "# truth of %s\n# mode cpu\n", p->path);

	(void)rest;
	if (!read_text(p, text))
		return false;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char kind[32], from[128], to[128], note[64] = "";
		uint64_t from_ip, to_ip;
		int tid;

		if (line[0] == '#')
			continue;
		if (sscanf(line, "%d %31s %127s %127s %63s", &tid, kind, from, to, note) < 4 ||
		    !ptasm_address(p, from, &from_ip) || !ptasm_address(p, to, &to_ip))
			return failed_at(p, line);
		bytes += (size_t)snprintf(out + bytes, sizeof out - bytes,
					  "%d 0 0 %s %" PRIx64 " %" PRIx64 " 0 - -%s%s\n", tid,
					  kind, from_ip, to_ip, note[0] ? " " : "", note);
	}
	return write_file(p, "truth.txt", out);
}

static bool on_calls(struct ptasm *p, const char *rest)
{
	static char text[TEXT_MAX];

	(void)rest;
	return read_text(p, text) && write_file(p, "calls.txt", text);
}

static bool on_expect(struct ptasm *p, const char *rest)
{
	return write_file(p, "expect", rest);
}

static bool read_case(struct ptasm *p)
{
	static const struct {
		const char *name;
		bool (*run)(struct ptasm *, const char *);
	} sections[] = {{"expect", on_expect}, {"options", on_options}, {"program", on_program},
			{"kernel", on_kernel}, {"filter", on_filter},   {"thread", on_thread},
			{"cpu", on_cpu},       {"edges", on_edges},     {"calls", on_calls}};
	char line[LINE_MAX_BYTES];

	while (next_line(p, line)) {
		size_t length = strcspn(line, " "), i = 0;

		if (line[0] == '#' || line[0] == '\0')
			continue;
		while (i < sizeof sections / sizeof *sections &&
		       (strlen(sections[i].name) != length ||
			strncmp(line, sections[i].name, length) != 0))
			i++;
		if (i == sizeof sections / sizeof *sections)
			return failed_at(p, line);
		if (!sections[i].run(p, line + length + (line[length] == ' ')))
			return false;
	}
	return true;
}

static enum err write_data(struct ptasm *p, struct error *e)
{
	struct container_config config = {
		.per_cpu = true,
		.rings = p->cpus ? p->cpus : 1,
		.timeless = p->timeless,
		.attached = true,
		.filter = p->filter[0] ? p->filter : NULL,
		.kernel = p->kernel,
		.no_compression = p->no_compression,
		.tsc = true,
		.mtc = true,
		.cyc = p->cyc,
		.mtc_shift = 3,
		.psb_shift = 3,
		.switches = SWITCHES_CPU_WIDE,
		.command = "case",
	};
	struct container c;
	char path[4096];
	int32_t pid = p->threads.count ? p->threads.items[0].pid : 1;

	snprintf(path, sizeof path, "%s/perf.data", p->dir);
	p->recording.comm = p->threads.count ? p->threads.items[0].comm : 0;
	enum err failed = container_open(&c, path, &config, &p->recording, e);
	if (failed)
		return failed;
	container_start(&c, &pid, pid);
	for (size_t i = 0; i < p->threads.count; i++) {
		const struct ptasm_thread *t = &p->threads.items[i];
		struct moment before = {.pid = t->pid, .tid = t->tid};

		container_comm(&c, &before, recording_string(&p->recording, t->comm), false);
	}
	for (size_t i = 0; i < p->recording.maps.count; i++) {
		const struct rec_map *map = &p->recording.maps.items[i];
		struct moment before = {.pid = map->pid, .tid = map->pid};

		container_mmap(&c, &before, map);
	}
	container_init_done(&c);
	ptasm_write_streams(p, &c);
	return container_close(&c, e);
}

int main(int argc, char **argv)
{
	static struct ptasm p;
	struct error e = {0};

	log_init("ptasm", LOG_NORMAL);
	if (argc != 3) {
		log_error("Usage: ptasm CASE DIR");
		return 2;
	}
	p.path = argv[1];
	p.dir = argv[2];
	p.file = fopen(p.path, "r");
	if (!p.file || (mkdir(p.dir, 0777) < 0 && errno != EEXIST)) {
		log_error("%s: %s", p.file ? p.dir : p.path, strerror(errno));
		return 1;
	}
	bool ok = read_case(&p);
	fclose(p.file);
	if (ok && write_data(&p, &e)) {
		log_error("%s", e.message);
		ok = false;
	}
	for (size_t i = 0; i < p.images.count; i++)
		image_done(&p.images.items[i]);
	vec_done(&p.images);
	vec_done(&p.threads);
	ptasm_done(&p);
	recording_done(&p.recording);
	return ok ? 0 : 1;
}
