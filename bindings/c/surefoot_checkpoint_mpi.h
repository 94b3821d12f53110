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
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* MPI counts in int. Longer messages go in pieces of this many bytes, the same on all ranks. */
#ifndef SUREFOOT_MPI_PIECE_BYTES
#define SUREFOOT_MPI_PIECE_BYTES ((size_t)1 << 30)
#endif

/* The communicator, and what a post leaves behind. */
struct surefoot_mpi_context_ {
	MPI_Comm comm;
	int size;
	/* Messages that were sent to each rank, and received from it. */
	int *sent, *received;
	/* Messages that MPI may still be sending. */
	struct surefoot_mpi_post_ *posts;
};

struct surefoot_mpi_post_ {
	struct surefoot_mpi_post_ *next;
	MPI_Request request;
	/* The bytes follow. */
};

/* Tells its messages from each other's; the communicator is nobody else's. */
#define SUREFOOT_MPI_TAG 1

/* Has what MPI says of an error in the text of the call that it fails. */
static inline int surefoot_mpi_failed_(int error)
{
	char why[MPI_MAX_ERROR_STRING + 1];
	int length = 0;

	if (error != MPI_SUCCESS && MPI_Error_string(error, why, &length) == MPI_SUCCESS) {
		why[length < 0 ? 0 : length < MPI_MAX_ERROR_STRING ? length : MPI_MAX_ERROR_STRING] = 0;
		(void)surefoot_group_failed(why);
	}
	return error;
}

static inline int surefoot_mpi_piece_(size_t bytes)
{
	return (int)(bytes < SUREFOOT_MPI_PIECE_BYTES ? bytes : SUREFOOT_MPI_PIECE_BYTES);
}

