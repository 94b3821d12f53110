/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Checkpoints that survive: memory at memory speed, the SSD as often as its endurance allows, restarts that heal.
 *
 * Made from the sources of the library by `cargo xtask header`; change those. docs/guide/checkpoint-c.md shows a whole
 * program. C99 and later, C++98 and later; link with -lsurefoot.
 *
 * Functions that return an int return a surefoot_status: 0 is good, 1 is nothing to restart from, failures are
 * negative. A function that is called collective is called by all ranks of the job, in the same order.
 */
#ifndef SUREFOOT_CHECKPOINT_H
#define SUREFOOT_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header; surefoot_version() is that of the library. SUREFOOT_VERSION_NUMBER grows with it. */
#define SUREFOOT_VERSION "0.1.0"
#define SUREFOOT_VERSION_MAJOR 0
#define SUREFOOT_VERSION_MINOR 1
#define SUREFOOT_VERSION_PATCH 0
#define SUREFOOT_VERSION_NUMBER 1000

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that runs, such as "0.1.0"; SUREFOOT_VERSION is that of the header. Libraries whose
 * versions differ only in the last number have the same interface, and one SONAME.
 */
const char *surefoot_version(void);

/* What a function returns. Failures are negative; surefoot_error_text says more about each. */
enum surefoot_status {
	/* Done. */
	SUREFOOT_STATUS_OK = 0,
	/* There is no checkpoint to restart from: the program begins anew. Nothing was touched. */
	SUREFOOT_STATUS_NOTHING = 1,
	/* The call itself is wrong: a NULL, a handle that is not open, a buffer that is too small. */
	SUREFOOT_STATUS_ARGUMENT = -1,
	/* A setting or a name cannot be used. */
	SUREFOOT_STATUS_OPTION = -2,
	/* The file system said no. */
	SUREFOOT_STATUS_STORAGE = -3,
	/* A file that is there is not what it should be. */
	SUREFOOT_STATUS_DAMAGED = -4,
	/* The ranks cannot talk, or are in different calls: the text says who is in which. The handle takes no more calls
	 * of all ranks and can only be closed.
	 */
	SUREFOOT_STATUS_GROUP = -5,
	/* It failed on another rank, and so on all. */
	SUREFOOT_STATUS_OTHER_RANK = -6,
	/* There are checkpoints, but none can be proved intact on all ranks. The regions hold nothing useful. */
	SUREFOOT_STATUS_NOTHING_INTACT = -7,
	/* There is not enough room in the memory tier or on the drive. */
	SUREFOOT_STATUS_NO_ROOM = -8,
	/* Another thread is in a call with this handle. */
	SUREFOOT_STATUS_BUSY = -9,
	/* A fault of this library; please report it. The handle can only be closed. */
	SUREFOOT_STATUS_INTERNAL = -10,
	/* The newest checkpoint was saved by another number of ranks: surefoot_checkpoint_restart_resized goes on from it.
	 * Nothing was touched.
	 */
	SUREFOOT_STATUS_OTHER_RANKS = -11
};

/* How the ranks of a job talk. surefoot_checkpoint_mpi.h fills it in for MPI; other layers fill it in themselves.
 *
 * The functions return 0, or any other number when a rank does not take part; surefoot_group_failed before that tells
 * the cause, which then stands in the error of the call. They are called only from within calls
 * with a handle that was opened with this group, in the thread of that call, and in the same order on all ranks. They
 * must not jump out of the call. How long they wait for a rank that makes no call is theirs to decide. Only post is also
 * called by surefoot_checkpoint_close.
 */
struct surefoot_group {
	/* Passed to each function; the library does not look at it. */
	void *context;
	/* This rank, from 0. */
	uint32_t rank;
	/* How many ranks there are. With 1 the functions are not called and may be NULL. */
	uint32_t size;
	/* Gives the root's bytes to every rank; all pass the same length. */
	int (*broadcast)(void *context, void *data, size_t bytes, uint32_t root);
	/* Gives every rank what each passes, one after the other in the order of the ranks; all pass the same length. */
	int (*all_gather)(void *context, const void *own, void *all, size_t bytes_each);
	/* Sends to one rank while it receives from another; every rank sends once and receives once. A length of 0 needs no
	 * message: a rank with nothing to say and to hear is given its own number.
	 */
	int (*exchange)(void *context, uint32_t to, const void *send, size_t send_bytes, uint32_t from, void *receive, size_t receive_bytes);
	/* Sends to one rank without waiting for it: that rank takes the bytes with the exchange in which it next receives from this
	 * one. The data may be gone when the function returns. NULL where the functions work in step only: then a rank that
	 * closes its handle early leaves those waiting that make another call.
	 */
	int (*post)(void *context, uint32_t to, const void *data, size_t bytes);
};

