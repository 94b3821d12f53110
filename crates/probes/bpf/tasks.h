/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is read of a task, wherever its kernel keeps it. */
#ifndef SUREFOOT_TASKS_H
#define SUREFOOT_TASKS_H

#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

static __always_inline u32 core_of(struct task_struct *task)
{
	struct task_struct___before_5_16 *older = (void *)task;

	if (bpf_core_field_exists(task->thread_info.cpu))
		return BPF_CORE_READ(task, thread_info.cpu);
	return BPF_CORE_READ(older, cpu);
}

static __always_inline u64 state_of(struct task_struct *task)
{
	struct task_struct___before_5_14 *older = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ(older, state);
}

/*
 * Whether a task is just being woken: in a queue already and not yet set running. From 6.12 on a task that has gone to
 * sleep may stay in its queue for a while, which is marked.
 */
static __always_inline bool is_being_woken(struct task_struct *task)
{
	if (bpf_core_field_exists(task->se.sched_delayed) && BPF_CORE_READ(task, se.sched_delayed))
		return false;
	return BPF_CORE_READ(task, on_rq) && state_of(task);
}

#endif
