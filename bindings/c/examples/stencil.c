/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A gas in a box: the Euler equations in two dimensions, by the Rusanov scheme of first order, the rows of the grid
 * shared out among MPI ranks. It can be killed at any moment and started again, and then computes the same bits as if
 * nothing had happened.
 *
 *     mpicc -O2 -o stencil stencil.c $(pkg-config --cflags --libs surefoot) -lm
 *     mpirun -np 4 ./stencil 1000 500 durable=/ssd staleness_max_s=600
 *
 * The first number is the width of the grid, the second the steps; then come settings of the checkpoints.
 */
#include "surefoot_checkpoint_mpi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Steps from one question whether a checkpoint is due to the next. */
#define ASK_EVERY 15
#define GAMMA 1.4
#define COURANT 0.4

enum { DENSITY, MOMENTUM_X, MOMENTUM_Y, ENERGY, FIELDS };
static const char *const field_names[FIELDS] = {"density", "momentum/x", "momentum/y", "energy"};

struct cell {
	double of[FIELDS];
};

static struct surefoot_group group;
static surefoot_checkpoint *job;

/* Everything that the next step depends on. The fields have a row more above and below: the neighbours'. */
static int width, rows;
static double *field[FIELDS];
static struct {
	long step;
	double time;
} progress;

static double *next[FIELDS]; /* made anew in each step, so that no checkpoint needs it */

