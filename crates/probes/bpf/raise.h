/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a record is left: who, in which system call, with which stacks. */
#ifndef SUREFOOT_RAISE_H
#define SUREFOOT_RAISE_H

#include "raisers.h"
#include "tasks.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

static __always_inline u64 watched_in_word(u64 word)
{
	/* The compiler drops a mask that it can prove needless; the verifier needs to see it. */
	asm volatile("%0 &= 15" : "+r"(word));
	return raiser_config.watched[word];
}

static __always_inline bool is_watched(u32 cpu)
{
	if (cpu >= WATCH_WORDS * 64)
		return false;
	return watched_in_word(cpu >> 6) >> (cpu & 63) & 1;
}

static __always_inline struct sender *this_sender(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&senders, &cpu);
}

static __always_inline bool in_interrupt(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct slot *slot = bpf_map_lookup_elem(&slots, &cpu);

	return slot && (slot->depth || slot->shadow_depth);
}

/* An interrupt may count between reading and writing, so it is one step. */
static __always_inline void count_one(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

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

/* The registers of the current task at its entry into the kernel, where it is the raiser and has any. */
static __always_inline struct pt_regs *user_registers(struct task_struct *task, bool interrupted)
{
	if (interrupted || task->flags & PF_KTHREAD)
		return 0;
	return (void *)bpf_task_pt_regs((void *)task);
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
	if (kind == RAISED_RESCHEDULE || kind == RAISED_WAKE)
		raised->key = name_wakee(raised, sender, kind);
	if (regs) {
		raised->system_call = regs->orig_ax;
		bpf_probe_read_user(&raised->user_top, sizeof(raised->user_top), (void *)regs->sp);
	}
}

/*
 * Copies the top of the current user stack. A read over the end of the stack fails as a whole, so it is done in
 * pieces that end where pages do.
 */
static __noinline int copy_user_stack(u64 now)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs((void *)task);
	struct sender *sender = this_sender();
	struct copied *copied;
	u64 first;

	if (!sender)
		return 0;
	copied = bpf_ringbuf_reserve(&raised_ring, sizeof(*copied), 0);
	if (!copied) {
		count_one(&sender->copies_dropped);
		return 0;
	}
	copied->at_ns = now;
	copied->from = bpf_get_smp_processor_id();
	copied->bytes = 0;
	copied->ip = regs->ip;
	copied->sp = regs->sp;
	copied->bp = regs->bp;
	copied->bx = regs->bx;
	copied->r12 = regs->r12;
	copied->r13 = regs->r13;
	copied->r14 = regs->r14;
	copied->r15 = regs->r15;
	first = PAGE_BYTES - (copied->sp & (PAGE_BYTES - 1));
	asm volatile("%0 &= 8191" : "+r"(first));
	if (first > PAGE_BYTES)
		first = PAGE_BYTES;
	/* The memory of a process that is ending may be gone. */
	if (bpf_probe_read_user(copied->stack, first, (void *)copied->sp)) {
		bpf_ringbuf_discard(copied, BPF_RB_NO_WAKEUP);
		return 0;
	}
	copied->bytes = first;
	if (!bpf_probe_read_user(copied->stack + first, PAGE_BYTES, (void *)(copied->sp + first)))
		copied->bytes = first + PAGE_BYTES;
	bpf_ringbuf_submit(copied, BPF_RB_NO_WAKEUP);
	return 0;
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
		count_one(&sender->dropped);
		return;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	raised->as_before = as_before;
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
}

static __always_inline bool raise_whole(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
					u64 function)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, sizeof(*raised), 0);
	long bytes;

	if (!raised) {
		count_one(&sender->dropped);
		sender->request.pid = 0;
		return false;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	if (raiser_config.kernel_stacks) {
		bytes = bpf_get_stack(ctx, raised->kernel_stack, sizeof(raised->kernel_stack), 0);
		raised->kernel_frames = bytes > 0 ? (u64)bytes >> 3 : 0;
	}
	/* In an interrupt, and in a kernel thread, the user stack is a bystander's or none. */
	if (raiser_config.user_stacks && raised->system_call != -1) {
		bytes = bpf_get_stack(ctx, raised->user_stack, sizeof(raised->user_stack), BPF_F_USER_STACK);
		raised->user_frames = bytes > 0 ? (u64)bytes >> 3 : 0;
		if (raiser_config.user_stacks == USER_COPIED ||
		    (raiser_config.user_stacks == USER_AUTO && raised->user_frames < SHORT_STACK_FRAMES))
			copy_user_stack(now);
	}
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
	return true;
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
	count_one(&sender->records);
	if (!wants_stacks() || is_own_upkeep(kind, cpu)) {
		raise_bare(sender, now, kind, cpu, key, function, false);
		return false;
	}
	if (repeats(sender, now, cpu, function, site)) {
		raise_bare(sender, now, kind, cpu, key, function, true);
		return false;
	}
	if (may_take_stack(sender, now))
		return raise_whole(ctx, sender, now, kind, cpu, key, function);
	count_one(&sender->without_stack);
	sender->request.pid = 0;
	raise_bare(sender, now, kind, cpu, key, function, false);
	return false;
}

static __always_inline void mark(u32 kind, u64 key, u64 value)
{
	u32 cpu = bpf_get_smp_processor_id(), index;
	struct sender *own = this_sender();
	struct mark *mark;

	if (!own)
		return;
	index = cpu * MARKS + (own->marks & (MARKS - 1));
	mark = bpf_map_lookup_elem(&marks, &index);
	if (!mark)
		return;
	mark->at_ns = bpf_ktime_get_ns();
	mark->key = key;
	mark->value = value;
	mark->kind = kind;
	asm volatile("" ::: "memory");
	own->marks++;
}

#endif
