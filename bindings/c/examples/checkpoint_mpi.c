/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The smallest MPI program that goes on where it was when it is started again.
 *
 *     mpicc -O2 -I.. -o checkpoint_mpi checkpoint_mpi.c -L../../../target/release -lsurefoot
 *     mpirun -np 4 ./checkpoint_mpi 1000 policy=memory
 */
#include "surefoot_checkpoint_mpi.h"

#include <stdio.h>
#include <string.h>

#define CELLS 100000

static double cells[CELLS];
static long step;

int main(int argc, char **argv)
{
	surefoot_config *config = surefoot_config_new("example-mpi");
	struct surefoot_group group;
	surefoot_checkpoint *job;
	double own = 0, sum = 0;
	long steps = argc > 1 ? atol(argv[1]) : 100;
	int i, status;

	MPI_Init(&argc, &argv);
	for (i = 2; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (value)
			*value++ = '\0';
		if (surefoot_config_set(config, argv[i], value)) {
			fprintf(stderr, "%s\n", surefoot_error_text(NULL));
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
	}
	if (surefoot_mpi_group_open(MPI_COMM_WORLD, &group) || surefoot_checkpoint_open(config, &group, &job)) {
		fprintf(stderr, "%s\n", surefoot_error_text(NULL));
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	surefoot_config_free(config);
	surefoot_checkpoint_protect(job, "step", &step, sizeof(step));
	surefoot_checkpoint_protect(job, "cells", cells, sizeof(cells));

	status = surefoot_checkpoint_restart(job, NULL);
	if (status < 0) {
		fprintf(stderr, "%s\n", surefoot_error_text(job));
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	if (status == SUREFOOT_STATUS_OK)
		printf("%s\n", surefoot_checkpoint_report(job));

	while (step < steps) {
		for (i = 0; i < CELLS; i++)
			cells[i] = cells[i] * 0.5 + (double)(group.rank + 1) * (double)(i + step);
		step++;
		/* All ranks call it, and it succeeds on all or on none. */
		if (step % 10 == 0 && surefoot_checkpoint_save(job, NULL))
			fprintf(stderr, "step %ld: no checkpoint: %s\n", step, surefoot_error_text(job));
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
