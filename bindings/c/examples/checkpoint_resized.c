/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * An MPI program that goes on with however many ranks it is started with: heat in a rod, each rank with its stretch.
 *
 *     mpicc -O2 -o checkpoint_resized checkpoint_resized.c $(pkg-config --cflags --libs surefoot)
 *     mpirun -np 4 ./checkpoint_resized 1000 policy=memory
 *     mpirun -np 3 ./checkpoint_resized 1000 policy=memory
 */
#include "surefoot_checkpoint_mpi.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CELLS 1000003

static double *heat, *next;
static long first, count, step;

/* A setting that is refused is refused on every rank: the first one says why, once for all. */
static void agree_on_settings(const char *refused)
{
	int rank, size, own, teller;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	own = refused ? rank : size;
	MPI_Allreduce(&own, &teller, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (teller == size)
		return;
	if (rank == teller)
		fprintf(stderr, "%s\n", refused);
	MPI_Finalize();
	exit(2);
}

/* Why the setting is refused; NULL where it is taken. */
static const char *set(surefoot_config *config, char *setting)
{
	char *value = strchr(setting, '=');

	if (value)
		*value++ = '\0';
	return surefoot_config_set(config, setting, value) ? surefoot_error_text(NULL) : NULL;
}

/* This rank's stretch of the rod, with a cell of each neighbour's at its ends. */
static void begin(int rank, int ranks)
{
	long i;

	first = (long)rank * CELLS / ranks;
	count = (long)(rank + 1) * CELLS / ranks - first;
	heat = malloc((size_t)(count + 2) * sizeof(*heat));
	next = malloc((size_t)(count + 2) * sizeof(*next));
	if (!heat || !next)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (i = 0; i < count; i++)
		heat[i + 1] = (double)((first + i) * 7919 % 1000);
}

static void advance(int rank, int ranks)
{
	int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
	double *last;
	long i;

	heat[0] = heat[count + 1] = 0;
	MPI_Sendrecv(heat + 1, 1, MPI_DOUBLE, left, 0, heat + count + 1, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Sendrecv(heat + count, 1, MPI_DOUBLE, right, 1, heat, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	for (i = 1; i <= count; i++)
		next[i] = heat[i] + 0.25 * (heat[i - 1] - 2 * heat[i] + heat[i + 1]);
	last = heat;
	heat = next;
	next = last;
	step++;
}

/* A number that depends on every bit of the rod and on no number of ranks. */
static unsigned long long digest(int rank, int ranks)
{
	unsigned long long sum = 14695981039346656037ULL;
	MPI_Status ignored;
	long i;
	size_t at;

	if (rank > 0)
		MPI_Recv(&sum, 1, MPI_UNSIGNED_LONG_LONG, rank - 1, 2, MPI_COMM_WORLD, &ignored);
	for (i = 1; i <= count; i++) {
		unsigned char bytes[sizeof(double)];

		memcpy(bytes, heat + i, sizeof(bytes));
		for (at = 0; at < sizeof(bytes); at++)
			sum = (sum ^ bytes[at]) * 1099511628211ULL;
	}
	if (rank + 1 < ranks)
		MPI_Send(&sum, 1, MPI_UNSIGNED_LONG_LONG, rank + 1, 2, MPI_COMM_WORLD);
	MPI_Bcast(&sum, 1, MPI_UNSIGNED_LONG_LONG, ranks - 1, MPI_COMM_WORLD);
	return sum;
}

static void save(surefoot_checkpoint *job, int rank)
{
	/* The two halves change places with every step: the region follows. */
	if (surefoot_checkpoint_protect(job, "heat", heat + 1, (size_t)count * sizeof(*heat)) ||
	    surefoot_checkpoint_save(job, NULL))
		fprintf(stderr, "step %ld: no checkpoint: %s\n", step, surefoot_error_text(job));
	else if (rank == 0)
		printf("step %ld: saved\n", step);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	surefoot_config *config = surefoot_config_new("rod");
	struct surefoot_group group;
	surefoot_checkpoint *job;
	long steps = argc > 1 ? atol(argv[1]) : 100;
	const char *refused = NULL;
	unsigned long long sum;
	int i, status;

	MPI_Init(&argc, &argv);
	for (i = 2; i < argc && !refused; i++)
		refused = set(config, argv[i]);
	agree_on_settings(refused);
	if (surefoot_mpi_group_open(MPI_COMM_WORLD, &group) || surefoot_checkpoint_open(config, &group, &job)) {
		fprintf(stderr, "%s\n", surefoot_error_text(NULL));
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	surefoot_config_free(config);
	printf("rank %u is process %ld\n", group.rank, (long)getpid());
	fflush(stdout);

	begin((int)group.rank, (int)group.size);
	surefoot_checkpoint_protect(job, "step", &step, sizeof(step));
	surefoot_checkpoint_protect(job, "heat", heat + 1, (size_t)count * sizeof(*heat));
	status = surefoot_checkpoint_restart_resized(job, NULL, NULL);
	if (status < 0) {
		fprintf(stderr, "%s\n", surefoot_error_text(job));
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	if (status == SUREFOOT_STATUS_OK)
		printf("at step %ld: %s\n", step, surefoot_checkpoint_report(job));

	while (step < steps) {
		advance((int)group.rank, (int)group.size);
		if (step % 10 == 0)
			save(job, (int)group.rank);
	}
	sum = digest((int)group.rank, (int)group.size);
	if (group.rank == 0)
		printf("after %ld steps the digest is %016llx\n", step, sum);

	surefoot_checkpoint_finish(job);
	surefoot_checkpoint_close(job);
	surefoot_mpi_group_close(&group);
	free(heat);
	free(next);
	MPI_Finalize();
	return 0;
}
