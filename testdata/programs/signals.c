/* Signals: handlers, nested ones, a SIGSEGV left by siglongjmp, a fault repaired and
 * retried, a handler on its own stack, a handler that changes where it returns to. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int counts[4];
static sigjmp_buf escape;
static char *page;
static char alternate[1 << 16];

__attribute__((noinline)) static int work(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += i * i ^ n;
	return sum;
}

static void on_usr2(int signal)
{
	counts[1] += signal + work(3);
}

static void on_usr1(int signal)
{
	(void)signal;
	counts[0] += work(2);
	raise(SIGUSR2); /* nested */
	counts[0] += work(4);
}

static void on_segv(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	counts[2]++;
	if (info->si_addr == page) { /* repair and retry */
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		return;
	}
	if (info->si_addr == NULL && counts[2] & 1)
		siglongjmp(escape, 1);
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; /* skip the movb (2 bytes) */
}

static void on_fpe(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	counts[3]++;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; /* skip the div */
}

__attribute__((noinline)) static int poke_null(void)
{
	__asm__ volatile("xor %%eax, %%eax; movb (%%rax), %%al" ::: "rax", "memory");
	return work(5);
}

__attribute__((noinline)) static int divide_by_zero(void)
{
	__asm__ volatile("xor %%edx, %%edx; xor %%ecx, %%ecx; divl %%ecx" ::
				 : "rax", "rcx", "rdx", "cc");
	return work(6);
}

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigaction(signal, &action, NULL);
}

int main(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
	volatile int sum = 0;

	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	signal(SIGUSR1, on_usr1);
	signal(SIGUSR2, on_usr2);
	install(SIGSEGV, on_segv, SA_ONSTACK);
	install(SIGFPE, on_fpe, 0);
	for (volatile int i = 0; i < 6; i++) {
		raise(i & 1 ? SIGUSR1 : SIGUSR2);
		sum += work(i);
		if (sigsetjmp(escape, 1) == 0)
			sum += poke_null();
		sum += divide_by_zero();
		kill(getpid(), SIGUSR1);
	}
	page[0] = 1;
	sum += page[0] + work(3);
	printf("%d %d %d %d %d\n", sum, counts[0], counts[1], counts[2], counts[3]);
	return 0;
}
