// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Who interrupts the watched cores.
 *
 * The raiser's side pays: where an interrupt for a watched core is queued, its sender leaves a record with its name,
 * system call and, as far as the rate allows, its stacks. The watched core itself only leaves marks of 32 bytes in an
 * array of its own; user space joins the two. Records go through a ring buffer that wakes nobody, because waking would
 * send one of the interrupts that are being looked for.
 *
 * Some of these tracepoints are the ledger's as well. Where the ledger leaves them to these programs, one program on each
 * does both parts: what runs once costs less, and attaching it patches the kernel once.
 *
 * A record taken in interrupt context says so: the current task is then a bystander and its stack is not taken.
 */
#include "console.h"
#include "late.h"
#include "marks.h"
#include "own_interrupts.h"
#include "preemption.h"
#include "raise.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The interrupt in which this core wakes somebody, by its cause's number; 0 outside one. */
static __always_inline u64 waking_context(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct slot *slot = bpf_map_lookup_elem(&slots, &cpu);

	return slot && slot->depth ? slot->frames[slot->depth & (FRAMES - 1)].cause : 0;
}

/* A thread that may run on one core only is told where it is woken; where the others go is known later. */
static __always_inline bool has_one_core(u32 flags, int cores)
{
	return flags & PF_KTHREAD && cores == 1;
}

/* Whether a task that is woken onto an idle core may keep a named workload waiting, when that is woken while it runs. */
static __always_inline bool may_keep_waiting(const struct slot *slot, struct task_struct *task, u32 pid)
{
	struct task_view view = { .pid = pid };

	switch (config.workload_by) {
	case WORKLOAD_NONE:
		return false;
	case WORKLOAD_CORES:
		return pid != slot->owner_pid && (slot->owner_pid || BPF_CORE_READ(task, prio) < MAX_RT_PRIO);
	default:
		view.tgid = BPF_CORE_READ(task, tgid);
		BPF_CORE_READ_INTO(&view.comm, task, comm);
		return !is_workload(&view);
	}
}

/*
 * Of the wake-up that this core has under way: the task goes to a watched core. A kernel thread takes that sooner or
 * later; any other task takes something where another runs there, or is woken there before it is done.
 */
static __always_inline void raise_placed(void *ctx, u32 cpu, struct task_struct *task)
{
	struct slot *slot = bpf_map_lookup_elem(&slots, &cpu);
	u32 pid = BPF_CORE_READ(task, pid), flags = BPF_CORE_READ(task, flags);

	if (has_one_core(flags, BPF_CORE_READ(task, nr_cpus_allowed)) || !slot)
		return;
	if (!(flags & PF_KTHREAD) && (slot->base_pid ? slot->base_pid == pid : !may_keep_waiting(slot, task, pid)))
		return;
	raise(ctx, RAISED_WAKE, cpu, pid, waking_context(), 0);
}

/* Whether a task that comes to a core without being woken may take something there: others only from a named workload. */
static __always_inline bool may_intrude(struct task_struct *task)
{
	return config.workload_by != WORKLOAD_NONE || BPF_CORE_READ(task, flags) & PF_KTHREAD;
}

/* A task that waits is moved. One that is moved while it is woken is told where its wake-up ends. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(raise_move, struct task_struct *task, int to)
{
	struct slot *slot;
	u32 from;

	if (task->on_rq != TASK_ON_RQ_MIGRATING)
		return 0;
	from = core_of(task);
	if (raiser_config.with_ledger) {
		slot = bpf_map_lookup_elem(&slots, &from);
		if (slot)
			moved_away(slot, task->pid, task->flags & PF_KTHREAD);
	}
	if (is_watched(to) && may_intrude(task))
		raise(ctx, RAISED_MOVE, to, task->pid, waking_context() | (u64)from << FROM_SHIFT, 0);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(raise_new, struct task_struct *task)
{
	u32 cpu = core_of(task);

	if (is_watched(cpu) && may_intrude(task))
		raise(ctx, RAISED_NEW, cpu, task->pid, 0, 0);
	return 0;
}

SEC("tp_btf/console")
int raise_message(u64 *ctx)
{
	u32 cpu = bpf_get_smp_processor_id();

	if (raiser_config.with_ledger)
		on_console(P_CONSOLE);
	if (is_watched(cpu))
		raise(ctx, RAISED_MESSAGE, cpu, 0, 0, 0);
	return 0;
}

/* Whether this core has just begun to wake somebody, and has woken nobody else since. */
static __always_inline bool is_waking(struct sender *sender)
{
	return sender->wakee && bpf_jiffies64() - sender->wakee_jiffies <= 1;
}

