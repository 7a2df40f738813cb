/* A program to trace. Ends by itself after 20 s at the latest.
 *   traced thread   a thread that starts late calls trigger_me(1, 2)
 *   traced hot      calls trigger_me() all the time, from two threads
 *   traced library  calls the functions of pt-capture.h
 *   traced wait     does nothing */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture/lib/pt-capture.h"

enum { LIFE_S = 20, LATE_US = 300000 };

uint64_t trigger_me(uint64_t a, uint64_t b);
__attribute__((noinline)) uint64_t trigger_me(uint64_t a, uint64_t b)
{
	__asm__ volatile("" : "+r"(a)); /* TRIGGER LINE */
	return a + b;
}

static void *call_late(void *context)
{
	(void)context;
	usleep(LATE_US);
	trigger_me(1, 2);
	return NULL;
}

static void *call_often(void *context)
{
	for (uint64_t i = 0;; i++) {
		trigger_me(i, 0);
		usleep(1000);
	}
	return context;
}

static void *call_library(void *context)
{
	usleep(LATE_US);
	ptcapture_mark_start(5);
	ptcapture_take_snapshot(6);
	return context;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "wait";
	pthread_t thread;

	alarm(LIFE_S);
	if (strcmp(mode, "thread") == 0) {
		usleep(LATE_US);
		pthread_create(&thread, NULL, call_late, NULL);
	} else if (strcmp(mode, "hot") == 0) {
		pthread_create(&thread, NULL, call_often, NULL);
		call_often(NULL);
	} else if (strcmp(mode, "library") == 0) {
		pthread_create(&thread, NULL, call_library, NULL);
	}
	for (;;)
		pause();
}
