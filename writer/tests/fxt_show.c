/* Shows a trace file as a viewer would, and says whether it is sound.
 *
 *     fxt_show [-q] FILE.fxt[.gz]     exit 1: not sound; 2: not readable
 *
 * -q shows counts instead of slices, and what a slice costs beside names. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/file_map.h"
#include "writer/tests/fxt_read.h"

static void show_counts(const struct fxt_read *read)
{
	size_t slices = 0, inlined = 0, gaps = 0;

	for (size_t i = 0; i < read->tracks.count; i++) {
		for (size_t k = 0; k < read->tracks.items[i].slices.count; k++) {
			const struct fxt_slice *slice = &read->tracks.items[i].slices.items[k];

			slices += slice->type != 0;
			inlined += strcmp(slice->category, "inlined") == 0;
			gaps += strcmp(slice->category, "gap") == 0;
		}
	}
	printf("%zu slices (%zu inlined, %zu gaps) on %zu tracks, %" PRIu32 " levels\n", slices,
	       inlined, gaps, read->tracks.count, read->max_depth);
	printf("%zu bytes per slice\n", slices ? read->event_bytes / slices : 0);
}

int main(int argc, char **argv)
{
	bool quiet = argc == 3 && strcmp(argv[1], "-q") == 0;
	struct buffer unpacked = {0}, text = {0};
	struct fxt_read read;
	struct file_map map;
	struct error error = {0};
	size_t members;

	if (argc != 2 + quiet) {
		fputs("usage: fxt_show [-q] FILE.fxt[.gz]\n", stderr);
		return 2;
	}
	if (file_map_open(argv[argc - 1], &map, &error) != ERR_NONE) {
		fprintf(stderr, "fxt_show: %s\n", error.message);
		return 2;
	}
	bool packed = map.bytes > 2 && map.data[0] == 0x1f && map.data[1] == 0x8b;
	if (packed && !fxt_gunzip(map.data, map.bytes, &unpacked, &members)) {
		fprintf(stderr, "fxt_show: %s: damaged gzip\n", argv[argc - 1]);
		return 2;
	}
	bool sound = fxt_read(&read, packed ? unpacked.data : map.data,
			      packed ? unpacked.bytes : map.bytes);
	if (quiet)
		show_counts(&read);
	else
		fxt_read_show(&read, &text);
	fwrite(text.data, 1, text.bytes, stdout);
	if (!sound)
		fprintf(stderr, "fxt_show: %s: %s\n", argv[argc - 1], read.error);
	buffer_done(&text);
	buffer_done(&unpacked);
	fxt_read_done(&read);
	file_map_done(&map);
	return sound ? 0 : 1;
}
