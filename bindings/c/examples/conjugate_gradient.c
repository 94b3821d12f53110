/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A conjugate-gradient solver for the Poisson equation on a square, its rows shared out among MPI ranks. It can be
 * killed at any moment and started again, and then computes the same bits as if nothing had happened.
 *
 *     mpicc -O2 -o conjugate_gradient conjugate_gradient.c $(pkg-config --cflags --libs surefoot) -lm
 *     mpirun -np 4 ./conjugate_gradient 1000 500 policy=memory
 *
 * The first number is the width of the grid, the second the iterations; then come settings of the checkpoints.
 */
#include "surefoot_checkpoint_mpi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Iterations from one question whether a checkpoint is due to the next. */
#define ASK_EVERY 10

static struct surefoot_group group;
static surefoot_checkpoint *job;

/* Everything that the next iteration depends on. The vectors have a row more above and below: the neighbours'. */
static int width, rows;
static double *solution, *residual, *direction;
static struct {
	long iteration;
	double residual_squared;
} progress;

static double *product; /* made anew in each iteration, so that no checkpoint needs it */

static void give_up(const char *what)
{
	fprintf(stderr, "rank %u: %s\n", group.rank, what);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

/* The checkpoints */

static void protect(const char *name, void *start, size_t bytes)
{
	if (surefoot_checkpoint_protect(job, name, start, bytes))
		give_up(surefoot_error_text(job));
}

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

static void open_job(int settings, char **setting)
{
	surefoot_config *config = surefoot_config_new("conjugate-gradient");
	size_t bytes = (size_t)width * (size_t)(rows + 2) * sizeof(double);
	const char *refused = NULL;
	int i;

	for (i = 0; i < settings && !refused; i++) {
		char *value = strchr(setting[i], '=');

		if (value)
			*value++ = '\0';
		if (surefoot_config_set(config, setting[i], value))
			refused = surefoot_error_text(NULL);
	}
	agree_on_settings(refused);
	if (surefoot_checkpoint_open(config, &group, &job))
		give_up(surefoot_error_text(NULL));
	surefoot_config_free(config);
	protect("solution", solution, bytes);
	protect("residual", residual, bytes);
	protect("direction", direction, bytes);
	protect("progress", &progress, sizeof(progress));
}

/* Whether there was a checkpoint to go on from. */
static int restarted(void)
{
	int status = surefoot_checkpoint_restart(job, NULL);

	if (status < 0)
		give_up(surefoot_error_text(job));
	if (status == SUREFOOT_STATUS_OK)
		printf("%s\n", surefoot_checkpoint_report(job));
	return status == SUREFOOT_STATUS_OK;
}

static void save(void)
{
	struct surefoot_saved saved;
	int is_needed = 0, status = surefoot_checkpoint_need(job, &is_needed);

	if (status == 0 && is_needed) {
		if (group.rank == 0)
			printf("iteration %ld: saving\n", progress.iteration);
		status = surefoot_checkpoint_save(job, &saved);
		if (status == 0 && group.rank == 0)
			printf("iteration %ld: saved as %llu\n", progress.iteration, (unsigned long long)saved.generation);
	}
	/* The job goes on without this checkpoint, unless the ranks have lost each other. */
	if (status == SUREFOOT_STATUS_GROUP)
		give_up(surefoot_error_text(job));
	if (status < 0)
		fprintf(stderr, "iteration %ld: no checkpoint: %s\n", progress.iteration, surefoot_error_text(job));
}

/* Whether SIGTERM came before the last save on any rank, with sigterm=checkpoint; that save is durable then. */
static int is_told_to_end(void)
{
	int is_told = 0;

	return surefoot_checkpoint_told_to_end(job, &is_told) == SUREFOOT_STATUS_OK && is_told;
}

/* The solver */

/* The sum over all ranks, added in the order of the ranks, so that the bits are the same in each run. */
static double sum_of_ranks(double own)
{
	static double *of_rank;
	double sum = 0;
	uint32_t rank;

	if (!of_rank)
		of_rank = (double *)malloc(group.size * sizeof(double));
	if (!of_rank)
		give_up("there is no memory");
	MPI_Allgather(&own, 1, MPI_DOUBLE, of_rank, 1, MPI_DOUBLE, MPI_COMM_WORLD);
	for (rank = 0; rank < group.size; rank++)
		sum += of_rank[rank];
	return sum;
}

static double dot(const double *left, const double *right)
{
	double own = 0;
	long i;

	for (i = width; i < (long)width * (rows + 1); i++)
		own += left[i] * right[i];
	return sum_of_ranks(own);
}

/* Fetches the neighbours' rows; beyond the square there are zeros, which nobody changes. */
static void exchange_rows(double *vector)
{
	int above = group.rank > 0 ? (int)group.rank - 1 : MPI_PROC_NULL;
	int below = group.rank + 1 < group.size ? (int)group.rank + 1 : MPI_PROC_NULL;

	MPI_Sendrecv(vector + width, width, MPI_DOUBLE, above, 0, vector + (size_t)width * (size_t)(rows + 1), width, MPI_DOUBLE,
		     below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(vector + (size_t)width * (size_t)rows, width, MPI_DOUBLE, below, 0, vector, width, MPI_DOUBLE, above, 0,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* product = the five-point Laplacian of the direction. */
static void multiply(void)
{
	int row, column;

	exchange_rows(direction);
	for (row = 1; row <= rows; row++) {
		const double *at = direction + (size_t)row * (size_t)width;
		double *into = product + (size_t)row * (size_t)width;

		for (column = 0; column < width; column++) {
			double left = column > 0 ? at[column - 1] : 0, right = column + 1 < width ? at[column + 1] : 0;

			into[column] = 4 * at[column] - left - right - at[column - width] - at[column + width];
		}
	}
}

static void begin(void)
{
	int row, column, first = (int)((long)group.rank * width / group.size);

	for (row = 1; row <= rows; row++)
		for (column = 0; column < width; column++)
			residual[(size_t)row * (size_t)width + (size_t)column] = sin(0.01 * (first + row)) * cos(0.02 * column) + 1;
	memcpy(direction, residual, (size_t)width * (size_t)(rows + 2) * sizeof(double));
	progress.residual_squared = dot(residual, residual);
}

static void iterate(void)
{
	double alpha, beta, squared;
	long i;

	multiply();
	alpha = progress.residual_squared / dot(direction, product);
	for (i = width; i < (long)width * (rows + 1); i++) {
		solution[i] += alpha * direction[i];
		residual[i] -= alpha * product[i];
	}
	squared = dot(residual, residual);
	beta = squared / progress.residual_squared;
	for (i = width; i < (long)width * (rows + 1); i++)
		direction[i] = residual[i] + beta * direction[i];
	progress.residual_squared = squared;
	progress.iteration++;
}

/* A number that changes with any bit of the solution. */
static unsigned long long digest(void)
{
	const unsigned char *bytes = (const unsigned char *)(solution + width);
	unsigned long long own = 14695981039346656037u, all[2] = {0, 0}, part[2];
	size_t i;

	for (i = 0; i < (size_t)width * (size_t)rows * sizeof(double); i++)
		own = (own ^ bytes[i]) * 1099511628211u;
	part[0] = own * (2 * (unsigned long long)group.rank + 1);
	part[1] = own;
	MPI_Allreduce(part, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	return all[0] ^ (all[1] << 1);
}

int main(int argc, char **argv)
{
	long iterations = argc > 2 ? atol(argv[2]) : 0;
	unsigned long long bits;
	size_t cells;

	MPI_Init(&argc, &argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (surefoot_mpi_group_open(MPI_COMM_WORLD, &group))
		MPI_Abort(MPI_COMM_WORLD, 2);
	width = argc > 1 ? atoi(argv[1]) : 0;
	if (width < (int)group.size || width > 30000 || iterations < 1)
		give_up("usage: conjugate_gradient WIDTH ITERATIONS [SETTING=VALUE ...]");
	printf("rank %u is process %ld\n", group.rank, (long)getpid());

	rows = (int)((long)(group.rank + 1) * width / group.size - (long)group.rank * width / group.size);
	cells = (size_t)width * (size_t)(rows + 2);
	solution = (double *)calloc(cells, sizeof(double));
	residual = (double *)calloc(cells, sizeof(double));
	direction = (double *)calloc(cells, sizeof(double));
	product = (double *)calloc(cells, sizeof(double));
	if (!solution || !residual || !direction || !product)
		give_up("there is no memory");

	open_job(argc - 3, argv + 3);
	if (!restarted())
		begin();
	while (progress.iteration < iterations && !is_told_to_end()) {
		const char *notice;

		iterate();
		if (progress.iteration % ASK_EVERY == 0)
			save();
		while ((notice = surefoot_checkpoint_notice(job)))
			printf("rank %u: %s\n", group.rank, notice);
	}
	bits = digest();
	if (group.rank == 0)
		printf("iteration %ld: residual %.3e\ndigest %016llx\n", progress.iteration,
		       sqrt(progress.residual_squared), bits);

	if (surefoot_checkpoint_finish(job))
		fprintf(stderr, "%s\n", surefoot_error_text(job));
	surefoot_checkpoint_close(job);
	surefoot_mpi_group_close(&group);
	MPI_Finalize();
	/* EX_TEMPFAIL: started again, it goes on. */
	return progress.iteration < iterations ? 75 : 0;
}
