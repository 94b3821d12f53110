/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A thread called "poller" that polls on one core, so that changes of its process's memory interrupt that core.
 */
#ifndef POLLER_H
#define POLLER_H

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int poller_stops;
static atomic_int poller_wakes;
static atomic_int poller_tid;
static int poller_sleeps;
static pthread_t poller_thread;

static inline void fail(const char *what)
{
	perror(what);
	exit(1);
}

static inline void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

/* Fails without privilege; then a busy machine is what it is. */
static inline void set_priority(int priority)
{
	struct sched_param wanted = { .sched_priority = priority };

	sched_setscheduler(0, SCHED_RR, &wanted);
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static inline void *poll_until_stopped(void *core)
{
	prctl(PR_SET_NAME, "poller");
	set_priority(1);
	pin((int)(intptr_t)core);
	atomic_store(&poller_tid, syscall(SYS_gettid));
	while (!atomic_load_explicit(&poller_stops, memory_order_relaxed)) {
		int seen = atomic_load(&poller_wakes);

		/* In a program that never stops its poller this loop would be no loop to the compiler. */
		asm volatile("" ::: "memory");
		if (poller_sleeps)
			syscall(SYS_futex, &poller_wakes, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
	return NULL;
}

/*
 * Returns when it polls. On a busy machine the poller goes before everything else: while another process runs on its
 * core, there is nothing to interrupt that core for.
 */
static inline void start_poller(int core)
{
	if (pthread_create(&poller_thread, NULL, poll_until_stopped, (void *)(intptr_t)core))
		fail("pthread_create");
	while (!atomic_load(&poller_tid))
		usleep(100);
}

static inline void stop_poller(void)
{
	atomic_store(&poller_stops, 1);
	atomic_fetch_add(&poller_wakes, 1);
	syscall(SYS_futex, &poller_wakes, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	pthread_join(poller_thread, NULL);
}

/*
 * Sends what was printed and stays until it is killed: a process that ended could not be asked for the names of its
 * functions any more.
 */
static inline void stay(void)
{
	fflush(stdout);
	for (;;)
		pause();
}

#endif
