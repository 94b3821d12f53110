/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counts the calls of a running process that make the kernel free something through RCU later, or that change its
 * memory's map.
 *
 *   opens PID MILLISECONDS
 *
 * Prints one line of JSON: the calls that succeeded, of all its threads, and how long they were watched.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void end(int signal_number)
{
	(void)signal_number;
	over = 1;
}

/* Threads that begin later are traced by themselves. */
static int attach_all(long pid)
{
	struct dirent *entry;
	char path[64];
	DIR *folder;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%ld/task", pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		long tid = atol(entry->d_name);

		if (tid > 0 && !ptrace(PTRACE_SEIZE, tid, 0L, PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD)) {
			ptrace(PTRACE_INTERRUPT, tid, 0L, 0L);
			count++;
		}
	}
	if (folder)
		closedir(folder);
	return count;
}

int main(int count, char **words)
{
	static const struct { long number; const char *name; } watched[] = {
		{SYS_openat, "openat"}, {SYS_close, "close"}, {SYS_getdents64, "getdents64"}, {SYS_mmap, "mmap"},
		{SYS_munmap, "munmap"}, {SYS_mremap, "mremap"}, {SYS_madvise, "madvise"}, {SYS_unlink, "unlink"},
		{SYS_unlinkat, "unlinkat"}, {SYS_rename, "rename"}, {SYS_clone3, "clone3"},
	};
	enum { WATCHED = sizeof(watched) / sizeof(watched[0]) };
	unsigned long calls[WATCHED] = {0};
	struct sigaction on_alarm = {.sa_handler = end};
	struct __ptrace_syscall_info info;
	static long entered[1 << 22];
	int status, number;
	pid_t tid;

	if (count != 3 || !attach_all(atol(words[1]))) {
		fprintf(stderr, "cannot trace %s\n", count > 1 ? words[1] : "nobody");
		return 1;
	}
	sigaction(SIGALRM, &on_alarm, NULL);
	setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {atol(words[2]) / 1000, atol(words[2]) % 1000 * 1000}}, NULL);
	while (!over && ((tid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR)) {
		int stopped = tid > 0 && WIFSTOPPED(status);
		int signal_number = stopped ? WSTOPSIG(status) : 0;

		if (!stopped)
			continue;
		if (signal_number == (SIGTRAP | 0x80)) {
			if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0) {
				/* It has ended meanwhile. */
			} else if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
				entered[tid] = (long)info.entry.nr;
			} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && !info.exit.is_error) {
				for (number = 0; number < WATCHED; number++)
					calls[number] += watched[number].number == entered[tid];
			}
			signal_number = 0;
		} else if (status >> 16 || signal_number == SIGTRAP) {
			signal_number = 0;
		}
		ptrace(PTRACE_SYSCALL, tid, 0L, (long)signal_number);
	}
	/* Whoever ends lets go of all that it traces. */
	printf("{\"milliseconds\": %s", words[2]);
	for (number = 0; number < WATCHED; number++)
		printf(", \"%s\": %lu", watched[number].name, calls[number]);
	printf("}\n");
	return 0;
}
