// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A process with a thread that polls on core 1, while it unmaps memory on core 0; then it becomes another program.
 *
 *   before TIMES AFTER
 *   after TIMES
 *
 * To be compiled twice, statically and without position independence, so that both programs have code at the same
 * addresses: once as it is, and once with -DAFTER. The second does as the first with functions of its own, says so,
 * and ends when its standard input does.
 */
#define _GNU_SOURCE
#include "pin.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 65536
#define NOINLINE __attribute__((noinline, noclone))

static atomic_int polls, stop;

static void *poll(void *unused)
{
	pin(1);
	atomic_store(&polls, 1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		;
	return unused;
}

static NOINLINE int unmap(void)
{
	char *page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int failed;

	if (page == MAP_FAILED)
		exit(1);
	page[0] = 1;
	failed = munmap(page, BYTES);
	asm volatile("" : "+r"(failed));
	return failed;
}

/* Each program has one of them alone. */
#ifdef AFTER
static NOINLINE int raised_after(void)
#else
static NOINLINE int raised_before(void)
#endif
{
	int failed = unmap();

	usleep(1000);
	asm volatile("" : "+r"(failed));
	return failed;
}

int main(int count, char **words)
{
	pthread_t poller;
	long times;

	if (count < 2)
		return 2;
	pin(0);
	if (pthread_create(&poller, NULL, poll, NULL))
		return 1;
	while (!atomic_load(&polls))
		usleep(100);
	for (times = atol(words[1]); times > 0; times--) {
#ifdef AFTER
		if (raised_after())
			return 1;
#else
		if (raised_before())
			return 1;
#endif
	}
#ifdef AFTER
	atomic_store(&stop, 1);
	pthread_join(poller, NULL);
	puts("done");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
#else
	execl(words[2], words[2], words[1], NULL);
	return 1;
#endif
}
