/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who waited for the core, and what of the time that threads took was taken from him.
 *
 * A thread that runs where nobody waits takes nothing from anybody. A task that was preempted is known to wait from then
 * on. One that is woken onto a busy core is seen when it gets the core: the scheduler keeps since when it waited, and the
 * runs of that time are counted as taken then. So several tasks that wait at once make a run no longer than it was, while
 * `waited_ns` is the sum over tasks.
 */
#ifndef SUREFOOT_WAITS_H
#define SUREFOOT_WAITS_H

#include "ledger.h"

struct task_view {
	u64 comm[2];
	u32 pid;
	u32 tgid;
	u64 waited_ns; /* for this core, until now */
	bool wait_known;
	bool kernel_thread;
	bool realtime;
	u8 left; /* of a thread that leaves */
};

/* By what a task can have been kept from the core. */
enum kept_from {
	KEPT_BY_THREADS, /* kernel threads */
	KEPT_BY_REALTIME, /* and real-time tasks */
	KEPT_BY_ALL, /* and every other task */
};

static __always_inline bool is_user(const struct task_view *task)
{
	return task->pid && !task->kernel_thread;
}

/* From a task's state as the kernel has it. */
static __always_inline u8 why_left(u64 state, bool throttled)
{
	if (!state)
		return throttled ? LEFT_THROTTLED : LEFT_WAITING;
	if (state & 0x04)
		return LEFT_STOPPED;
	if (state & 0x08)
		return LEFT_TRACED;
	if (state & 0x8000)
		return LEFT_FROZEN;
	if (state & 0xb0)
		return LEFT_ENDED;
	return state & 0x01 ? LEFT_ASLEEP : LEFT_BLOCKED;
}

static __always_inline void note_throttled(struct slot *slot, const struct task_view *prev)
{
	int i;

	if (prev->left != LEFT_THROTTLED)
		return;
	for (i = 0; i < THROTTLED; i++) {
		if (!slot->throttled[i] || slot->throttled[i] == prev->pid) {
			slot->throttled[i] = prev->pid;
			return;
		}
	}
	slot->not_followed++;
}

static __always_inline bool was_throttled(struct slot *slot, u32 pid)
{
	bool found = false;
	int i;

	for (i = 0; i < THROTTLED; i++) {
		if (slot->throttled[i] == pid) {
			slot->throttled[i] = 0;
			found = true;
		}
	}
	return found;
}

/* Keeps the run of the base thread that ends now, until it is known who waited. */
static __always_inline void keep_run(struct slot *slot, const struct task_view *prev, u64 now)
{
	struct run *run = &slot->runs[slot->runs_closed & (RUNS - 1)];

	run->start_ns = slot->base_start_ns;
	run->end_ns = now;
	run->taken_from_ns = now;
	run->rest_ns = slot->frames[0].own_ns;
	run->cause = slot->frames[0].cause;
	run->realtime = prev->realtime;
	run->name[0] = prev->comm[0];
	run->name[1] = prev->comm[1];
	slot->runs_closed++;
}

/* Counts what a run of a task took. By itself, because the verifiers of kernels up to 6.1 do not follow it inline. */
__noinline int count_taken(u32 cause, u64 part_ns)
{
	struct slot *slot = this_slot();

	if (slot && is_task(slot, cause))
		count_one(slot, cause, part_ns);
	return 0;
}

/* The base thread, which is a cause, leaves the core. */
static __always_inline void close_run(struct slot *slot, const struct task_view *prev, const struct task_view *next,
				      u64 now)
{
	u32 cause = slot->frames[0].cause;

	if (cause >= CAUSES)
		return;
	if (!slot->behind) {
		keep_run(slot, prev, now);
	} else if (next->pid) {
		slot->causes[cause].taken_ns += slot->frames[0].own_ns;
		count_taken(cause, slot->frames[0].own_ns);
	} else {
		/* Whoever waited was moved away or put to sleep, nobody knows when. */
		slot->not_followed++;
	}
}

/* Somebody waited for the core during the last part of a run. */
static __always_inline void take(struct slot *slot, struct run *run, u64 part_ns)
{
	u32 cause = run->cause;

	if (cause == CAUSE_WORK) {
		cause = find_thread(slot, KEY_TASK, CAUSE_OTHER_TASK, run->name);
		if (cause >= CAUSES)
			return;
		slot->causes[CAUSE_WORK].total_ns -= part_ns;
		slot->causes[cause].total_ns += part_ns;
	}
	if (cause >= CAUSES)
		return;
	slot->causes[cause].taken_ns += part_ns;
	run->rest_ns -= part_ns;
	count_taken(cause, part_ns);
}

/* What take_from_run tells. */
enum reach {
	REACHES = 1,         /* the run reaches into the time that is asked for */
	TAKES_FROM_TASK = 2, /* and it counted as work until now */
};

/*
 * The run that ended `age` runs ago has kept somebody waiting since `since_ns`, if it reaches so far; tells whether it
 * does. A function of its own and of numbers alone, which the verifier looks at once and not for each run.
 */
__noinline int take_from_run(u32 age, u64 since_ns, u32 by)
{
	struct slot *slot = this_slot();
	struct run *run;
	u64 from_ns, part_ns;
	bool of_task;

	if (!slot)
		return 0;
	run = &slot->runs[(slot->runs_closed - 1 - age) & (RUNS - 1)];
	if (run->end_ns <= since_ns)
		return 0;
	from_ns = since_ns > run->start_ns ? since_ns : run->start_ns;
	if (run->taken_from_ns <= from_ns ||
	    (run->cause == CAUSE_WORK && by != KEPT_BY_ALL && !(by == KEPT_BY_REALTIME && run->realtime)))
		return REACHES;
	of_task = run->cause == CAUSE_WORK;
	part_ns = run->taken_from_ns - from_ns;
	run->taken_from_ns = from_ns;
	take(slot, run, part_ns < run->rest_ns ? part_ns : run->rest_ns);
	return of_task ? REACHES | TAKES_FROM_TASK : REACHES;
}

/* Tells whether the time was taken from runs of other tasks. */
static __always_inline bool take_back(struct slot *slot, u64 since_ns, u32 by)
{
	u32 age, all = 0, reach;

	for (age = 0; age < RUNS; age++) {
		reach = take_from_run(age, since_ns, by);
		if (!reach)
			return all & TAKES_FROM_TASK;
		all |= reach;
	}
	slot->not_followed++;
	return all & TAKES_FROM_TASK;
}

/* A user task gets the core. Tells of its turn whether other tasks kept it waiting. */
static __always_inline u8 get_core(struct slot *slot, const struct task_view *next, u32 by, u64 now)
{
	struct run *newest = &slot->runs[(slot->runs_closed - 1) & (RUNS - 1)];
	u64 since_ns = now - next->waited_ns;

	if (was_throttled(slot, next->pid)) {
		slot->throttles++;
		slot->throttled_ns += next->waited_ns;
		return 0;
	}
	if (next->waited_ns) {
		slot->waits++;
		slot->waited_ns += next->waited_ns;
	} else if (!next->wait_known && newest->end_ns == now) {
		/* Since when it waited cannot be read here: at most since the run before it began. */
		since_ns = newest->start_ns;
	}
	if (newest->end_ns <= since_ns || !take_back(slot, since_ns, by))
		return 0;
	return by == KEPT_BY_ALL ? KEPT_WAITING | KEPT_BY_ANY : KEPT_WAITING;
}

#endif
