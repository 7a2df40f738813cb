/* Tail calls: direct, through pointers, in a state machine, into another file's function. */
#include <stdio.h>
#include <string.h>

struct machine {
	const char *at;
	int words, digits, others;
};

typedef int state(struct machine *);
state in_word, in_number, between;

static int next(struct machine *m, state *s)
{
	m->at++;
	return s(m);
}

__attribute__((noinline)) int in_word(struct machine *m)
{
	if (*m->at >= 'a' && *m->at <= 'z')
		return next(m, in_word);
	m->words++;
	return between(m);
}

__attribute__((noinline)) int in_number(struct machine *m)
{
	if (*m->at >= '0' && *m->at <= '9')
		return next(m, in_number);
	m->digits++;
	return between(m);
}

__attribute__((noinline)) int between(struct machine *m)
{
	static state *const by_kind[] = {in_word, in_number};

	if (*m->at == '\0')
		return m->words * 100 + m->digits * 10 + m->others;
	if (*m->at >= 'a' && *m->at <= 'z')
		return by_kind[0](m);
	if (*m->at >= '0' && *m->at <= '9')
		return by_kind[1](m);
	m->others++;
	return next(m, between);
}

__attribute__((noinline)) static size_t length(const char *text)
{
	return strlen(text); /* a tail call through the PLT */
}

__attribute__((noinline)) static int count(const char *text)
{
	struct machine m = {.at = text};

	return between(&m) + (int)length(text);
}

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 12; i++) {
		char text[64];

		snprintf(text, sizeof text, "abc 12 x%d yz,%d; the end %d", i, i * i, 7 * i);
		sum += count(text);
	}
	printf("%d\n", sum);
	return 0;
}
