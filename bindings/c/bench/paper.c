/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The microbenchmark of MEMSYS'16 (Abeyratne et al., section 4): each rank computes for a while on a buffer, then the
 * buffer is saved, a hundred times. `surefoot-bench checkpoint --paper` compiles and runs it; by hand:
 *
 *     mpicc -O2 -o paper paper.c $(pkg-config --cflags --libs surefoot)
 *     mpirun -np 2 ./paper 20000000 0.1 100 save /tmp durable=/ssd policy=paper-every:10
 *
 * Bytes of a rank's buffer, seconds of work, iterations; then who saves: `none` nobody, `save` the library in each
 * iteration, `ask` the library when it says that a checkpoint pays, `plain` a write of a fresh file in the directory that
 * follows, as tools without a ring of slots do. Then come settings of the checkpoints.
 *
 * Rank 0 prints JSON lines: one per iteration, one per rank, one for the run. Times are seconds between barriers, so they
 * are those of the slowest rank.
 */
#include "surefoot_checkpoint_mpi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Work between two looks at the clock: 64 KiB, some ten microseconds. */
#define PIECE_WORDS 8192
/* Saves that may be on their way to the SSD; the library has one at a time. */
#define TAKEN_MAX 64
/* Fresh files that are kept, as many as the library's smallest ring has slots. */
#define PLAIN_KEPT 2
#define PATH_BYTES 4096

enum mode { MODE_NONE, MODE_SAVE, MODE_ASK, MODE_PLAIN, MODES };
static const char *const mode_names[MODES] = {"none", "save", "ask", "plain"};
static const char *const place_names[] = {"skip", "memory", "both", "ssd"};

static struct surefoot_group group;
static surefoot_checkpoint *job;

static uint64_t *buffer;
static size_t words, at;
static size_t bytes;
static char directory[PATH_BYTES / 2];

/* What is added up over the run. */
static struct totals {
	uint64_t pieces;
	double compute_s, checkpoint_s, memory_s, ssd_s, remove_s;
	uint64_t memory_bytes, ssd_bytes;
	long counts[4];
	long failed_count;
} total;

/* The age of the newest durable copy. */
static struct {
	double began_s;
	double taken_s[TAKEN_MAX];
	unsigned long long sent[TAKEN_MAX]; /* the generation that went to memory and on to the SSD */
	double newest_s; /* when the newest one was taken; the start without any */
	double oldest_s;
	long count;
} durable;

