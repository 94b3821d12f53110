/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A polling thread notes its own gaps: one counter read and one compare per turn.
 *
 *     struct sf_loop gaps;
 *     int error = sf_loop_open(&gaps, "receive", 10000);   // a turn over 10 us is a gap
 *     if (error)                                           // the loop runs on, and notes nothing
 *         fprintf(stderr, "gaps are not noted: %s\n", sf_loop_error(error));
 *     while (poll_the_ring())
 *         sf_loop_turn(&gaps);
 *     sf_loop_close(&gaps);
 *
 * sf_loop_turn makes no system call, allocates nothing and waits for nobody. A turn over the threshold leaves the two
 * counter readings around it in a ring in shared memory, over the oldest if it is full; `surefoot` reads the rings and
 * joins each gap with what the kernel did on that core meanwhile. Opening and closing do make system calls; opening
 * takes 10 ms on x86_64, to measure the counter's rate.
 *
 * This file is all there is: C99 and later, C++17, gcc or clang, Linux on x86_64 or aarch64. Include it before the
 * system's headers or compile with -D_GNU_SOURCE. The layout of the file is that of crates/inloop/src/layout.rs, where
 * it is explained.
 */
#ifndef SUREFOOT_INLOOP_H
#define SUREFOOT_INLOOP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__USE_GNU)
#error "include surefoot_inloop.h before the system's headers, or compile with -D_GNU_SOURCE"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The file: a header of 192 bytes, then the ring. */

#define SF_LOOP_VERSION 1
#define SF_LOOP_CAPACITY 4096 /* gaps in the ring */
#define SF_LOOP_NAME_BYTES 64 /* with the NUL */
#define SF_LOOP_DIRECTORY "/dev/shm/surefoot-loops"

struct sf_loop_header {
	uint64_t magic; /* written last: a file with it is complete */
	uint32_t version;
	uint32_t capacity; /* gaps, a power of two */
	uint32_t pid;
	uint32_t tid;
	uint64_t thread_start; /* field 22 of the thread's stat, clock ticks since boot */
	uint64_t threshold_ticks;
	char name[SF_LOOP_NAME_BYTES]; /* printable ASCII, filled up with NUL */
	uint64_t pid_namespace;	       /* inode of /proc/self/ns/pid, or 0 */
	uint8_t reserved[16];
	uint64_t head; /* gaps written since the loop was opened */
	uint8_t head_line[56];
};

struct sf_loop_gap {
	uint64_t before; /* last counter reading before it */
	uint64_t after;	 /* first one after it */
};

struct sf_loop_file {
	struct sf_loop_header header;
	struct sf_loop_gap gaps[SF_LOOP_CAPACITY];
};

/* A loop. Belongs to the thread that opened it; a forked child opens its own. */
struct sf_loop {
	uint64_t last;
	uint64_t threshold;
	uint64_t noted; /* gaps so far */
	struct sf_loop_file *file;
	pid_t pid;
	char path[PATH_MAX];
};

/* The processor's counter, read without waiting for anything before it: a fence would make the loop wait for its own
 * loads at every turn, for a few nanoseconds that no threshold notices. */
static inline uint64_t sf_loop_ticks(void)
{
#if defined(__x86_64__)
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return 0;
#endif
}

/* Puts a gap into the ring and returns where the next turn begins. */
__attribute__((cold, noinline, unused)) static uint64_t sf_loop_note(struct sf_loop *loop, uint64_t now)
{
	/* A counter that went back, on a machine whose cores do not count alike, is no gap. */
	if (loop->file && now > loop->last) {
		struct sf_loop_gap *gap = &loop->file->gaps[loop->noted % SF_LOOP_CAPACITY];

		/* Whoever sees a part of this gap in the place of an older one sees the head that came before it. */
		__atomic_thread_fence(__ATOMIC_RELEASE);
		__atomic_store_n(&gap->before, loop->last, __ATOMIC_RELAXED);
		__atomic_store_n(&gap->after, now, __ATOMIC_RELAXED);
		loop->noted++;
		__atomic_store_n(&loop->file->header.head, loop->noted, __ATOMIC_RELEASE);
	}
	/* What noting it took is not the core's fault. */
	return sf_loop_ticks();
}

/* Call it once per turn. Returns 1 if this turn was longer than the threshold, otherwise 0. */
static inline int sf_loop_turn(struct sf_loop *loop)
{
	uint64_t now = sf_loop_ticks();

	if (__builtin_expect(now - loop->last > loop->threshold, 0)) {
		loop->last = sf_loop_note(loop, now);
		return 1;
	}
	loop->last = now;
	return 0;
}

/* Begins anew: what passed since the last turn is no gap. For loops that wait on purpose now and then. */
static inline void sf_loop_restart(struct sf_loop *loop)
{
	loop->last = sf_loop_ticks();
}

