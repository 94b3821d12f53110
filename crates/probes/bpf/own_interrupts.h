/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Interrupts that this process raises on cores, counted on the core that is interrupted. */
#ifndef SUREFOOT_OWN_INTERRUPTS_H
#define SUREFOOT_OWN_INTERRUPTS_H

#include "maps.h"

/* Whether this process sends the interrupt. In an interrupt the current task is a bystander. */
static __always_inline bool sent_by_self(void)
{
	struct slot *slot;

	if (bpf_get_current_pid_tgid() >> 32 != config.self_tgid)
		return false;
	slot = this_slot();
	return slot && !slot->depth;
}

/* Counted on the core that is interrupted. */
static __always_inline void count_self_interrupt(u32 cpu)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &cpu);

	if (slot)
		__sync_fetch_and_add(&slot->self_interrupts, 1);
}

enum { MASK_WORDS = 16 };

static __always_inline void count_self_mask(const char *mask)
{
	u32 word, bit;

	for (word = 0; word < MASK_WORDS; word++) {
		u64 bits = 0;

		if (word * 64 >= config.cpu_count)
			break;
		bpf_probe_read_kernel(&bits, sizeof(bits), mask + word * 8);
		for (bit = 0; bit < 64 && bits; bit++) {
			if (bits & 1)
				count_self_interrupt(word * 64 + bit);
			bits >>= 1;
		}
	}
}

#endif
