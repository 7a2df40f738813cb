#include "common/bundle.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/tar_zst.h"

static char root[64];

static void make_root(void)
{
	strcpy(root, "/tmp/bundle_test.XXXXXX");
	cr_assert_not_null(mkdtemp(root));
	cr_assert_eq(chdir(root), 0);
	setenv("TMPDIR", root, 1);
	cr_assert_eq(mkdir("b", 0700), 0);
}

static void remove_root(void)
{
	bundle_remove_tree(root);
}

TestSuite(bundle, .init = make_root, .fini = remove_root);

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file, "%s", path);
	fputs(text, file);
	fclose(file);
}

static const struct build_id some_id = {{0xab, 0xcd, 0x01}, 3};

/* One of everything. */
static void write_bundle(void)
{
	static const uint64_t frames[] = {0x401000, 0x7fffffffffff};
	struct bundle b = {.command = "run",
			   .perf_data = "perf.data",
			   .vdso = "vdso.so",
			   .kernel_release = "6.1.0",
			   .perf_command = "perf record '-e' x",
			   .clock = {true, 0xfedcba9876543210, 5, 6, 7, 8}};
	struct bundle_file lib = {.path = "/usr/lib/libc.so.6",
				  .file = ".build-id/ab/cd01/elf",
				  .build_id = some_id,
				  .bytes = 3};
	struct bundle_file gone = {.path = "/memfd:jit\xff (deleted)", .why_missing = "deleted"};
	struct bundle_process process = {42, "srv", "srv --port \"1\""};
	struct bundle_pid_file map = {42, "perf-42.map"};
	struct bundle_hit hit = {.time_ns = 123456789012345,
				 .ip = 0x401136,
				 .pid = 42,
				 .tid = 43,
				 .cpu = 1,
				 .kind = HIT_MARK,
				 .snapshot = true,
				 .where = "f",
				 .args = {1, 2, 3, 4, 5, UINT64_MAX},
				 .frames = frames,
				 .frame_count = 2};

	cr_assert(vec_push(&b.files, lib) && vec_push(&b.files, gone));
	cr_assert(vec_push(&b.processes, process));
	cr_assert(vec_push(&b.perf_maps, map));
	cr_assert(vec_push(&b.jitdumps, "jit-42.dump"));
	cr_assert(vec_push(&b.hits, hit));
	struct error error = {0};
	cr_assert_eq(bundle_write(&b, "b", &error), ERR_NONE, "%s", error.message);
	bundle_done(&b);
	mkdir("b/.build-id", 0700);
	mkdir("b/.build-id/ab", 0700);
	mkdir("b/.build-id/ab/cd01", 0700);
	put("b/.build-id/ab/cd01/elf", "lib");
	put("b/perf.data", "PERFILE2");
	put("b/vdso.so", "vdso");
	put("b/perf-42.map", "1 2 f\n");
	put("b/jit-42.dump", "JiTD");
}

static void expect_everything(const struct bundle *b)
{
	struct stat st;

	cr_expect_eq(access(b->perf_data, R_OK), 0, "%s", b->perf_data);
	cr_expect_eq(access(b->vdso, R_OK), 0);
	cr_expect_null(b->kallsyms);
	cr_expect_str_eq(b->perf_command, "perf record '-e' x");
	cr_assert_eq(b->files.count, 2);
	const struct bundle_file *file = bundle_find_build_id(b, &some_id);
	cr_assert_not_null(file);
	cr_expect_str_eq(file->path, "/usr/lib/libc.so.6");
	cr_expect_eq(access(file->file, R_OK), 0);
	cr_expect_eq(bundle_find_path(b, "/usr/lib/libc.so.6"), file);
	cr_expect_null(bundle_find_path(b, "/nowhere"));
	cr_expect_null(b->files.items[1].file);
	cr_expect_str_eq(b->files.items[1].why_missing, "deleted");
	cr_expect_null(bundle_find_build_id(b, &(struct build_id){0}), "no id is no id");
	cr_assert_eq(b->processes.count, 1);
	cr_expect_str_eq(b->processes.items[0].cmdline, "srv --port \"1\"");
	cr_assert_eq(b->perf_maps.count, 1);
	cr_expect_eq(access(b->perf_maps.items[0].file, R_OK), 0);
	cr_assert_eq(b->jitdumps.count, 1);
	cr_assert_eq(b->hits.count, 1);
	const struct bundle_hit *hit = &b->hits.items[0];
	cr_expect(hit->time_ns == 123456789012345 && hit->tid == 43 && hit->kind == HIT_MARK &&
		  hit->snapshot && hit->args[5] == UINT64_MAX);
	cr_expect(hit->frame_count == 2 && hit->frames[1] == 0x7fffffffffff);
	cr_expect(b->clock.known && b->clock.time_zero == 0xfedcba9876543210);
	cr_expect(stat(b->perf_data, &st) == 0);
}

