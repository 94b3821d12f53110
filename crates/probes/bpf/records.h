/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The records of plain tracepoints, as far as they are read. src/programs.rs lists the fields; the loader compares their
 * offsets with the running kernel's before it loads a program.
 */
#ifndef SUREFOOT_RECORDS_H
#define SUREFOOT_RECORDS_H

#include "kernel_types.h"

struct softirq_record {
	u64 common;
	u32 vec;
};

struct irq_record {
	u64 common;
	s32 irq;
};

struct csd_record {
	u64 common;
	u64 func;
	u64 csd;
};

struct nmi_record {
	u64 common;
	u64 handler;
	s64 delta_ns;
};

struct switch_record {
	u64 common;
	char prev_comm[16];
	s32 prev_pid;
	s32 prev_prio;
	u64 prev_state;
	char next_comm[16];
	s32 next_pid;
	s32 next_prio;
};

struct migrate_record {
	u64 common;
	u32 comm_location;
	s32 pid;
	s32 prio;
	s32 orig_cpu;
	s32 dest_cpu;
};

struct send_cpu_record {
	u64 common;
	u32 cpu;
};

struct send_mask_record {
	u64 common;
	u32 mask_location; /* offset in the lower half, length in the upper */
};

#endif
