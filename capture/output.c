/* See output.h. */
#include "capture/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/bundle.h"
#include "common/path.h"
#include "common/tar_zst.h"

enum err output_begin(const char *name, const char *command, struct output *output,
		      struct error *error)
{
	struct output out = {0};
	char when[64] = "";
	struct tm now;
	time_t seconds = time(NULL);
	struct stat st;
	int length;

	if (name) {
		length = snprintf(out.target, sizeof out.target, "%s", name);
		while (length > 1 && length < (int)sizeof out.target &&
		       out.target[length - 1] == '/')
			out.target[--length] = '\0';
	} else {
		if (localtime_r(&seconds, &now))
			strftime(when, sizeof when, "%Y%m%d-%H%M%S", &now);
		length = snprintf(out.target, sizeof out.target, "pt-%s-%s", command, when);
	}
	if (length >= (int)sizeof out.target ||
	    snprintf(out.dir, sizeof out.dir, "%s.partial-%d", out.target, (int)getpid()) >=
		    (int)sizeof out.dir)
		return error_set(error, ERR_USAGE, "--output: name too long");
	out.archive = path_ends_in(out.target, ".tar.zst");
	if (lstat(out.target, &st) == 0)
		return error_set(error, ERR_USAGE, "%s exists: choose another --output",
				 out.target);
	if (mkdir(out.dir, 0700) != 0)
		return error_set(error, ERR_IO, "%s: %s", out.dir, strerror(errno));
	*output = out;
	return ERR_NONE;
}

enum err output_finish(const struct output *output, struct error *error)
{
	char packed[PATH_MAX];
	struct error why = {0};

	if (!output->archive) {
		/* fails if somebody made a non-empty directory of that name meanwhile */
		if (rename(output->dir, output->target) != 0)
			return error_set(error, ERR_IO, "%s: %s; the capture is in %s",
					 output->target, strerror(errno), output->dir);
		return ERR_NONE;
	}
	if (snprintf(packed, sizeof packed, "%s.tar.zst", output->dir) >= (int)sizeof packed)
		return error_set(error, ERR_LIMIT, "--output: name too long");
	enum err err = tar_zst_pack(output->dir, packed, &why);
	/* link() instead of rename(): never replaces a file */
	if (err == ERR_NONE && link(packed, output->target) != 0)
		err = error_set(&why, ERR_IO, "%s: %s", output->target, strerror(errno));
	unlink(packed);
	if (err != ERR_NONE)
		return error_set(error, err, "%.200s; the capture is in %.200s", why.message,
				 output->dir);
	bundle_remove_tree(output->dir);
	return ERR_NONE;
}

void output_discard(const struct output *output)
{
	if (output->dir[0])
		bundle_remove_tree(output->dir);
}
