// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A process that interrupts its own polling thread in ways that are hard to tell of.
 *
 *   odd MODE TIMES PAUSE_US POLL_CORE RAISE_CORE
 *
 * Modes: made (machine code that was written at run time calls munmap; x86-64 only), chains (munmap at the end of 100
 * different chains of calls, TIMES each), name (a thread whose name moves the cursor and rings the bell), many (TIMES
 * threads that live for one munmap). At the end one line of JSON tells what was done; then the
 * process stays until it is killed.
 */
#define _GNU_SOURCE
#include "poller.h"
#include <string.h>
#include <sys/mman.h>

#define PAGES_BYTES 65536
#define CHAINS 100
#define LINKS 7

static int pause_us;
static int raise_core;

static char *map_pages(void)
{
	char *pages = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		fail("mmap");
	memset(pages, 1, PAGES_BYTES);
	return pages;
}

static __attribute__((noinline)) int unmap_pages(void)
{
	int failed = munmap(map_pages(), PAGES_BYTES);

	asm volatile("" : "+r"(failed));
	return failed;
}

/* The code of `long munmap(void *, unsigned long)`, with a frame of its own. */
static const unsigned char CODE[] = {
	0x55,                         /* push %rbp */
	0x48, 0x89, 0xe5,             /* mov %rsp, %rbp */
	0xb8, 0x0b, 0x00, 0x00, 0x00, /* mov $11, %eax */
	0x0f, 0x05,                   /* syscall */
	0x5d,                         /* pop %rbp */
	0xc3,                         /* ret */
};

static long (*made_code)(void *, unsigned long);

static void make_code(void)
{
	void *code = map_pages();

	memcpy(code, CODE, sizeof(CODE));
	if (mprotect(code, PAGES_BYTES, PROT_READ | PROT_EXEC))
		fail("mprotect");
	made_code = (long (*)(void *, unsigned long))code;
}

static __attribute__((noinline)) int call_made_code(void)
{
	long failed = made_code(map_pages(), PAGES_BYTES);

	asm volatile("" : "+r"(failed));
	return failed != 0;
}

static int go_left(int turns, int left);
static int go_right(int turns, int left);

/* Each bit of `turns` is a call of the one or of the other function. */
static __attribute__((always_inline)) inline int go_on(int turns, int left)
{
	int failed;

	if (!left)
		failed = unmap_pages();
	else if (turns & 1)
		failed = go_right(turns >> 1, left - 1);
	else
		failed = go_left(turns >> 1, left - 1);
	asm volatile("" : "+r"(failed));
	return failed;
}

static __attribute__((noinline)) int go_left(int turns, int left)
{
	return go_on(turns, left) | 2;
}

static __attribute__((noinline)) int go_right(int turns, int left)
{
	return go_on(turns, left) | 4;
}

static void *live_briefly(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "brief");
	pin(raise_core);
	if (unmap_pages())
		fail("munmap");
	return NULL;
}

static void act(const char *mode, long number)
{
	pthread_t thread;

	if (!strcmp(mode, "made")) {
		if (call_made_code())
			fail("made code");
	} else if (!strcmp(mode, "chains")) {
		for (int turns = 0; turns < CHAINS; turns++) {
			go_on(turns, LINKS);
			usleep(pause_us);
		}
	} else if (!strcmp(mode, "name")) {
		if (unmap_pages())
			fail("munmap");
	} else if (!strcmp(mode, "many")) {
		if (pthread_create(&thread, NULL, live_briefly, NULL) || pthread_join(thread, NULL))
			fail("pthread_create");
	} else {
		fprintf(stderr, "odd: mode %s, turn %ld\n", mode, number);
		exit(2);
	}
	usleep(pause_us);
}

int main(int count, char **words)
{
	long times, done;

	if (count != 6) {
		fprintf(stderr, "odd MODE TIMES PAUSE_US POLL_CORE RAISE_CORE\n");
		return 2;
	}
	times = atol(words[2]);
	pause_us = atoi(words[3]);
	raise_core = atoi(words[5]);
	make_code();
	start_poller(atoi(words[4]));
	pin(raise_core);
	if (!strcmp(words[1], "name"))
		prctl(PR_SET_NAME, "\033[31mev\ail\n\"\377");
	for (done = 0; done < times; done++)
		act(words[1], done);
	stop_poller();
	printf("{\"done\": %ld, \"pid\": %d, \"poller_tid\": %d}\n", done, getpid(), poller_tid);
	stay();
}
