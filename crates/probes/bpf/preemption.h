/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who has the core: the base context, and who waits for it. */
#ifndef SUREFOOT_PREEMPTION_H
#define SUREFOOT_PREEMPTION_H

#include "names.h"

static __always_inline bool is_workload(const struct task_view *task)
{
	switch (config.workload_by) {
	case WORKLOAD_PROCESS:
		return bpf_map_lookup_elem(&workload_ids, &task->tgid) != 0;
	case WORKLOAD_COMM:
		return task->comm[0] == config.workload_comm[0] && task->comm[1] == config.workload_comm[1];
	default:
		return is_user(task);
	}
}

static __always_inline bool anybody_waits(const struct slot *slot)
{
	return slot->waiting[0] | slot->waiting[1] | slot->waiting[2] | slot->waiting[3];
}

static __always_inline void forget_waiting(struct slot *slot, u32 pid)
{
	int i;

	for (i = 0; i < WAITERS; i++)
		if (slot->waiting[i] == pid)
			slot->waiting[i] = 0;
}

static __always_inline void add_waiting(struct slot *slot, u32 pid)
{
	int i;

	for (i = 0; i < WAITERS; i++) {
		if (!slot->waiting[i] || slot->waiting[i] == pid) {
			slot->waiting[i] = pid;
			break;
		}
	}
}

/* Called under the lock of the core's queue, by whichever core moves the task. */
static __always_inline void moved_away(struct slot *slot, u32 pid, bool kernel_thread)
{
	if (!kernel_thread)
		slot->moved_away++;
	if (config.workload_by != WORKLOAD_NONE)
		forget_waiting(slot, pid);
}

/* Where only cores are named, a core belongs to the first task that was preempted on it, until that has not run there
 * for a second: of two that share a core one is the workload and the other what preempts it. */
#define OWNER_FORGOTTEN_NS 1000000000ULL

static __always_inline void note_waiting(struct slot *slot, const struct task_view *prev, const struct task_view *next,
					 u64 now)
{
	bool preempted = prev->left == LEFT_WAITING && prev->pid != next->pid && is_workload(prev);

	forget_waiting(slot, next->pid);
	if (config.workload_by == WORKLOAD_CORES) {
		if (prev->pid == slot->owner_pid || next->pid == slot->owner_pid)
			slot->owner_seen_ns = now;
		if (preempted && !anybody_waits(slot) &&
		    (!slot->owner_pid || now - slot->owner_seen_ns > OWNER_FORGOTTEN_NS)) {
			slot->owner_pid = prev->pid;
			slot->owner_seen_ns = now;
		}
		preempted &= prev->pid == slot->owner_pid;
	}
	if (preempted)
		add_waiting(slot, prev->pid);
}

/* On named cores a real-time task takes the core from any other, and an ordinary one from the core's owner only. */
static __always_inline bool outranks(const struct task_view *prev, const struct task_view *next)
{
	return config.workload_by == WORKLOAD_CORES && next->realtime && is_user(next) && is_user(prev) && !prev->realtime &&
	       prev->left == LEFT_WAITING;
}

static __always_inline u32 base_of(struct slot *slot, const struct task_view *prev, struct task_view *next)
{
	if (!next->pid) {
		/* A core with somebody waiting does not idle. */
		__builtin_memset(slot->waiting, 0, sizeof(slot->waiting));
		return CAUSE_IDLE;
	}
	if (next->kernel_thread)
		return find_thread(slot, KEY_THREAD, CAUSE_OTHER_THREAD, next->comm);
	if (config.workload_by == WORKLOAD_NONE)
		return CAUSE_WORK;
	if (outranks(prev, next) ||
	    (anybody_waits(slot) && (config.workload_by == WORKLOAD_CORES || !is_workload(next))))
		return find_thread(slot, KEY_TASK, CAUSE_OTHER_TASK, next->comm);
	return CAUSE_WORK;
}

/* Whether a task that has just left may have kept the workload waiting, which is known when the workload gets the core. */
static __always_inline bool may_preempt(const struct slot *slot, const struct task_view *prev)
{
	switch (config.workload_by) {
	case WORKLOAD_NONE:
		return false;
	case WORKLOAD_CORES:
		return is_user(prev) && prev->pid != slot->owner_pid && (slot->owner_pid || prev->realtime);
	default:
		return is_user(prev) && !is_workload(prev);
	}
}

/* From which runs of other tasks a task that gets the core has been kept. */
static __always_inline u32 kept_from(const struct slot *slot, const struct task_view *next)
{
	switch (config.workload_by) {
	case WORKLOAD_NONE:
		return KEPT_BY_THREADS;
	case WORKLOAD_CORES:
		if (next->pid == slot->owner_pid)
			return KEPT_BY_ALL;
		return next->realtime ? KEPT_BY_THREADS : KEPT_BY_REALTIME;
	default:
		return is_workload(next) ? KEPT_BY_ALL : KEPT_BY_THREADS;
	}
}

static __always_inline int on_switch(u32 program, struct task_view *prev, struct task_view *next)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = this_slot();
	u8 left = prev->left;
	bool was_behind;
	u32 cause;

	if (!slot || busy(slot))
		return 0;
	begin(slot);
	set_first_base(slot, prev->pid ? CAUSE_WORK : CAUSE_IDLE, prev->pid);
	charge(slot, now);
	note_names(prev, next, now);
	if (slot->depth) {
		slot->heals += slot->depth;
		slot->depth = 0;
	}
	cause = slot->frames[0].cause;
	if (cause > CAUSE_UNKNOWN && !is_task(slot, cause))
		count_one(slot, cause, slot->frames[0].own_ns);
	was_behind = takes_core(cause) && slot->behind;
	if (takes_core(cause)) {
		close_run(slot, prev, next, now);
	} else if (cause == CAUSE_WORK && may_preempt(slot, prev)) {
		keep_run(slot, prev, now);
		left |= prev->realtime ? RAN_BESIDE | RAN_REALTIME : RAN_BESIDE;
	}
	note_throttled(slot, prev);
	if (is_user(next))
		left |= get_core(slot, next, kept_from(slot, next), now);
	if (config.workload_by != WORKLOAD_NONE)
		note_waiting(slot, prev, next, now);
	cause = base_of(slot, prev, next);
	slot->behind = next->pid && (was_behind || (is_user(prev) && prev->left == LEFT_WAITING && prev->pid != next->pid) ||
				     (config.workload_by != WORKLOAD_NONE && anybody_waits(slot)));
	slot->frames[0].cause = cause;
	slot->frames[0].own_ns = 0;
	slot->base_pid = next->pid;
	slot->base_start_ns = now;
	fill_turn(next_turn(slot), slot, now, cause, left);
	end(slot, program, now);
	return 0;
}

#endif
