/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The C side of the tests in crates/inloop/tests, which build and run it.
 *
 *     layout_test layout         prints the offset and size of everything in the file
 *     layout_test write          notes gaps, prints them, closes the loop when its input ends
 *     layout_test read FILE      prints what a file says that somebody else wrote
 *     layout_test sealed         turns where the kernel ends the process at any system call but exit; then exits with 42
 *     layout_test broken         the same with a system call in it; never exits by itself
 *     layout_test fail           opens a loop that must fail, prints the error, and turns nevertheless
 */
#include "surefoot_inloop.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#define GAPS_WRITTEN (SF_LOOP_CAPACITY + 100)

static struct sf_loop loop;

static int print_layout(void)
{
#define FIELD(type, field) printf("%s %zu %zu\n", #field, offsetof(struct type, field), sizeof(((struct type *)0)->field))
	FIELD(sf_loop_header, magic);
	FIELD(sf_loop_header, version);
	FIELD(sf_loop_header, capacity);
	FIELD(sf_loop_header, pid);
	FIELD(sf_loop_header, tid);
	FIELD(sf_loop_header, thread_start);
	FIELD(sf_loop_header, threshold_ticks);
	FIELD(sf_loop_header, name);
	FIELD(sf_loop_header, pid_namespace);
	FIELD(sf_loop_header, reserved);
	FIELD(sf_loop_header, head);
	FIELD(sf_loop_header, head_line);
	FIELD(sf_loop_gap, before);
	FIELD(sf_loop_gap, after);
	FIELD(sf_loop_file, header);
	FIELD(sf_loop_file, gaps);
	printf("version %d capacity %d magic %llx\n", SF_LOOP_VERSION, SF_LOOP_CAPACITY,
	       (unsigned long long)sf_loop_magic_());
	return 0;
}

static int write_gaps(void)
{
	int error = sf_loop_open(&loop, "written in C", 1000000);
	int i;

	if (error) {
		fprintf(stderr, "%s\n", sf_loop_error(error));
		return 1;
	}
	printf("%s %llu\n", loop.path, (unsigned long long)loop.threshold);
	for (i = 0; i < GAPS_WRITTEN; i++) {
		/* The turn takes the last reading from here, so that the gap has a known beginning. */
		loop.last = (uint64_t)i + 1;
		if (sf_loop_turn(&loop) != 1)
			return 1;
	}
	fflush(stdout);
	while (getchar() != EOF)
		;
	sf_loop_close(&loop);
	sf_loop_close(&loop);
	return 0;
}

static int read_file(const char *path)
{
	int fd = open(path, O_RDONLY);
	const struct sf_loop_file *file;
	uint64_t i;

	if (fd < 0)
		return 1;
	file = (const struct sf_loop_file *)mmap(NULL, sizeof(*file), PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED || file->header.magic != sf_loop_magic_())
		return 1;
	printf("%u %u %u %u %llu %llu %llu %llu %s\n", file->header.version, file->header.capacity, file->header.pid,
	       file->header.tid, (unsigned long long)file->header.thread_start,
	       (unsigned long long)file->header.threshold_ticks, (unsigned long long)file->header.pid_namespace,
	       (unsigned long long)file->header.head, file->header.name);
	for (i = 0; i < file->header.head; i++)
		printf("%llu %llu\n", (unsigned long long)file->gaps[i].before, (unsigned long long)file->gaps[i].after);
	return 0;
}

static int turn_sealed(int is_broken)
{
	static struct sock_filter allow_exit[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	static struct sock_fprog program = {sizeof(allow_exit) / sizeof(allow_exit[0]), allow_exit};
	int i, gaps = 0;

	if (sf_loop_open(&loop, "sealed", 0))
		return 1;
	/* The name goes now, because the process cannot remove it later. */
	unlink(loop.path);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 77;
	for (i = 0; i < 100000; i++)
		gaps += sf_loop_turn(&loop);
	loop.threshold = 1000000000;
	for (i = 0; i < 1000000; i++)
		sf_loop_turn(&loop);
	if (is_broken)
		syscall(SYS_getppid);
	syscall(SYS_exit_group, gaps > 50000 ? 42 : 2);
	return 3;
}

static int fail_to_open(void)
{
	int error = sf_loop_open(&loop, "fails", 1000), i, gaps = 0;

	for (i = 0; i < 1000; i++)
		gaps += sf_loop_turn(&loop);
	sf_loop_restart(&loop);
	printf("%d %d %s\n", error, gaps, sf_loop_error(error));
	sf_loop_close(&loop);
	return sf_loop_open(&loop, "", 1000) != -EINVAL;
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";

	if (!strcmp(what, "layout"))
		return print_layout();
	if (!strcmp(what, "write"))
		return write_gaps();
	if (!strcmp(what, "read") && count > 2)
		return read_file(words[2]);
	if (!strcmp(what, "sealed") || !strcmp(what, "broken"))
		return turn_sealed(!strcmp(what, "broken"));
	if (!strcmp(what, "fail"))
		return fail_to_open();
	return 64;
}
