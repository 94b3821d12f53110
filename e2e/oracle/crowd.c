// SPDX-License-Identifier: Apache-2.0 OR MIT
// A thousand threads that each work for some 30 us and sleep for some 60 ms, and are named alike: crowd THREADS
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void *nap(void *number)
{
	unsigned int seed = (unsigned int)(long)number;

	prctl(PR_SET_NAME, "crowd");
	for (;;) {
		long long until = now_ns() + 20000 + rand_r(&seed) % 20000;

		while (now_ns() < until)
			;
		usleep(40000 + rand_r(&seed) % 40000);
	}
	return NULL;
}

int main(int count, char **words)
{
	long number, threads = count > 1 ? atol(words[1]) : 1000;
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (number = 0; number < threads; number++)
		if (pthread_create(&thread, &small, nap, (void *)number))
			return 1;
	pause();
}
