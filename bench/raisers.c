// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The ground truth of the benchmark `who`: a process with a polling thread on one core and threads on another that
 * raise interrupts for it, each by one system call of its own, and that write down when.
 *
 *   raisers POLL_CORE RAISE_CORE COUNT PAUSE_US sleep|spin [munmap|mprotect|madvise|membarrier ...]
 *
 * Each raising thread has the name of its system call with "do_" before it; without any there is only the poller.
 * The program says "ready" when all threads are there, begins at SIGUSR1, then prints one line of JSON, and stays until
 * SIGINT: neither the start nor the end of a thread raises anything while others watch. Times are CLOCK_MONOTONIC,
 * nanoseconds, around each call.
 */
#define _GNU_SOURCE
#include <linux/membarrier.h>
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
#include <time.h>
#include <unistd.h>

#define COUNT_MAX 100000
#define THREADS_MAX 16
#define BYTES 65536
#define PAGE 4096
#define POLLER_PRIORITY 10

struct call {
	int64_t start_ns;
	int64_t end_ns;
};

struct raiser {
	const char *name;
	void (*act)(struct raiser *raiser, struct call *call);
	char *memory;
	struct call *calls;
	pthread_t thread;
	pid_t tid;
	unsigned random;
	int is_writable;
};

static int poll_core, raise_core, sleeps;
static long count, pause_us;
static atomic_int stop;
static pthread_barrier_t here, begin, done;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void *map(void)
{
	char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static void touch(volatile char *memory)
{
	int at;

	for (at = 0; at < BYTES; at += PAGE)
		memory[at] = 1;
}

static void raise_munmap(struct raiser *raiser, struct call *call)
{
	char *memory = map();

	(void)raiser;
	touch(memory);
	call->start_ns = now_ns();
	if (munmap(memory, BYTES))
		fail("munmap");
	call->end_ns = now_ns();
}

static void raise_mprotect(struct raiser *raiser, struct call *call)
{
	raiser->is_writable = !raiser->is_writable;
	call->start_ns = now_ns();
	if (mprotect(raiser->memory, BYTES, raiser->is_writable ? PROT_READ | PROT_WRITE : PROT_READ))
		fail("mprotect");
	call->end_ns = now_ns();
	if (raiser->is_writable)
		touch(raiser->memory);
}

static void raise_madvise(struct raiser *raiser, struct call *call)
{
	touch(raiser->memory);
	call->start_ns = now_ns();
	if (madvise(raiser->memory, BYTES, MADV_DONTNEED))
		fail("madvise");
	call->end_ns = now_ns();
}

static void raise_membarrier(struct raiser *raiser, struct call *call)
{
	(void)raiser;
	call->start_ns = now_ns();
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		fail("membarrier");
	call->end_ns = now_ns();
}

static const struct raiser KINDS[] = {
	{ .name = "munmap", .act = raise_munmap },
	{ .name = "mprotect", .act = raise_mprotect },
	{ .name = "madvise", .act = raise_madvise },
	{ .name = "membarrier", .act = raise_membarrier },
};

/* Between half of the pause and one and a half, so that the threads meet in ever other ways. */
static void rest(struct raiser *raiser)
{
	int64_t ns = pause_us * 500 + pause_us * (rand_r(&raiser->random) % 1000);
	int64_t end_ns = now_ns() + ns;

	if (sleeps) {
		struct timespec time = { ns / 1000000000, ns % 1000000000 };

		nanosleep(&time, NULL);
	}
	while (now_ns() < end_ns)
		;
}

static void *raise_often(void *own)
{
	struct raiser *raiser = own;
	char name[16];
	long number;

	snprintf(name, sizeof(name), "do_%s", raiser->name);
	prctl(PR_SET_NAME, name);
	pin(raise_core);
	raiser->tid = syscall(SYS_gettid);
	raiser->memory = map();
	touch(raiser->memory);
	raiser->is_writable = 1;
	pthread_barrier_wait(&here);
	pthread_barrier_wait(&begin);
	for (number = 0; number < count; number++) {
		raiser->act(raiser, &raiser->calls[number]);
		rest(raiser);
	}
	pthread_barrier_wait(&done);
	/* Ending would raise, too. */
	while (1)
		pause();
}

/* Real-time, so that it is not moved away: a core that runs something else is not interrupted. */
static void *poller(void *unused)
{
	struct sched_param param = { .sched_priority = POLLER_PRIORITY };

	(void)unused;
	prctl(PR_SET_NAME, "poller");
	pin(poll_core);
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		fail("sched_setscheduler");
	pthread_barrier_wait(&here);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		;
	return NULL;
}

static void print(const struct raiser *raisers, int threads)
{
	int thread;
	long number;

	printf("{\"pid\":%d,\"threads\":[", getpid());
	for (thread = 0; thread < threads; thread++) {
		const struct raiser *raiser = &raisers[thread];

		printf("%s{\"tid\":%d,\"name\":\"do_%s\",\"syscall\":\"%s\",\"calls\":[", thread ? "," : "",
		       raiser->tid, raiser->name, raiser->name);
		for (number = 0; number < count; number++)
			printf("%s[%lld,%lld]", number ? "," : "", (long long)raiser->calls[number].start_ns,
			       (long long)raiser->calls[number].end_ns);
		printf("]}");
	}
	printf("]}\n");
	fflush(stdout);
}

static void wait_for(int signal)
{
	sigset_t set;
	int came;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, signal);
	if (sigwait(&set, &came))
		fail("sigwait");
	if (came != signal)
		exit(0);
}

int main(int words, char **word)
{
	static struct raiser raisers[THREADS_MAX];
	int threads = words - 6, thread;
	pthread_t polling;
	sigset_t set;
	size_t kind;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (words < 6 || threads > THREADS_MAX)
		return 2;
	poll_core = atoi(word[1]);
	raise_core = atoi(word[2]);
	count = atol(word[3]);
	pause_us = atol(word[4]);
	sleeps = !strcmp(word[5], "sleep");
	if (count < 1 || count > COUNT_MAX || pause_us < 0 || pause_us > 1000000)
		return 2;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		fail("membarrier");
	pin(raise_core);
	pthread_barrier_init(&here, NULL, threads + 2);
	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&done, NULL, threads + 1);
	for (thread = 0; thread < threads; thread++) {
		for (kind = 0; kind < sizeof(KINDS) / sizeof(*KINDS); kind++)
			if (!strcmp(word[6 + thread], KINDS[kind].name))
				raisers[thread] = KINDS[kind];
		raisers[thread].random = thread + 1;
		raisers[thread].calls = calloc(count, sizeof(struct call));
		if (!raisers[thread].act || !raisers[thread].calls)
			fail(word[6 + thread]);
		/* Written to now, so that no page fault comes in between. */
		memset(raisers[thread].calls, 1, count * sizeof(struct call));
		if (pthread_create(&raisers[thread].thread, NULL, raise_often, &raisers[thread]))
			fail("pthread_create");
	}
	if (pthread_create(&polling, NULL, poller, NULL))
		fail("pthread_create");
	pthread_barrier_wait(&here);
	printf("ready\n");
	fflush(stdout);
	wait_for(SIGUSR1);
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&done);
	print(raisers, threads);
	wait_for(SIGINT);
	atomic_store(&stop, 1);
	return 0;
}