SEC("raw_tp/csd_queue_cpu")
int raise_function(u64 *ctx)
{
	u32 cpu = ctx[0];
	struct sender *sender;

	if (!is_watched(cpu))
		return 0;
	raise(ctx, RAISED_FUNCTION, cpu, ctx[3], ctx[2], ctx[1]);
	/* A task that is handed to another core to be queued there: the call's data lies in the task. */
	sender = this_sender();
	if (sender && is_waking(sender) && ctx[3] - sender->wakee < TASK_BYTES_MAX)
		raise_placed(ctx, cpu, (void *)sender->wakee);
	return 0;
}

/*
 * The wake-up has chosen its core. Where that is handed the task to queue it itself, this runs there, and whoever wakes
 * is not the current task any more: then this core woke another one last.
 */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(raise_wakeup, struct task_struct *task)
{
	u32 cpu = core_of(task);
	struct sender *sender;

	if (!is_watched(cpu))
		return 0;
	sender = this_sender();
	if (sender && is_waking(sender) && sender->wakee == (u64)task)
		raise_placed(ctx, cpu, task);
	return 0;
}

SEC("raw_tp/csd_function_entry")
int mark_function(u64 *ctx)
{
	u64 now = bpf_ktime_get_ns();

	if (raiser_config.with_ledger && ctx[1])
		on_keyed_entry(P_CSD_FUNCTION_ENTRY, now, KEY(KEY_FUNCTION, ctx[0]), CAUSE_OTHER_FUNCTION, LEVEL_FUNCTION);
	if (is_watched(bpf_get_smp_processor_id()))
		mark(now, MARK_FUNCTION, ctx[1], ctx[0]);
	return 0;
}

/*
 * Remembers whom this core wakes; the interrupt that follows in the same wake-up is for that thread. This runs on every
 * wake-up of the machine, so it keeps no more than where the task is.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(note_waking, struct task_struct *task)
{
	struct sender *sender = this_sender();

	if (!sender)
		return 0;
	sender->wakee = (u64)task;
	sender->wakee_pid = task->pid;
	sender->wakee_jiffies = bpf_jiffies64();
	if (has_one_core(task->flags, task->nr_cpus_allowed)) {
		u32 cpu = core_of(task);

		if (is_watched(cpu))
			raise(ctx, RAISED_WAKE, cpu, task->pid, waking_context(), 0);
	}
	return 0;
}

/*
 * What has no callback is a reschedule. A call is left to csd_queue_cpu where there is one; elsewhere the callback is
 * the called function itself, or (later kernels) the one that runs the queue.
 */
SEC("raw_tp/ipi_send_cpu")
int raise_sent(u64 *ctx)
{
	u32 cpu = ctx[0];
	u64 callback = ctx[2];
	struct sender *sender;

	if (raiser_config.with_ledger && sent_by_self())
		count_self_interrupt(cpu);
	if (callback && raiser_config.calls != CALLS_SENT)
		return 0;
	if (!is_watched(cpu))
		return 0;
	if (!callback) {
		raise(ctx, RAISED_RESCHEDULE, cpu, 0, 0, 0);
		return 0;
	}
	sender = this_sender();
	if (sender) {
		raise(ctx, RAISED_CALL, cpu, sender->flush_sent, callback, 0);
		sender->flush_sent = 0;
	}
	return 0;
}

/* The bits of a word of a mask that are watched cores. */
static __always_inline u64 watched_targets(struct cpumask *mask, u32 word)
{
	u64 watched = watched_in_word(word), bits = 0;

	if (watched)
		bpf_probe_read_kernel(&bits, sizeof(bits), &mask->bits[word]);
	return bits & watched;
}

/* A further target of a request whose first has been recorded. Verified once, not once per turn of the loop. */
__noinline int raise_again(u64 now, u32 cpu, u64 key, u64 callback, u64 as_before)
{
	struct sender *sender = this_sender();

	if (sender) {
		count_up(&sender->records);
		raise_bare(sender, now, RAISED_CALL, cpu, key, callback, as_before);
	}
	return 0;
}

