/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a record is left: who, in which system call, with which stacks. */
#ifndef SUREFOOT_RAISE_H
#define SUREFOOT_RAISE_H

#include "remember.h"
#include "stacks.h"
#include "tasks.h"

static __always_inline bool wants_stacks(void)
{
	return raiser_config.kernel_stacks || raiser_config.user_stacks;
}

static __always_inline bool may_take_stack(struct sender *sender, u64 now)
{
	u64 second = now >> 30;

	if (sender->second != second) {
		sender->second = second;
		sender->stacks = 0;
	}
	if (sender->stacks >= raiser_config.stacks_per_s)
		return false;
	sender->stacks++;
	return true;
}

/*
 * Whom this core woke last, if that was just now; the task may be gone, so its number is compared. A reschedule is for
 * that task only within its wake-up, in which the task is in a queue already and not yet set running. Any other (a
 * process that is told to end, a new task) wakes nobody.
 */
static __always_inline u64 name_wakee(struct raised *raised, struct sender *sender, u32 kind)
{
	struct task_struct *wakee = (void *)sender->wakee;
	int pid = 0;

	if (!wakee || bpf_jiffies64() - sender->wakee_jiffies > 1)
		return 0;
	bpf_probe_read_kernel(&pid, sizeof(pid), &wakee->pid);
	if (pid != sender->wakee_pid)
		return 0;
	if (kind == RAISED_RESCHEDULE && !is_being_woken(wakee))
		return 0;
	bpf_probe_read_kernel(raised->wakee, sizeof(raised->wakee), wakee->comm);
	return pid;
}

static __always_inline void fill(struct raised *raised, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
				 u64 function)
{
	u64 id = bpf_get_current_pid_tgid();
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	bool interrupted = in_interrupt();
	struct pt_regs *regs = user_registers(task, interrupted);

	raised->at_ns = now;
	raised->key = key;
	raised->function = function;
	bpf_get_current_comm(raised->comm, sizeof(raised->comm));
	__builtin_memset(raised->wakee, 0, sizeof(raised->wakee));
	raised->pid = id;
	raised->tgid = id >> 32;
	raised->cpu = cpu;
	raised->from = bpf_get_smp_processor_id();
	raised->kind = kind;
	raised->in_interrupt = interrupted;
	raised->as_before = 0;
	raised->reserved = 0;
	raised->kernel_frames = 0;
	raised->user_frames = 0;
	raised->system_call = -1;
	raised->user_top = 0;
	raised->known_id = 0;
	if (kind == RAISED_RESCHEDULE || kind == RAISED_WAKE)
		raised->key = name_wakee(raised, sender, kind);
	if (regs) {
		raised->system_call = regs->orig_ax;
		bpf_probe_read_user(&raised->user_top, sizeof(raised->user_top), (void *)regs->sp);
	}
}

/*
 * A request to several cores queues one call after the other, in ascending order, from one place. The stacks of all
 * are those of the first; only that one is paid for.
 */
static __always_inline bool repeats(struct sender *sender, u64 now, u32 cpu, u64 function, u64 site)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs = user_registers(task, in_interrupt());
	struct request *last = &sender->request;
	bool same;

	if (!regs || !site) {
		last->pid = 0;
		return false;
	}
	same = last->pid == task->pid && cpu > last->cpu && now - last->at_ns < REPEAT_NS &&
	       last->function == function && last->site == site && last->ip == regs->ip && last->sp == regs->sp &&
	       last->di == regs->di && last->si == regs->si;
	last->at_ns = now;
	last->cpu = cpu;
	if (same)
		return true;
	last->pid = task->pid;
	last->function = function;
	last->site = site;
	last->ip = regs->ip;
	last->sp = regs->sp;
	last->di = regs->di;
	last->si = regs->si;
	return false;
}

/* A record without stacks of its own. */
static __always_inline void raise_bare(struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key, u64 function,
				       bool as_before)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, BARE_RAISED, 0);

	if (!raised) {
		count_up(&sender->dropped);
		return;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	raised->as_before = as_before;
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
}