/* Called by a function of a surefoot_group before it returns anything but 0: why it fails, such as the text of an exception
 * or of MPI_Error_string. The text is copied, and stands in the error of the call that the function was called from.
 *
 * Rules:
 * why is a text that ends in a NUL, or NULL, which is refused.
 */
int surefoot_group_failed(const char *why);

/* The settings of a job. Belongs to who made it; several threads may each use their own. */
typedef struct surefoot_config surefoot_config;

/* Makes the settings of a job: memory in /dev/shm and no durable tier, unless the host's file of settings or variables
 * (SUREFOOT_CHECKPOINT_DURABLE and the like) say otherwise. All ranks make the same.
 *
 * Returns NULL when the name cannot be one (letters, digits and ._-:/[] are allowed), or when the file or a variable says
 * what cannot be. Free it with surefoot_config_free.
 *
 * Rules:
 * job is a text that ends in a NUL, or NULL, which is refused. No other thread changes the environment meanwhile.
 */
surefoot_config *surefoot_config_new(const char *job);

/* Changes one setting, such as "durable" to "/ssd/checkpoints"; stronger than the file and the variables. The guide lists
 * all of them, and so does surefoot checkpoint settings. When it fails nothing is changed. The order does not matter: what
 * belongs to a tier that the job does not have is refused by surefoot_checkpoint_open.
 *
 * Both texts are copied.
 *
 * Rules:
 * name and value are texts that end in a NUL, or NULL, which is refused.
 */
int surefoot_config_set(surefoot_config *config, const char *name, const char *value);

/* The settings that are in force: a line name = value (where it was said) each. NULL for a handle that is not open. The
 * text stays until the next call of this with the same handle, or surefoot_config_free.
 */
const char *surefoot_config_text(surefoot_config *config);

/* Frees settings. Jobs that were opened with them keep their own copy. NULL is left alone. */
int surefoot_config_free(surefoot_config *config);

/* The checkpoints of one rank of a job. Belongs to who opened it. Any thread may use it, one at a time. */
typedef struct surefoot_checkpoint surefoot_checkpoint;

/* Where a checkpoint went. */
enum surefoot_place {
	/* Nowhere: none was taken. surefoot_checkpoint_reasons says why. */
	SUREFOOT_PLACE_SKIPPED = 0,
	/* Into memory: it survives the end of the process. */
	SUREFOOT_PLACE_MEMORY = 1,
	/* Into memory, and from there to the durable tier, in the background: it survives the end of the process now, and
	 * the loss of power only after surefoot_checkpoint_finish, or a later save that finds it written, has marked it as
	 * complete. surefoot_checkpoint_notice says when that was, or why it was not.
	 */
	SUREFOOT_PLACE_BOTH = 2,
	/* To the durable tier: it survives the loss of power. */
	SUREFOOT_PLACE_DURABLE = 3
};

/* A checkpoint that was taken. */
struct surefoot_saved {
	/* Its number, which rises by one with each checkpoint of the job; 0 when none was taken. */
	uint64_t generation;
	/* Bytes of this rank's regions and files. */
	uint64_t payload_bytes;
	/* Seconds that the call took. */
	double visible_s;
	/* A surefoot_place. */
	int place;
};

/* A checkpoint that was brought back. */
struct surefoot_restored {
	/* Its number. */
	uint64_t generation;
	/* When it was taken, CLOCK_REALTIME nanoseconds. */
	uint64_t taken_realtime_ns;
};

/* A region of a checkpoint that is there. */
struct surefoot_part {
	/* Its name. */
	const char *name;
	/* Its length. */
	size_t bytes;
	/* Where it is to go: room for that many bytes. NULL before, and for one of 0 bytes. */
	void *start;
};

/* Finds memory for what is brought back. */
struct surefoot_placer {
	/* Passed to the function; the library does not look at it. */
	void *context;
	/* Fills in where each part of a checkpoint goes. Returns 0, or any other number to refuse this checkpoint. It is
	 * called in the thread of the call, once for each copy that is tried, and must not jump out of the call.
	 */
	int (*place)(void *context, uint64_t generation, struct surefoot_part *parts, size_t count);
};

