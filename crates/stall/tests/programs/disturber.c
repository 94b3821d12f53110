// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A process with a thread that polls on one core, and what disturbs that thread from the other.
 *
 *   disturber MODE TIMES POLL_CORE OTHER_CORE
 *
 * Modes: fork (children come and go, and the parent writes to its memory meanwhile), tgkill (signals to the polling
 * thread), itimer (an interval timer of one millisecond whose signal only the polling thread takes), intrude (a process
 * of its own is woken onto the polling core), shove (one that is ready is moved there by its affinity), spawn (children are
 * started there), balance (the scheduler pushes one there that may run on both cores), delay (nothing polls: a process of
 * its own is woken there while this one's thread sleeps, which is woken meanwhile and waits). It begins when it reads a byte,
 * prints a line when it has done so, and stays until its input ends.
 */
#define _GNU_SOURCE
#include "pin.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGES 16
#define PAGE_BYTES 4096

static atomic_int poller_tid;
static atomic_int stops;
static atomic_long signals;
static int poll_core;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Goes before everything else on a busy machine; without privilege it is as it is. */
static void go_first(int priority)
{
	struct sched_param wanted = { .sched_priority = priority };

	sched_setscheduler(0, SCHED_RR, &wanted);
}

static void pause_us(long us)
{
	struct timespec time = { .tv_nsec = us * 1000 };

	nanosleep(&time, NULL);
}

static void work_us(long us)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < us);
}

static void take_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals, 1);
}

static void *poll_until_stopped(void *unused)
{
	sigset_t alarm;

	prctl(PR_SET_NAME, "poller");
	pin(poll_core);
	go_first(1);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	atomic_store(&poller_tid, syscall(SYS_gettid));
	while (!atomic_load_explicit(&stops, memory_order_relaxed))
		asm volatile("" ::: "memory");
	return unused;
}

/* The child keeps the pages until the parent has written to them, which copies each. */
static __attribute__((noinline)) void fork_and_write(char *pages)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child) {
		pause_us(2000);
		_exit(0);
	}
	for (int page = 0; page < PAGES; page++)
		pages[page * PAGE_BYTES]++;
	waitpid(child, NULL, 0);
}

static __attribute__((noinline)) void nudge_poller(void)
{
	if (syscall(SYS_tgkill, getpid(), atomic_load(&poller_tid), SIGUSR1))
		fail("tgkill");
	pause_us(300);
}

/* Sleeps on the polling core and goes before the poller when it is woken. */
static void intrude(const char *name, int priority, int input, long us)
{
	char byte;

	prctl(PR_SET_NAME, name);
	go_first(priority);
	pin(poll_core);
	while (read(input, &byte, 1) == 1)
		work_us(us);
	_exit(0);
}

/* Where nothing polls: sleeps on that core until it is told to do a little. It goes before pollers of other tests. */
static void *sleep_until_told(void *input)
{
	char byte;

	prctl(PR_SET_NAME, "sleeper");
	pin(poll_core);
	go_first(4);
	atomic_store(&poller_tid, syscall(SYS_gettid));
	while (read(*(int *)input, &byte, 1) == 1)
		work_us(20);
	return NULL;
}

/* A process of its own that loops until it is ended: before the poller, and after its parent. */
static pid_t start_loop(const char *name)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	go_first(3);
	for (;;)
		asm volatile("" ::: "memory");
}

static void allow(pid_t loop, int core, int another)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	CPU_SET(another, &set);
	if (sched_setaffinity(loop, sizeof(set), &set))
		fail("sched_setaffinity");
}

/*
 * Brings the loop to this core, where it runs while this sleeps; who wakes takes the core from it, and the scheduler
 * pushes it at once to the core with the lesser task, whatever else runs on the machine.
 */
static __attribute__((noinline)) void crowd_out(pid_t loop, int core)
{
	allow(loop, core, core);
	allow(loop, core, poll_core);
	pause_us(500);
	/* It is on the other core now; whoever watches needs this one. */
	pause_us(2000);
}