static void give_up(const char *what)
{
	fprintf(stderr, "rank %u: %s\n", group.rank, what);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

/* The checkpoints */

/* Says where the fields are. Each step swaps them with the next ones: a name that is known moves. */
static void protect_fields(void)
{
	size_t bytes = (size_t)width * (size_t)(rows + 2) * sizeof(double);
	int i;

	for (i = 0; i < FIELDS; i++)
		if (surefoot_checkpoint_protect(job, field_names[i], field[i], bytes))
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
	surefoot_config *config = surefoot_config_new("stencil");
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
	protect_fields();
	if (surefoot_checkpoint_protect(job, "progress", &progress, sizeof(progress)))
		give_up(surefoot_error_text(job));
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
	const char *notice;
	int is_needed = 0, status;

	protect_fields();
	status = surefoot_checkpoint_need(job, &is_needed);
	if (status == 0 && is_needed) {
		if (group.rank == 0)
			printf("step %ld: saving\n", progress.step);
		status = surefoot_checkpoint_save(job, &saved);
		if (status == 0 && group.rank == 0)
			printf("step %ld: saved as %llu\n", progress.step, (unsigned long long)saved.generation);
	}
	while ((notice = surefoot_checkpoint_notice(job)))
		if (group.rank == 0)
			printf("%s\n", notice);
	/* The job goes on without this checkpoint, unless the ranks have lost each other. */
	if (status == SUREFOOT_STATUS_GROUP)
		give_up(surefoot_error_text(job));
	if (status < 0)
		fprintf(stderr, "step %ld: no checkpoint: %s\n", progress.step, surefoot_error_text(job));
}

/* The gas */

static struct cell cell_at(int row, int column)
{
	size_t at = (size_t)row * (size_t)width + (size_t)((column + width) % width);
	struct cell cell;
	int i;

	for (i = 0; i < FIELDS; i++)
		cell.of[i] = field[i][at];
	return cell;
}

static double pressure(const struct cell *cell)
{
	double momentum = cell->of[MOMENTUM_X] * cell->of[MOMENTUM_X] + cell->of[MOMENTUM_Y] * cell->of[MOMENTUM_Y];

	return (GAMMA - 1) * (cell->of[ENERGY] - 0.5 * momentum / cell->of[DENSITY]);
}

/* The fastest wave along one direction. */
static double speed(const struct cell *cell, int along)
{
	return fabs(cell->of[along]) / cell->of[DENSITY] + sqrt(GAMMA * pressure(cell) / cell->of[DENSITY]);
}

static struct cell flux_within(const struct cell *cell, int along)
{
	double velocity = cell->of[along] / cell->of[DENSITY], p = pressure(cell);
	struct cell flux;
	int i;

	for (i = 0; i < FIELDS; i++)
		flux.of[i] = cell->of[i] * velocity;
	flux.of[along] += p;
	flux.of[ENERGY] += p * velocity;
	return flux;
}

/* What flows from one cell into the next. */
static struct cell flux_between(const struct cell *from, const struct cell *to, int along)
{
	struct cell left = flux_within(from, along), right = flux_within(to, along), flux;
	double fastest = fmax(speed(from, along), speed(to, along));
	int i;

	for (i = 0; i < FIELDS; i++)
		flux.of[i] = 0.5 * (left.of[i] + right.of[i]) - 0.5 * fastest * (to->of[i] - from->of[i]);
	return flux;
}

/* The box has no walls: what leaves on one side enters on the other. */
static void exchange_rows(void)
{
	int above = (int)((group.rank + group.size - 1) % group.size), below = (int)((group.rank + 1) % group.size);
	int i;

	for (i = 0; i < FIELDS; i++) {
		double *first = field[i] + width, *last = field[i] + (size_t)width * (size_t)rows;

		MPI_Sendrecv(first, width, MPI_DOUBLE, above, 2 * i, last + width, width, MPI_DOUBLE, below, 2 * i, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		MPI_Sendrecv(last, width, MPI_DOUBLE, below, 2 * i + 1, field[i], width, MPI_DOUBLE, above, 2 * i + 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
}

/* The longest time step in which no wave crosses a cell. A maximum is the same in whatever order it is taken. */
static double time_step(void)
{
	double own = 0, fastest;
	int row, column;

	for (row = 1; row <= rows; row++)
		for (column = 0; column < width; column++) {
			struct cell cell = cell_at(row, column);

			own = fmax(own, fmax(speed(&cell, MOMENTUM_X), speed(&cell, MOMENTUM_Y)));
		}
	MPI_Allreduce(&own, &fastest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return COURANT / (fastest * width);
}

static void advance(void)
{
	double dt = time_step();
	int row, column, i;

	exchange_rows();
	for (row = 1; row <= rows; row++)
		for (column = 0; column < width; column++) {
			struct cell here = cell_at(row, column), left = cell_at(row, column - 1), right = cell_at(row, column + 1);
			struct cell above = cell_at(row - 1, column), below = cell_at(row + 1, column);
			struct cell in_x = flux_between(&left, &here, MOMENTUM_X), out_x = flux_between(&here, &right, MOMENTUM_X);
			struct cell in_y = flux_between(&above, &here, MOMENTUM_Y), out_y = flux_between(&here, &below, MOMENTUM_Y);

			for (i = 0; i < FIELDS; i++)
				next[i][(size_t)row * (size_t)width + (size_t)column] =
				    here.of[i] + dt * width * (in_x.of[i] - out_x.of[i] + in_y.of[i] - out_y.of[i]);
		}
	for (i = 0; i < FIELDS; i++) {
		double *old = field[i];

		field[i] = next[i];
		next[i] = old;
	}
	progress.time += dt;
	progress.step++;
}

/* A dense, hot bubble in the middle, in a wind. */
static void begin(void)
{
	int row, column, first = (int)((long)group.rank * width / group.size);

	for (row = 1; row <= rows; row++)
		for (column = 0; column < width; column++) {
			size_t at = (size_t)row * (size_t)width + (size_t)column;
			double x = (column + 0.5) / width - 0.5, y = (first + row - 0.5) / width - 0.5;
			double bubble = exp(-50 * (x * x + y * y));

			field[DENSITY][at] = 1 + bubble;
			field[MOMENTUM_X][at] = 0.3 * field[DENSITY][at];
			field[MOMENTUM_Y][at] = 0.1 * field[DENSITY][at] * sin(6.283185307179586 * x);
			field[ENERGY][at] = (1 + 4 * bubble) / (GAMMA - 1) + 0.1;
		}
}

/* A number that changes with any bit of the fields. */
static unsigned long long digest(void)
{
	unsigned long long own = 14695981039346656037u, all[2] = {0, 0}, part[2];
	size_t at;
	int i;

	for (i = 0; i < FIELDS; i++) {
		const unsigned char *bytes = (const unsigned char *)(field[i] + width);

		for (at = 0; at < (size_t)width * (size_t)rows * sizeof(double); at++)
			own = (own ^ bytes[at]) * 1099511628211u;
	}
	part[0] = own * (2 * (unsigned long long)group.rank + 1);
	part[1] = own;
	MPI_Allreduce(part, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
	return all[0] ^ (all[1] << 1);
}

int main(int argc, char **argv)
{
	long steps = argc > 2 ? atol(argv[2]) : 0;
	unsigned long long bits;
	int i;

	MPI_Init(&argc, &argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (surefoot_mpi_group_open(MPI_COMM_WORLD, &group))
		MPI_Abort(MPI_COMM_WORLD, 2);
	width = argc > 1 ? atoi(argv[1]) : 0;
	if (width < (int)group.size || width > 30000 || steps < 1)
		give_up("usage: stencil WIDTH STEPS [SETTING=VALUE ...]");
	printf("rank %u is process %ld\n", group.rank, (long)getpid());

	rows = (int)((long)(group.rank + 1) * width / group.size - (long)group.rank * width / group.size);
	for (i = 0; i < FIELDS; i++) {
		field[i] = (double *)calloc((size_t)width * (size_t)(rows + 2), sizeof(double));
		next[i] = (double *)calloc((size_t)width * (size_t)(rows + 2), sizeof(double));
		if (!field[i] || !next[i])
			give_up("there is no memory");
	}

	open_job(argc - 3, argv + 3);
	if (!restarted())
		begin();
	while (progress.step < steps) {
		advance();
		if (progress.step % ASK_EVERY == 0)
			save();
	}
	bits = digest();
	if (group.rank == 0)
		printf("step %ld: time %.6f\ndigest %016llx\n", progress.step, progress.time, bits);

	if (surefoot_checkpoint_finish(job))
		fprintf(stderr, "%s\n", surefoot_error_text(job));
	surefoot_checkpoint_close(job);
	surefoot_mpi_group_close(&group);
	MPI_Finalize();
	return 0;
}
