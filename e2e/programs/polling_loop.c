/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A polling thread that notes its own gaps, beside a thread that unmaps memory.
 *
 *   polling_loop TIMES PAUSE_US POLL_CORE UNMAP_CORE THRESHOLD_NS FIFO_PRIORITY
 *
 * The polling thread is called "poller" and its loop "receive"; the other thread is called "stats". At the end one line
 * of JSON tells how often memory was unmapped and how many gaps were noted. With priority 0 the polling thread is an
 * ordinary one.
 */
#include "../../bindings/c/surefoot_inloop.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define BUFFER_BYTES 65536

static atomic_int stop;
static atomic_int opened;
static int poll_core;
static int fifo_priority;
static uint64_t threshold_ns;
static uint64_t noted;
static pid_t poller_tid;

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
	static struct sf_loop gaps;
	struct sched_param priority = {.sched_priority = fifo_priority};
	int error;

	(void)unused;
	prctl(PR_SET_NAME, "poller");
	pin(poll_core);
	/* As polling threads run where it matters; a machine that builds something beside this takes 5 % of the core. */
	if (fifo_priority && sched_setscheduler(0, SCHED_FIFO, &priority))
		fail("sched_setscheduler");
	poller_tid = (pid_t)syscall(SYS_gettid);
	error = sf_loop_open(&gaps, "receive", threshold_ns);
	if (error) {
		fprintf(stderr, "gaps are not noted: %s\n", sf_loop_error(error));
		exit(1);
	}
	atomic_store(&opened, 1);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		sf_loop_turn(&gaps);
	noted = gaps.noted;
	sf_loop_close(&gaps);
	return NULL;
}

static void use_and_unmap(void)
{
	char *buffer = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buffer == MAP_FAILED)
		fail("mmap");
	memset(buffer, 1, BUFFER_BYTES);
	if (munmap(buffer, BUFFER_BYTES))
		fail("munmap");
}

int main(int count, char **words)
{
	pthread_t thread;
	long times, done;

	if (count != 7) {
		fprintf(stderr, "polling_loop TIMES PAUSE_US POLL_CORE UNMAP_CORE THRESHOLD_NS FIFO_PRIORITY\n");
		return 2;
	}
	times = atol(words[1]);
	poll_core = atoi(words[3]);
	threshold_ns = strtoull(words[5], NULL, 10);
	fifo_priority = atoi(words[6]);
	prctl(PR_SET_NAME, "stats");
	pin(atoi(words[4]));
	/* A machine that builds or tests something beside this must not leave this thread without a core. */
	if (setpriority(PRIO_PROCESS, 0, -20))
		fail("setpriority");
	if (pthread_create(&thread, NULL, poller, NULL))
		fail("pthread_create");
	while (!atomic_load(&opened))
		usleep(1000);
	/* Whoever watches needs a moment to find the first loop that there is. */
	usleep(500000);
	for (done = 0; done < times; done++) {
		use_and_unmap();
		usleep((useconds_t)atoi(words[2]));
	}
	usleep(50000);
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	printf("{\"done\": %ld, \"pid\": %d, \"poller_tid\": %d, \"noted\": %llu}\n", done, getpid(), poller_tid,
	       (unsigned long long)noted);
	return 0;
}
