/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What both flavours of the ledger list alike: the programs' numbers, and the vectors with tracepoints of their own. */
#ifndef SUREFOOT_PROGRAMS_H
#define SUREFOOT_PROGRAMS_H

/* Program numbers index slot.programs; src/programs.rs lists them with their tracepoints. */
enum program_number {
	P_SCHED_SWITCH = 1,
	P_VECTOR_ENTRY = 2, /* one pair per vector: 2 + 2 * n */
	P_SOFTIRQ_ENTRY = 24,
	P_SOFTIRQ_EXIT = 25,
	P_IRQ_HANDLER_ENTRY = 26,
	P_IRQ_HANDLER_EXIT = 27,
	P_CSD_FUNCTION_ENTRY = 28,
	P_CSD_FUNCTION_EXIT = 29,
	P_NMI_HANDLER = 30,
	P_HRTIMER_EXPIRE_ENTRY = 31,
	P_CONSOLE = 32,
};

#define EVERY_VECTOR                                                                                                   \
	VECTOR(local_timer, CAUSE_LOCAL_TIMER)                                                                         \
	VECTOR(reschedule, CAUSE_RESCHEDULE)                                                                           \
	VECTOR(call_function, CAUSE_CALL_FUNCTION)                                                                     \
	VECTOR(call_function_single, CAUSE_CALL_FUNCTION_SINGLE)                                                       \
	VECTOR(irq_work, CAUSE_IRQ_WORK)                                                                               \
	VECTOR(x86_platform_ipi, CAUSE_X86_PLATFORM_IPI)                                                               \
	VECTOR(error_apic, CAUSE_ERROR_APIC)                                                                           \
	VECTOR(spurious_apic, CAUSE_SPURIOUS_APIC)                                                                     \
	VECTOR(thermal_apic, CAUSE_THERMAL_APIC)                                                                       \
	VECTOR(threshold_apic, CAUSE_THRESHOLD_APIC)                                                                   \
	VECTOR(deferred_error_apic, CAUSE_DEFERRED_ERROR_APIC)

#endif
