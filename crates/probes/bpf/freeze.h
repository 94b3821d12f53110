/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs that hold cores share with user space. build/numbers.rs takes the numbers to Rust. */
#ifndef SUREFOOT_FREEZE_H
#define SUREFOOT_FREEZE_H

#include "kernel_types.h"

enum {
	FREEZE_RECORDS = 4096, /* stalls per core that are kept for user space to read; a power of two */
	FREEZE_LEAD_MAX_NS = 500000,
	FREEZE_LEAD_STEP_NS = 8000,
	FREEZE_TURNS = 8388608, /* of one loop, as many as the kernel allows: some 0.25 s */
};

/* What a core is to do, and how far it is. User space writes the first eight fields while no timer runs, and until_ns at any time. */
struct freeze_plan {
	u64 start_ns; /* of the first stall, CLOCK_MONOTONIC */
	u64 length_ns; /* 0: only the timer's own interrupt */
	u64 period_ns;
	u64 count; /* stalls at most; set to 0 to stop */
	u64 interrupts_on; /* hold the core in the softirq, where interrupts still come */
	u64 rearm_ns; /* 0, or: each stall but the first begins so long after the end of the one before, whatever its time */
	u64 until_ns; /* 0, or: no stall begins after this time, which user space moves on as long as it runs */
	u64 lead_ns; /* the timer is set so much earlier, because its callback comes late; follows what was seen */
	u64 done; /* records ever finished */
	u64 missed; /* stalls whose end had passed before they began */
	u64 cut; /* stalls that ended early, because a loop has a limit */
	u64 moved; /* the timer fired on another core: this one went offline */
	u64 refused; /* the timer could not be set again; the error's number */
	u64 lapsed; /* until_ns was over: user space stood still */
};

/* A stall that was. */
struct freeze_record {
	u64 target_ns; /* when it was to begin */
	u64 entered_ns; /* the core is held from here */
	u64 left_ns; /* to here */
	u64 lead_ns; /* what the timer was set earlier */
};

/* What a program is told when it is called. */
struct freeze_call {
	u64 cpu;
};

#endif
