/* See input.h. */
#include "decode/input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/path.h"
#include "decode/hits.h"

/* perf record --kcore puts the kernel's code and names beside the data. */
static void input_find_kcore(struct input *in, const char *path, struct symbolizer_options *where)
{
	struct {
		const char *name, **option;
		char *found;
	} files[] = {{"kcore", &where->kcore, in->kcore},
		     {"kallsyms", &where->kallsyms, in->kallsyms}};

	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		int n = snprintf(files[i].found, PATH_MAX, "%s/kcore_dir/%s", path, files[i].name);

		if (!*files[i].option && n < PATH_MAX && access(files[i].found, R_OK) == 0)
			*files[i].option = files[i].found;
	}
}

static void warn_missing(const char *option, const char *path)
{
	if (path && access(path, R_OK) != 0)
		log_warn("--%s %s: %s", option, path, strerror(errno));
}

/* A mistyped name would only show as missing code, or missing names. */
static void input_warn_missing(const struct options *o)
{
	warn_missing("symfs", o->symfs);
	warn_missing("kcore", o->kcore);
	warn_missing("kallsyms", o->kallsyms);
	for (size_t i = 0; o->debug_dirs.items[i]; i++)
		warn_missing("debug-dir", o->debug_dirs.items[i]);
	for (size_t i = 0; o->perf_maps.items[i]; i++)
		warn_missing("perf-map", o->perf_maps.items[i]);
	for (size_t i = 0; o->jitdumps.items[i]; i++)
		warn_missing("jitdump", o->jitdumps.items[i]);
}

bool input_is(const struct input *in, const struct options *o, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	for (size_t i = 0; i < o->inputs.count; i++)
		if (path_is_file(o->inputs.items[i], &st))
			return true;
	for (size_t i = 0; i < in->file.files.count; i++)
		if (path_is_file(in->file.files.items[i].path, &st))
			return true;
	return false;
}

enum err input_open(struct input *in, const struct options *o, struct error *error)
{
	const char *bundled[1];
	const char *const *paths = o->inputs.items;
	size_t count = o->inputs.count;
	struct symbolizer_options where = {.symfs = o->symfs,
					   .debug_dirs = o->debug_dirs.items,
					   .perf_maps = o->perf_maps.items,
					   .jitdumps = o->jitdumps.items,
					   .kcore = o->kcore,
					   .kallsyms = o->kallsyms,
					   .debuginfod = o->debuginfod,
					   .no_demangle = o->no_demangle,
					   .no_inline = o->no_inline};

	input_warn_missing(o);
	for (size_t i = 0; i < count; i++)
		if (count > 1 && bundle_is(paths[i]))
			return error_set(error, ERR_UNSUPPORTED,
					 "%s: a bundle is decoded alone; for many use --batch",
					 paths[i]);
	if (bundle_is(paths[0])) {
		enum err err = bundle_open(paths[0], &in->bundle, error);

		if (err != ERR_NONE)
			return err;
		bundled[0] = in->bundle.perf_data;
		paths = bundled;
		where.bundle = &in->bundle;
	}
	input_find_kcore(in, paths[0], &where);
	enum err err = perfdata_open(&in->file, paths, count, error);
	if (err != ERR_NONE)
		return err;
	in->file_open = true;
	for (size_t i = 0; i < in->file.files.count; i++)
		in->bytes += in->file.files.items[i].map.bytes;
	log_info("%s: perf %s, Linux %s, %s, %s", paths[0], in->file.info.perf_version,
		 in->file.info.os_release, in->file.info.cpu_description, in->file.info.cpuid);
	return symbolizer_new(&where, &in->symbolizer, error);
}

/* ---- damage ---- */