/* Opens the job's tiers. With a group, every rank calls it, and it succeeds on all or on none.
 *
 * The ranks must agree on the job and on all settings but those that are a host's own (threads, limits of a write, what is
 * known of its drive, where its health is published): otherwise it is SUREFOOT_STATUS_OPTION on all ranks, with the settings
 * that differ, the ranks and the values, and nothing was touched. A rank whose config is NULL or refused still takes part,
 * so that the others get SUREFOOT_STATUS_OTHER_RANK with its reason.
 *
 * config and group are copied; what the group's context points to must live until the handle is closed. group is
 * NULL for a job of one rank. out receives the handle, or NULL when it fails; close it with
 * surefoot_checkpoint_close.
 *
 * Rules:
 * group is NULL or describes functions that keep to what surefoot_group says. out is the address of a pointer, or
 * NULL, which is refused.
 */
int surefoot_checkpoint_open(surefoot_config *config, const struct surefoot_group *group, surefoot_checkpoint **out);

/* Lets the other ranks know, which are in surefoot_checkpoint_open, that this one cannot open, and why: for a program or a
 * layer above that finds a mistake on one rank. Returns SUREFOOT_STATUS_OPTION; SUREFOOT_STATUS_OTHER_RANK where a rank before
 * this one has the same reason; SUREFOOT_STATUS_GROUP. It never returns 0.
 *
 * Rules:
 * As surefoot_checkpoint_open; why is a text that ends in a NUL, or NULL, which is refused.
 */
int surefoot_checkpoint_decline(const struct surefoot_group *group, const char *why);

/* Takes part in an agreement before a call, for a layer above that prepares calls and may fail on one rank: call is its
 * name without surefoot_checkpoint_, such as "save", and failure says at what this rank failed, or is NULL. Collective.
 *
 * Returns 0 on all ranks when none failed, and else SUREFOOT_STATUS_OTHER_RANK on all with the first that did, also on that
 * one. Where ranks are in different calls it is SUREFOOT_STATUS_GROUP, as from the calls themselves.
 *
 * Rules:
 * call is a text that ends in a NUL, or NULL, which is refused; failure is such a text or NULL.
 */
int surefoot_checkpoint_prepare(surefoot_checkpoint *handle, const char *call, const char *failure);

/* Registers memory that every checkpoint saves and every restart fills, under a name. The same name again moves it.
 *
 * The memory stays the caller's. Not collective, but all ranks have the same names at a restart as at the save.
 *
 * Rules:
 * Until it is released or moved, or the handle is closed, bytes bytes from start on may be read and written during
 * every call with this handle, and no other thread writes to them during a save, or touches them during a restart.
 */
int surefoot_checkpoint_protect(surefoot_checkpoint *handle, const char *name, void *start, size_t bytes);

/* Forgets a region. From then on its memory may be freed.
 *
 * Rules:
 * name is a text that ends in a NUL, or NULL, which is refused.
 */
int surefoot_checkpoint_release(surefoot_checkpoint *handle, const char *name);

/* Says where this rank writes a file that belongs to its checkpoints, from now on. The file is complete when the next
 * checkpoint is taken, and left alone during it. After a restart it is there again. Not collective.
 *
 * The path, with its NUL, goes into buffer; when that is too small nothing is written, and the error's text says how
 * much is needed. PATH_MAX bytes are always enough.
 *
 * Rules:
 * name is a text that ends in a NUL; buffer has room for buffer_bytes bytes. NULL is refused.
 */
int surefoot_checkpoint_route_file(surefoot_checkpoint *handle, const char *name, char *buffer, size_t buffer_bytes);

/* Whether a checkpoint is worth its time now: 1 or 0 in is_needed, the same on all ranks. A program that takes one
 * whenever it likes need not ask. Collective; surefoot_checkpoint_reasons says why.
 *
 * Rules:
 * is_needed is the address of an int, or NULL, which is refused.
 */
int surefoot_checkpoint_need(surefoot_checkpoint *handle, int *is_needed);

/* Takes a checkpoint of all regions and files, where the policy says. Collective; it succeeds on all ranks or on none.
 *
 * When it returns 0, every rank's part is where out says. Of SUREFOOT_PLACE_BOTH that is memory; the copy on the durable
 * tier counts after surefoot_checkpoint_finish, or a later call that finds it written. When it fails, the program and
 * its former checkpoints are as before: go on computing.
 *
 * Rules:
 * out is NULL or has room for a surefoot_saved.
 */
int surefoot_checkpoint_save(surefoot_checkpoint *handle, struct surefoot_saved *out);