/* One record per watched target; the first carries the stacks. */
SEC("raw_tp/ipi_send_cpumask")
int raise_sent_to_many(u64 *ctx)
{
	struct cpumask *mask = (void *)ctx[0];
	struct sender *sender = this_sender();
	u32 word, bit, first = NO_CORE;
	u64 callback = ctx[2], now, key;
	bool has_stacks;

	if (!sender || !callback || raiser_config.calls != CALLS_SENT)
		return 0;
	key = sender->flush_sent;
	sender->flush_sent = 0;
	for (word = 0; word < WATCH_WORDS && first == NO_CORE; word++) {
		u64 bits = watched_targets(mask, word);

		for (bit = 0; bit < 64 && bits; bit++, bits >>= 1) {
			if (bits & 1) {
				first = word * 64 + bit;
				break;
			}
		}
	}
	if (first == NO_CORE)
		return 0;
	/* An interrupt in between could leave stacks of its own; then the first's cannot be told from them. */
	has_stacks = raise(ctx, RAISED_CALL, first, key, callback, 0) && !in_interrupt();
	now = bpf_ktime_get_ns();
	for (word = 0; word < WATCH_WORDS; word++) {
		u64 bits = watched_targets(mask, word);

		for (bit = 0; bit < 64 && bits; bit++, bits >>= 1) {
			if (bits & 1 && word * 64 + bit > first)
				raise_again(now, word * 64 + bit, key, callback, has_stacks);
		}
	}
	return 0;
}

/* Whether the current process may have its translations on a watched core; true where that cannot be told. */
static __always_inline bool may_be_on_watched(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	u64 bits;
	u32 word;

	if (!mm || !bpf_core_type_exists(struct mm_struct))
		return true;
	for (word = 0; word < WATCH_WORDS; word++) {
		u64 watched = watched_in_word(word);

		if (!watched)
			continue;
		bits = 0;
		/* The mask of cores follows the structure. */
		if (bpf_probe_read_kernel(&bits, sizeof(bits), (char *)mm + bpf_core_type_size(struct mm_struct) + word * 8))
			return true;
		if (bits & watched)
			return true;
	}
	return false;
}

/*
 * Used only where calls cannot be joined by their data: the sender's announcement says that the interrupts that
 * follow are a shootdown, the watched core's that one has been obeyed.
 */
SEC("raw_tp/tlb_flush")
int note_flush(u64 *ctx)
{
	u32 reason = ctx[0];
	struct sender *sender;

	if (reason == TLB_REMOTE_SHOOTDOWN) {
		if (is_watched(bpf_get_smp_processor_id()))
			mark(bpf_ktime_get_ns(), MARK_FLUSH, ctx[1], bpf_get_current_pid_tgid() >> 32);
		return 0;
	}
	if (reason != TLB_REMOTE_SEND_IPI)
		return 0;
	if (raiser_config.calls == CALLS_FLUSH) {
		if (may_be_on_watched())
			raise(ctx, RAISED_FLUSH, NO_CORE, ctx[1], 0, 0);
		return 0;
	}
	sender = this_sender();
	if (sender)
		sender->flush_sent = 1;
	return 0;
}

SEC("tp_btf/hrtimer_start")
int BPF_PROG(raise_timer, struct hrtimer *timer)
{
	struct hrtimer___armed *armed = (void *)timer;
	u32 cpu = armed->base->cpu_base->cpu;

	if (is_watched(cpu))
		raise(ctx, RAISED_TIMER, cpu, (u64)timer, (u64)BPF_CORE_READ(armed, function), 0);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(mark_timer, struct hrtimer *timer, s64 *fired)
{
	struct hrtimer___armed *armed = (void *)timer;

	if (is_watched(bpf_get_smp_processor_id()))
		mark(bpf_ktime_get_ns(), MARK_TIMER, (u64)timer, (u64)BPF_CORE_READ(armed, function));
	if (raiser_config.with_ledger)
		note_late(timer, fired);
	return 0;
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(raise_work, int wanted, struct pool_workqueue *queue, struct work_struct *work)
{
	s32 cpu = queue->pool->cpu;

	if (cpu >= 0 && is_watched(cpu))
		raise(ctx, RAISED_WORK, cpu, (u64)work, (u64)BPF_CORE_READ(work, func), 0);
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(mark_softirq, u32 vector)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct slot *slot;

	if (!is_watched(cpu))
		return 0;
	slot = bpf_map_lookup_elem(&slots, &cpu);
	if (slot)
		mark(bpf_ktime_get_ns(), MARK_SOFTIRQ, vector,
		     slot->frames[slot->depth & (FRAMES - 1)].cause | (u64)(u32)bpf_get_current_pid_tgid() << 32);
	return 0;
}

SEC("tp_btf/tick_stop")
int BPF_PROG(mark_tick, int success, int dependency)
{
	if (is_watched(bpf_get_smp_processor_id()))
		mark(bpf_ktime_get_ns(), MARK_TICK, success, (u32)dependency);
	return 0;
}
