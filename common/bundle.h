/* A capture bundle: what decoding needs, away from the host it was recorded on.
 *
 *     DIR/manifest.json       describes all the rest; format below
 *     DIR/perf.data           a file, or a directory (perf record --kcore)
 *     DIR/.build-id/AB/CDEF.../elf  mapped files by build id (first two hex digits, rest), as
 *                             in perf's own cache: "perf --buildid-dir DIR" works too
 *     DIR/files/N-NAME        mapped files without a build id, jitdumps, perf maps
 *     DIR/.build-id/AB/CDEF.../vdso, DIR/kallsyms
 *
 * or the same tree as one .tar.zst. manifest.json is an object of "format": "pt-bundle",
 * "version": 1, and the members that bundle_write() writes; unknown members are skipped,
 * a higher version is refused. All names in it are relative to DIR.
 *
 * A bundle comes from somewhere else, so nothing in it is trusted: absolute names, "..",
 * symlinks and anything but files and directories are refused, sizes and counts have
 * ceilings. Names are UTF-8 in JSON; bytes that are not are written as U+FFFD. */
#ifndef COMMON_BUNDLE_H
#define COMMON_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/build_id.h"
#include "common/error.h"
#include "common/vec.h"

enum {
	BUNDLE_FILES_MAX = 1 << 16,
	BUNDLE_HITS_MAX = 1 << 20,
	BUNDLE_HIT_ARGS = 6, /* rdi rsi rdx rcx r8 r9 */
	BUNDLE_HIT_FRAMES = 128,
};
#define BUNDLE_EXTRACTED_MAX_BYTES ((uint64_t)256 << 30)

struct bundle_file {
	const char *path;        /* as recorded in the map records */
	const char *file;        /* where it is now; NULL = not in the bundle */
	const char *why_missing; /* NULL = it is there */
	struct build_id build_id;
	uint64_t bytes;
};

struct bundle_process {
	uint32_t pid;
	const char *comm;
	const char *cmdline; /* arguments joined by blanks */
};

struct bundle_pid_file { /* a perf-PID.map */
	uint32_t pid;
	const char *file;
};

enum bundle_hit_kind { HIT_TRIGGER, HIT_SNAPSHOT_CALL, HIT_MARK };

struct bundle_hit {
	uint64_t time_ns; /* perf's clock, as in perf.data */
	uint64_t ip;
	uint32_t pid, tid, cpu;
	enum bundle_hit_kind kind;
	bool snapshot;     /* this one was followed by a snapshot */
	const char *where; /* the trigger as the user wrote it */
	uint64_t args[BUNDLE_HIT_ARGS];
	const uint64_t *frames; /* ips, innermost first; NULL = not recorded */
	uint32_t frame_count;
};

/* perf's clock when the capture ended: ns = zero + (tsc * mult >> shift), and the same
 * moment as wall time. */
struct bundle_clock {
	bool known;
	uint64_t time_zero, perf_ns, realtime_ns;
	uint32_t time_mult;
	uint16_t time_shift;
};

struct bundle {
	struct arena arena;        /* owns every string and frame array below */
	const char *dir;           /* where the tree is */
	const char *temporary_dir; /* extracted here: bundle_done() removes it; else NULL */
	const char *command;       /* "run", "attach", "bundle" */
	const char *perf_command;  /* how perf was called; NULL = not known */
	const char *kernel_release, *cpu_model;
	const char *perf_data;       /* never NULL after bundle_open() */
	const char *vdso, *kallsyms; /* NULL = none. kcore: inside the perf.data directory */
	bool redacted;
	struct bundle_clock clock;
	VEC(struct bundle_file) files;
	VEC(struct bundle_process) processes;
	VEC(struct bundle_pid_file) perf_maps;
	VEC(const char *) jitdumps;
	VEC(struct bundle_hit) hits;
};

/* Whether a name given to pt-decode means a bundle: a directory with a manifest.json, or a
 * file that ends in .tar.zst. */
bool bundle_is(const char *path);

/* Opens a directory, or extracts a .tar.zst into a new 0700 directory below $TMPDIR (/tmp).
 * All `file` members are paths that can be opened. ERR_FORMAT / ERR_LIMIT / ERR_UNSUPPORTED
 * for what is refused; nothing is left behind on failure. */
MUST_CHECK enum err bundle_open(const char *path, struct bundle *bundle, struct error *error);

/* Writes DIR/manifest.json (mode 0600); `file` members are names relative to DIR. */
MUST_CHECK enum err bundle_write(const struct bundle *bundle, const char *dir, struct error *error);

/* A file that is there, or NULL. By path: the last one of that name. */
const struct bundle_file *bundle_find_build_id(const struct bundle *bundle,
					       const struct build_id *id);
const struct bundle_file *bundle_find_path(const struct bundle *bundle, const char *path);

/* Frees all; removes what was extracted. A zeroed bundle is fine. */
void bundle_done(struct bundle *bundle);
/* Removes what the bundle opened last was extracted to, if it is still there: for a program
 * that is told to end. From any thread, but not from a signal handler. */
void bundle_remove_extracted(void);

/* ".build-id/ab/cdef.../LEAF", relative to DIR; leaf is "elf" or "vdso". text holds
 * BUNDLE_NAME_MAX. */
enum { BUNDLE_NAME_MAX = 64 };
void bundle_name_of(const struct build_id *id, const char *leaf, char *text);

/* Removes a directory tree, never following symlinks. Errors are ignored. */
void bundle_remove_tree(const char *dir);

#endif
