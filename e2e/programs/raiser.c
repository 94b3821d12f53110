// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A process with a polling thread on one core and a thread on another that raises interrupts for it.
 *
 *   raiser MODE TIMES PAUSE_US POLL_CORE RAISE_CORE
 *
 * Modes: stdio (a counter read through a FILE whose buffer is mapped and unmapped), plain (the same by open, read and
 * close), mprotect, madvise, membarrier, futex (the polling thread sleeps and is woken). The raising thread is called
 * "stats", the polling one "poller". At the end one line of JSON tells what was done.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUFFER_BYTES 65536

static atomic_int stop;
static atomic_int wakes;
static int polls_by_sleeping;
static int poll_core;
static pid_t poller_tid;
static char *page;

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

static void *poller(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "poller");
	pin(poll_core);
	poller_tid = syscall(SYS_gettid);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		int seen = atomic_load(&wakes);

		if (polls_by_sleeping)
			syscall(SYS_futex, &wakes, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
	return NULL;
}

/* The library of the post's time mapped the buffer itself; today's takes it from the heap, so we map it. */
static __attribute__((noinline)) FILE *open_counter(char **buffer)
{
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file)
		fail("fopen");
	*buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*buffer == MAP_FAILED)
		fail("mmap");
	setvbuf(file, *buffer, _IOFBF, BUFFER_BYTES);
	return file;
}

static __attribute__((noinline)) int close_counter(FILE *file, char *buffer)
{
	int failed = fclose(file);

	failed |= munmap(buffer, BUFFER_BYTES);
	asm volatile("" : "+r"(failed));
	return failed;
}

static __attribute__((noinline)) int read_counter_by_stdio(void)
{
	char *buffer;
	FILE *file = open_counter(&buffer);
	long value = 0;
	int failed = fscanf(file, "%ld", &value) != 1;

	failed |= close_counter(file, buffer);
	asm volatile("" : "+r"(failed));
	return failed;
}

static __attribute__((noinline)) int read_counter_plainly(void)
{
	char text[128];
	int file = open("/proc/self/statm", O_RDONLY);
	int failed = file < 0 || read(file, text, sizeof(text)) <= 0;

	return failed | close(file);
}

static __attribute__((noinline)) int change_protection(void)
{
	int failed = mprotect(page, BUFFER_BYTES, PROT_READ);

	failed |= mprotect(page, BUFFER_BYTES, PROT_READ | PROT_WRITE);
	page[0] = 1;
	return failed;
}

static __attribute__((noinline)) int give_memory_back(void)
{
	int failed;

	memset(page, 1, BUFFER_BYTES);
	failed = madvise(page, BUFFER_BYTES, MADV_DONTNEED);
	asm volatile("" : "+r"(failed));
	return failed;
}

static __attribute__((noinline)) int order_all_threads(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static __attribute__((noinline)) int wake_the_poller(void)
{
	atomic_fetch_add(&wakes, 1);
	return syscall(SYS_futex, &wakes, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0;
}

int main(int count, char **words)
{
	int (*act)(void) = NULL;
	pthread_t thread;
	long times, done;

	if (count != 6) {
		fprintf(stderr, "raiser MODE TIMES PAUSE_US POLL_CORE RAISE_CORE\n");
		return 2;
	}
	if (!strcmp(words[1], "stdio"))
		act = read_counter_by_stdio;
	else if (!strcmp(words[1], "plain"))
		act = read_counter_plainly;
	else if (!strcmp(words[1], "mprotect"))
		act = change_protection;
	else if (!strcmp(words[1], "madvise"))
		act = give_memory_back;
	else if (!strcmp(words[1], "membarrier"))
		act = order_all_threads;
	else if (!strcmp(words[1], "futex"))
		act = wake_the_poller;
	else
		return 2;
	polls_by_sleeping = act == wake_the_poller;
	times = atol(words[2]);
	poll_core = atoi(words[4]);
	if (act == order_all_threads && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		fail("membarrier");
	page = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || pthread_create(&thread, NULL, poller, NULL))
		fail("start");
	prctl(PR_SET_NAME, "stats");
	pin(atoi(words[5]));
	for (done = 0; done < times; done++) {
		if (act())
			fail(words[1]);
		usleep(atoi(words[3]));
	}
	atomic_store(&stop, 1);
	wake_the_poller();
	pthread_join(thread, NULL);
	printf("{\"done\": %ld, \"pid\": %d, \"poller_tid\": %d}\n", done, getpid(), poller_tid);
	return 0;
}
