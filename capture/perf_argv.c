/* See perf_argv.h.
 *
 *     perf record -o DIR/perf.data [--kcore] -m DATA,AUX -e intel_pt/TERMS/u [--filter F]
 *                 [--snapshot=e] [--buildid-mmap | -N] [--control=fd:C,A] [-e EVENT]
 *                 [-p PIDS | --per-thread -t TID | -- PROG ARGS]
 *
 * The terms only override perf's own defaults for the PMU (tsc, mtc, psb_period, branch).
 * Each thing that perf or the CPU lacks is left out and leaves a note. */
#include "capture/perf_argv.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum {
	PAGE = 4096,
	BUFFER_MIN = 8 << 10, /* intel-pt's minimum for full traces */
	BUFFER_DEFAULT_MIB = 16,
	BUFFER_MAX_GIB = 16,
	SIDEBAND_PAGES = 128, /* perf's default: 512 KiB */
	SIDEBAND_PAGES_UNPRIVILEGED = 32,
};

struct builder {
	struct perf_argv *out;
	struct arena *arena;
	bool failed; /* memory, or PERF_ARGV_MAX */
};

static const char *format(struct builder *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
static const char *format(struct builder *b, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	int length = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (length >= 0)
		text = arena_alloc(b->arena, (size_t)length + 1);
	if (!text) {
		b->failed = true;
		return "";
	}
	va_start(ap, fmt);
	vsnprintf(text, (size_t)length + 1, fmt, ap);
	va_end(ap);
	return text;
}

static void add(struct builder *b, const char *arg)
{
	if (b->out->argc + 1 >= PERF_ARGV_MAX) {
		b->failed = true;
		return;
	}
	/* execv wants char *; nobody writes to them */
	b->out->argv[b->out->argc++] = (char *)(uintptr_t)arg;
}

static void note(struct builder *b, const char *text)
{
	if (b->out->note_count < PERF_NOTES_MAX)
		b->out->notes[b->out->note_count++] = text;
}

/* The supported value closest to `wanted`, rather above than below. -1: none. */
static int pick_value(uint64_t supported, int wanted)
{
	for (int distance = 0; distance < 64; distance++) {
		if (wanted + distance < 64 && supported >> (wanted + distance) & 1)
			return wanted + distance;
		if (wanted >= distance && supported >> (wanted - distance) & 1)
			return wanted - distance;
	}
	return -1;
}

/* Cycle-accurate times cost bandwidth, and bandwidth costs data (overflows):
 *   low     MTC only: a time every few hundred ns
 *   normal  CYC at most every 32 cycles (2^(6-1)): about 10 ns
 *   high    CYC with every packet that can carry one, MTC as often as the CPU can */
static const char *timing_terms(struct builder *b, const struct capture_options *o,
				const struct pt_capabilities *pt)
{
	int mtc = o->timing == TIMING_HIGH ? pick_value(pt->mtc_periods, 0) : -1;
	const char *mtc_term = pt->mtc && mtc >= 0 ? format(b, "mtc_period=%d,", mtc) : "";

	if (o->timing == TIMING_LOW)
		return "";
	if (!pt->psb_cyc) {
		note(b, pt->present ? "this CPU has no cycle packets: times are coarse, as with "
				      "--timing low"
				    : "no Intel PT on this machine: the terms are those every "
				      "CPU knows");
		return mtc_term;
	}
	int threshold = pick_value(pt->cycle_thresholds, o->timing == TIMING_HIGH ? 1 : 6);
	if (threshold <= 0)
		return format(b, "cyc,%s", mtc_term);
	return format(b, "cyc,cyc_thresh=%d,%s", threshold, mtc_term);
}

static void add_pt_event(struct builder *b, const struct capture_options *o,
			 const struct capabilities *c, const struct perf_target *target)
{
	const struct pt_capabilities *pt = &c->pt;
	bool robust = o->profile == PROFILE_ROBUST;

	if (robust && pt->present && !pt->event_trace)
		note(b, "this CPU has no event trace: --profile robust does without");
	const char *terms =
		format(b, "%s%s%s%s", timing_terms(b, o, pt), pt->ptwrite ? "ptw,fup_on_ptw," : "",
		       robust ? "noretcomp," : "", robust && pt->event_trace ? "event," : "");
	const char *pt_event = format(b, "intel_pt/%.*s/%s", (int)(strlen(terms) - !!terms[0]),
				      terms, o->kernel ? "" : "u");

	add(b, "-e");
	if (target->pause_at[0]) {
		/* The breakpoint must be in the group of the trace that it pauses. */
		for (int i = 0; i < PERF_HITS_MAX && target->pause_at[i]; i++)
			pt_event = format(b, "%s,mem:0x%" PRIx64 ":x/aux-action=pause/u", pt_event,
					  target->pause_at[i]);
		pt_event = format(b, "{%s}", pt_event);
	}
	add(b, pt_event);
	for (size_t i = 0; i < o->filter_count; i++) { /* belongs to the event before it */
		add(b, "--filter");
		add(b, o->filters[i]);
	}
	for (size_t i = 0; i < o->event_count; i++) {
		add(b, "-e");
		add(b, o->events[i]);
	}
}

/* "16M" where it is a whole number of MiB, else "128K". */
static const char *size_text(struct builder *b, uint64_t bytes)
{
	return bytes % MIB == 0 ? format(b, "%" PRIu64 "M", bytes / MIB)
				: format(b, "%" PRIu64 "K", bytes >> 10);
}

static uint64_t power_of_two_below(uint64_t n)
{
	uint64_t p = 1;

	while (p <= n / 2)
		p *= 2;
	return p;
}

/* Per buffer: a power of two of what is asked for, or 16 MiB, or what may be locked. */
static enum err choose_buffer(struct builder *b, const struct capture_options *o,
			      const struct capabilities *c, unsigned *sideband_pages,
			      struct error *error)
{
	unsigned buffers = o->tid ? 1 : c->cpu_count;
	uint64_t lockable = capabilities_lockable_bytes(c);
	bool limited = lockable != UINT64_MAX;
	uint64_t pages = limited ? SIDEBAND_PAGES_UNPRIVILEGED : SIDEBAND_PAGES;
	uint64_t sideband_bytes = (pages + 1) * PAGE;
	uint64_t share = limited ? lockable / buffers : UINT64_MAX;
	uint64_t allowed = share > sideband_bytes ? share - sideband_bytes : 0;
	uint64_t wanted = o->buffer_bytes ? o->buffer_bytes : BUFFER_DEFAULT_MIB * MIB;

	if (wanted > BUFFER_MAX_GIB * 1024 * MIB)
		return error_set(error, ERR_LIMIT, "--buffer: at most %dG", BUFFER_MAX_GIB);
	uint64_t bytes = power_of_two_below(wanted);
	if (bytes < wanted)
		bytes *= 2;
	if (bytes < BUFFER_MIN)
		bytes = BUFFER_MIN;
	if (o->buffer_bytes && bytes != o->buffer_bytes)
		note(b,
		     format(b, "--buffer: rounded up to %s (a power of two)", size_text(b, bytes)));
	if (bytes > allowed && (o->buffer_bytes || allowed < BUFFER_MIN))
		return error_set(error, ERR_LIMIT,
				 "%u buffers of %s need %" PRIu64 " KiB of locked memory, %" PRIu64
				 " KiB are allowed: give perf CAP_IPC_LOCK, raise ulimit -l or "
				 "kernel.perf_event_mlock_kb, or use a smaller --buffer",
				 buffers, size_text(b, bytes),
				 (bytes + sideband_bytes) * buffers >> 10, lockable >> 10);
	if (bytes > allowed) {
		uint64_t less = power_of_two_below(allowed);

		note(b, format(b,
			       "buffer of %s instead of %s: more may not be locked here "
			       "(CAP_IPC_LOCK, ulimit -l, kernel.perf_event_mlock_kb)",
			       size_text(b, less), size_text(b, bytes)));
		bytes = less;
	}
	b->out->buffer_bytes = bytes;
	*sideband_pages = (unsigned)pages;
	return ERR_NONE;
}

static void add_snapshot(struct builder *b, const struct capture_options *o,
			 const struct capabilities *c, const struct perf_target *target)
{
	const struct perf_capabilities *perf = &c->perf;
	bool known = perf->version.major != 0;

	b->out->ready_by_control = perf->control && target->control_fd >= 0;
	if (b->out->ready_by_control)
		add(b, format(b, "--control=fd:%d,%d", target->control_fd, target->ack_fd));
	if (o->full) {
		b->out->control = CONTROL_NONE;
		return;
	}
	b->out->snapshot_at_exit = !known || version_at_least(perf->version, 5, 4);
	add(b, b->out->snapshot_at_exit ? "--snapshot=e" : "--snapshot");
	if (!b->out->snapshot_at_exit)
		note(b, "this perf is older than 5.4: no snapshot at the very end");
	b->out->control =
		b->out->ready_by_control && perf->control_snapshot ? CONTROL_FD : CONTROL_SIGNAL;
	if (b->out->control == CONTROL_SIGNAL)
		note(b, "this perf takes no snapshot commands: SIGUSR2 is used, unacknowledged");
}

static void add_target(struct builder *b, const struct capture_options *o, pid_t pid)
{
	const char *list = "";

	if (o->tid) {
		add(b, "--per-thread");
		add(b, "-t");
		add(b, format(b, "%d", (int)o->tid));
		return;
	}
	if (o->command == CAPTURE_RUN && pid == 0) {
		add(b, "--");
		for (char **arg = o->program; *arg; arg++) {
			if (b->out->argc + 2 >= PERF_ARGV_MAX) {
				add(b, "..."); /* shown only; never run in this form */
				return;
			}
			add(b, *arg);
		}
		return;
	}
	if (pid)
		list = format(b, "%d", (int)pid);
	for (size_t i = 0; !pid && i < o->pid_count; i++)
		list = format(b, "%s%s%d", list, i ? "," : "", (int)o->pids[i]);
	add(b, "-p");
	add(b, list);
}

enum err perf_argv_build(const struct capture_options *o, const struct capabilities *c,
			 const struct perf_target *target, pid_t pid, struct arena *arena,
			 struct perf_argv *result, struct error *error)
{
	struct perf_argv out = {0};
	struct builder b = {.out = &out, .arena = arena};
	unsigned sideband_pages = 0;

	if (o->filter_count > 0 && c->pt.address_filters == 0)
		return error_set(error, ERR_UNSUPPORTED,
				 "--filter: this CPU has no address filters");
	if (o->filter_count > c->pt.address_filters)
		return error_set(error, ERR_UNSUPPORTED,
				 "--filter: this CPU has %u address filters",
				 c->pt.address_filters);
	enum err err = choose_buffer(&b, o, c, &sideband_pages, error);
	if (err != ERR_NONE)
		return err;

	add(&b, c->perf.path[0] ? c->perf.path : "perf");
	add(&b, "record");
	add(&b, "-o");
	add(&b, target->data_path);
	if (o->kernel && c->perf.kcore && c->kcore_readable && !o->no_binaries)
		add(&b, "--kcore");
	else if (o->kernel && !o->no_binaries)
		note(&b, c->perf.kcore ? "/proc/kcore is not readable: kernel code is not saved"
				       : "this perf has no --kcore: kernel code is not saved");
	add(&b, "-m");
	add(&b, format(&b, "%u,%s", sideband_pages, size_text(&b, out.buffer_bytes)));
	add_pt_event(&b, o, c, target);
	add_snapshot(&b, o, c, target);
	/* Build ids in the map records are exact and cost nothing at the end. Without them:
	 * never copy binaries into the user's ~/.debug on a production host. */
	bool buildid_mmap = c->perf.buildid_mmap && c->kernel_mmap_build_id;
	add(&b, buildid_mmap ? "--buildid-mmap" : "--no-buildid-cache");
	if (!buildid_mmap)
		note(&b, "no build ids in map records (perf and kernel 5.12 have them): "
			 "replaced files may go unnoticed");
	add_target(&b, o, pid);
	if (b.failed)
		return error_set(error, out.argc + 2 >= PERF_ARGV_MAX ? ERR_LIMIT : ERR_NOMEM,
				 "perf's command line is too long");
	*result = out;
	return ERR_NONE;
}

/* Everything but [-A-Za-z0-9_...] goes into single quotes. */
const char *perf_argv_quoted(const struct perf_argv *perf, struct arena *arena)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789_-+=./,:@%";
	size_t bytes = 1;

	for (size_t i = 0; i < perf->argc; i++)
		bytes += 4 * strlen(perf->argv[i]) + 3;
	char *text = arena_alloc(arena, bytes), *out = text;
	if (!text)
		return NULL;
	for (size_t i = 0; i < perf->argc; i++) {
		const char *arg = perf->argv[i];
		bool quote = !arg[0] || arg[strspn(arg, plain)];

		if (i > 0)
			*out++ = ' ';
		if (quote)
			*out++ = '\'';
		for (; *arg; arg++) {
			if (*arg == '\'') {
				memcpy(out, "'\\''", 4);
				out += 4;
			} else {
				*out++ = *arg;
			}
		}
		if (quote)
			*out++ = '\'';
	}
	*out = '\0';
	return text;
}
