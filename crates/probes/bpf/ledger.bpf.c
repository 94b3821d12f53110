// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The ledger on BTF-typed tracepoints (tp_btf): no marshalling, and the tasks themselves can be read. */
#include "console.h"
#include "late.h"
#include "own_interrupts.h"
#include "preemption.h"
#include "programs.h"
#include "tasks.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define VECTOR(vector, cause)                                                                                          \
	SEC("tp_btf/" #vector "_entry")                                                                                \
	int vector##_entry(u64 *ctx)                                                                                   \
	{                                                                                                              \
		return on_entry(P_VECTOR_ENTRY + 2 * (cause - CAUSE_LOCAL_TIMER), cause, LEVEL_INTERRUPT);                     \
	}                                                                                                              \
	SEC("tp_btf/" #vector "_exit")                                                                                 \
	int vector##_exit(u64 *ctx)                                                                                    \
	{                                                                                                              \
		return on_exit(P_VECTOR_ENTRY + 2 * (cause - CAUSE_LOCAL_TIMER) + 1, LEVEL_INTERRUPT);                 \
	}

EVERY_VECTOR

SEC("tp_btf/softirq_entry")
int softirq_entry(u64 *ctx)
{
	u32 vector = ctx[0];

	return on_entry(P_SOFTIRQ_ENTRY, CAUSE_SOFTIRQ + (vector < 10 ? vector : 0), LEVEL_SOFTIRQ);
}

SEC("tp_btf/softirq_exit")
int softirq_exit(u64 *ctx)
{
	return on_exit(P_SOFTIRQ_EXIT, LEVEL_SOFTIRQ);
}

SEC("tp_btf/irq_handler_entry")
int irq_handler_entry(u64 *ctx)
{
	return on_keyed_entry(P_IRQ_HANDLER_ENTRY, bpf_ktime_get_ns(), KEY(KEY_DEVICE, ctx[0] & 0xFFFFFFFF),
			      CAUSE_OTHER_DEVICE, LEVEL_INTERRUPT);
}

SEC("tp_btf/irq_handler_exit")
int irq_handler_exit(u64 *ctx)
{
	return on_exit(P_IRQ_HANDLER_EXIT, LEVEL_INTERRUPT);
}

/*
 * Without call-single data the function runs where it was asked for, as a part of the work that asked.
 * Raw, because the verifier does not let a typed program read a function pointer.
 */
SEC("raw_tp/csd_function_entry")
int csd_function_entry(u64 *ctx)
{
	if (!ctx[1])
		return 0;
	return on_keyed_entry(P_CSD_FUNCTION_ENTRY, bpf_ktime_get_ns(), KEY(KEY_FUNCTION, ctx[0]), CAUSE_OTHER_FUNCTION,
			      LEVEL_FUNCTION);
}

SEC("raw_tp/csd_function_exit")
int csd_function_exit(u64 *ctx)
{
	if (!ctx[1])
		return 0;
	return on_exit(P_CSD_FUNCTION_EXIT, LEVEL_FUNCTION);
}

SEC("tp_btf/nmi_handler")
int nmi_handler(u64 *ctx)
{
	return on_nmi(P_NMI_HANDLER, ctx[0], ctx[1]);
}

static __always_inline void view_name(struct task_view *to, struct task_struct *task)
{
	const u64 *comm = (const u64 *)task->comm;

	to->comm[0] = comm[0];
	to->comm[1] = comm[1];
}

static __always_inline void view(struct task_view *to, struct task_struct *task)
{
	to->pid = task->pid;
	to->tgid = task->tgid;
	to->kernel_thread = task->flags & PF_KTHREAD;
	to->realtime = task->prio < MAX_RT_PRIO;
	view_name(to, task);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct task_view was = {}, is = {};

	view(&is, next);
	if (config.workload_by != WORKLOAD_NONE) {
		view(&was, prev);
	} else {
		was.pid = prev->pid;
		was.kernel_thread = prev->flags & PF_KTHREAD;
		view_name(&was, prev);
	}
	was.left = was.pid ? why_left(preempt ? 0 : state_of(prev), is_throttled(prev)) : LEFT_UNKNOWN;
	if (is_user(&is)) {
		is.waited_ns = waited_ns(next);
		is.wait_known = knows_waits();
	}
	return on_switch(P_SCHED_SWITCH, &was, &is);
}

/* A task that waits and is moved away waits here no longer. One that is moved while it is woken did not wait yet. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task)
{
	u32 cpu;
	struct slot *slot;

	if (task->on_rq != TASK_ON_RQ_MIGRATING)
		return 0;
	cpu = core_of(task);
	slot = bpf_map_lookup_elem(&slots, &cpu);
	if (slot)
		moved_away(slot, task->pid, task->flags & PF_KTHREAD);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(hrtimer_expire_entry, struct hrtimer *timer, s64 *fired)
{
	note_late(timer, fired);
	return 0;
}

SEC("tp_btf/console")
int console(u64 *ctx)
{
	return on_console(P_CONSOLE);
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(ipi_send_cpu, unsigned int cpu)
{
	if (sent_by_self())
		count_self_interrupt(cpu);
	return 0;
}

SEC("tp_btf/ipi_send_cpumask")
int BPF_PROG(ipi_send_cpumask, struct cpumask *mask)
{
	if (sent_by_self())
		count_self_mask((const char *)mask);
	return 0;
}