Test(bundle, a_directory_is_read_as_it_was_written)
{
	struct bundle b;
	struct stat st;
	struct error error = {0};

	write_bundle();
	cr_expect(stat("b/manifest.json", &st) == 0 && (st.st_mode & 0777) == 0600);
	cr_expect(bundle_is("b"));
	cr_assert_eq(bundle_open("b", &b, &error), ERR_NONE, "%s", error.message);
	expect_everything(&b);
	bundle_done(&b);
	cr_expect_eq(access("b/manifest.json", F_OK), 0, "a directory is not ours to remove");
}

Test(bundle, an_archive_is_extracted_and_removed_again)
{
	struct bundle b;
	struct error error = {0};
	char dir[256];

	write_bundle();
	cr_assert_eq(tar_zst_pack("b", "x.tar.zst", &error), ERR_NONE, "%s", error.message);
	cr_expect(bundle_is("x.tar.zst"));
	cr_assert_eq(bundle_open("x.tar.zst", &b, &error), ERR_NONE, "%s", error.message);
	expect_everything(&b);
	snprintf(dir, sizeof dir, "%s", b.temporary_dir);
	bundle_done(&b);
	cr_expect_neq(access(dir, F_OK), 0, "%s is left", dir);
}

Test(bundle, an_archive_by_gnu_tar_with_a_directory_on_top)
{
	struct bundle b;
	struct error error = {0};

	write_bundle();
	if (system("tar --version >/dev/null 2>&1 && zstd --version >/dev/null 2>&1") != 0)
		cr_skip_test("no tar or zstd program");
	cr_assert_eq(system("tar --zstd -cf y.tar.zst b"), 0);
	cr_assert_eq(bundle_open("y.tar.zst", &b, &error), ERR_NONE, "%s", error.message);
	expect_everything(&b);
	bundle_done(&b);
}

static int count_leftovers(void)
{
	return system("test -z \"$(find . -name 'pt-bundle-*')\"");
}

struct refusal {
	const char *what, *manifest;
	enum err expected;
};

#define START "{\"format\": \"pt-bundle\", \"version\": 1, "

static const struct refusal refusals[] = {
	{"not JSON", "{", ERR_FORMAT},
	{"something else", "{\"format\": \"zip\"}", ERR_FORMAT},
	{"later version", "{\"format\": \"pt-bundle\", \"version\": 2}", ERR_UNSUPPORTED},
	{"no perf.data", START "\"vdso\": \"vdso.so\"}", ERR_FORMAT},
	{"absolute", START "\"perf_data\": \"/etc/passwd\"}", ERR_FORMAT},
	{"up", START "\"perf_data\": \"../secret\"}", ERR_FORMAT},
	{"up in the middle", START "\"perf_data\": \"build-id/../../secret\"}", ERR_FORMAT},
	{"symlink", START "\"perf_data\": \"link\"}", ERR_FORMAT},
	{"through a symlink",
	 START "\"perf_data\": \"perf.data\", \"files\": [{\"path\": \"/x\", \"file\": "
	       "\"dirlink/passwd\"}]}",
	 ERR_FORMAT},
	{"not a build id",
	 START
	 "\"perf_data\": \"perf.data\", \"files\": [{\"path\": \"/x\", \"build_id\": \"zz\"}]}",
	 ERR_FORMAT},
	{"odd types",
	 START "\"perf_data\": \"perf.data\", \"files\": 7, \"hits\": \"x\", \"clock\": []}",
	 ERR_NONE},
	{"unknown members", START "\"perf_data\": \"perf.data\", \"news\": {}}", ERR_NONE},
};

Test(bundle, hostile_manifests_are_refused)
{
	write_bundle();
	cr_assert_eq(symlink("/etc/passwd", "b/link"), 0);
	cr_assert_eq(symlink("/etc", "b/dirlink"), 0);
	for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
		struct bundle b;
		struct error error = {0};

		put("b/manifest.json", refusals[i].manifest);
		enum err err = bundle_open("b", &b, &error);
		cr_expect_eq(err, refusals[i].expected, "%s: %d %s", refusals[i].what, err,
			     error.message);
		if (err == ERR_NONE)
			bundle_done(&b);
	}
	/* the same from an archive: nothing stays behind */
	cr_assert_eq(unlink("b/link") | unlink("b/dirlink"), 0);
	put("b/manifest.json", refusals[0].manifest);
	cr_assert_eq(tar_zst_pack("b", "x.tar.zst", NULL), ERR_NONE);
	struct bundle b;
	cr_expect_eq(bundle_open("x.tar.zst", &b, NULL), ERR_FORMAT);
	cr_expect_eq(count_leftovers(), 0);
}

Test(bundle, what_is_no_bundle)
{
	struct bundle b;

	put("file", "x");
	cr_expect_not(bundle_is("file"));
	cr_expect_not(bundle_is("b"));
	cr_expect_eq(bundle_open("b", &b, NULL), ERR_NOT_FOUND);
	cr_expect_eq(bundle_open("missing.tar.zst", &b, NULL), ERR_NOT_FOUND);
	cr_expect_eq(count_leftovers(), 0);
}
