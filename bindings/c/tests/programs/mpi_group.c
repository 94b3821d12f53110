/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The functions of an MPI group, at lengths around the pieces in which long messages go, which are made short here;
 * and that a mistake is a status and not the end of the program. Prints "good" at rank 0.
 */
#define SUREFOOT_MPI_PIECE_BYTES ((size_t)1000)
#include "surefoot_checkpoint_mpi.h"

#include <stdio.h>
#include <string.h>

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "rank %u, %zu bytes: not true: %s\n", group.rank, bytes, #what);               \
			MPI_Abort(MPI_COMM_WORLD, 1);                                                                  \
		}                                                                                                      \
	} while (0)

static struct surefoot_group group;
static unsigned char own[10000], other[10000], all[80000];

static unsigned char byte_of(uint32_t rank, size_t at)
{
	return (unsigned char)(rank * 31 + at % 251 + at / 251);
}

static void check(size_t bytes)
{
	uint32_t next = (group.rank + 1) % group.size, former = (group.rank + group.size - 1) % group.size, rank;
	size_t at, other_bytes;

	for (at = 0; at < bytes; at++)
		own[at] = byte_of(group.rank, at);
	CHECK(group.all_gather(group.context, own, all, bytes) == 0);
	for (rank = 0; rank < group.size; rank++)
		for (at = 0; at < bytes; at++)
			CHECK(all[rank * bytes + at] == byte_of(rank, at));

	for (rank = 0; rank < group.size; rank++) {
		memcpy(other, own, bytes);
		CHECK(group.broadcast(group.context, other, bytes, rank) == 0);
		for (at = 0; at < bytes; at++)
			CHECK(other[at] == byte_of(rank, at));
	}

	/* Around a ring, each rank a different length. */
	other_bytes = bytes * (former + 1) / group.size;
	memset(other, 0, sizeof(other));
	CHECK(group.exchange(group.context, next, own, bytes * (group.rank + 1) / group.size, former, other, other_bytes) == 0);
	for (at = 0; at < other_bytes; at++)
		CHECK(other[at] == byte_of(former, at));
}

int main(int argc, char **argv)
{
	static const size_t lengths[] = {0, 1, 8, 999, 1000, 1001, 2000, 9999};
	size_t bytes = 0, i;
	uint32_t next, former;
	int size;

	MPI_Init(&argc, &argv);
	CHECK(surefoot_mpi_group_open(MPI_COMM_WORLD, NULL) != 0);
	CHECK(surefoot_mpi_group_open(MPI_COMM_WORLD, &group) == 0);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	CHECK(group.size == (uint32_t)size && size <= 8);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		check(lengths[i]);

	/* A rank that there is not, and more than was expected. */
	CHECK(group.broadcast(group.context, own, 8, 99) != 0);
	CHECK(group.exchange(group.context, 99, own, 8, 99, other, 8) != 0);
	next = (group.rank + 1) % group.size;
	former = (group.rank + group.size - 1) % group.size;
	/* A message to itself that is cut is no error to Open MPI 4; the library sends none. */
	if (group.size > 1)
		CHECK(group.exchange(group.context, next, own, 16, former, other, 8) != 0);
	CHECK(group.exchange(group.context, next, own, 8, former, other, 16) != 0);

	/* What is posted comes with the next exchange, one after the other; what nobody took by the end is no failure. */
	for (i = 0; i < 100; i++) {
		own[0] = (unsigned char)i;
		CHECK(group.post(group.context, next, own, 1776) == 0);
	}
	for (i = 0; i < 50; i++) {
		CHECK(group.exchange(group.context, group.rank, own, 0, former, other, 1776) == 0);
		CHECK(other[0] == i);
	}
	CHECK(group.post(group.context, 99, own, 8) != 0);

	CHECK(surefoot_mpi_group_close(&group) == 0 && surefoot_mpi_group_close(&group) == 0);
	if (group.rank == 0)
		printf("good\n");
	MPI_Finalize();
	return 0;
}
