/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What ring, barrier, allreduce and alltoall of a few bytes take: collectives SECONDS.
 *
 * Each pattern is done in batches for so many seconds by rank 0's clock; rank 0 decides for all after each batch. Ranks poll, as
 * on machines of their own. Rank 0 prints microseconds per operation, as JSON.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH 50
#define RANKS_MAX 64

static int rank, ranks;

static void ring(void)
{
	double token = 1;
	int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

	if (rank == 0) {
		MPI_Send(&token, 1, MPI_DOUBLE, to, 0, MPI_COMM_WORLD);
		MPI_Recv(&token, 1, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(&token, 1, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(&token, 1, MPI_DOUBLE, to, 0, MPI_COMM_WORLD);
	}
}

static void barrier(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(void)
{
	double own = rank, sum;

	MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(void)
{
	double out[RANKS_MAX] = { 0 }, in[RANKS_MAX];

	MPI_Alltoall(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, MPI_COMM_WORLD);
}

static double us_each(void (*pattern)(void), double seconds)
{
	double began, elapsed = 0;
	long count = 0;
	int goes_on = 1;

	for (int turn = 0; turn < BATCH; turn++)
		pattern();
	MPI_Barrier(MPI_COMM_WORLD);
	began = MPI_Wtime();
	while (goes_on) {
		for (int turn = 0; turn < BATCH; turn++)
			pattern();
		count += BATCH;
		elapsed = MPI_Wtime() - began;
		goes_on = elapsed < seconds;
		MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	return elapsed * 1e6 / count;
}

int main(int argc, char **argv)
{
	double seconds, us[4];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	seconds = argc == 2 ? atof(argv[1]) : 0;
	if (!(seconds > 0) || ranks > RANKS_MAX) {
		fprintf(stderr, "usage: collectives SECONDS, by at most %d ranks\n", RANKS_MAX);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	us[0] = us_each(ring, seconds);
	us[1] = us_each(barrier, seconds);
	us[2] = us_each(allreduce, seconds);
	us[3] = us_each(alltoall, seconds);
	if (rank == 0)
		printf("{\"ring_us\":%.3f,\"barrier_us\":%.3f,\"allreduce_us\":%.3f,\"alltoall_us\":%.3f}\n", us[0], us[1], us[2],
		       us[3]);
	MPI_Finalize();
	return 0;
}
