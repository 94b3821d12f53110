/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is told of each task of a PID namespace. */
#ifndef SUREFOOT_TASK_NUMBERS_H
#define SUREFOOT_TASK_NUMBERS_H

#include "kernel_types.h"

struct task_numbers {
	u32 tid; /* in the namespace of the reader */
	u32 pid;
	u32 kernels_tid;
	u32 kernels_pid;
};

#endif