/* The loop is ready and does not run when this runs, so that this moves it by itself. */
static __attribute__((noinline)) void shove(pid_t loop, int core)
{
	allow(loop, core, core);
	pause_us(500);
}

static __attribute__((noinline)) void spawn_here(void)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child) {
		work_us(200);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	pause_us(500);
}

static __attribute__((noinline)) void wake_the_intruder(int output)
{
	if (write(output, "x", 1) != 1)
		fail("write");
	pause_us(1000);
}

/* The intruder is at work when the sleeper is woken, and goes before it. */
static __attribute__((noinline)) void wake_both(int intruder, int sleeper)
{
	if (write(intruder, "x", 1) != 1)
		fail("write");
	pause_us(300);
	if (write(sleeper, "x", 1) != 1)
		fail("write");
	pause_us(2000);
}

static void begin_the_intruder(int ends[2], const char *name, int priority, long us)
{
	if (pipe(ends))
		fail("pipe");
	if (!fork()) {
		close(ends[1]);
		intrude(name, priority, ends[0], us);
	}
	close(ends[0]);
}

int main(int count, char **words)
{
	struct itimerval every = { .it_interval = { .tv_usec = 1000 }, .it_value = { .tv_usec = 1000 } };
	struct sigaction action = { .sa_handler = take_signal, .sa_flags = SA_RESTART };
	pthread_t thread;
	sigset_t alarm;
	int ends[2] = { -1, -1 }, told[2] = { -1, -1 };
	char *pages, byte;
	long times;
	pid_t loop = 0;
	int has_loop, delays;

	if (count != 5)
		return 2;
	times = atol(words[2]);
	poll_core = atoi(words[3]);
	prctl(PR_SET_NAME, "disturber");
	pin(atoi(words[4]));
	has_loop = !strcmp(words[1], "shove") || !strcmp(words[1], "balance");
	delays = !strcmp(words[1], "delay");
	go_first(has_loop || delays ? 5 : 2);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarm, NULL);
	pages = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		fail("mmap");
	memset(pages, 1, PAGES * PAGE_BYTES);
	if (delays)
		begin_the_intruder(ends, "delayer", 5, 1000);
	else if (!strcmp(words[1], "intrude"))
		begin_the_intruder(ends, "intruder", 3, 50);
	if (delays && pipe(told))
		fail("pipe");
	if (pthread_create(&thread, NULL, delays ? sleep_until_told : poll_until_stopped, &told[0]))
		fail("pthread_create");
	while (!atomic_load(&poller_tid))
		pause_us(100);
	if (!strcmp(words[1], "spawn"))
		pin(poll_core);
	if (!strcmp(words[1], "itimer") && setitimer(ITIMER_REAL, &every, NULL))
		fail("setitimer");
	/* Whoever watches begins first. */
	if (read(0, &byte, 1) < 0)
		fail("read");
	if (has_loop)
		loop = start_loop(words[1]);
	for (long done = 0; done < times; done++) {
		if (!strcmp(words[1], "fork"))
			fork_and_write(pages);
		else if (!strcmp(words[1], "tgkill"))
			nudge_poller();
		else if (!strcmp(words[1], "intrude"))
			wake_the_intruder(ends[1]);
		else if (delays)
			wake_both(ends[1], told[1]);
		else if (!strcmp(words[1], "shove")) {
			shove(loop, poll_core);
			shove(loop, atoi(words[4]));
		} else if (!strcmp(words[1], "balance"))
			crowd_out(loop, atoi(words[4]));
		else if (!strcmp(words[1], "spawn"))
			spawn_here();
		else
			pause_us(1000);
	}
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_REAL, &every, NULL);
	if (has_loop) {
		kill(loop, SIGKILL);
		waitpid(loop, NULL, 0);
	}
	printf("%d %ld\n", getpid(), atomic_load(&signals));
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		fail("read");
	if (ends[1] >= 0) {
		close(ends[1]);
		wait(NULL);
	}
	if (delays)
		close(told[1]);
	atomic_store(&stops, 1);
	pthread_join(thread, NULL);
	return 0;
}
