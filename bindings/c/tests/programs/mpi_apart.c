/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Ranks of MPI that make different calls, every two of them, that close while others go on, and that have different settings:
 * all ranks are told, none waits, and what was saved stays. The arguments are the directories of the tiers. Prints "good" at rank 0.
 */
#include "surefoot_checkpoint_mpi.h"

#include <stdio.h>
#include <string.h>

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "rank %u, %s: line %d: not true: %s: %s\n", group.rank, doing, __LINE__, #what,        \
				surefoot_error_text(NULL));                                                            \
			MPI_Abort(MPI_COMM_WORLD, 1);                                                                  \
		}                                                                                                      \
	} while (0)

static struct surefoot_group group;
static const char *memory, *durable;
static char doing[200];
static unsigned long state[1000];

static const char *const calls[] = {
	"need",	   "save",     "save to memory", "save to both",    "save to durable", "finish",
	"complete", "discard", "restart",	 "restart_resized", "open_resized",
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static int call(struct surefoot_checkpoint **job, size_t number)
{
	int is_needed, status;

	switch (number) {
	case 0:
		return surefoot_checkpoint_need(*job, &is_needed);
	case 1:
		return surefoot_checkpoint_save(*job, NULL);
	case 2:
		return surefoot_checkpoint_save_to(*job, SUREFOOT_PLACE_MEMORY, NULL);
	case 3:
		return surefoot_checkpoint_save_to(*job, SUREFOOT_PLACE_BOTH, NULL);
	case 4:
		return surefoot_checkpoint_save_to(*job, SUREFOOT_PLACE_DURABLE, NULL);
	case 5:
		return surefoot_checkpoint_finish(*job);
	case 6:
		return surefoot_checkpoint_complete(*job);
	case 7:
		status = surefoot_checkpoint_discard(*job);
		*job = NULL;
		return status;
	case 8:
		return surefoot_checkpoint_restart(*job, NULL);
	case 9:
		return surefoot_checkpoint_restart_resized(*job, NULL, NULL);
	default:
		return surefoot_checkpoint_open_resized(*job, NULL);
	}
}

static int open_job(struct surefoot_checkpoint **job)
{
	struct surefoot_config *config = surefoot_config_new("apart");
	int status;

	if (config) {
		CHECK(surefoot_config_set(config, "memory", memory) == 0);
		CHECK(surefoot_config_set(config, "durable", durable) == 0);
		CHECK(surefoot_config_set(config, "drive_file", "none") == 0);
		/* Hundreds of openings: on a disk they would take minutes, and what they say does not depend on it. */
		CHECK(surefoot_config_set(config, "durable.allow_memory", "yes") == 0);
	}
	status = surefoot_checkpoint_open(config, &group, job);
	surefoot_config_free(config);
	if (status == 0)
		CHECK(surefoot_checkpoint_protect(*job, "state", state, sizeof(state)) == 0);
	return status;
}

static void compute(unsigned long step)
{
	size_t i;

	for (i = 0; i < sizeof(state) / sizeof(state[0]); i++)
		state[i] = step * 1000000 + group.rank * 10000 + i;
}

static void expect(unsigned long step)
{
	size_t i;

	for (i = 0; i < sizeof(state) / sizeof(state[0]); i++)
		CHECK(state[i] == step * 1000000 + group.rank * 10000 + i);
}

/* One rank makes one call and the others another one. */
static void apart(size_t one, size_t other, uint32_t odd)
{
	struct surefoot_checkpoint *job;
	char said[100];
	const char *text;

	snprintf(doing, sizeof(doing), "%s at rank %u and %s elsewhere", calls[one], odd, calls[other]);
	CHECK(open_job(&job) == 0);
	CHECK(surefoot_checkpoint_restart(job, NULL) == 0);
	expect(2);
	compute(3);
	CHECK(call(&job, group.rank == odd ? one : other) == SUREFOOT_STATUS_GROUP);
	text = surefoot_error_text(NULL);
	snprintf(said, sizeof(said), "rank %u calls %s", odd, calls[one]);
	CHECK(strstr(text, "out of step") && strstr(text, said) && strstr(text, calls[other]));
	if (job)
		CHECK(surefoot_checkpoint_save(job, NULL) == SUREFOOT_STATUS_GROUP);
	surefoot_checkpoint_close(job);
}

/* One rank closes while the others make a call. It opens again at once, over the same group. */
static void without(size_t one, uint32_t gone)
{
	struct surefoot_checkpoint *job;
	char said[100];
	const char *text;

	snprintf(doing, sizeof(doing), "%s without rank %u", calls[one], gone);
	CHECK(open_job(&job) == 0);
	CHECK(surefoot_checkpoint_restart(job, NULL) == 0);
	expect(2);
	compute(3);
	if (group.rank != gone) {
		CHECK(call(&job, one) == SUREFOOT_STATUS_GROUP);
		text = surefoot_error_text(NULL);
		snprintf(said, sizeof(said), "rank %u closed its session", gone);
		CHECK(strstr(text, said));
		snprintf(said, sizeof(said), "calls %s,", calls[one]);
		CHECK(strstr(text, said));
		if (job)
			CHECK(surefoot_checkpoint_save(job, NULL) == SUREFOOT_STATUS_GROUP);
	}
	CHECK(surefoot_checkpoint_close(job) == 0);
}

/* Each closes only after the rank before it has closed. */
static void in_order(uint32_t first)
{
	uint32_t place = (group.rank + group.size - first) % group.size;
	struct surefoot_checkpoint *job;

	snprintf(doing, sizeof(doing), "closing from rank %u on", first);
	CHECK(open_job(&job) == 0);
	CHECK(surefoot_checkpoint_restart(job, NULL) == 0);
	if (place > 0)
		MPI_Recv(NULL, 0, MPI_BYTE, (int)((group.rank + group.size - 1) % group.size), 1, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	CHECK(surefoot_checkpoint_close(job) == 0);
	if (place + 1 < group.size)
		MPI_Send(NULL, 0, MPI_BYTE, (int)((group.rank + 1) % group.size), 1, MPI_COMM_WORLD);
}

/* A variable on one host only. */
static void differ(const char *name, const char *setting, const char *value, uint32_t odd)
{
	struct surefoot_checkpoint *job;
	char variable[100], said[100];
	const char *text;
	int status;

	snprintf(doing, sizeof(doing), "%s=%s on rank %u", name, value, odd);
	snprintf(variable, sizeof(variable), "SUREFOOT_CHECKPOINT_%s", name);
	if (group.rank == odd)
		setenv(variable, value, 1);
	status = open_job(&job);
	text = surefoot_error_text(NULL);
	if (strcmp(value, "nonsense") == 0) {
		CHECK(group.rank == odd || status == SUREFOOT_STATUS_OTHER_RANK);
		CHECK(status != 0 && strstr(text, variable));
	} else {
		snprintf(said, sizeof(said), "%s is ", setting);
		CHECK(status == SUREFOOT_STATUS_OPTION && strstr(text, said) && strstr(text, value));
		snprintf(said, sizeof(said), "on rank %u", odd);
		CHECK(strstr(text, said));
	}
	CHECK(job == NULL);
	unsetenv(variable);
}

int main(int argc, char **argv)
{
	static const char *const settings[][3] = {
		{"DURABLE_KEEP", "durable.keep", "7"},
		{"DURABLE_PROTECTION", "durable.protection", "shard"},
		{"PARTNER", "partner", "yes"},
		{"PARITY", "parity", "1+1"},
		{"SHARED", "shared", "/tmp"},
		{"MEMORY_SLOTS", "memory.slots", "6"},
		{"MEMORY_PROTECTION", "memory.protection", "checked"},
		{"POLICY", "policy", "every:3"},
		{"STALENESS_MAX_S", "staleness_max_s", "77"},
		{"PRIORITY", "priority", "endurance"},
		{"AFTER_COMPLETION", "after_completion", "continue"},
		{"SIGTERM", "sigterm", "checkpoint"},
		{"POLICY", "policy", "nonsense"},
		{"PARITY", "parity", "nonsense"},
	};
	struct surefoot_checkpoint *job;
	unsigned long step;
	size_t one, other;
	uint32_t turn = 0;

	MPI_Init(&argc, &argv);
	if (surefoot_mpi_group_open(MPI_COMM_WORLD, &group))
		MPI_Abort(MPI_COMM_WORLD, 1);
	CHECK(argc == 3);
	memory = argv[1];
	durable = argv[2];
	CHECK(open_job(&job) == 0);
	for (step = 1; step <= 2; step++) {
		compute(step);
		CHECK(surefoot_checkpoint_save(job, NULL) == 0);
	}
	CHECK(surefoot_checkpoint_finish(job) == 0);
	surefoot_checkpoint_close(job);

	for (one = 0; one < CALLS; one++)
		for (other = 0; other < CALLS; other++)
			if (one != other)
				apart(one, other, turn++ % group.size);
	for (one = 0; one < CALLS; one++)
		for (turn = 0; turn < group.size; turn++)
			without(one, turn);
	for (turn = 0; turn < group.size; turn++)
		in_order(turn);
	for (one = 0; one < sizeof(settings) / sizeof(settings[0]); one++)
		differ(settings[one][0], settings[one][1], settings[one][2], turn++ % group.size);

	snprintf(doing, sizeof(doing), "the end");
	CHECK(open_job(&job) == 0);
	CHECK(surefoot_checkpoint_restart(job, NULL) == 0);
	expect(2);
	surefoot_checkpoint_close(job);
	if (group.rank == 0)
		printf("good\n");
	CHECK(surefoot_mpi_group_close(&group) == MPI_SUCCESS);
	MPI_Finalize();
	return 0;
}
