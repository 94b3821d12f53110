// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Holds cores with interrupts off, for known times: a pinned timer per core, whose callback switches interrupts off and
 * reads the clock until the stall's end. Each stall's time follows from the first one's, so that nothing drifts. All of it
 * ends when the last descriptor of the map of timers is closed, so also when the process that loaded it is killed.
 */
#include "freeze.h"
#include <bpf/bpf_helpers.h>

/* Interrupts can be switched off by programs under the GPL only, of which these licences give the choice. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct bpf_timer {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct timer_of_core {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader sets the number of possible cores */
	__type(key, u32);
	__type(value, struct timer_of_core);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct freeze_plan);
} plans SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FREEZE_RECORDS); /* per core; the loader multiplies */
	__type(key, u32);
	__type(value, struct freeze_record);
} records SEC(".maps");

extern void bpf_local_irq_save(unsigned long *flags__irq_flag) __ksym;
extern void bpf_local_irq_restore(unsigned long *flags__irq_flag) __ksym;

enum {
	CLOCK_MONOTONIC = 1,
	TIMER_ABSOLUTE = 1,
	TIMER_PINNED = 2,
};

struct until {
	u64 end_ns;
	u64 now_ns;
};

static long wait_turn(u64 turn, struct until *until)
{
	until->now_ns = bpf_ktime_get_ns();
	return until->now_ns >= until->end_ns;
}

static __always_inline void wait(struct until *until)
{
	bpf_loop(FREEZE_TURNS, wait_turn, until, 0);
	/* One loop may have too few turns. */
	if (until->now_ns < until->end_ns)
		bpf_loop(FREEZE_TURNS, wait_turn, until, 0);
}

static __always_inline long set_timer(struct bpf_timer *timer, struct freeze_plan *plan, u64 number)
{
	u64 at_ns;

	if (plan->rearm_ns && number)
		return bpf_timer_start(timer, plan->rearm_ns, TIMER_PINNED);
	at_ns = plan->start_ns + number * plan->period_ns - plan->lead_ns;

	return bpf_timer_start(timer, at_ns, TIMER_ABSOLUTE | TIMER_PINNED);
}

/*
 * The lead follows what was seen: an eighth of the difference each time, and no more than a few microseconds, so that one
 * callback that came late for a reason of its own does not make the next ones early.
 */
static __always_inline void follow(struct freeze_plan *plan, u64 target_ns, u64 entered_ns)
{
	u64 is_late = entered_ns > target_ns;
	u64 step_ns = (is_late ? entered_ns - target_ns : target_ns - entered_ns) / 8;

	if (step_ns > FREEZE_LEAD_STEP_NS)
		step_ns = FREEZE_LEAD_STEP_NS;
	if (is_late && plan->lead_ns + step_ns <= FREEZE_LEAD_MAX_NS)
		plan->lead_ns += step_ns;
	else if (!is_late && plan->lead_ns >= step_ns)
		plan->lead_ns -= step_ns;
}

static __always_inline void hold(struct freeze_plan *plan, struct freeze_record *record)
{
	struct until until = { .end_ns = record->target_ns + plan->length_ns };
	unsigned long flags;

	if (plan->interrupts_on) {
		record->entered_ns = until.now_ns = bpf_ktime_get_ns();
		if (plan->length_ns)
			wait(&until);
	} else {
		bpf_local_irq_save(&flags);
		record->entered_ns = until.now_ns = bpf_ktime_get_ns();
		if (plan->length_ns)
			wait(&until);
		bpf_local_irq_restore(&flags);
	}
	record->left_ns = until.now_ns;
}

static int fired(void *map, u32 *key, struct bpf_timer *timer)
{
	struct freeze_plan *plan = bpf_map_lookup_elem(&plans, key);
	u64 number, next, left_ns;
	struct freeze_record *record;
	u32 index;

	if (!plan)
		return 0;
	if (bpf_get_smp_processor_id() != *key) {
		plan->moved++;
		return 0;
	}
	/* The stalls before this one were done or missed. */
	number = plan->done + plan->missed;
	if (number >= plan->count)
		return 0;
	/* Whoever is stopped cannot end anything: SIGSTOP, Ctrl-Z. */
	if (plan->until_ns && bpf_ktime_get_ns() > plan->until_ns) {
		plan->lapsed++;
		return 0;
	}
	index = *key * FREEZE_RECORDS + (plan->done & (FREEZE_RECORDS - 1));
	record = bpf_map_lookup_elem(&records, &index);
	if (!record)
		return 0;
	record->target_ns = plan->rearm_ns ? bpf_ktime_get_ns() : plan->start_ns + number * plan->period_ns;
	record->lead_ns = plan->lead_ns;
	hold(plan, record);
	left_ns = record->left_ns;
	if (left_ns < record->target_ns + plan->length_ns)
		plan->cut++;
	if (!plan->rearm_ns)
		follow(plan, record->target_ns, record->entered_ns);
	asm volatile("" ::: "memory");
	if (plan->length_ns && !plan->rearm_ns && record->entered_ns >= record->target_ns + plan->length_ns)
		plan->missed++;
	else
		plan->done++; /* the record is whole */
	/* Whatever should have ended by now is not made up for. */
	next = plan->done + plan->missed;
	if (!plan->rearm_ns && plan->period_ns && plan->start_ns + next * plan->period_ns + plan->length_ns < left_ns) {
		u64 due = (left_ns - plan->start_ns) / plan->period_ns + 1;

		if (due > next)
			plan->missed += due - next;
	}
	next = plan->done + plan->missed;
	if (next < plan->count) {
		long error = set_timer(timer, plan, next);

		if (error)
			plan->refused = -error;
	}
	return 0;
}

SEC("syscall")
int freeze_arm(struct freeze_call *call)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct timer_of_core *of_core;
	struct freeze_plan *plan;

	if (call->cpu != cpu)
		return -18; /* EXDEV */
	of_core = bpf_map_lookup_elem(&timers, &cpu);
	plan = bpf_map_lookup_elem(&plans, &cpu);
	if (!of_core || !plan)
		return -2; /* ENOENT */
	/* A timer of an earlier arming is there already. */
	bpf_timer_init(&of_core->timer, &timers, CLOCK_MONOTONIC);
	if (bpf_timer_set_callback(&of_core->timer, fired))
		return -22; /* EINVAL */
	return set_timer(&of_core->timer, plan, 0);
}

SEC("syscall")
int freeze_disarm(struct freeze_call *call)
{
	u32 cpu = call->cpu;
	struct timer_of_core *of_core = bpf_map_lookup_elem(&timers, &cpu);

	/* One that was never armed has no timer, and nothing to stop. */
	if (of_core)
		bpf_timer_cancel(&of_core->timer);
	return 0;
}