/* By what the headers say. */
static enum err input_check_size(const struct input *in, struct error *error)
{
	for (size_t i = 0; i < in->file.files.count; i++) {
		const struct perfdata_file *f = &in->file.files.items[i];

		if (f->missing_bytes)
			return error_set(error, ERR_FORMAT,
					 "%s: truncated: its header tells of %" PRIu64
					 " bytes more (is the copy complete?)",
					 f->path, f->missing_bytes);
		if (f->is_unfinished)
			log_warn("%s: the recording did not end properly; decoding what there is",
				 f->path);
	}
	return ERR_NONE;
}

/* By what the walk over the records met. Damage inside is lived with; what only ends too early is
 * no damage but a bad copy. */
static enum err input_check_damage(const struct input *in, struct error *error)
{
	enum { TOLD_MAX = 8 }; /* places, one by one */
	uint64_t untold_bytes = 0;

	for (size_t i = 0; i < in->file.damage.count; i++) {
		const struct perfdata_damage *d = &in->file.damage.items[i];
		const struct perfdata_file *f = &in->file.files.items[d->file];
		const struct perfdata_file *header = &in->file.files.items[f->header_file];
		char text[256];

		snprintf(text, sizeof text, "%s at offset %#" PRIx64 ", %" PRIu64 " bytes lost",
			 perfdata_damage_name(d->kind), d->file_off, d->lost_bytes);
		if (d->kind != PERFDATA_BAD_HEADER && d->kind != PERFDATA_BAD_STREAM &&
		    !header->is_unfinished && !header->is_pipe)
			return error_set(error, ERR_FORMAT, "%s: %s", f->path, text);
		if (i < TOLD_MAX)
			log_warn("%s: %s", f->path, text);
		else
			untold_bytes += d->lost_bytes;
	}
	if (untold_bytes)
		log_warn("%zu more such places, %" PRIu64 " bytes lost",
			 in->file.damage.count - TOLD_MAX, untold_bytes);
	if (in->file.unknown_records)
		log_warn("%" PRIu64 " records of unknown type skipped (%" PRIu64 " bytes)",
			 in->file.unknown_records, in->file.unknown_bytes);
	return ERR_NONE;
}

/* ---- the whole ---- */

enum err input_read(struct input *in, const struct options *o, struct error *error)
{
	const char *name = o->inputs.items[0];
	const struct clock *clock = &in->sideband.clock;
	enum err err = input_check_size(in, error);

	if (err == ERR_NONE)
		err = sideband_read(&in->file, in->symbolizer, &in->sideband, error);
	if (err == ERR_NONE)
		symbolizer_set_clock(in->symbolizer, clock->time_shift, clock->time_mult,
				     clock->time_zero);
	if (err == ERR_NONE)
		err = input_check_damage(in, error);
	if (err != ERR_NONE)
		return err;
	if (in->sideband.buffers.count == 0)
		return error_set(error, ERR_NOT_FOUND,
				 "%s: no Intel PT data in it (was it recorded with -e intel_pt//?)",
				 name);
	if (in->sideband.config.no_branches)
		return error_set(error, ERR_UNSUPPORTED,
				 "%s: recorded with branch=0: the trace holds no control flow",
				 name);
	return hits_add(&in->sideband, &in->bundle);
}

bool input_wall_clock(const struct input *in, uint64_t time_ns, uint64_t *wall_ns)
{
	const struct perfdata_info *info = &in->file.info;
	const struct bundle_clock *clock = &in->bundle.clock;

	if (in->sideband.last_ns == 0)
		return false; /* no times, or not perf's */
	if (info->wall_clock_ns)
		*wall_ns = info->wall_clock_ns + (time_ns - info->clockid_ns);
	else if (clock->known && clock->realtime_ns)
		*wall_ns = clock->realtime_ns + (time_ns - clock->perf_ns);
	else
		return false;
	return true;
}

void input_done(struct input *in)
{
	sideband_done(&in->sideband);
	symbolizer_free(in->symbolizer);
	if (in->file_open)
		perfdata_done(&in->file);
	bundle_done(&in->bundle);
}
