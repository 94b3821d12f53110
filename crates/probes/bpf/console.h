/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Kernel messages, which whoever logs one may have to print at once: a serial console takes milliseconds for a line,
 * mostly with interrupts off. The kernel tells when a message is logged, and neither its level nor when it is printed.
 * So the tape says that from here to its next turn the core may be printing, and the sums count that stretch under a
 * cause of its own where it is long and all of it lies in the kernel (`charge`).
 */
#ifndef SUREFOOT_CONSOLE_H
#define SUREFOOT_CONSOLE_H

#include "ledger.h"

/* Notes where the task that logs entered the kernel. What it did since another message may have been its own work. */
static __always_inline void note_logging_task(struct slot *slot)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs;

	if (slot->depth || task->flags & PF_KTHREAD)
		return;
	regs = (void *)bpf_task_pt_regs((void *)task);
	slot->logged_ip = regs->ip;
	slot->logged_call = regs->orig_ax;
	slot->frames[0].level &= ~LOGGED;
}

static __always_inline int on_console(u32 program)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = this_slot();
	u32 index = bpf_get_smp_processor_id() * TAPE_TURNS;
	struct turn *last;

	if (!slot || busy(slot))
		return 0;
	begin(slot);
	first_base_of_current(slot);
	if (config.console)
		note_logging_task(slot);
	charge(slot, now);
	slot->frames[slot->depth & (FRAMES - 1)].level |= LOGGED;
	/* A flood of messages is one turn, so that it does not overwrite the tape. */
	index += (slot->tape_turns - 1) & WINDOW_MASK;
	last = bpf_map_lookup_elem(&tape, &index);
	if (!last || last->cause != CAUSE_CONSOLE) {
		slot->depth++;
		write_turn(slot, now, CAUSE_CONSOLE);
		slot->depth--;
	}
	end(slot, program, now);
	return 0;
}

#endif