/* As surefoot_checkpoint_save, to a place that the program names, whatever the policy says: SUREFOOT_PLACE_MEMORY;
 * SUREFOOT_PLACE_BOTH; or SUREFOOT_PLACE_DURABLE, which is durable when this returns 0. SUREFOOT_PLACE_SKIPPED leaves it
 * to the policy. Collective; all ranks name the same. Where there is no such tier it is SUREFOOT_STATUS_OPTION.
 *
 * Rules:
 * out is NULL or has room for a surefoot_saved.
 */
int surefoot_checkpoint_save_to(surefoot_checkpoint *handle, int place, struct surefoot_saved *out);

/* Fills the regions and files from the newest checkpoint that all ranks can prove intact: from memory first, repaired
 * where it is bad, else from the durable tier, else from an older one. Collective.
 *
 * Returns SUREFOOT_STATUS_NOTHING on all ranks when there is none at all, and SUREFOOT_STATUS_OTHER_RANKS when the
 * newest was saved by another number of ranks; then nothing was touched. surefoot_checkpoint_report says what was read,
 * repaired or refused.
 *
 * Rules:
 * out is NULL or has room for a surefoot_restored.
 */
int surefoot_checkpoint_restart(surefoot_checkpoint *handle, struct surefoot_restored *out);

/* As surefoot_checkpoint_restart, for programs that do not know the lengths of the saved regions: they go where
 * the placer says for each checkpoint that is tried, and registered memory is left alone. Collective.
 *
 * Rules:
 * placer is NULL, which is refused, or describes a function that names, for each part, room that nothing else uses
 * until this call returns. out is NULL or has room for a surefoot_restored.
 */
int surefoot_checkpoint_restart_into(surefoot_checkpoint *handle, const struct surefoot_placer *placer, struct surefoot_restored *out);

/* Checks and repairs what this rank keeps in memory and in the durable tier. Not collective. What was found is in
 * surefoot_checkpoint_report, a line for each copy.
 */
int surefoot_checkpoint_scrub(surefoot_checkpoint *handle);

/* Makes the newest checkpoint durable, whatever the policy says, and waits until it is marked as complete. Collective; call
 * it before the program ends, and whenever memory may be lost. The job can go on afterwards.
 *
 * surefoot_checkpoint_report says where the newest is then. Without a durable tier that is memory only, and no failure.
 * When the durable tier does not take it, the status says why, and it stays in memory.
 */
int surefoot_checkpoint_finish(surefoot_checkpoint *handle);

/* As surefoot_checkpoint_finish, and marks the job as completed: its next run begins anew instead of going on from its
 * end, unless it sets after_completion to continue. Collective. The checkpoints stay until those of that run take their
 * place.
 */
int surefoot_checkpoint_complete(surefoot_checkpoint *handle);

/* Removes all checkpoints of the job, of all ranks in all tiers, and closes the handle, also when it fails: for a job whose
 * result is elsewhere. Collective. What another program put into the job's directories stays.
 */
int surefoot_checkpoint_discard(surefoot_checkpoint *handle);

/* Whether a rank of the job was told to end by SIGTERM, as of the last surefoot_checkpoint_need or _save: 1 or 0 in
 * is_told, the same on all ranks. Always 0 unless the setting sigterm is checkpoint; then SIGTERM does not end the
 * program, the next _need asks for a checkpoint, and that one is durable when its _save returns. Not collective.
 *
 * Rules:
 * is_told is the address of an int, or NULL, which is refused.
 */
int surefoot_checkpoint_told_to_end(surefoot_checkpoint *handle, int *is_told);

/* As surefoot_checkpoint_close, after a failure of the program on this rank: the other ranks, whose next call is
 * SUREFOOT_STATUS_GROUP, are told why.
 *
 * Rules:
 * why is a text that ends in a NUL, or NULL, which is refused; the handle is closed all the same.
 */
int surefoot_checkpoint_close_after(surefoot_checkpoint *handle, const char *why);

/* Closes a handle. The checkpoints stay. Waits for this rank's write in the background, but for no other rank, so that it
 * may be called after any failure; without surefoot_checkpoint_finish before, that write is not marked as complete, and
 * must not be counted on. NULL is left alone. See also surefoot_checkpoint_discard.
 *
 * Close after the last call of all ranks. The next call of a rank that goes on is SUREFOOT_STATUS_GROUP, and its text says
 * which rank closed, if the group has a post.
 */
int surefoot_checkpoint_close(surefoot_checkpoint *handle);

