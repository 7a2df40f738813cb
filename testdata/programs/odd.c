/* Control flow that compilers seldom make: REP, LOOP and JRCXZ, a CALL to the next
 * instruction, PUSH and RET as a jump, a callee that changes where it returns to. */
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) static long loops(long n)
{
	long sum = 0;

	__asm__ volatile("mov %1, %%rcx\n"
			 "1: jrcxz 2f\n"
			 "add %%rcx, %0\n"
			 "loop 1b\n"
			 "2:\n"
			 : "+r"(sum)
			 : "r"(n)
			 : "rcx", "cc");
	return sum;
}

__attribute__((noinline)) static void copy(char *to, const char *from, size_t count)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
}

__attribute__((noinline)) static long where(void)
{
	long ip;

	__asm__ volatile("call 1f\n1: pop %0\n" : "=r"(ip)::"memory");
	return ip & 0xfff;
}

long jump_by_ret(void);
long skip_return(void);
void skipper(void);

__asm__(".text\n"
	".type jump_by_ret, @function\n"
	"jump_by_ret:\n"
	"	lea 1f(%rip), %rax\n"
	"	push %rax\n"
	"	ret\n"
	"1:	mov $42, %eax\n"
	"	ret\n"
	".size jump_by_ret, . - jump_by_ret\n"
	".type skipper, @function\n"
	"skipper:\n"
	"	addq $7, (%rsp)\n" /* over the next mov */
	"	ret\n"
	".size skipper, . - skipper\n"
	".type skip_return, @function\n"
	"skip_return:\n"
	"	mov $1, %eax\n"
	"	call skipper\n"
	"	mov $99, %rax\n" /* 7 bytes, never executed */
	"	add $1, %eax\n"
	"	ret\n"
	".size skip_return, . - skip_return\n");

int main(void)
{
	char text[64] = "a short text to be copied by the string instructions", other[64];
	long sum = 0;

	for (int i = 0; i < 8; i++) {
		sum += loops(i * 3) + where() % 7 + jump_by_ret() + skip_return();
		copy(other, text, strlen(text) + 1);
		sum += other[i];
	}
	printf("%ld\n", sum);
	return 0;
}
