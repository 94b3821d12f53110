/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What both flavours of the ledger have in common beside the state machine. */
#ifndef SUREFOOT_PROGRAMS_H
#define SUREFOOT_PROGRAMS_H

/* Program numbers index slot.programs; src/programs.rs lists them with their tracepoints. */
enum {
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

/* Whether this process sends the interrupt. In an interrupt the current task is a bystander. */
static __always_inline bool sent_by_self(void)
{
	struct slot *slot;

	if (bpf_get_current_pid_tgid() >> 32 != config.self_tgid)
		return false;
	slot = this_slot();
	return slot && !slot->depth;
}

/* Counted on the core that is interrupted. */
static __always_inline void count_self_interrupt(u32 cpu)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &cpu);

	if (slot)
		__sync_fetch_and_add(&slot->self_interrupts, 1);
}

enum { MASK_WORDS = 16 };

static __always_inline void count_self_mask(const char *mask)
{
	u32 word, bit;

	for (word = 0; word < MASK_WORDS; word++) {
		u64 bits = 0;

		if (word * 64 >= config.cpu_count)
			break;
		bpf_probe_read_kernel(&bits, sizeof(bits), mask + word * 8);
		for (bit = 0; bit < 64 && bits; bit++) {
			if (bits & 1)
				count_self_interrupt(word * 64 + bit);
			bits >>= 1;
		}
	}
}

#endif
