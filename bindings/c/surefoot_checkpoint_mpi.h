/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The ranks of an MPI job as a surefoot_group. This header is all there is: your mpicc compiles it, so that the library
 * knows no MPI and works with each.
 *
 *     struct surefoot_group group;
 *     if (surefoot_mpi_group_open(MPI_COMM_WORLD, &group))
 *         ...                                            // collective, after MPI_Init
 *     surefoot_checkpoint_open(config, &group, &job);
 *     ...
 *     surefoot_checkpoint_close(job);
 *     surefoot_mpi_group_close(&group);                  // collective, before MPI_Finalize
 *
 * The communicator is a copy of yours, so that messages never mix, and it returns errors instead of ending the program:
 * yours keeps the error handler that it has. MPI is called only from within calls with the handle and in their thread:
 * MPI_Init, or MPI_THREAD_FUNNELED with all calls in the main thread, is enough. The library's own threads never call
 * MPI. C99 and later, C++; MPI 2 and later.
 */
#ifndef SUREFOOT_CHECKPOINT_MPI_H
#define SUREFOOT_CHECKPOINT_MPI_H

#include "surefoot_checkpoint.h"

#include <mpi.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* MPI counts in int. Longer messages go in pieces of this many bytes, the same on all ranks. */
#ifndef SUREFOOT_MPI_PIECE_BYTES
#define SUREFOOT_MPI_PIECE_BYTES ((size_t)1 << 30)
#endif

/* Tells its messages from each other's; the communicator is nobody else's. */
#define SUREFOOT_MPI_TAG 1

static inline int surefoot_mpi_piece_(size_t bytes)
{
	return (int)(bytes < SUREFOOT_MPI_PIECE_BYTES ? bytes : SUREFOOT_MPI_PIECE_BYTES);
}

static inline int surefoot_mpi_broadcast_(void *context, void *data, size_t bytes, uint32_t root)
{
	MPI_Comm comm = *(MPI_Comm *)context;
	char *at = (char *)data;

	while (bytes > 0) {
		int piece = surefoot_mpi_piece_(bytes);
		int error = MPI_Bcast(at, piece, MPI_BYTE, (int)root, comm);

		if (error != MPI_SUCCESS)
			return error;
		at += piece;
		bytes -= (size_t)piece;
	}
	return 0;
}

/* A piece of every rank's bytes, each in its place: places are bytes_each apart. */
static inline int surefoot_mpi_gather_piece_(MPI_Comm comm, const char *own, char *all, int piece, size_t bytes_each)
{
	MPI_Datatype part, place;
	int error = MPI_Type_contiguous(piece, MPI_BYTE, &part);

	if (error != MPI_SUCCESS)
		return error;
	error = MPI_Type_create_resized(part, 0, (MPI_Aint)bytes_each, &place);
	if (error == MPI_SUCCESS) {
		error = MPI_Type_commit(&place);
		if (error == MPI_SUCCESS)
			/* MPI 2 declares the first argument without const. */
			error = MPI_Allgather((void *)own, piece, MPI_BYTE, all, 1, place, comm);
		MPI_Type_free(&place);
	}
	MPI_Type_free(&part);
	return error;
}

static inline int surefoot_mpi_all_gather_(void *context, const void *own, void *all, size_t bytes_each)
{
	MPI_Comm comm = *(MPI_Comm *)context;
	size_t done = 0;

	while (done < bytes_each) {
		int piece = surefoot_mpi_piece_(bytes_each - done);
		int error;

		error = surefoot_mpi_gather_piece_(comm, (const char *)own + done, (char *)all + done, piece, bytes_each);
		if (error != MPI_SUCCESS)
			return error;
		done += (size_t)piece;
	}
	return 0;
}

/* The two directions may have different lengths; who has no more to send or to receive does not take part. */
static inline int surefoot_mpi_exchange_(void *context, uint32_t to, const void *send, size_t send_bytes, uint32_t from,
					 void *receive, size_t receive_bytes)
{
	MPI_Comm comm = *(MPI_Comm *)context;
	const char *out = (const char *)send;
	char *in = (char *)receive;

	do {
		int out_piece = surefoot_mpi_piece_(send_bytes), in_piece = surefoot_mpi_piece_(receive_bytes), came;
		MPI_Status status;
		int error = MPI_Sendrecv((void *)out, out_piece, MPI_BYTE, out_piece ? (int)to : MPI_PROC_NULL, SUREFOOT_MPI_TAG,
					 in, in_piece, MPI_BYTE, in_piece ? (int)from : MPI_PROC_NULL, SUREFOOT_MPI_TAG, comm,
					 &status);

		if (error == MPI_SUCCESS && in_piece) {
			error = MPI_Get_count(&status, MPI_BYTE, &came);
			if (error == MPI_SUCCESS && came != in_piece)
				error = MPI_ERR_TRUNCATE;
		}
		if (error != MPI_SUCCESS)
			return error;
		out += out_piece;
		in += in_piece;
		send_bytes -= (size_t)out_piece;
		receive_bytes -= (size_t)in_piece;
	} while (send_bytes > 0 || receive_bytes > 0);
	return 0;
}

/* Makes a group of a communicator's ranks. Collective. Close it with surefoot_mpi_group_close, after the handles that
 * were opened with it.
 *
 * Returns MPI_SUCCESS, which is 0, or what MPI says; then the group must not be used. An error of MPI_Comm_dup itself
 * goes to the error handler of comm, which ends the program unless you set another. */
static inline int surefoot_mpi_group_open(MPI_Comm comm, struct surefoot_group *group)
{
	MPI_Comm *own;
	int rank, size, error;

	if (!group)
		return MPI_ERR_ARG;
	group->context = NULL;
	own = (MPI_Comm *)malloc(sizeof(*own));
	if (!own)
		return MPI_ERR_NO_MEM;
	error = MPI_Comm_dup(comm, own);
	if (error != MPI_SUCCESS) {
		free(own);
		return error;
	}
	error = MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN);
	if (error == MPI_SUCCESS)
		error = MPI_Comm_rank(*own, &rank);
	if (error == MPI_SUCCESS)
		error = MPI_Comm_size(*own, &size);
	if (error != MPI_SUCCESS) {
		MPI_Comm_free(own);
		free(own);
		return error;
	}
	group->context = own;
	group->rank = (uint32_t)rank;
	group->size = (uint32_t)size;
	group->broadcast = surefoot_mpi_broadcast_;
	group->all_gather = surefoot_mpi_all_gather_;
	group->exchange = surefoot_mpi_exchange_;
	return MPI_SUCCESS;
}

/* Frees what surefoot_mpi_group_open made. Collective. May be called twice, and after a failed open. */
static inline int surefoot_mpi_group_close(struct surefoot_group *group)
{
	MPI_Comm *own = group ? (MPI_Comm *)group->context : NULL;
	int error = MPI_SUCCESS;

	if (own) {
		error = MPI_Comm_free(own);
		free(own);
		group->context = NULL;
	}
	return error;
}

#ifdef __cplusplus
}
#endif
#endif