/* Why the last surefoot_checkpoint_need or _save decided as it did: a sentence per line, the deciding one first. Empty
 * before the first. The text is the handle's, and stays until the next _need, _save or _close.
 */
const char *surefoot_checkpoint_reasons(surefoot_checkpoint *handle);

/* What the last surefoot_checkpoint_restart or _scrub met: what was read, repaired or refused; after _finish or _complete
 * where the newest checkpoint is. Empty when there was nothing. The text is the handle's, and stays until the next of
 * these, or _close.
 */
const char *surefoot_checkpoint_report(surefoot_checkpoint *handle);

/* The next thing that happened in the background, such as a checkpoint that became durable, or did not; NULL when
 * there is no more. Call it until then. The text is the handle's, and stays until the next _notice or _close.
 */
const char *surefoot_checkpoint_notice(surefoot_checkpoint *handle);

/* What the last failure was. With a handle, the last one of a call with it, which stays until the next failure or
 * _close. With NULL, the last one of any call in this thread, with or without a handle, which stays until the next
 * failure in this thread. Never NULL; empty when nothing failed.
 */
const char *surefoot_error_text(surefoot_checkpoint *handle);

/* A checkpoint of any number of ranks that is open for reading. */
struct surefoot_resized {
	/* Its number. */
	uint64_t generation;
	/* When it was taken, CLOCK_REALTIME nanoseconds. */
	uint64_t taken_realtime_ns;
	/* How many ranks saved it. */
	uint32_t ranks;
	/* How many entries it has: regions and files of all those ranks. */
	size_t entry_count;
};

/* A region or a file of one of the ranks that saved. */
struct surefoot_entry {
	/* The rank. */
	uint32_t rank;
	/* The region's name; of a routed file file: and its name. */
	const char *name;
	/* Its length. */
	size_t bytes;
};

/* A piece of an entry, and room for it. */
struct surefoot_piece {
	/* The rank that saved it. */
	uint32_t rank;
	/* The entry's name. */
	const char *name;
	/* From where in it. */
	size_t offset;
	/* How many bytes are wanted. */
	size_t bytes;
	/* Room for them. */
	void *start;
};

/* As surefoot_checkpoint_restart, from the newest checkpoint of any number of ranks. Collective.
 *
 * Where there were more or fewer, regions are found by their names: the parts that the old ranks saved under a name, in
 * the order of the ranks, are one array of which each rank here gets as much as it registered, if that is all of it;
 * what all of them had, of one length and the same content, everybody gets. A routed file of old rank r goes to rank
 * r mod the number of ranks, and from ranks that are no more as NAME.rank-00007. Anything else is refused by name.
 *
 * left_out is NULL, or what the names of regions begin with that are not brought back where the numbers differ.
 *
 * Rules:
 * left_out is NULL or a text that ends in a NUL. out is NULL or has room for a surefoot_restored.
 */
int surefoot_checkpoint_restart_resized(surefoot_checkpoint *handle, const char *left_out, struct surefoot_restored *out);

/* Opens the newest checkpoint of any number of ranks whose parts all prove intact, for a program that reads them itself.
 * Collective. It stays open until the next call of this or surefoot_checkpoint_close. Regions and files are left alone.
 *
 * Returns SUREFOOT_STATUS_NOTHING on all ranks when there is none at all. surefoot_checkpoint_report says what this rank
 * met.
 *
 * Rules:
 * out is NULL or has room for a surefoot_resized.
 */
int surefoot_checkpoint_open_resized(surefoot_checkpoint *handle, struct surefoot_resized *out);

/* Tells an entry of what surefoot_checkpoint_open_resized opened, by its number from 0. Not collective. The name is the
 * handle's, and stays as long as the checkpoint is open.
 *
 * Rules:
 * out has room for a surefoot_entry, or is NULL, which is refused.
 */
int surefoot_checkpoint_resized_entry(surefoot_checkpoint *handle, size_t number, struct surefoot_entry *out);

/* Reads pieces of what surefoot_checkpoint_open_resized opened, checked and repaired, wherever they are. Collective:
 * every rank passes the pieces that it wants, or none. When it fails, it fails on all ranks, and no piece holds anything
 * useful.
 *
 * Rules:
 * pieces has count of them, or is NULL with a count of 0; each has a name that ends in a NUL, and room for its bytes
 * that no other piece has and nothing else uses until this call returns.
 */
int surefoot_checkpoint_read_resized(surefoot_checkpoint *handle, const struct surefoot_piece *pieces, size_t count);

#ifdef __cplusplus
}
#endif
#endif
