/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Kernel stacks that need not be walked again: user space told where their return addresses lie. */
#ifndef SUREFOOT_REMEMBER_H
#define SUREFOOT_REMEMBER_H

#include "watched.h"

/* Where to look for a kernel stack. It need not tell all apart: what is found is compared. */
static __always_inline u64 tag_of(u32 kind, u64 function, u64 site, u64 system_call)
{
	const u64 odd = 0x9e3779b97f4a7c15;
	u64 tag = (function + kind) * odd;

	tag = (tag ^ tag >> 29 ^ site) * odd;
	tag = (tag ^ tag >> 29 ^ system_call) * odd;
	return tag ^ tag >> 29;
}

/*
 * Reads the kernel stack of the raiser from the probe's context on. False where that lies elsewhere, or is of a
 * bystander.
 */
static __always_inline bool lay(void *ctx, u32 kind, u64 function, u64 site)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs((void *)task);
	u64 depth = (u64)regs, low = (u64)ctx, bytes;
	u32 zero = 0;
	struct words *words = bpf_map_lookup_elem(&laid_words, &zero);

	if (!words || in_interrupt())
		return false;
	/* The difference of two pointers, which is a number. */
	asm volatile("%0 -= %1" : "+r"(depth) : "r"(low));
	if (depth < 8 || depth > STACK_BYTES_MAX || depth & 7)
		return false;
	bytes = depth < sizeof(words->words) ? depth : sizeof(words->words);
	if (bpf_probe_read_kernel(words->words, bytes, ctx))
		return false;
	if (bpf_probe_read_kernel(&words->top, sizeof(words->top), (char *)regs - 8))
		return false;
	words->count = bytes >> 3;
	words->depth = depth >> 3;
	words->tag = tag_of(kind, function, site, task->flags & PF_KTHREAD ? 0 : regs->orig_ax);
	return true;
}

/* The number of the known stack that lies in this core's words; 0 for none. Verified once, not in each program. */
__noinline u64 recall(void)
{
	u32 zero = 0, way, word;
	struct words *words = bpf_map_lookup_elem(&laid_words, &zero);

	if (!words)
		return 0;
	for (way = 0; way < KNOWN_WAYS; way++) {
		u32 index = (words->tag & (KNOWN_SETS - 1)) * KNOWN_WAYS + way;
		struct known *known = bpf_map_lookup_elem(&known_stacks, &index);
		u64 id;

		if (!known || known->tag != words->tag)
			continue;
		id = *(volatile u64 *)&known->id;
		if (known->depth ? known->depth != words->depth : known->top != words->top)
			continue;
		for (word = 0; word < KNOWN_WORDS && word < known->count; word++) {
			u32 at = known->at[word];

			if (at >= LAID_WORDS || words->words[at] != known->values[word])
				break;
		}
		/* User space may have put another in its place meanwhile. */
		if (word && word == known->count && id && *(volatile u64 *)&known->id == id)
			return id;
	}
	return 0;
}

#endif
