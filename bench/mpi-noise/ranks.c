/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Ranks that work for a while and then communicate, again and again: ranks PATTERN ITERATIONS WORK_US BYTES.
 *
 * Work is a row of short sleeps, and whoever waits for a message sleeps between looks. So eight ranks do not contend for two
 * cores, and what a stop of one takes from it is what it would take on a machine of its own, but for a slice (SLICE_NS).
 *
 * Each rank says its process, rank 0 waits for a line, and in the end says how long all of it and the work alone took.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>

#define SLICE_NS 200000
#define LOOK_NS 50000

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void nap(long ns)
{
	struct timespec length = { 0, ns };
	nanosleep(&length, NULL);
}

static void work(long slices)
{
	while (slices-- > 0)
		nap(SLICE_NS);
}

static void wait_for(int count, MPI_Request *requests)
{
	int is_done = 0;
	for (;;) {
		MPI_Testall(count, requests, &is_done, MPI_STATUSES_IGNORE);
		if (is_done)
			return;
		nap(LOOK_NS);
	}
}

static void ring(int rank, int ranks, char *buffer, int bytes)
{
	MPI_Request request;
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
	for (int turn = 0; turn < 2; turn++) {
		if ((turn == 0) == (rank == 0))
			MPI_Isend(buffer, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD, &request);
		else
			MPI_Irecv(buffer, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, &request);
		wait_for(1, &request);
	}
}

static void communicate(const char *pattern, int rank, int ranks, char *out, char *in, int bytes)
{
	MPI_Request request;
	if (strcmp(pattern, "ring") == 0) {
		ring(rank, ranks, in, bytes);
		return;
	}
	if (strcmp(pattern, "barrier") == 0)
		MPI_Ibarrier(MPI_COMM_WORLD, &request);
	else if (strcmp(pattern, "allreduce") == 0)
		MPI_Iallreduce(out, in, bytes, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD, &request);
	else
		MPI_Ialltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
	wait_for(1, &request);
}

int main(int count, char **words)
{
	int rank, ranks;
	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	const char *pattern = count == 5 ? words[1] : "";
	const char *known[] = { "barrier", "allreduce", "alltoall", "ring" };
	int is_known = 0;
	for (int number = 0; number < 4; number++)
		is_known |= strcmp(pattern, known[number]) == 0;
	long iterations = count == 5 ? atol(words[2]) : 0, work_us = count == 5 ? atol(words[3]) : -1;
	long bytes = count == 5 ? atol(words[4]) : 0;
	if (!is_known || iterations < 1 || work_us < 0 || bytes < 1 || bytes > (1 << 20)) {
		if (rank == 0)
			fprintf(stderr, "ranks barrier|allreduce|alltoall|ring ITERATIONS WORK_US BYTES\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	/* The default slack of 50 us would be half of a slice. */
	prctl(PR_SET_TIMERSLACK, 1000);
	char *out = calloc(ranks, bytes), *in = calloc(ranks, bytes);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	printf("pid %d %d\n", rank, (int)getpid());
	fflush(stdout);
	if (rank == 0 && getchar() == EOF)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int warm = 0; warm < 20; warm++)
		communicate(pattern, rank, ranks, out, in, bytes);
	MPI_Barrier(MPI_COMM_WORLD);
	int64_t begun = now_ns(), worked = 0;
	long slices = work_us * 1000 / SLICE_NS;
	for (long iteration = 0; iteration < iterations; iteration++) {
		int64_t from = now_ns();
		work(slices);
		worked += now_ns() - from;
		communicate(pattern, rank, ranks, out, in, bytes);
	}
	int64_t took = now_ns() - begun, last, most;
	MPI_Reduce(&took, &last, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&worked, &most, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("took %lld worked %lld\n", (long long)last, (long long)(most / ranks));
	MPI_Finalize();
	return 0;
}
