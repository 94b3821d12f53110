/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Timers that fire late, each with what its core did until then. */
#ifndef SUREFOOT_LATE_H
#define SUREFOOT_LATE_H

#include "ledger.h"
#include "programs.h"
#include <bpf/bpf_core_read.h>

static __always_inline void copy_tape(struct slot *slot, struct late *late)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 have = slot->tape_turns;
	u64 wanted = have < LATE_TURNS ? have : LATE_TURNS;
	int i;

	late->turns = wanted;
	for (i = 0; i < LATE_TURNS; i++) {
		u32 index = cpu * TAPE_TURNS + ((have - wanted + i) & WINDOW_MASK);
		struct turn *turn;

		if ((u64)i >= wanted)
			break;
		turn = bpf_map_lookup_elem(&tape, &index);
		if (turn)
			late->tape[i] = *turn;
	}
}

/* Called for a timer that fired `late_ns` after it was due. */
static __always_inline void record_late(struct slot *slot, s64 late_ns)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 index = cpu * LATE_RECORDS + (slot->late_records % LATE_RECORDS);
	struct late *late = bpf_map_lookup_elem(&late_ring, &index);

	if (!late)
		return;
	late->fired_ns = slot->timer_entry_ns;
	late->due_ns = slot->timer_entry_ns - late_ns;
	late->base_cause = slot->frames[0].cause;
	late->base_pid = slot->base_pid;
	copy_tape(slot, late);
	barrier();
	slot->late_records++;
}

/* Of a timer that the kernel's own types describe, which needs no helper to be read. */
static __always_inline s64 expiry_of(struct hrtimer *timer)
{
	struct hrtimer___linked *linked = (void *)timer;

	if (bpf_core_field_exists(timer->node.expires))
		return timer->node.expires;
	if (bpf_core_field_exists(linked->node.expires))
		return linked->node.expires;
	return 0;
}

static __always_inline void note_late(struct hrtimer *timer, s64 *fired)
{
	s64 due, late_ns, now_ns = 0;
	struct slot *slot;
	u64 now;

	if (!config.late_threshold_ns || timer->is_soft)
		return;
	slot = this_slot();
	due = expiry_of(timer);
	if (!slot || !due)
		return;
	bpf_probe_read_kernel(&now_ns, sizeof(now_ns), fired);
	late_ns = now_ns - due;
	if (late_ns < (s64)config.late_threshold_ns || busy(slot))
		return;
	/* Only inside the timer interrupt is the moment of firing known. */
	if (slot->frames[slot->depth & (FRAMES - 1)].cause != CAUSE_LOCAL_TIMER)
		return;
	/*
	 * The timer interrupt before this one let fire all that was due. What was due even earlier was armed since, for a time
	 * that had passed, as by a sleep until a moment in the past: nothing held it up, so it tells of no gap.
	 */
	if ((u64)late_ns > slot->timer_entry_ns - slot->timer_before_ns)
		return;
	now = bpf_ktime_get_ns();
	begin(slot);
	record_late(slot, late_ns);
	end(slot, P_HRTIMER_EXPIRE_ENTRY, now);
}

#endif
