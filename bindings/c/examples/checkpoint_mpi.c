/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The smallest MPI program that goes on where it was when it is started again.
 *
 *     mpicc -O2 -o checkpoint_mpi checkpoint_mpi.c $(pkg-config --cflags --libs surefoot)
 *     mpirun -np 4 ./checkpoint_mpi 1000 policy=memory
 */
#include "surefoot_checkpoint_mpi.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define CELLS 100000

static double cells[CELLS];
static long step;

/* All ranks call it. Where something is not good on a rank, the first such rank says why, once for all, and the job ends. */
static void all_must(int is_good)
{
	const char *why = surefoot_error_text(NULL);
	int rank, own, first;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	own = is_good ? INT_MAX : rank;
	MPI_Allreduce(&own, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (first == INT_MAX)
		return;
	if (rank == first) {
		fprintf(stderr, "%s\n", *why ? why : "MPI could not copy the communicator");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	/* The others wait for that. */
	MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	surefoot_config *config = surefoot_config_new("example-mpi");
	struct surefoot_group group;
	surefoot_checkpoint *job;
	double own = 0, sum = 0;
	long steps = argc > 1 ? atol(argv[1]) : 100;
	const char *notice;
	int i, status, is_good = config != NULL, is_told = 0;

	MPI_Init(&argc, &argv);
	for (i = 2; i < argc && is_good; i++) {
		char *value = strchr(argv[i], '=');

		if (value)
			*value++ = '\0';
		is_good = !surefoot_config_set(config, argv[i], value);
	}
	all_must(is_good);
	all_must(!surefoot_mpi_group_open(MPI_COMM_WORLD, &group) && !surefoot_checkpoint_open(config, &group, &job));
	surefoot_config_free(config);
	surefoot_checkpoint_protect(job, "step", &step, sizeof(step));
	surefoot_checkpoint_protect(job, "cells", cells, sizeof(cells));

	status = surefoot_checkpoint_restart(job, NULL);
	all_must(status >= 0);
	if (status == SUREFOOT_STATUS_OK)
		printf("%s\n", surefoot_checkpoint_report(job));

	/* With sigterm=checkpoint SIGTERM does not end it: the next save is durable, and all ranks are told to end. */
	while (step < steps && !is_told) {
		for (i = 0; i < CELLS; i++)
			cells[i] = cells[i] * 0.5 + (double)(group.rank + 1) * (double)(i + step);
		step++;
		/* All ranks call it, and it succeeds on all or on none. */
		if (step % 10 == 0 && surefoot_checkpoint_save(job, NULL))
			fprintf(stderr, "step %ld: no checkpoint: %s\n", step, surefoot_error_text(job));
		while ((notice = surefoot_checkpoint_notice(job)))
			printf("rank %u: %s\n", (unsigned)group.rank, notice);
		surefoot_checkpoint_told_to_end(job, &is_told);
	}
	for (i = 0; i < CELLS; i++)
		own += cells[i];
	MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (group.rank == 0)
		printf("after %ld steps the sum is %a\n", step, sum);

	surefoot_checkpoint_finish(job);
	surefoot_checkpoint_close(job);
	surefoot_mpi_group_close(&group);
	MPI_Finalize();
	return 0;
}
