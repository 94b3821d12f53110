/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kernel messages, which whoever logs one may have to print at once: a serial console takes milliseconds for a line,
 * mostly with interrupts off. The kernel tells when a message is logged and not when it is printed, so the tape says
 * that from here to its next turn the core may be printing. Sums are left alone.
 */
#ifndef SUREFOOT_CONSOLE_H
#define SUREFOOT_CONSOLE_H

#include "ledger.h"

static __always_inline int on_console(u32 program)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = this_slot();
	u32 index = bpf_get_smp_processor_id() * TAPE_TURNS;
	struct turn *last;

	if (!slot || busy(slot))
		return 0;
	/* A flood of messages is one turn, so that it does not overwrite the tape. */
	index += (slot->tape_turns - 1) & WINDOW_MASK;
	last = bpf_map_lookup_elem(&tape, &index);
	if (last && last->cause == CAUSE_CONSOLE)
		return 0;
	begin(slot);
	slot->depth++;
	write_turn(slot, now, CAUSE_CONSOLE);
	slot->depth--;
	end(slot, program, now);
	return 0;
}

#endif