/* A record with a remembered kernel stack. */
static __always_inline bool raise_recalled(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
					   u64 function, u64 known_id)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, RECALLED_RAISED, 0);

	if (!raised) {
		count_up(&sender->dropped);
		sender->request.pid = 0;
		return false;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	raised->known_id = known_id;
	take_user_stack(ctx, raised, now);
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
	return true;
}

/* A record with its kernel stack and the words in which that lies, so that user space can learn it. */
static __always_inline bool raise_laid(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
				       u64 function)
{
	struct laid *laid = bpf_ringbuf_reserve(&raised_ring, sizeof(*laid), 0);
	u32 zero = 0;
	void *words = bpf_map_lookup_elem(&laid_words, &zero);

	if (!laid) {
		count_up(&sender->dropped);
		sender->request.pid = 0;
		return false;
	}
	sender->told_ns = now;
	fill(&laid->raised, sender, now, kind, cpu, key, function);
	if (!words || bpf_probe_read_kernel(&laid->words, sizeof(laid->words), words))
		laid->words.count = 0;
	take_kernel_stack(ctx, &laid->raised);
	take_user_stack(ctx, &laid->raised, now);
	bpf_ringbuf_submit(laid, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline bool raise_whole(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
					u64 function, u64 known_id)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, sizeof(*raised), 0);

	if (!raised) {
		count_up(&sender->dropped);
		sender->request.pid = 0;
		return false;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	raised->known_id = known_id;
	if (raiser_config.kernel_stacks)
		take_kernel_stack(ctx, raised);
	take_user_stack(ctx, raised, now);
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
	return true;
}

/* With the stacks that are wanted, the kernel's from memory where it is known. */
static __always_inline bool raise_with_stacks(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
					      u64 function, u64 site)
{
	u64 known_id, recalled;

	if (!raiser_config.kernel_stacks || !raiser_config.check_every || !lay(ctx, kind, function, site))
		return raise_whole(ctx, sender, now, kind, cpu, key, function, 0);
	known_id = recall();
	if (known_id) {
		recalled = ++sender->recalled;
		if (recalled % raiser_config.check_every)
			return raise_recalled(ctx, sender, now, kind, cpu, key, function, known_id);
		return raise_whole(ctx, sender, now, kind, cpu, key, function, known_id);
	}
	if (now - sender->told_ns < TELL_EVERY_NS)
		return raise_whole(ctx, sender, now, kind, cpu, key, function, 0);
	return raise_laid(ctx, sender, now, kind, cpu, key, function);
}

/*
 * Whether a core arms a timer for itself in an interrupt or while idle, such as its tick. It is watched, so it must not
 * pay for a stack that would tell no more than that.
 */
static __always_inline bool is_own_upkeep(u32 kind, u32 cpu)
{
	return kind == RAISED_TIMER && cpu == bpf_get_smp_processor_id() &&
	       (in_interrupt() || !(u32)bpf_get_current_pid_tgid());
}

/*
 * `site` tells requests to several cores apart; 0 where a record always stands alone. Tells whether the record has
 * stacks of its own.
 */
static __always_inline bool raise(void *ctx, u32 kind, u32 cpu, u64 key, u64 function, u64 site)
{
	struct sender *sender = this_sender();
	u64 now = bpf_ktime_get_ns();

	if (!sender)
		return false;
	count_up(&sender->records);
	if (!wants_stacks() || is_own_upkeep(kind, cpu)) {
		raise_bare(sender, now, kind, cpu, key, function, false);
		return false;
	}
	if (repeats(sender, now, cpu, function, site)) {
		raise_bare(sender, now, kind, cpu, key, function, true);
		return false;
	}
	if (may_take_stack(sender, now))
		return raise_with_stacks(ctx, sender, now, kind, cpu, key, function, site);
	count_up(&sender->without_stack);
	sender->request.pid = 0;
	raise_bare(sender, now, kind, cpu, key, function, false);
	return false;
}

#endif
