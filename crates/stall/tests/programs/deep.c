// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A process with a thread that polls on core 1 and others on core 0 that unmap memory, four functions deep.
 *
 *   deep TIMES PAUSE_US THREADS [stay]
 *
 * With "stay" it says so when it is done, and ends when its standard input does.
 *
 * To be compiled with -O2 -fomit-frame-pointer: a walk along frame pointers finds none of the four. Each function does
 * something after its call, so that the call is none that the compiler could turn into a jump. Every other request is
 * a membarrier, which calls a function on the polling core that flushes nothing.
 */
#define _GNU_SOURCE
#include "pin.h"
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES 65536
#define NOINLINE __attribute__((noinline, noclone))

static atomic_int stop;
static long times, pause_us;

static void *poll(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "poller");
	pin(1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		;
	return NULL;
}

static NOINLINE int deep_fourth(char *page)
{
	char room[200];
	int failed;

	room[0] = page[0];
	asm volatile("" : : "r"(room) : "memory");
	failed = munmap(page, BYTES);
	asm volatile("" : "+r"(failed) : "r"(room) : "memory");
	return failed;
}

static NOINLINE int deep_third(char *page, long turn)
{
	int failed = deep_fourth(page);

	asm volatile("" : "+r"(failed), "+r"(turn));
	return failed + !turn;
}

static NOINLINE int deep_second(char *page, long turn)
{
	int failed = deep_third(page, turn + 1);

	asm volatile("" : "+r"(failed), "+r"(turn));
	return failed;
}

static NOINLINE int deep_first(long turn)
{
	char *page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int failed;

	if (page == MAP_FAILED)
		exit(1);
	page[0] = 1;
	failed = deep_second(page, turn);
	asm volatile("" : "+r"(failed), "+r"(turn));
	return failed;
}

static void *raise_them(void *number)
{
	char name[16];
	long turn;

	snprintf(name, sizeof(name), "deep-%ld", (long)number);
	prctl(PR_SET_NAME, name);
	pin(0);
	for (turn = 0; turn < times; turn++) {
		if (deep_first(turn))
			exit(1);
		if (turn & 1)
			syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
		if (pause_us)
			usleep(pause_us);
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t poller, raisers[64];
	long threads, thread;

	if (count != 4 && count != 5)
		return 2;
	times = atol(words[1]);
	pause_us = atol(words[2]);
	threads = atol(words[3]) & 63;
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ||
	    pthread_create(&poller, NULL, poll, NULL))
		return 1;
	for (thread = 0; thread < threads; thread++)
		if (pthread_create(&raisers[thread], NULL, raise_them, (void *)thread))
			return 1;
	for (thread = 0; thread < threads; thread++)
		pthread_join(raisers[thread], NULL);
	atomic_store(&stop, 1);
	pthread_join(poller, NULL);
	if (count == 5) {
		puts("done");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	return 0;
}
