/* See file_map.h. */
#include "common/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum err file_map_open(const char *path, struct file_map *map, struct error *error)
{
	struct stat st;
	/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return error_set(error, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s: %s", path,
				 strerror(errno));
	enum err err = ERR_NONE;
	struct file_map mapped = {0};
	if (fstat(fd, &st) != 0) {
		err = error_set(error, ERR_IO, "%s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		err = error_set(error, ERR_UNSUPPORTED, "%s: not a regular file", path);
	} else if (st.st_size > 0) {
		void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

		if (p == MAP_FAILED) {
			err = error_set(error, ERR_IO, "%s: cannot map %lld bytes: %s", path,
					(long long)st.st_size, strerror(errno));
		} else {
			mapped.data = p;
			mapped.bytes = (size_t)st.st_size;
		}
	}
	close(fd);
	if (err == ERR_NONE)
		*map = mapped;
	return err;
}

void file_map_done(struct file_map *map)
{
	if (map->data)
		munmap((void *)(uintptr_t)map->data, map->bytes);
	*map = (struct file_map){0};
}
