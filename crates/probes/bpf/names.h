/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The names that tasks had while they ran. A task can rename itself, call exec, or end before anybody looks at /proc, and
 * its number is then given to another one. So each core writes a task's name to a ring when it first sees it, and again
 * whenever it differs: as the task gets the core, and as it leaves it. The name of a run is the newest record of its task
 * at or before the run's end.
 */
#ifndef SUREFOOT_NAMES_H
#define SUREFOOT_NAMES_H

#include "waits.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader sets the number of possible cores */
	__type(key, u32);
	__type(value, struct core_names);
} names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NAME_RECORDS); /* per core; the loader multiplies */
	__type(key, u32);
	__type(value, struct name_record);
} name_ring SEC(".maps");

/* Rare: a task that this core has not run lately, or one with a new name. */
static __always_inline void write_name(struct core_names *core, const struct task_view *task, u64 now)
{
	u32 index = bpf_get_smp_processor_id() * NAME_RECORDS + (core->written & (NAME_RECORDS - 1));
	struct name_record *record = bpf_map_lookup_elem(&name_ring, &index);

	if (!record)
		return;
	record->at_ns = now;
	record->comm[0] = task->comm[0];
	record->comm[1] = task->comm[1];
	record->pid = task->pid;
	barrier();
	core->written++;
}

static __always_inline void note_name(struct core_names *core, const struct task_view *task, u64 now)
{
	struct seen_name *seen = &core->seen[task->pid & (SEEN_NAMES - 1)];

	if (!task->pid ||
	    (seen->pid == task->pid && seen->comm[0] == task->comm[0] && seen->comm[1] == task->comm[1]))
		return;
	seen->pid = task->pid;
	seen->comm[0] = task->comm[0];
	seen->comm[1] = task->comm[1];
	write_name(core, task, now);
}

/* Called before the switch is on the tape, so that who reads the tape first finds the names of all that is on it. */
static __always_inline void note_names(const struct task_view *prev, const struct task_view *next, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct core_names *core = bpf_map_lookup_elem(&names, &cpu);

	if (!core)
		return;
	note_name(core, prev, now);
	note_name(core, next, now);
}

#endif
