/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is read of a task, wherever its kernel keeps it. */
#ifndef SUREFOOT_TASKS_H
#define SUREFOOT_TASKS_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* These read tasks that a typed tracepoint gives, which needs no helper. */
static __always_inline u32 core_of(struct task_struct *task)
{
	struct task_struct___before_5_16 *older = (void *)task;

	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return older->cpu;
}

static __always_inline u64 state_of(struct task_struct *task)
{
	struct task_struct___before_5_14 *older = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return older->state;
}

/*
 * Since when a task that is about to run has waited for its core, on the scheduler's clock, which stands still while the
 * switch is under way. The kernel adds the same number to the task's `run_delay` right after the tracepoint.
 */
static __always_inline bool knows_waits(void)
{
	return bpf_core_field_exists(struct task_struct, sched_info.last_queued) &&
	       bpf_core_field_exists(struct sched_entity, cfs_rq) && bpf_core_field_exists(struct rq, clock);
}

static __always_inline u64 waited_ns(struct task_struct *next)
{
	u64 queued, clock;

	if (!knows_waits())
		return 0;
	queued = next->sched_info.last_queued;
	clock = next->se.cfs_rq->rq->clock;
	return queued && clock > queued ? clock - queued : 0;
}

/* Whether a task leaves because its cgroup has used up its quota. Before 6.18 all tasks of the group are throttled at once. */
static __always_inline bool is_throttled(struct task_struct *task)
{
	struct task_struct___throttled *itself = (void *)task;

	if (bpf_core_field_exists(itself->throttled))
		return itself->throttled;
	if (bpf_core_field_exists(struct cfs_rq, throttle_count) && bpf_core_field_exists(struct sched_entity, cfs_rq))
		return task->se.cfs_rq->throttle_count > 0;
	return false;
}

/*
 * Whether a task is just being woken: in a queue already and not yet set running, and on no core, for one that is about
 * to sleep looks the same but for that. From 6.12 on a task that has gone to sleep may stay in its queue for a while,
 * which is marked. The task may be any, also one that is gone.
 */
static __always_inline bool is_being_woken(struct task_struct *task)
{
	struct task_struct___before_5_14 *older = (void *)task;

	if (bpf_core_field_exists(task->se.sched_delayed) && BPF_CORE_READ(task, se.sched_delayed))
		return false;
	if (bpf_core_field_exists(task->on_cpu) && BPF_CORE_READ(task, on_cpu))
		return false;
	if (!BPF_CORE_READ(task, on_rq))
		return false;
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ(older, state);
}

#endif
