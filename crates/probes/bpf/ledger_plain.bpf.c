// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The ledger on plain tracepoints, for kernels without BTF. The records' layouts are those of the tracepoints'
 * format files; src/load.rs compares each offset used here with the running kernel's before it loads a program.
 * Tasks cannot be read here, so user space lists the kernel threads, and late timers stay unseen.
 */
#define WITHOUT_BTF
#include "own_interrupts.h"
#include "preemption.h"
#include "programs.h"
#include "records.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define VECTOR(vector, cause)                                                                                          \
	SEC("tp/irq_vectors/" #vector "_entry")                                                                        \
	int vector##_entry(void *ctx)                                                                                  \
	{                                                                                                              \
		return on_entry(P_VECTOR_ENTRY + 2 * (cause - CAUSE_LOCAL_TIMER), cause, LEVEL_INTERRUPT);                     \
	}                                                                                                              \
	SEC("tp/irq_vectors/" #vector "_exit")                                                                         \
	int vector##_exit(void *ctx)                                                                                   \
	{                                                                                                              \
		return on_exit(P_VECTOR_ENTRY + 2 * (cause - CAUSE_LOCAL_TIMER) + 1, LEVEL_INTERRUPT);                 \
	}

EVERY_VECTOR

SEC("tp/irq/softirq_entry")
int softirq_entry(struct softirq_record *record)
{
	return on_entry(P_SOFTIRQ_ENTRY, CAUSE_SOFTIRQ + (record->vec < 10 ? record->vec : 0), LEVEL_SOFTIRQ);
}

SEC("tp/irq/softirq_exit")
int softirq_exit(struct softirq_record *record)
{
	return on_exit(P_SOFTIRQ_EXIT, LEVEL_SOFTIRQ);
}

SEC("tp/irq/irq_handler_entry")
int irq_handler_entry(struct irq_record *record)
{
	return on_keyed_entry(P_IRQ_HANDLER_ENTRY, bpf_ktime_get_ns(), KEY(KEY_DEVICE, (u32)record->irq),
			      CAUSE_OTHER_DEVICE, LEVEL_INTERRUPT);
}

SEC("tp/irq/irq_handler_exit")
int irq_handler_exit(struct irq_record *record)
{
	return on_exit(P_IRQ_HANDLER_EXIT, LEVEL_INTERRUPT);
}

SEC("tp/csd/csd_function_entry")
int csd_function_entry(struct csd_record *record)
{
	/* Without call-single data the function runs where it was asked for, as a part of the work that asked. */
	if (!record->csd)
		return 0;
	return on_keyed_entry(P_CSD_FUNCTION_ENTRY, bpf_ktime_get_ns(), KEY(KEY_FUNCTION, record->func),
			      CAUSE_OTHER_FUNCTION, LEVEL_FUNCTION);
}

SEC("tp/csd/csd_function_exit")
int csd_function_exit(struct csd_record *record)
{
	if (!record->csd)
		return 0;
	return on_exit(P_CSD_FUNCTION_EXIT, LEVEL_FUNCTION);
}

SEC("tp/nmi/nmi_handler")
int nmi_handler(struct nmi_record *record)
{
	return on_nmi(P_NMI_HANDLER, record->handler, record->delta_ns);
}

SEC("tp/sched/sched_switch")
int sched_switch(struct switch_record *record)
{
	struct task_view was = {}, is = {};

	is.pid = record->next_pid;
	is.tgid = is.pid;
	is.kernel_thread = is.pid && bpf_map_lookup_elem(&kernel_threads, &is.pid) != 0;
	__builtin_memcpy(is.comm, record->next_comm, 16);
	was.pid = record->prev_pid;
	was.tgid = was.pid;
	was.kernel_thread = was.pid && bpf_map_lookup_elem(&kernel_threads, &was.pid) != 0;
	was.realtime = record->prev_prio < MAX_RT_PRIO;
	is.realtime = record->next_prio < MAX_RT_PRIO;
	/* The kernel reports a thread that was preempted as running, with a mark in the ninth bit. */
	was.left = was.pid ? why_left(record->prev_state & 0xFF, false) : LEFT_UNKNOWN;
	__builtin_memcpy(was.comm, record->prev_comm, 16);
	return on_switch(P_SCHED_SWITCH, &was, &is);
}

SEC("tp/sched/sched_migrate_task")
int sched_migrate_task(struct migrate_record *record)
{
	u32 cpu = record->orig_cpu;
	struct slot *slot = bpf_map_lookup_elem(&slots, &cpu);

	/* A task that is woken onto another core is told of, too; whether this one waited is not. */
	if (slot)
		forget_waiting(slot, record->pid);
	return 0;
}

SEC("tp/ipi/ipi_send_cpu")
int ipi_send_cpu(struct send_cpu_record *record)
{
	if (sent_by_self())
		count_self_interrupt(record->cpu);
	return 0;
}

SEC("tp/ipi/ipi_send_cpumask")
int ipi_send_cpumask(struct send_mask_record *record)
{
	if (sent_by_self())
		count_self_mask((const char *)record + (record->mask_location & 0xFFFF));
	return 0;
}
