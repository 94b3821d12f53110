// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* For the tests alone: switches between made-up tasks, so that who waited for whom is known and no load of the machine
 * changes it. What is called is the ledger's own. */
#include "preemption.h"
#include "programs.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct planted {
	struct task_view prev;
	struct task_view next;
};

_Static_assert(sizeof(struct planted) == 80, "as src/planted.rs has it");

SEC("syscall")
int planted_switch(struct planted *planted)
{
	struct task_view prev = planted->prev, next = planted->next;

	return on_switch(P_SCHED_SWITCH, &prev, &next);
}

/* Of an interrupt whose entry nobody saw. */
SEC("syscall")
int planted_exit(struct planted *planted)
{
	return on_exit(P_VECTOR_ENTRY + 1, LEVEL_INTERRUPT);
}
