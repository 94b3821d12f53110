// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The numbers of all tasks of the PID namespace that reads: there, and in the kernel's own, which every other program here
 * has. The kernel shows an iterator of tasks those of the reader's namespace alone. */
#include "kernel_types.h"
#include "task_numbers.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct seq_file;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* One of these for each namespace that a task is seen in, from the initial one down. */
struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct___numbered {
	struct pid *thread_pid;
	struct task_struct___numbered *group_leader;
};

#pragma clang attribute pop

static __always_inline u32 number_at(struct pid *pid, u32 level)
{
	u64 at = bpf_core_field_offset(struct pid, numbers) + (u64)level * bpf_core_type_size(struct upid);
	int number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), (void *)pid + at + bpf_core_field_offset(struct upid, nr));
	return number;
}

SEC("iter/task")
int task_numbers(struct bpf_iter__task *of)
{
	struct task_struct___numbered *reader = (void *)bpf_get_current_task(), *task = (void *)of->task;
	struct task_numbers numbers = {};
	struct pid *pid, *leader;
	u32 level;

	if (!task)
		return 0;
	level = BPF_CORE_READ(reader, thread_pid, level);
	pid = BPF_CORE_READ(task, thread_pid);
	leader = BPF_CORE_READ(task, group_leader, thread_pid);
	if (!pid || !leader || BPF_CORE_READ(pid, level) < level || BPF_CORE_READ(leader, level) < level)
		return 0;
	numbers.tid = number_at(pid, level);
	numbers.pid = number_at(leader, level);
	numbers.kernels_tid = number_at(pid, 0);
	numbers.kernels_pid = number_at(leader, 0);
	bpf_seq_write(of->meta->seq, &numbers, sizeof(numbers));
	return 0;
}
