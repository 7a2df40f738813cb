/* A library that comes and goes, lazy binding, calls back and forth. argv[1]: its path. */
#include <dlfcn.h>
#include <stdio.h>

static int bias = 1;

__attribute__((noinline)) static int callback(int value)
{
	return value + bias++;
}

int main(int argc, char **argv)
{
	int sum = 0;

	for (int round = 0; argc > 1 && round < 2; round++) {
		void *library = dlopen(argv[1], RTLD_LAZY);
		int (*run)(int, int (*)(int));

		if (!library)
			return 1;
		*(void **)&run = dlsym(library, "plugin_run");
		sum += run(9, callback);
		dlclose(library);
	}
	printf("%d\n", sum);
	return 0;
}
