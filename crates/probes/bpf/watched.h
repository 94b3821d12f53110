/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which cores are watched, and in which context a sender is. */
#ifndef SUREFOOT_WATCHED_H
#define SUREFOOT_WATCHED_H

#include "raiser_maps.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

static __always_inline u64 watched_in_word(u64 word)
{
	/* The compiler drops a mask that it can prove needless; the verifier needs to see it. */
	asm volatile("%0 &= 15" : "+r"(word));
	return raiser_config.watched[word];
}

static __always_inline bool is_watched(u32 cpu)
{
	if (cpu >= WATCH_WORDS * 64)
		return false;
	return watched_in_word(cpu >> 6) >> (cpu & 63) & 1;
}

static __always_inline struct sender *this_sender(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&senders, &cpu);
}

static __always_inline bool in_interrupt(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct slot *slot = bpf_map_lookup_elem(&slots, &cpu);

	return slot && (slot->depth || slot->shadow_depth);
}

/* An interrupt may count between reading and writing, so it is one step. */
static __always_inline void count_up(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/* The registers of the current task at its entry into the kernel, where it is the raiser and has any. */
static __always_inline struct pt_regs *user_registers(struct task_struct *task, bool interrupted)
{
	if (interrupted || task->flags & PF_KTHREAD)
		return 0;
	return (void *)bpf_task_pt_regs((void *)task);
}

#endif