/* A loop that notes nothing and costs the same. sf_loop_open leaves one behind when it fails. */
static inline void sf_loop_inert(struct sf_loop *loop)
{
	memset(loop, 0, sizeof(*loop));
	loop->threshold = UINT64_MAX;
	loop->last = sf_loop_ticks();
}

/* What an error of sf_loop_open means and what to do about it. */
static inline const char *sf_loop_error(int error)
{
	switch (error) {
	case 0:
		return "no error";
	case -EINVAL:
		return "the name of a loop is 1 to 63 printable ASCII characters; SUREFOOT_LOOP_DIR is an absolute path";
	case -EPERM:
		return "anybody can exchange files in the directory of loops; run chmod +t on it";
	case -EMEDIUMTYPE:
		return "the directory of loops is on a disk; set SUREFOOT_LOOP_DIR to a directory on tmpfs";
	case -ESRCH:
		return "/proc does not say when this thread was started; mount /proc where this program runs";
	case -ENOSYS:
		return "this processor has no counter that a loop can read; x86_64 and aarch64 have one";
	default:
		return strerror(error < 0 ? -error : error);
	}
}

/* From here on: what only opening and closing need. */

static inline uint64_t sf_loop_magic_(void)
{
	static const char letters[] = "SFINLOOP";
	uint64_t magic = 0;
	int i;

	for (i = 7; i >= 0; i--)
		magic = magic << 8 | (uint8_t)letters[i];
	return magic;
}

/* Counter and clock at nearly the same time: the closest of a few pairs, because any may be interrupted. */
static inline void sf_loop_pair_(uint64_t *ticks, uint64_t *ns)
{
	uint64_t closest = UINT64_MAX;
	int i;

	*ticks = *ns = 0;
	for (i = 0; i < 16; i++) {
		struct timespec time;
		uint64_t before = sf_loop_ticks(), after;

		clock_gettime(CLOCK_MONOTONIC, &time);
		after = sf_loop_ticks();
		if (after - before < closest) {
			closest = after - before;
			*ticks = before;
			*ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
		}
	}
}

/* How many ticks so many nanoseconds have; saturates. 0 ticks per second where there is no counter. */
static inline uint64_t sf_loop_ticks_of_(uint64_t ns, int *has_counter)
{
	double per_ns, ticks;
#if defined(__aarch64__)
	uint64_t per_s;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(per_s));
	per_ns = (double)(per_s & UINT32_MAX) / 1e9;
#else
	uint64_t ticks_before, ticks_after, ns_before, ns_after;
	struct timespec rest = {0, 10000000};

	sf_loop_pair_(&ticks_before, &ns_before);
	while (nanosleep(&rest, &rest) && errno == EINTR)
		;
	sf_loop_pair_(&ticks_after, &ns_after);
	per_ns = ns_after > ns_before ? (double)(ticks_after - ticks_before) / (double)(ns_after - ns_before) : 0;
#endif
	*has_counter = per_ns > 0;
	ticks = per_ns * (double)ns;
	return ticks >= 18446744073709551615.0 ? UINT64_MAX : (uint64_t)ticks;
}

