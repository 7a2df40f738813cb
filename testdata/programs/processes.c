/* fork: children that work, one that execs this program again; vfork by posix_spawn. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

__attribute__((noinline)) static int work(int n)
{
	int sum = n;

	for (int i = 0; i < 50 + n; i++)
		sum = sum * 31 + i;
	return sum;
}

__attribute__((noinline)) static int child(int number, const char *self)
{
	if (number == 1)
		execl(self, self, "again", (char *)NULL);
	return work(number) & 63;
}

int main(int argc, char **argv)
{
	int status, sum = 0;
	pid_t pid;

	if (argc > 1)
		return work(argc) & 63;
	for (int i = 0; i < 2; i++) {
		pid = fork();
		if (pid == 0)
			_exit(child(i, argv[0]));
		sum += work(i);
	}
	char *const again[] = {argv[0], "again", NULL};
	if (posix_spawn(&pid, argv[0], NULL, NULL, again, environ) != 0)
		return 1;
	while (wait(&status) > 0)
		sum += WEXITSTATUS(status);
	printf("%d\n", sum);
	return 0;
}
