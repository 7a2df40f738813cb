/* See remote.h. The library is loaded when it is first needed: it brings a whole HTTP client,
 * whose loading would cost every other run more than its decode. It keeps its own cache, also
 * of what was not found. */
#include "symbolize/remote.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

struct remote {
	void *library;
	debuginfod_client *client;
	__typeof__(&debuginfod_begin) begin;
	__typeof__(&debuginfod_find_executable) executable;
	__typeof__(&debuginfod_find_debuginfo) debug;
	__typeof__(&debuginfod_end) end;
};

/* dlsym() returns an object pointer; POSIX lets it be read as a function pointer. */
static bool remote_symbol(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof symbol);
	return symbol != NULL;
}

static bool remote_open(struct remote *r)
{
	r->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!r->library) {
		log_repeated("debuginfod", "cannot use debuginfod: %s", dlerror());
		return false;
	}
	if (remote_symbol(r->library, "debuginfod_begin", &r->begin) &&
	    remote_symbol(r->library, "debuginfod_find_executable", &r->executable) &&
	    remote_symbol(r->library, "debuginfod_find_debuginfo", &r->debug) &&
	    remote_symbol(r->library, "debuginfod_end", &r->end))
		r->client = r->begin();
	if (!r->client)
		dlclose(r->library);
	return r->client != NULL;
}

bool remote_fetch(enum remote_kind kind, const uint8_t *build_id, size_t bytes, char path[PATH_MAX])
{
	struct remote r = {0};
	char *file = NULL;

	if (!remote_open(&r))
		return false;
	log_info("asking debuginfod for %s %02x%02x%02x...",
		 kind == REMOTE_DEBUG ? "debug information of" : "the file", build_id[0],
		 bytes > 1 ? build_id[1] : 0, bytes > 2 ? build_id[2] : 0);
	int fd = (kind == REMOTE_DEBUG ? r.debug : r.executable)(r.client, build_id, (int)bytes,
								 &file);
	bool found = fd >= 0 && file && strlen(file) < PATH_MAX;
	if (found)
		strcpy(path, file);
	if (fd >= 0)
		close(fd);
	free(file);
	r.end(r.client);
	dlclose(r.library);
	return found;
}
