// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * A process with a polling thread on one core and a thread on another that raises interrupts for it.
 *
 *   raiser MODE TIMES PAUSE_US POLL_CORE RAISE_CORE
 *
 * Modes: stdio (a counter read through a FILE whose buffer is mapped and unmapped), plain (the same by open, read and
 * close), mprotect, madvise, membarrier, futex (the polling thread sleeps and is woken), timer and timerfd (a timer is
 * armed and waited for), cpuid (the device file of the polling core is read), exit (TIMES processes with a polling
 * thread each come and end). The polling thread is called "poller"; the raising one "stats", but with a timer "armer",
 * with cpuid "cpuidreader" and with exit "leaver". At the end one line of JSON tells what was done; then the
 * process stays until it is killed.
 */
#define _GNU_SOURCE
#include "poller.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#define BUFFER_BYTES 65536
#define TIMER_NS 1000000

static int poll_core;
static int raise_core;
static char *page;
static int cpuid_file;
static int timer_file;
static timer_t timer;
static sigset_t timer_signal;

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
	atomic_fetch_add(&poller_wakes, 1);
	return syscall(SYS_futex, &poller_wakes, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0;
}

static void *fill(void *unused)
{
	struct sched_param none = { 0 };

	(void)unused;
	prctl(PR_SET_NAME, "filler");
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		fail("sched_setscheduler");
	pin(poll_core);
	for (;;)
		asm volatile("");
	return NULL;
}

/*
 * An idle core may watch for work by itself, and is woken without an interrupt then. This thread has the polling core
 * while nobody else wants it, so that waking the poller takes one.
 */
static void start_filler(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, fill, NULL))
		fail("pthread_create");
}

static __attribute__((noinline)) int arm_a_timer(void)
{
	struct itimerspec once = { .it_value = { .tv_nsec = TIMER_NS } };
	int failed = timer_settime(timer, 0, &once, NULL);

	while (!failed && sigwaitinfo(&timer_signal, NULL) < 0)
		failed = errno != EINTR;
	return failed;
}

static __attribute__((noinline)) int arm_a_timer_file(void)
{
	struct itimerspec once = { .it_value = { .tv_nsec = TIMER_NS } };
	uint64_t expired;
	int failed = timerfd_settime(timer_file, 0, &once, NULL);

	return failed || read(timer_file, &expired, sizeof(expired)) != sizeof(expired);
}

static __attribute__((noinline)) int read_the_cpuid_of_the_core(void)
{
	uint32_t registers[4];
	int failed = pread(cpuid_file, registers, sizeof(registers), 0) != sizeof(registers);

	asm volatile("" : "+r"(failed));
	return failed;
}

static __attribute__((noinline)) void leave(void)
{
	_exit(0);
}

/* The child has a poller of its own and leaves while that one polls. */
static __attribute__((noinline)) int live_and_leave(void)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		return 1;
	if (!child) {
		prctl(PR_SET_NAME, "leaver");
		start_poller(poll_core);
		usleep(2000);
		leave();
	}
	return waitpid(child, &status, 0) != child || status;
}

/* Opens what an act needs; the name of the thread that acts. */
static const char *prepare(int (*act)(void))
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	char path[64];

	if (act == order_all_threads && syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		fail("membarrier");
	if (act == read_the_cpuid_of_the_core) {
		snprintf(path, sizeof(path), "/dev/cpu/%d/cpuid", poll_core);
		cpuid_file = open(path, O_RDONLY);
		if (cpuid_file < 0)
			fail(path);
		return "cpuidreader";
	}
	if (act == arm_a_timer || act == arm_a_timer_file) {
		/* Before the poller begins, so that it is not the thread that the signal goes to. */
		sigemptyset(&timer_signal);
		sigaddset(&timer_signal, SIGRTMIN);
		sigprocmask(SIG_BLOCK, &timer_signal, NULL);
		timer_file = timerfd_create(CLOCK_MONOTONIC, 0);
		if (timer_file < 0 || timer_create(CLOCK_MONOTONIC, &event, &timer))
			fail("timer");
		return "armer";
	}
	return "stats";
}

static const struct {
	const char *mode;
	int (*act)(void);
} ACTS[] = {
	{ "stdio", read_counter_by_stdio },  { "plain", read_counter_plainly },
	{ "mprotect", change_protection },   { "madvise", give_memory_back },
	{ "membarrier", order_all_threads }, { "futex", wake_the_poller },
	{ "timer", arm_a_timer },            { "timerfd", arm_a_timer_file },
	{ "exit", live_and_leave },          { "cpuid", read_the_cpuid_of_the_core },
};

int main(int count, char **words)
{
	int (*act)(void) = NULL;
	const char *name;
	long times, done;
	int pause_us;

	for (size_t i = 0; count == 6 && i < sizeof(ACTS) / sizeof(ACTS[0]); i++)
		if (!strcmp(words[1], ACTS[i].mode))
			act = ACTS[i].act;
	if (!act) {
		fprintf(stderr, "raiser MODE TIMES PAUSE_US POLL_CORE RAISE_CORE\n");
		return 2;
	}
	times = atol(words[2]);
	pause_us = atoi(words[3]);
	poll_core = atoi(words[4]);
	raise_core = atoi(words[5]);
	poller_sleeps = act == wake_the_poller;
	name = prepare(act);
	page = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		fail("mmap");
	if (act != live_and_leave)
		start_poller(poll_core);
	if (poller_sleeps)
		start_filler();
	prctl(PR_SET_NAME, name);
	/* Who shares the core with the poller has to go before it. */
	if (raise_core == poll_core)
		set_priority(2);
	pin(raise_core);
	for (done = 0; done < times; done++) {
		if (act())
			fail(words[1]);
		if (pause_us)
			usleep(pause_us);
	}
	if (act != live_and_leave)
		stop_poller();
	printf("{\"done\": %ld, \"pid\": %d, \"poller_tid\": %d}\n", done, getpid(), poller_tid);
	stay();
}