static inline int surefoot_mpi_broadcast_(void *context, void *data, size_t bytes, uint32_t root)
{
	MPI_Comm comm = ((struct surefoot_mpi_context_ *)context)->comm;
	char *at = (char *)data;

	while (bytes > 0) {
		int piece = surefoot_mpi_piece_(bytes);
		int error = MPI_Bcast(at, piece, MPI_BYTE, (int)root, comm);

		if (error != MPI_SUCCESS)
			return surefoot_mpi_failed_(error);
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
	MPI_Comm comm = ((struct surefoot_mpi_context_ *)context)->comm;
	size_t done = 0;

	while (done < bytes_each) {
		int piece = surefoot_mpi_piece_(bytes_each - done);
		int error;

		error = surefoot_mpi_gather_piece_(comm, (const char *)own + done, (char *)all + done, piece, bytes_each);
		if (error != MPI_SUCCESS)
			return surefoot_mpi_failed_(error);
		done += (size_t)piece;
	}
	return 0;
}

/* The two directions may have different lengths; who has no more to send or to receive does not take part. */
static inline int surefoot_mpi_exchange_(void *context, uint32_t to, const void *send, size_t send_bytes, uint32_t from,
					 void *receive, size_t receive_bytes)
{
	struct surefoot_mpi_context_ *own = (struct surefoot_mpi_context_ *)context;
	const char *out = (const char *)send;
	char *in = (char *)receive;

	do {
		int out_piece = surefoot_mpi_piece_(send_bytes), in_piece = surefoot_mpi_piece_(receive_bytes), came;
		MPI_Status status;
		int error = MPI_Sendrecv((void *)out, out_piece, MPI_BYTE, out_piece ? (int)to : MPI_PROC_NULL, SUREFOOT_MPI_TAG,
					 in, in_piece, MPI_BYTE, in_piece ? (int)from : MPI_PROC_NULL, SUREFOOT_MPI_TAG,
					 own->comm, &status);

		/* What was cut has come, too. */
		if (out_piece && to < (uint32_t)own->size)
			own->sent[to]++;
		if (in_piece && from < (uint32_t)own->size)
			own->received[from]++;
		if (error == MPI_SUCCESS && in_piece) {
			error = MPI_Get_count(&status, MPI_BYTE, &came);
			if (error == MPI_SUCCESS && came != in_piece)
				error = MPI_ERR_TRUNCATE;
		}
		if (error != MPI_SUCCESS)
			return surefoot_mpi_failed_(error);
		out += out_piece;
		in += in_piece;
		send_bytes -= (size_t)out_piece;
		receive_bytes -= (size_t)in_piece;
	} while (send_bytes > 0 || receive_bytes > 0);
	return 0;
}

/* Forgets the posts that are on their way, or all of them. */
static inline void surefoot_mpi_forget_posts_(struct surefoot_mpi_context_ *own, int all)
{
	struct surefoot_mpi_post_ **at = &own->posts, *post;

	while ((post = *at)) {
		int done = 0;

		if (all)
			done = MPI_Wait(&post->request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
		else if (MPI_Test(&post->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
			done = 0;
		if (!done) {
			at = &post->next;
			continue;
		}
		*at = post->next;
		free(post);
	}
}

static inline int surefoot_mpi_post_send_(void *context, uint32_t to, const void *data, size_t bytes)
{
	struct surefoot_mpi_context_ *own = (struct surefoot_mpi_context_ *)context;
	const char *at = (const char *)data;

	surefoot_mpi_forget_posts_(own, 0);
	if (to >= (uint32_t)own->size)
		return surefoot_mpi_failed_(MPI_ERR_RANK);
	while (bytes > 0) {
		int piece = surefoot_mpi_piece_(bytes), error;
		struct surefoot_mpi_post_ *post = (struct surefoot_mpi_post_ *)malloc(sizeof(*post) + (size_t)piece);

		if (!post)
			return surefoot_mpi_failed_(MPI_ERR_NO_MEM);
		memcpy(post + 1, at, (size_t)piece);
		error = MPI_Isend(post + 1, piece, MPI_BYTE, (int)to, SUREFOOT_MPI_TAG, own->comm, &post->request);
		if (error != MPI_SUCCESS) {
			free(post);
			return surefoot_mpi_failed_(error);
		}
		own->sent[to]++;
		post->next = own->posts;
		own->posts = post;
		at += piece;
		bytes -= (size_t)piece;
	}
	return 0;
}

/* Receives what ranks posted and nobody took: the communicator must have no message under way when it is freed. */
static inline int surefoot_mpi_receive_rest_(struct surefoot_mpi_context_ *own)
{
	int *coming = (int *)malloc(sizeof(*coming) * (size_t)own->size);
	int error, rank;

	if (!coming)
		return MPI_ERR_NO_MEM;
	error = MPI_Alltoall(own->sent, 1, MPI_INT, coming, 1, MPI_INT, own->comm);
	for (rank = 0; error == MPI_SUCCESS && rank < own->size; rank++) {
		while (error == MPI_SUCCESS && own->received[rank] < coming[rank]) {
			MPI_Status status;
			int bytes = 0;
			char *rest;

			error = MPI_Probe(rank, SUREFOOT_MPI_TAG, own->comm, &status);
			if (error == MPI_SUCCESS)
				error = MPI_Get_count(&status, MPI_BYTE, &bytes);
			rest = error == MPI_SUCCESS ? (char *)malloc((size_t)bytes + 1) : NULL;
			if (!rest) {
				error = error == MPI_SUCCESS ? MPI_ERR_NO_MEM : error;
				break;
			}
			error = MPI_Recv(rest, bytes, MPI_BYTE, rank, SUREFOOT_MPI_TAG, own->comm, &status);
			free(rest);
			own->received[rank]++;
		}
	}
	free(coming);
	return error;
}

static inline void surefoot_mpi_free_(struct surefoot_mpi_context_ *own)
{
	if (own) {
		free(own->sent);
		free(own->received);
		free(own);
	}
}

/* Makes a group of a communicator's ranks. Collective. Close it with surefoot_mpi_group_close, after the handles that
 * were opened with it.
 *
 * Returns MPI_SUCCESS, which is 0, or what MPI says; then the group must not be used. An error of MPI_Comm_dup itself
 * goes to the error handler of comm, which ends the program unless you set another. */
static inline int surefoot_mpi_group_open(MPI_Comm comm, struct surefoot_group *group)
{
	struct surefoot_mpi_context_ *own;
	int rank, error;

	if (!group)
		return MPI_ERR_ARG;
	group->context = NULL;
	own = (struct surefoot_mpi_context_ *)calloc(1, sizeof(*own));
	if (!own)
		return MPI_ERR_NO_MEM;
	error = MPI_Comm_dup(comm, &own->comm);
	if (error != MPI_SUCCESS) {
		surefoot_mpi_free_(own);
		return error;
	}
	error = MPI_Comm_set_errhandler(own->comm, MPI_ERRORS_RETURN);
	if (error == MPI_SUCCESS)
		error = MPI_Comm_rank(own->comm, &rank);
	if (error == MPI_SUCCESS)
		error = MPI_Comm_size(own->comm, &own->size);
	if (error == MPI_SUCCESS) {
		own->sent = (int *)calloc((size_t)own->size, sizeof(int));
		own->received = (int *)calloc((size_t)own->size, sizeof(int));
		if (!own->sent || !own->received)
			error = MPI_ERR_NO_MEM;
	}
	if (error != MPI_SUCCESS) {
		MPI_Comm_free(&own->comm);
		surefoot_mpi_free_(own);
		return error;
	}
	group->context = own;
	group->rank = (uint32_t)rank;
	group->size = (uint32_t)own->size;
	group->broadcast = surefoot_mpi_broadcast_;
	group->all_gather = surefoot_mpi_all_gather_;
	group->exchange = surefoot_mpi_exchange_;
	group->post = surefoot_mpi_post_send_;
	return MPI_SUCCESS;
}

/* Frees what surefoot_mpi_group_open made. Collective: it returns when all ranks have called it. May be called twice, and after
 * a failed open. */
static inline int surefoot_mpi_group_close(struct surefoot_group *group)
{
	struct surefoot_mpi_context_ *own = group ? (struct surefoot_mpi_context_ *)group->context : NULL;
	int error = MPI_SUCCESS, freed;

	if (own) {
		error = surefoot_mpi_receive_rest_(own);
		if (error == MPI_SUCCESS)
			surefoot_mpi_forget_posts_(own, 1);
		freed = MPI_Comm_free(&own->comm);
		error = error == MPI_SUCCESS ? freed : error;
		surefoot_mpi_free_(own);
		group->context = NULL;
	}
	return error;
}

#ifdef __cplusplus
}
#endif
#endif
