// The ground truth of the end-to-end tests: a process that disturbs a core in a known way and says exactly when.
//
//     actor NAME spin CPU MS                    spins, for a time
//     actor NAME nap CPU MS                     works for half a millisecond and sleeps as long, in turns, for a time
//     actor NAME burn CPU MS                    spins until it has used that much processor time
//     actor NAME work user|kernel CPU MS        uses processor time in one mode, ahead of all ordinary tasks, which
//                                               get a fifth of the core meanwhile
//     actor NAME stall CPU TIMES LENGTH_US PAUSE_MS
//                                               takes the core as a real-time task, again and again
//     actor NAME storm munmap|membarrier|wake FROM_CPU ON_CPU BURSTS COUNT PAUSE_MS
//                                               interrupts ON_CPU from FROM_CPU, in bursts, until all are done or
//                                               SIGTERM comes
//     actor NAMEudp CPU COUNT                  sends datagrams to itself
//     actor NAME disk FILE COUNT                writes blocks through to the disk
//     actor NAME loaded ID...                   tells which eBPF programs the kernel still has
//
// NAME becomes the name of the thread. The answer is one line of JSON; times are CLOCK_MONOTONIC nanoseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OPERATIONS_MAX 100000
#define WORK_MS 80
#define REST_MS 20

static void fail(const char *what)
{
	fprintf(stderr, "actor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	if (clock_gettime(clock, &time))
		fail("clock_gettime");
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void sleep_ms(int64_t ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&time, &time) && errno == EINTR)
		;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void become_real_time(int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		fail("sched_setscheduler");
}

static void relax(void)
{
	__asm__ volatile("" ::: "memory");
}

static void spin(int cpu, int64_t ms)
{
	int64_t end;

	pin(cpu);
	end = now_ns() + ms * 1000000;
	while (now_ns() < end)
		;
	printf("{\"cpu_ns\":%lld}\n", (long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
}

static void nap(int cpu, int64_t ms)
{
	struct timespec half = { 0, 500000 };
	int64_t end, sleep_ns;

	pin(cpu);
	end = now_ns() + ms * 1000000;
	while (now_ns() < end) {
		sleep_ns = now_ns() + half.tv_nsec;
		while (now_ns() < sleep_ns)
			;
		nanosleep(&half, NULL);
	}
	printf("{\"cpu_ns\":%lld}\n", (long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
}

static void burn(int cpu, int64_t ms)
{
	int64_t began, start_ns;

	pin(cpu);
	start_ns = now_ns();
	began = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began < ms * 1000000)
		;
	printf("{\"cpu_ns\":%lld,\"start_ns\":%lld,\"end_ns\":%lld}\n",
	       (long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began, (long long)start_ns, (long long)now_ns());
}

static void work(int in_kernel, int cpu, int64_t ms)
{
	static char block[1 << 20];
	int64_t began, rest_ns, turn;
	struct rusage used;
	int zero = open("/dev/zero", O_RDONLY);

	if (zero < 0)
		fail("/dev/zero");
	memset(block, 1, sizeof(block));
	pin(cpu);
	become_real_time(50);
	began = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	rest_ns = now_ns() + WORK_MS * 1000000;
	while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began < ms * 1000000) {
		if (in_kernel) {
			if (read(zero, block, sizeof(block)) != sizeof(block))
				fail("read");
		} else {
			for (turn = 0; turn < 100000; turn++)
				relax();
		}
		if (now_ns() > rest_ns) {
			sleep_ms(REST_MS);
			rest_ns = now_ns() + WORK_MS * 1000000;
		}
	}
	if (getrusage(RUSAGE_SELF, &used))
		fail("getrusage");
	printf("{\"user_ns\":%lld,\"kernel_ns\":%lld}\n",
	       used.ru_utime.tv_sec * 1000000000LL + used.ru_utime.tv_usec * 1000LL,
	       used.ru_stime.tv_sec * 1000000000LL + used.ru_stime.tv_usec * 1000LL);
}

static void stall(int cpu, int times, int64_t length_us, int64_t pause_ms)
{
	int64_t *spans = calloc(times, 2 * sizeof(*spans));
	int number;

	if (!spans)
		fail("calloc");
	pin(cpu);
	become_real_time(50);
	for (number = 0; number < times; number++) {
		sleep_ms(pause_ms);
		spans[2 * number] = now_ns();
		do
			spans[2 * number + 1] = now_ns();
		while (spans[2 * number + 1] - spans[2 * number] < length_us * 1000);
	}
	printf("{\"stalls\":[");
	for (number = 0; number < times; number++)
		printf("%s[%lld,%lld]", number ? "," : "", (long long)spans[2 * number], (long long)spans[2 * number + 1]);
	printf("]}\n");
}

// The storm: one thread on each core. The one that is interrupted keeps its core busy during a burst, so that every
// operation of the other has to interrupt it, and sleeps between bursts, so that the rest of the machine goes on.
static struct {
	int on_cpu;
	int begin_fd;
	int wake_fd;
	atomic_int burst;
	atomic_int running;
	atomic_long woken;
} storm_state;

static void *keep_busy(void *unused)
{
	uint64_t count;

	(void)unused;
	pin(storm_state.on_cpu);
	become_real_time(50);
	while (read(storm_state.begin_fd, &count, sizeof(count)) == sizeof(count)) {
		atomic_store(&storm_state.running, 1);
		while (atomic_load(&storm_state.burst))
			relax();
		atomic_store(&storm_state.running, 0);
	}
	return NULL;
}

static void *be_woken(void *unused)
{
	uint64_t count;

	(void)unused;
	pin(storm_state.on_cpu);
	become_real_time(60);
	while (read(storm_state.wake_fd, &count, sizeof(count)) == sizeof(count))
		atomic_fetch_add(&storm_state.woken, 1);
	return NULL;
}

static void operate(const char *kind)
{
	if (!strcmp(kind, "munmap")) {
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			fail("mmap");
		*page = 1;
		if (munmap(page, 4096))
			fail("munmap");
	} else if (!strcmp(kind, "membarrier")) {
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
			fail("membarrier");
	} else {
		long before = atomic_load(&storm_state.woken);
		uint64_t one = 1;

		if (write(storm_state.wake_fd, &one, sizeof(one)) != sizeof(one))
			fail("write");
		while (atomic_load(&storm_state.woken) == before)
			relax();
	}
}

static volatile sig_atomic_t is_asked_to_end;

static void ask_to_end(int signal)
{
	(void)signal;
	is_asked_to_end = 1;
}

static void storm(const char *kind, int from_cpu, int on_cpu, int bursts, int count, int64_t pause_ms)
{
	int64_t *done_ns = calloc((size_t)bursts * count, sizeof(*done_ns));
	pthread_t busy, woken;
	uint64_t one = 1;
	int burst, number, total = 0;

	if (bursts <= 0 || count <= 0 || bursts > OPERATIONS_MAX / count || !done_ns)
		fail("too many operations");
	if (!strcmp(kind, "membarrier") &&
	    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		fail("membarrier");
	storm_state.on_cpu = on_cpu;
	storm_state.begin_fd = eventfd(0, 0);
	storm_state.wake_fd = eventfd(0, 0);
	if (pthread_create(&busy, NULL, keep_busy, NULL) || pthread_create(&woken, NULL, be_woken, NULL))
		fail("pthread_create");
	pin(from_cpu);
	become_real_time(50);
	signal(SIGTERM, ask_to_end);
	for (burst = 0; burst < bursts && !is_asked_to_end; burst++) {
		atomic_store(&storm_state.burst, 1);
		if (write(storm_state.begin_fd, &one, sizeof(one)) != sizeof(one))
			fail("write");
		while (!atomic_load(&storm_state.running))
			relax();
		for (number = 0; number < count; number++) {
			operate(kind);
			done_ns[total++] = now_ns();
		}
		atomic_store(&storm_state.burst, 0);
		while (atomic_load(&storm_state.running))
			relax();
		sleep_ms(pause_ms);
	}
	printf("{\"done_ns\":[");
	for (number = 0; number < total; number++)
		printf("%s%lld", number ? "," : "", (long long)done_ns[number]);
	printf("]}\n");
}

static void udp(int cpu, int count)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	char datagram[64] = "surefoot";
	int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0), number;

	if (receiver < 0 || sender < 0 || bind(receiver, (struct sockaddr *)&address, length) ||
	    getsockname(receiver, (struct sockaddr *)&address, &length))
		fail("a socket on loopback");
	pin(cpu);
	for (number = 0; number < count; number++) {
		struct pollfd arrival = { .fd = receiver, .events = POLLIN };

		if (sendto(sender, datagram, sizeof(datagram), 0, (struct sockaddr *)&address, length) < 0)
			fail("sendto");
		if (poll(&arrival, 1, 5000) != 1 || recv(receiver, datagram, sizeof(datagram), 0) < 0)
			fail("recv");
	}
	printf("{\"sent\":%d}\n", count);
}

static void disk(const char *file, int count)
{
	static char block[4096];
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600), number;

	if (fd < 0)
		fail(file);
	for (number = 0; number < count; number++) {
		memset(block, number, sizeof(block));
		if (write(fd, block, sizeof(block)) != sizeof(block) || fdatasync(fd))
			fail("write to the disk");
	}
	printf("{\"written\":%d}\n", count);
}

static void loaded(int count, char **ids)
{
	int number, found = 0;

	printf("{\"loaded\":[");
	for (number = 0; number < count; number++) {
		union bpf_attr attributes;
		int fd;

		memset(&attributes, 0, sizeof(attributes));
		attributes.prog_id = (unsigned int)strtoul(ids[number], NULL, 10);
		fd = (int)syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &attributes, sizeof(attributes));
		if (fd < 0 && errno != ENOENT)
			fail("BPF_PROG_GET_FD_BY_ID");
		if (fd >= 0) {
			printf("%s%s", found++ ? "," : "", ids[number]);
			close(fd);
		}
	}
	printf("]}\n");
}

int main(int count, char **words)
{
	const char *what = count > 2 ? words[2] : "";

	// Whoever started us is gone: nobody would end us.
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (count > 1 && prctl(PR_SET_NAME, words[1]))
		fail("PR_SET_NAME");
	if (!strcmp(what, "spin") && count == 5)
		spin(atoi(words[3]), atoll(words[4]));
	else if (!strcmp(what, "nap") && count == 5)
		nap(atoi(words[3]), atoll(words[4]));
	else if (!strcmp(what, "burn") && count == 5)
		burn(atoi(words[3]), atoll(words[4]));
	else if (!strcmp(what, "work") && count == 6)
		work(!strcmp(words[3], "kernel"), atoi(words[4]), atoll(words[5]));
	else if (!strcmp(what, "stall") && count == 7)
		stall(atoi(words[3]), atoi(words[4]), atoll(words[5]), atoll(words[6]));
	else if (!strcmp(what, "storm") && count == 9)
		storm(words[3], atoi(words[4]), atoi(words[5]), atoi(words[6]), atoi(words[7]), atoll(words[8]));
	else if (!strcmp(what, "udp") && count == 5)
		udp(atoi(words[3]), atoi(words[4]));
	else if (!strcmp(what, "disk") && count == 5)
		disk(words[3], atoi(words[4]));
	else if (!strcmp(what, "loaded"))
		loaded(count - 3, words + 3);
	else {
		fprintf(stderr, "actor: the file says what it can do\n");
		return 2;
	}
	return 0;
}
