/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A program that goes on where it was when it is started again.
 *
 *     cc -O2 -o checkpoint checkpoint.c $(pkg-config --cflags --libs surefoot) -lm
 *     ./checkpoint 1000                             kill it, and start it again
 *     ./checkpoint 1000 memory=/dev/shm policy=every:10 durable=/ssd
 */
#include "surefoot_checkpoint.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 200000

static double cells[CELLS];
static long step;

/* Takes SETTING=VALUE from the command line. */
static void set(surefoot_config *config, char *setting)
{
	char *value = strchr(setting, '=');

	if (value)
		*value++ = '\0';
	if (surefoot_config_set(config, setting, value)) {
		fprintf(stderr, "%s\n", surefoot_error_text(NULL));
		exit(2);
	}
}

/* Opens the job and says what belongs to a checkpoint. */
static surefoot_checkpoint *open_job(int argc, char **argv)
{
	surefoot_config *config = surefoot_config_new("example");
	surefoot_checkpoint *job;
	int i;

	for (i = 2; i < argc; i++)
		set(config, argv[i]);
	if (surefoot_checkpoint_open(config, NULL, &job) ||
	    surefoot_checkpoint_protect(job, "step", &step, sizeof(step)) ||
	    surefoot_checkpoint_protect(job, "cells", cells, sizeof(cells))) {
		fprintf(stderr, "%s\n", surefoot_error_text(NULL));
		exit(2);
	}
	surefoot_config_free(config);
	return job;
}

/* Goes on where the newest checkpoint was taken, or begins. */
static void restart(surefoot_checkpoint *job)
{
	int i;

	switch (surefoot_checkpoint_restart(job, NULL)) {
	case SUREFOOT_STATUS_OK:
		printf("restarted at step %ld: %s\n", step, surefoot_checkpoint_report(job));
		return;
	case SUREFOOT_STATUS_NOTHING:
		step = 0;
		for (i = 0; i < CELLS; i++)
			cells[i] = (double)i / CELLS;
		return;
	default:
		/* There are checkpoints and none is intact: whether to begin anew is for a person to say. */
		fprintf(stderr, "%s\n", surefoot_error_text(job));
		exit(1);
	}
}

static void compute(void)
{
	int i;

	for (i = 0; i < CELLS; i++)
		cells[i] = cos(cells[i] + (double)i);
}

static void save(surefoot_checkpoint *job)
{
	static const char *const places[] = {"nowhere", "in memory", "in memory and soon on the SSD", "on the SSD"};
	struct surefoot_saved saved;
	int is_needed = 0;

	/* A failed save leaves the program and its former checkpoints as they were: it goes on. */
	if (surefoot_checkpoint_need(job, &is_needed) || (is_needed && surefoot_checkpoint_save(job, &saved)))
		fprintf(stderr, "step %ld: no checkpoint: %s\n", step, surefoot_error_text(job));
	else if (is_needed)
		printf("step %ld: checkpoint %llu is %s\n", step, (unsigned long long)saved.generation, places[saved.place]);
}

/* What happened in the background, such as a checkpoint that became durable. */
static void say_notices(surefoot_checkpoint *job)
{
	const char *notice;

	while ((notice = surefoot_checkpoint_notice(job)))
		printf("%s\n", notice);
}

/* Whether SIGTERM came before the last need or save, with sigterm=checkpoint; that save is durable then. */
static int is_told_to_end(surefoot_checkpoint *job)
{
	int is_told = 0;

	return surefoot_checkpoint_told_to_end(job, &is_told) == SUREFOOT_STATUS_OK && is_told;
}

/* A file of the program's own that comes and goes with its checkpoints. */
static void write_log(surefoot_checkpoint *job)
{
	char path[PATH_MAX];
	FILE *file;

	if (surefoot_checkpoint_route_file(job, "log.txt", path, sizeof(path))) {
		fprintf(stderr, "%s\n", surefoot_error_text(job));
		exit(2);
	}
	file = fopen(path, step == 10 ? "w" : "a");
	if (!file || fprintf(file, "step %ld: cell 1 is %a\n", step, cells[1]) < 0 || fclose(file)) {
		perror(path);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	long steps = argc > 1 ? atol(argv[1]) : 0;
	surefoot_checkpoint *job;
	double sum = 0;
	int i;

	if (steps <= 0) {
		fprintf(stderr, "usage: checkpoint STEPS [SETTING=VALUE ...]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	job = open_job(argc, argv);
	restart(job);
	while (step < steps && !is_told_to_end(job)) {
		compute();
		step++;
		if (step % 10 == 0) {
			write_log(job);
			save(job);
			say_notices(job);
		}
	}
	for (i = 0; i < CELLS; i++)
		sum += cells[i];
	if (step < steps)
		printf("told to end at step %ld\n", step);
	else
		printf("after %ld steps the sum is %a\n", step, sum);

	/* What is still on its way to the SSD counts only when this has returned. */
	if (surefoot_checkpoint_finish(job))
		fprintf(stderr, "%s\n", surefoot_error_text(job));
	say_notices(job);
	surefoot_checkpoint_close(job);
	return 0;
}
