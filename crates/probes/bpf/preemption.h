/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Who has the core: the base context, and which of the workload's threads waits for it. */
#ifndef SUREFOOT_PREEMPTION_H
#define SUREFOOT_PREEMPTION_H

#include "ledger.h"

struct task_view {
	u64 comm[2];
	u32 pid;
	u32 tgid;
	bool kernel_thread;
	bool runnable;
};

static __always_inline bool is_workload(const struct task_view *task)
{
	switch (config.workload_by) {
	case WORKLOAD_PROCESS:
		return bpf_map_lookup_elem(&workload_ids, &task->tgid) != 0;
	case WORKLOAD_COMM:
		return task->comm[0] == config.workload_comm[0] && task->comm[1] == config.workload_comm[1];
	default:
		return !task->kernel_thread && task->pid;
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

/* Where only cores are named, a core belongs to the first task that was preempted on it, until that has not run there
 * for a second: of two that share a core one is the workload and the other what preempts it. */
#define OWNER_FORGOTTEN_NS 1000000000ULL

static __always_inline void note_waiting(struct slot *slot, const struct task_view *prev, const struct task_view *next,
					 u64 now)
{
	bool preempted = prev->runnable && prev->pid && prev->pid != next->pid && is_workload(prev);

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

static __always_inline u32 base_of(struct slot *slot, struct task_view *next)
{
	if (!next->pid) {
		/* A core with somebody waiting does not idle. */
		__builtin_memset(slot->waiting, 0, sizeof(slot->waiting));
		return CAUSE_IDLE;
	}
	if (next->kernel_thread)
		return find_thread(slot, KEY_THREAD, CAUSE_OTHER_THREAD, (char *)next->comm);
	if (config.workload_by != WORKLOAD_NONE && anybody_waits(slot) &&
	    (config.workload_by == WORKLOAD_CORES || !is_workload(next)))
		return find_thread(slot, KEY_TASK, CAUSE_OTHER_TASK, (char *)next->comm);
	return CAUSE_WORK;
}

static __always_inline int on_switch(u32 program, struct task_view *prev, struct task_view *next)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = this_slot();
	u32 cause;

	if (!slot || busy(slot))
		return 0;
	begin(slot);
	set_first_base(slot, prev->pid ? CAUSE_WORK : CAUSE_IDLE, prev->pid);
	charge(slot, now);
	if (slot->depth) {
		slot->heals += slot->depth;
		slot->depth = 0;
	}
	if (slot->frames[0].cause > CAUSE_UNKNOWN)
		count_one(slot, slot->frames[0].cause, slot->frames[0].own_ns);
	if (config.workload_by != WORKLOAD_NONE)
		note_waiting(slot, prev, next, now);
	cause = base_of(slot, next);
	slot->frames[0].cause = cause;
	slot->frames[0].own_ns = 0;
	slot->base_pid = next->pid;
	write_turn(slot, now, cause);
	end(slot, program, now);
	return 0;
}

#endif
