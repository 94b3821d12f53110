// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A process with a thread that polls on one core, and what disturbs that thread from the other.
 *
 *   disturber MODE TIMES POLL_CORE OTHER_CORE
 *
 * Modes: fork (children come and go, and the parent writes to its memory meanwhile), tgkill (signals to the polling
 * thread), itimer (an interval timer of one millisecond whose signal only the polling thread takes), intrude (a process
 * of its own is woken onto the polling core), shove (one that is ready is moved there by its affinity), spawn (children are
 * started there), balance (loops that may run on both cores, beside a polling thread that sleeps). It begins when it reads
 * a byte, prints a line when it has done so, and stays until its input ends.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
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
static int sleeps;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
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
	if (sleeps) {
		atomic_store(&poller_tid, syscall(SYS_gettid));
		while (!atomic_load_explicit(&stops, memory_order_relaxed)) {
			work_us(3000);
			pause_us(1000);
		}
		return unused;
	}
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
static void intrude(int input)
{
	char byte;

	prctl(PR_SET_NAME, "intruder");
	go_first(3);
	pin(poll_core);
	while (read(input, &byte, 1) == 1) {
		struct timespec now, until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += 50000;
		do
			clock_gettime(CLOCK_MONOTONIC, &now);
		while (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec);
	}
	_exit(0);
}

/* A process of its own that loops until it is ended; on its parent's core, or on both. */
static pid_t start_loop(const char *name, int goes_first)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, name);
	if (goes_first)
		go_first(3);
	for (;;)
		asm volatile("" ::: "memory");
}

static void let_roam(pid_t loop, int other_core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(poll_core, &set);
	CPU_SET(other_core, &set);
	if (sched_setaffinity(loop, sizeof(set), &set))
		fail("sched_setaffinity");
}

/* The loop is ready and does not run when this runs, so that this moves it by itself. */
static __attribute__((noinline)) void shove(pid_t loop, int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(loop, sizeof(set), &set))
		fail("sched_setaffinity");
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

int main(int count, char **words)
{
	struct itimerval every = { .it_interval = { .tv_usec = 1000 }, .it_value = { .tv_usec = 1000 } };
	struct sigaction action = { .sa_handler = take_signal, .sa_flags = SA_RESTART };
	pthread_t thread;
	sigset_t alarm;
	int ends[2] = { -1, -1 };
	char *pages, byte;
	long times;
	pid_t loops[3] = { 0 };
	int balance;

	if (count != 5)
		return 2;
	times = atol(words[2]);
	poll_core = atoi(words[3]);
	balance = sleeps = !strcmp(words[1], "balance");
	prctl(PR_SET_NAME, "disturber");
	pin(atoi(words[4]));
	if (!balance)
		go_first(strcmp(words[1], "shove") ? 2 : 5);
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarm, NULL);
	pages = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		fail("mmap");
	memset(pages, 1, PAGES * PAGE_BYTES);
	if (!strcmp(words[1], "intrude")) {
		if (pipe(ends))
			fail("pipe");
		if (!fork()) {
			close(ends[1]);
			intrude(ends[0]);
		}
		close(ends[0]);
	}
	if (pthread_create(&thread, NULL, poll_until_stopped, NULL))
		fail("pthread_create");
	while (!atomic_load(&poller_tid))
		pause_us(100);
	for (int loop = 0; balance && loop < 3; loop++)
		loops[loop] = start_loop("roamer", 0);
	if (!strcmp(words[1], "shove"))
		loops[0] = start_loop("shoved", 1);
	if (!strcmp(words[1], "spawn"))
		pin(poll_core);
	if (!strcmp(words[1], "itimer") && setitimer(ITIMER_REAL, &every, NULL))
		fail("setitimer");
	/* Whoever watches begins first. */
	if (read(0, &byte, 1) < 0)
		fail("read");
	/* They are on the other core until then, so that the scheduler moves them before somebody's eyes. */
	for (int loop = 0; balance && loop < 3; loop++)
		let_roam(loops[loop], atoi(words[4]));
	for (long done = 0; done < times; done++) {
		if (!strcmp(words[1], "fork"))
			fork_and_write(pages);
		else if (!strcmp(words[1], "tgkill"))
			nudge_poller();
		else if (!strcmp(words[1], "intrude"))
			wake_the_intruder(ends[1]);
		else if (!strcmp(words[1], "shove")) {
			shove(loops[0], poll_core);
			shove(loops[0], atoi(words[4]));
		} else if (!strcmp(words[1], "spawn"))
			spawn_here();
		else
			pause_us(1000);
	}
	memset(&every, 0, sizeof(every));
	setitimer(ITIMER_REAL, &every, NULL);
	for (int loop = 0; loop < 3; loop++) {
		if (loops[loop]) {
			kill(loops[loop], SIGKILL);
			waitpid(loops[loop], NULL, 0);
		}
	}
	printf("%d %ld\n", getpid(), atomic_load(&signals));
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		fail("read");
	if (ends[1] >= 0) {
		close(ends[1]);
		wait(NULL);
	}
	atomic_store(&stops, 1);
	pthread_join(thread, NULL);
	return 0;
}
