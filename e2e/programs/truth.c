// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Three threads on one core interrupt a fourth, each by a system call of its own, and log each call.
 *
 *   truth TIMES PAUSE_US POLL_CORE RAISE_CORE
 *
 * "unmapper" calls munmap, "protector" mprotect, "orderer" membarrier, TIMES each. At the end one line of JSON tells
 * when each call began and ended, nanoseconds of CLOCK_MONOTONIC. Then the process stays until it is killed: the log is
 * written into memory that is there from the start, and no thread ends, so that nothing else interrupts the poller.
 */
#define _GNU_SOURCE
#include "poller.h"
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>

#define PAGES_BYTES 65536
#define TIMES_MAX 20000

struct call {
	uint64_t begin_ns;
	uint64_t end_ns;
};

struct raiser {
	const char *comm;
	const char *system_call;
	void (*act)(struct raiser *raiser, struct call *call);
	char *pages;
	pid_t tid;
	long done;
	struct call calls[TIMES_MAX];
};

static long times;
static int pause_us;
static int raise_core;
static atomic_int finished;

static __attribute__((noinline)) void unmap(struct raiser *raiser, struct call *call)
{
	(void)raiser;
	char *pages = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		fail("mmap");
	memset(pages, 1, PAGES_BYTES);
	call->begin_ns = now_ns();
	munmap(pages, PAGES_BYTES);
	call->end_ns = now_ns();
}

static __attribute__((noinline)) void protect(struct raiser *raiser, struct call *call)
{
	int protection = raiser->done & 1 ? PROT_READ | PROT_WRITE : PROT_READ;

	call->begin_ns = now_ns();
	mprotect(raiser->pages, PAGES_BYTES, protection);
	call->end_ns = now_ns();
	if (protection & PROT_WRITE)
		raiser->pages[0] = 1;
}

static __attribute__((noinline)) void order(struct raiser *raiser, struct call *call)
{
	(void)raiser;
	call->begin_ns = now_ns();
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	call->end_ns = now_ns();
}

static struct raiser raisers[] = {
	{ .comm = "unmapper", .system_call = "munmap", .act = unmap },
	{ .comm = "protector", .system_call = "mprotect", .act = protect },
	{ .comm = "orderer", .system_call = "membarrier", .act = order },
};

enum { RAISERS = sizeof(raisers) / sizeof(raisers[0]) };

static void *raise_often(void *own)
{
	struct raiser *raiser = own;

	prctl(PR_SET_NAME, raiser->comm);
	pin(raise_core);
	raiser->tid = syscall(SYS_gettid);
	for (raiser->done = 0; raiser->done < times; raiser->done++) {
		raiser->act(raiser, &raiser->calls[raiser->done]);
		usleep(pause_us);
	}
	atomic_fetch_add(&finished, 1);
	for (;;)
		pause();
}

static void tell(void)
{
	printf("{\"done\": %ld, \"pid\": %d, \"poller_tid\": %d, \"threads\": [", times, getpid(), poller_tid);
	for (int i = 0; i < RAISERS; i++) {
		struct raiser *raiser = &raisers[i];

		printf("%s{\"comm\": \"%s\", \"syscall\": \"%s\", \"tid\": %d, \"calls\": [", i ? ", " : "", raiser->comm,
		       raiser->system_call, raiser->tid);
		for (long j = 0; j < raiser->done; j++)
			printf("%s[%lu, %lu]", j ? "," : "", raiser->calls[j].begin_ns, raiser->calls[j].end_ns);
		printf("]}");
	}
	printf("]}\n");
}

int main(int count, char **words)
{
	pthread_t thread;

	if (count != 5 || (times = atol(words[1])) > TIMES_MAX) {
		fprintf(stderr, "truth TIMES PAUSE_US POLL_CORE RAISE_CORE\n");
		return 2;
	}
	pause_us = atoi(words[2]);
	raise_core = atoi(words[4]);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		fail("membarrier");
	for (int i = 0; i < RAISERS; i++) {
		memset(raisers[i].calls, 1, sizeof(raisers[i].calls));
		raisers[i].pages = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (raisers[i].pages == MAP_FAILED)
			fail("mmap");
		memset(raisers[i].pages, 1, PAGES_BYTES);
	}
	start_poller(atoi(words[3]));
	for (int i = 0; i < RAISERS; i++)
		if (pthread_create(&thread, NULL, raise_often, &raisers[i]))
			fail("pthread_create");
	while (atomic_load(&finished) < RAISERS)
		usleep(5000);
	tell();
	stay();
}