static void give_up(const char *what)
{
	fprintf(stderr, "rank %u: %s\n", group.rank, what);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void meet(void)
{
	if (MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS)
		give_up("the ranks cannot meet");
}

/* Work: every word of the buffer changes, again and again, until the time is over. */
static void compute(double until_s)
{
	do {
		size_t end = at + PIECE_WORDS < words ? at + PIECE_WORDS : words;

		for (; at < end; at++)
			buffer[at] = buffer[at] * 6364136223846793005u + 1442695040888963407u;
		if (at == words)
			at = 0;
		total.pieces++;
	} while (now() < until_s);
}

/* Takes note of how old the durable copy has got, and of the one that takes its place. */
static void became_durable(double taken_s)
{
	double age_s = now() - durable.newest_s;

	if (age_s > durable.oldest_s)
		durable.oldest_s = age_s;
	durable.newest_s = taken_s;
	durable.count++;
}

static void read_notices(void)
{
	const char *notice;

	while ((notice = surefoot_checkpoint_notice(job))) {
		unsigned long long generation;
		double took_s;

		if (sscanf(notice, "generation %llu is durable, after %lf s", &generation, &took_s) == 2) {
			/* What only the end of the job makes durable is not the policy's. */
			if (durable.sent[generation % TAKEN_MAX] == generation) {
				became_durable(durable.taken_s[generation % TAKEN_MAX]);
				total.ssd_s += took_s;
			}
		} else {
			total.failed_count += strstr(notice, "did not become durable") != NULL;
			if (group.rank == 0)
				fprintf(stderr, "%s\n", notice);
		}
	}
}

static long reason_count(void)
{
	const char *text = surefoot_checkpoint_reasons(job);
	long count = *text != '\0';

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

/* The library's checkpoint; where it went. */
static int save(int asks)
{
	struct surefoot_saved saved;
	double began_s = now();
	int is_needed = 1;
	int status = asks ? surefoot_checkpoint_need(job, &is_needed) : 0;

	memset(&saved, 0, sizeof(saved));
	if (status == 0 && is_needed)
		status = surefoot_checkpoint_save(job, &saved);
	if (status == SUREFOOT_STATUS_GROUP)
		give_up(surefoot_error_text(job));
	if (status < 0) {
		/* The job goes on without this checkpoint, as a real one would. */
		total.failed_count++;
		if (group.rank == 0)
			fprintf(stderr, "no checkpoint: %s\n", surefoot_error_text(job));
	}
	read_notices();
	switch (saved.place) {
	case SUREFOOT_PLACE_BOTH:
		durable.taken_s[saved.generation % TAKEN_MAX] = began_s;
		durable.sent[saved.generation % TAKEN_MAX] = saved.generation;
		total.ssd_bytes += saved.payload_bytes;
		/* fall through */
	case SUREFOOT_PLACE_MEMORY:
		total.memory_bytes += saved.payload_bytes;
		total.memory_s += saved.visible_s;
		break;
	case SUREFOOT_PLACE_DURABLE:
		total.ssd_bytes += saved.payload_bytes;
		total.ssd_s += saved.visible_s;
		became_durable(began_s);
		break;
	default:
		break;
	}
	return saved.place;
}

static void plain_path(char *path, long number)
{
	snprintf(path, PATH_BYTES, "%s/plain-%05u-%ld", directory, group.rank, number);
}

/* A fresh file with the same bytes; the one before the last goes. */
static int save_plain(long number)
{
	char path[PATH_BYTES];
	size_t done = 0;
	double began_s = now();
	int file;

	plain_path(path, number);
	file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		give_up(strerror(errno));
	while (done < bytes) {
		ssize_t written = write(file, (const char *)buffer + done, bytes - done);

		if (written <= 0)
			give_up(written ? strerror(errno) : "nothing is written any more");
		done += (size_t)written;
	}
	if (close(file))
		give_up(strerror(errno));
	total.memory_s += now() - began_s;
	total.memory_bytes += bytes;
	if (number > PLAIN_KEPT) {
		began_s = now();
		plain_path(path, number - PLAIN_KEPT);
		if (unlink(path))
			give_up(strerror(errno));
		total.remove_s += now() - began_s;
	}
	return SUREFOOT_PLACE_MEMORY;
}

static void remove_plain(long last)
{
	char path[PATH_BYTES];
	long number;

	for (number = last; number > 0 && number > last - PLAIN_KEPT; number--) {
		plain_path(path, number);
		unlink(path);
	}
}

static void open_job(int settings, char **setting)
{
	surefoot_config *config = surefoot_config_new("paper");
	int i;

	for (i = 0; i < settings; i++) {
		char *value = strchr(setting[i], '=');

		if (value)
			*value++ = '\0';
		if (surefoot_config_set(config, setting[i], value))
			give_up(surefoot_error_text(NULL));
	}
	if (surefoot_checkpoint_open(config, &group, &job))
		give_up(surefoot_error_text(NULL));
	surefoot_config_free(config);
	if (surefoot_checkpoint_protect(job, "buffer", buffer, bytes))
		give_up(surefoot_error_text(job));
}

static void iterate(long number, double compute_s, enum mode mode)
{
	double began_s = now(), computed_s, ended_s;
	int place = SUREFOOT_PLACE_SKIPPED;

	compute(began_s + compute_s);
	meet();
	computed_s = now();
	if (mode == MODE_PLAIN)
		place = save_plain(number);
	else if (mode != MODE_NONE)
		place = save(mode == MODE_ASK);
	meet();
	ended_s = now();
	total.compute_s += computed_s - began_s;
	total.checkpoint_s += ended_s - computed_s;
	total.counts[place]++;
	if (group.rank == 0)
		printf("{\"type\":\"iteration\",\"number\":%ld,\"compute_s\":%.9f,\"checkpoint_s\":%.9f,\"place\":\"%s\","
		       "\"reason_count\":%ld}\n",
		       number, computed_s - began_s, ended_s - computed_s, place_names[place], job ? reason_count() : 0);
}

/* Rank 0 prints what each rank added up: one writer, so that lines stay whole. */
static void print_ranks(void)
{
	struct totals *all = (struct totals *)calloc(group.size, sizeof(total));
	uint32_t rank;

	if (!all)
		give_up("there is no memory");
	if (MPI_Gather(&total, sizeof(total), MPI_BYTE, all, sizeof(total), MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS)
		give_up("the ranks cannot talk");
	for (rank = 0; group.rank == 0 && rank < group.size; rank++)
		printf("{\"type\":\"rank\",\"rank\":%u,\"pieces\":%llu,\"compute_s\":%.9f,\"checkpoint_s\":%.9f,"
		       "\"memory_s\":%.9f,\"ssd_s\":%.9f,\"remove_s\":%.9f,\"memory_bytes\":%llu,\"ssd_bytes\":%llu,"
		       "\"failed_count\":%ld}\n",
		       rank, (unsigned long long)all[rank].pieces, all[rank].compute_s, all[rank].checkpoint_s,
		       all[rank].memory_s, all[rank].ssd_s, all[rank].remove_s,
		       (unsigned long long)all[rank].memory_bytes, (unsigned long long)all[rank].ssd_bytes,
		       all[rank].failed_count);
	free(all);
}

static void print_run(enum mode mode, long iterations, double run_s, double finish_s)
{
	printf("{\"type\":\"run\",\"mode\":\"%s\",\"ranks\":%u,\"bytes_per_rank\":%zu,\"iterations\":%ld,\"run_s\":%.9f,"
	       "\"finish_s\":%.9f,\"skip_count\":%ld,\"memory_count\":%ld,\"both_count\":%ld,\"ssd_count\":%ld,"
	       "\"durable_count\":%ld,\"durable_age_max_s\":",
	       mode_names[mode], group.size, bytes, iterations, run_s, finish_s, total.counts[SUREFOOT_PLACE_SKIPPED],
	       total.counts[SUREFOOT_PLACE_MEMORY], total.counts[SUREFOOT_PLACE_BOTH], total.counts[SUREFOOT_PLACE_DURABLE],
	       durable.count);
	if (durable.count > 0)
		printf("%.9f}\n", durable.oldest_s);
	else
		printf("null}\n");
}

static enum mode read_arguments(int argc, char **argv, double *compute_s, long *iterations)
{
	int mode = 0;

	if (argc < 6)
		give_up("usage: paper BYTES COMPUTE_S ITERATIONS none|save|ask|plain DIRECTORY [SETTING=VALUE ...]");
	bytes = strtoull(argv[1], NULL, 10) / sizeof(uint64_t) * sizeof(uint64_t);
	*compute_s = strtod(argv[2], NULL);
	*iterations = strtol(argv[3], NULL, 10);
	while (mode < MODES && strcmp(argv[4], mode_names[mode]))
		mode++;
	if (bytes == 0 || !(*compute_s > 0) || *iterations < 1 || mode == MODES || strlen(argv[5]) >= sizeof(directory))
		give_up("the arguments make no sense");
	snprintf(directory, sizeof(directory), "%s", argv[5]);
	return (enum mode)mode;
}

int main(int argc, char **argv)
{
	double compute_s = 0, began_s, run_s, finish_s;
	long iterations = 0, number;
	enum mode mode;

	MPI_Init(&argc, &argv);
	if (surefoot_mpi_group_open(MPI_COMM_WORLD, &group))
		MPI_Abort(MPI_COMM_WORLD, 2);
	mode = read_arguments(argc, argv, &compute_s, &iterations);
	words = bytes / sizeof(uint64_t);
	buffer = (uint64_t *)malloc(bytes);
	if (!buffer)
		give_up("there is no memory");
	for (at = 0; at < words; at++)
		buffer[at] = at * (group.rank + 1) + 1;
	at = 0;
	if (mode == MODE_SAVE || mode == MODE_ASK)
		open_job(argc - 6, argv + 6);

	meet();
	began_s = now();
	durable.newest_s = began_s;
	for (number = 1; number <= iterations; number++)
		iterate(number, compute_s, mode);
	run_s = now() - began_s;
	/* What is on its way when the run ends counts for the age of the copy, and is no part of the run. */
	if (job) {
		if (surefoot_checkpoint_finish(job))
			give_up(surefoot_error_text(job));
		read_notices();
	}
	finish_s = now() - began_s - run_s;
	if (durable.count > 0 && began_s + run_s - durable.newest_s > durable.oldest_s)
		durable.oldest_s = began_s + run_s - durable.newest_s;

	print_ranks();
	if (group.rank == 0)
		print_run(mode, iterations, run_s, finish_s);
	if (mode == MODE_PLAIN)
		remove_plain(iterations);
	surefoot_checkpoint_close(job);
	surefoot_mpi_group_close(&group);
	free(buffer);
	MPI_Finalize();
	return 0;
}
