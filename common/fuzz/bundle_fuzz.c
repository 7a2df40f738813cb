/* A manifest.json. Whatever it says, no name leads out of the bundle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bundle.h"
#include "common/fuzz/driver.h"

static char dir[] = "/tmp/bundle_fuzz.XXXXXX";

static void remove_dir(void)
{
	bundle_remove_tree(dir);
}

static void check_inside(const char *file)
{
	if (file && (strncmp(file, dir, strlen(dir)) != 0 || strstr(file, "/../")))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char path[sizeof dir + 32];
	struct bundle b;

	if (!path[0]) {
		if (!mkdtemp(dir))
			abort();
		atexit(remove_dir);
		snprintf(path, sizeof path, "%s/manifest.json", dir);
	}
	FILE *file = fopen(path, "wb");
	if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
		abort();
	if (bundle_open(dir, &b, NULL) != ERR_NONE)
		return 0;
	check_inside(b.perf_data);
	check_inside(b.vdso);
	for (size_t i = 0; i < b.files.count; i++)
		check_inside(b.files.items[i].file);
	for (size_t i = 0; i < b.jitdumps.count; i++)
		check_inside(b.jitdumps.items[i]);
	bundle_done(&b);
	return 0;
}

uint8_t *fuzz_seed(unsigned n, size_t *size)
{
	static const char text[] =
		"{\"format\": \"pt-bundle\", \"version\": 1, \"command\": \"run\", \"perf_data\": "
		"\"perf.data\", \"vdso\": \".build-id/ab/cd/vdso\", \"kallsyms\": null, \"clock\": "
		"{\"time_zero\": 1, \"time_mult\": 2, \"time_shift\": 3}, \"processes\": "
		"[{\"pid\": 1, "
		"\"comm\": \"a\", \"cmdline\": \"a b\"}], \"files\": [{\"path\": \"/x\", "
		"\"build_id\": "
		"\"abcd\", \"file\": \"../x\", \"bytes\": 3}], \"perf_maps\": [{\"pid\": 1, "
		"\"file\": "
		"\"files/m\"}], \"jitdumps\": [\"files/j\"], \"hits\": [{\"time_ns\": 1, \"ip\": "
		"\"0x1\", \"kind\": \"mark\", \"args\": [\"0x1\", 2], \"callchain\": [\"0x3\", "
		"[]]}]}";
	char *seed = n < 2 ? strdup(text) : NULL;

	*size = sizeof text - 1;
	if (seed && n == 0) /* the one without the name that is refused */
		memcpy(strstr(seed, "../x"), "0123", 4);
	return (uint8_t *)seed;
}