/* When this thread was started; 0 if /proc does not tell. */
static inline uint64_t sf_loop_thread_start_(long pid, long tid)
{
	char path[64], text[1024], *at;
	ssize_t bytes;
	int fd, field;

	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/stat", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return 0;
	text[bytes] = '\0';
	/* The name, field 2, may hold anything, so the fields are counted from its end. */
	at = strrchr(text, ')');
	for (field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	return at ? strtoull(at, NULL, 10) : 0;
}

/* Opens the directory of loops, and makes it where it is missing. A descriptor or an error. */
static inline int sf_loop_directory_(const char *path)
{
	struct statfs system;
	struct stat status;
	int fd, made, error = 0;

	if (path[0] != '/')
		return -EINVAL;
	made = !mkdir(path, 0700);
	if (!made && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) || fstatfs(fd, &system))
		error = -errno;
	else if (made && status.st_uid == geteuid() && (fchmod(fd, 01777) || fstat(fd, &status)))
		error = -errno;
	else if (status.st_mode & 022 && !(status.st_mode & S_ISVTX))
		error = -EPERM;
	else if ((uint32_t)system.f_type != 0x01021994u && (uint32_t)system.f_type != 0x858458f6u)
		error = -EMEDIUMTYPE; /* neither tmpfs nor ramfs: noting a gap could wait for a disk */
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

/* Makes the file, writes all of it, so that its memory is there, and maps it. 0 or an error. */
static inline int sf_loop_fill_(int fd, const struct sf_loop_header *header, struct sf_loop_file **file)
{
	static const char zeros[4096] = {0};
	size_t at = sizeof(*header), i;
	void *mapped;

	if (pwrite(fd, header, sizeof(*header), 0) != (ssize_t)sizeof(*header))
		return errno ? -errno : -ENOSPC;
	while (at < sizeof(struct sf_loop_file)) {
		size_t rest = sizeof(struct sf_loop_file) - at;
		ssize_t wrote = pwrite(fd, zeros, rest < sizeof(zeros) ? rest : sizeof(zeros), (off_t)at);

		if (wrote <= 0)
			return wrote ? -errno : -ENOSPC;
		at += (size_t)wrote;
	}
	mapped = mmap(NULL, sizeof(struct sf_loop_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	*file = (struct sf_loop_file *)mapped;
	/* Without the right to lock memory the ring works as well; then it may be swapped out like all else. */
	if (mlock(mapped, sizeof(struct sf_loop_file)))
		errno = 0;
	for (i = 0; i < SF_LOOP_CAPACITY; i += 128)
		__atomic_store_n(&(*file)->gaps[i].before, (uint64_t)0, __ATOMIC_RELAXED);
	if (fchmod(fd, 0644)) {
		int error = -errno;

		munmap(mapped, sizeof(struct sf_loop_file));
		return error;
	}
	__atomic_store_n(&(*file)->header.magic, sf_loop_magic_(), __ATOMIC_RELEASE);
	return 0;
}

/* Makes this thread's file in the open directory. 0 or an error. */
static inline int sf_loop_make_(struct sf_loop *loop, int directory, const char *path, const struct sf_loop_header *header)
{
	const char *name = NULL;
	int fd = -1, tries, bytes, error;

	for (tries = 0; fd < 0 && tries < 8; tries++) {
		bytes = snprintf(loop->path, sizeof(loop->path), "%s/%u-%u-%016llx.loop", path, header->pid, header->tid,
				 (unsigned long long)sf_loop_ticks());
		if (bytes < 0 || (size_t)bytes >= sizeof(loop->path))
			return -ENAMETOOLONG;
		name = strrchr(loop->path, '/') + 1;
		fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -errno;
	}
	if (fd < 0)
		return -EEXIST;
	errno = 0;
	error = sf_loop_fill_(fd, header, &loop->file);
	close(fd);
	if (error)
		unlinkat(directory, name, 0);
	return error;
}

/* Makes the file of this thread's loop, so that surefoot can read its gaps, and starts to count.
 *
 * The name is what people will read: 1 to 63 printable ASCII characters. The directory is SUREFOOT_LOOP_DIR or
 * /dev/shm/surefoot-loops. Returns 0, or a negative errno for sf_loop_error; then the loop is inert and may be used. */
static inline int sf_loop_open(struct sf_loop *loop, const char *name, uint64_t threshold_ns)
{
	const char *path = getauxval(AT_SECURE) ? NULL : getenv("SUREFOOT_LOOP_DIR");
	struct sf_loop_header header;
	struct stat status;
	size_t bytes = name ? strlen(name) : 0, i;
	int directory, error, has_counter;

	sf_loop_inert(loop);
	memset(&header, 0, sizeof(header));
	if (bytes < 1 || bytes >= SF_LOOP_NAME_BYTES)
		return -EINVAL;
	for (i = 0; i < bytes; i++)
		if (name[i] < ' ' || name[i] > '~')
			return -EINVAL;
	memcpy(header.name, name, bytes);
	header.version = SF_LOOP_VERSION;
	header.capacity = SF_LOOP_CAPACITY;
	header.pid = (uint32_t)getpid();
	header.tid = (uint32_t)syscall(SYS_gettid);
	header.threshold_ticks = sf_loop_ticks_of_(threshold_ns, &has_counter);
	if (!has_counter)
		return -ENOSYS;
	header.thread_start = sf_loop_thread_start_((long)header.pid, (long)header.tid);
	if (!header.thread_start)
		return -ESRCH;
	header.pid_namespace = stat("/proc/self/ns/pid", &status) ? 0 : (uint64_t)status.st_ino;

	if (!path || !*path)
		path = SF_LOOP_DIRECTORY;
	directory = sf_loop_directory_(path);
	if (directory < 0)
		return directory;
	error = sf_loop_make_(loop, directory, path, &header);
	close(directory);
	if (error) {
		sf_loop_inert(loop);
		return error;
	}
	loop->pid = getpid();
	loop->threshold = header.threshold_ticks;
	loop->last = sf_loop_ticks();
	return 0;
}

/* Removes the file and leaves an inert loop. May be called on an inert one, and twice. */
static inline void sf_loop_close(struct sf_loop *loop)
{
	if (loop->file) {
		munmap(loop->file, sizeof(*loop->file));
		/* In a forked child the file is still the parent's. */
		if (loop->pid == getpid())
			unlink(loop->path);
	}
	sf_loop_inert(loop);
}

#ifdef __cplusplus
}
#endif
#endif
